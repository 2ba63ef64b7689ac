// What the parts of a report must say of each other, one file for each group of invariants. Internal to
// validate_report(). The codes are listed in results/README.md; a code never changes its meaning.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "results/record/launches.hpp"
#include "results/record/record.hpp"
#include "results/record/report_io.hpp"
#include "results/validation/validate.hpp"

namespace tw::results {

/// Collects what the checks find.
class Findings {
 public:
  void broken(const char* code, std::string where, std::string text) {
    found_.violations.push_back({code, std::move(where), std::move(text)});
  }
  void note(const char* code, std::string where, std::string text) {
    found_.warnings.push_back({code, std::move(where), std::move(text)});
  }
  void add(std::vector<Fault> faults) {
    for (Fault& fault : faults) found_.violations.push_back(std::move(fault));
  }
  /// A program that did not know a rule yet has written no falsehood without its flag, and whoever took the flag out
  /// gains nothing: every reader has it back.
  void left_out_flag(std::size_t record, const FlagName& flag, const std::string& whence = "the samples give");
  Validation take() { return std::move(found_); }

 private:
  Validation found_;
};

/// Of times that are rounded when written and taken by separate clock reads.
inline constexpr double time_slack = 1.001;

/// The search counts by the fastest of at least three steps of the chosen size, and is compared with the fastest step
/// of the trials: what other programs take from the mean of a starved machine does not count. What disturbs all steps
/// and the warm-up of clocks stay within a factor of 2, which is what a turbo clock and its base clock, or one busy
/// neighbour of two, are apart. No such cause makes a machine 10 times as fast or as slow: then one of the two was not
/// measured. A set point of a clock or a limit may slow the trials alone, since the size is searched once as the
/// machine was found; only the fault is then kept: no device lets its clock be set to a tenth.
inline constexpr double noted_search_factor = 2, most_search_factor = 10;

/// "/records/3", "/records/3/trials/1".
std::string place_of(std::size_t record);
std::string place_of(std::size_t record, std::size_t trial);

// ---- of a whole report; each needs report.context ----
/// checks_launch.cpp: times that exist, parts that follow each other, records of their launch and of its hosts, flags
/// that hosts and devices imply, a device for each rank, a rank on each host, trials that lie one after another between
/// start and end of their launch. What this build writes
/// of each trial may not be absent if the report names this build.
void check_launches(const Report& report, Findings& found);
/// checks_plan.cpp: the plan's own hash, and each record as it was planned. `lines`: as check_summaries().
void check_plan(const Report& report, const std::string& plan_sha256, const std::vector<std::string>& lines,
                Findings& found);
/// checks_meters.cpp: each counted meter in each trial, under its own scope, method and update period; no package, and
/// no GPU of a rank, is missing among the meters, and no idle power of what counts.
void check_meters(const Report& report, Findings& found);
/// checks_energy.cpp: joules that the idle power and the parts of a node bear out, in windows that are the trials' own.
void check_energy(const Report& report, Findings& found);
/// checks_devices.cpp: memory, peaks, MFU and use of GPUs that the launch's devices and the list of vendor peaks bear
/// out. `is_newer`: of the report's schema, which may know more devices.
void check_devices(const Report& report, bool is_newer, Findings& found);
/// checks_power.cpp: joules that agree with the power series of the same window.
void check_power(const Report& report, Findings& found);
/// checks_trials.cpp: the same training has the same first losses, however many ranks share it.
void check_losses(const Report& report, Findings& found);

// ---- of records, also without a report ----
/// checks_trials.cpp: steps, phases and windows that add up, evaluations in order, no trial twice.
void check_trials(const Record& record, std::size_t place, Findings& found);
/// checks_warm_up.cpp: steps that add up, as many as come before the first trial.
void check_warm_up(const Record& record, std::size_t place, Findings& found);
/// checks_warm_up.cpp: as many steps as planned; where windows are timed (`window_s`, 0 if not) that is the least, and
/// they go on until the step time is flat, for one window at most. The record has a trial.
void check_planned_warm_up(const Record& record, std::size_t place, std::int64_t planned, double window_s,
                           Findings& found);
/// checks_trials.cpp: no measurement is two points (results/analysis/fingerprint.hpp); each is compared with the 64
/// before.
void check_copies(const std::vector<Record>& records, Findings& found);
/// checks_energy.cpp: what a row of joules says by itself.
void check_energy_rows(const Record& record, std::size_t place, Findings& found);
/// checks_summary.cpp: every figure and the verdict, computed again from the samples. `lines`: each record as a line of
/// JSON without its trials, as the file has it. `later`: pointers of fields that the file is too old to have. Changes
/// nothing, but needs the samples where they are: they may be large.
void check_summaries(std::vector<Record>& records, const std::vector<std::string>& lines,
                     const std::set<std::string>& later, bool is_newer, Findings& found);

}  // namespace tw::results
