// Whether two reports may be compared. Internal to the comparison, but for the name of a difference.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "results/analysis/run_rules.hpp"
#include "results/compare/comparison.hpp"

namespace tw::results {

/// What a blocking difference is named that is of the class of device which two plans are for.
inline constexpr const char* device_class_difference = "device class";
inline constexpr const char* validation_difference = "validation";  ///< a report that contradicts itself

/// Records of the reference and of one system that are of the same workload, or meant to be.
struct RecordPair {
  const Record* reference = nullptr;
  const Record* system = nullptr;  ///< null: it has none
  std::string why_missing;
};
/// For each of `reference`, in its order, the record of `system` that trains the same: the same workload hash,
/// precision and global batch, of several the one of the same split and settings. Where none does, the one that comes
/// nearest, so that what differs is named. None is taken twice, and none is guessed among several.
std::vector<RecordPair> match_records(const std::vector<const Record*>& reference,
                                      const std::vector<const Record*>& system);
/// Why a system lacks a figure of a workload, said away from both: "B has no point of gpt2-124m/…", "gpt2-124m/…: why".
std::string reason_at(const std::string& workload, const std::string& system, const std::string& reason);

/// Of no workload in particular; `system` is filled in by the caller.
Difference made_difference(const std::string& what, const std::string& reference_value, const std::string& system_value,
                           bool blocking, const std::string& why, std::vector<std::string> figures = {});
/// What `trainwatt validate` says of a system's reports: faults block, notes do not, and of fields that came later than
/// a report's version those that a figure needs block that figure.
std::vector<Difference> validation_differences(const SystemInput& system);
/// Of two reports of one launch.
inline constexpr const char* own_run = "run of its own";
/// What differs between whole reports; `system` is filled in by the caller.
std::vector<Difference> report_differences(const SystemInput& reference, const SystemInput& system);
/// What differs between two records, and what either has of flags that break no run rule; `workloads` is filled in by
/// the caller.
std::vector<Difference> record_differences(const Record& reference, const Record& system);
/// "between its runs 1 and 2: …", of runs of one system.
std::string between_runs(std::size_t run, const std::string& why);
/// Of record_differences() those that block, between a system's run 1 and its run number `run`; none where either has
/// no record (null). What both have alike is said of the first by itself.
std::vector<Difference> run_differences(const Record* first, const Record* other, std::size_t run);
/// A record and what the run rules say of its report (check_run_rules).
struct JudgedRecord {
  const Record* record = nullptr;
  const std::vector<RunRuleCheck>* rules = nullptr;
};
/// The run rules that either breaks in the records of one workload, of one run each. Flags that break a rule are named
/// here, and not by record_differences. None where either has no record.
std::vector<Difference> rule_differences(const std::vector<JudgedRecord>& reference,
                                         const std::vector<JudgedRecord>& system);
/// By which methods the joules of a scope were read, in the records of one workload, of one run each, one at least.
std::vector<Difference> energy_differences(const std::vector<const Record*>& reference,
                                           const std::vector<const Record*>& system, Scope scope);
/// That the costs of a system's own runs do not rest on the same; empty if they do.
std::vector<Difference> cost_differences(const CostGround& system);
/// Of how complete the costs of both are; empty if either does not rest on the same by itself.
std::vector<Difference> cost_differences(const CostGround& reference, const CostGround& system);

/// The same of several workloads is one difference; of all of `workloads` it is one of the reports. Blocking ones
/// first.
std::vector<Difference> merged_differences(std::vector<Difference> differences, std::size_t workloads);

}  // namespace tw::results
