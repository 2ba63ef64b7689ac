// Under which conditions a record was measured: throttling, device errors, settings that did not take effect; and
// whether what was measured belongs together: outlying trials, figures that move along a point or along a run. Nothing
// is left out for that: rows are flagged, never dropped.
#pragma once

#include <string>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// How far from its set point a clock may be observed, as a share.
inline constexpr double clock_tolerance = 0.03;

/// Adds to record.verdict:
///   throttled     heat or a power brake held a device back for more than 1 % of a window: a reason, so that the
///                 record is invalid; or a CPU's count of such events moved, whose length is not known: the flag alone
///   power_capped  a power limit held a clock back for more than 1 % of a window: expected where caps are swept
///   device_errors an ECC or Xid counter moved
///   not_applied   a set point that was refused (the caller has not run the point, or has said why), or that did not
///                 show under load: a clock more than 3 % away, a mean power more than 5 % above its cap. A reason,
///                 too; but a clock that power_capped explains is noted only. What a scheduler had asked for (found_by)
///                 and does not show is noted only, too. One that reads otherwise along a trial or after it is a
///                 reason, and the trial does not count
///   setting_changed  a knob that the plan leaves as found read otherwise along a trial than at its start
///   not_observed  a set point that was accepted, or asked for by a scheduler, and could not be looked at under load,
///                 or not be read back after a trial
void judge_conditions(Record& record);

/// What all devices accepted; nullopt if there is none, or where they did not accept the same.
std::optional<SetPoint> accepted_by_all(const std::vector<SettingRow>& devices);
/// How far a value is from the one that was asked for; of names 0 or 1.
double distance_from(const SetPoint& asked, const SetPoint& value);
/// What is observed of a setting: of several devices the one farthest from what was asked; where that was nothing
/// exact, the first.
std::optional<SetPoint> farthest_observed(const Setting& setting);

/// Names of the settings whose set point some device refused, or that no device has.
std::vector<std::string> refused_settings(const Record& record);
/// Whether a device refused a set point, so that the point could not run as asked: `not_applied` of a record that is
/// unsupported.
bool has_refused_setting(const Record& record);

/// Flag `unstable`: the losses at a set point differ from those of the same workload at the found setting by more than
/// 2 %, mean over the steps that both have (same seed, so the same data and weights), or are not finite where those
/// are. Not for runs to a target, which have their own seeds and a reference. Call it on the report so far, after its
/// records are summarised; it removes flags that no longer hold. Returns whether a record before the last one changed:
/// the found setting may be the last point of its workload.
bool flag_unstable(Report& report);

/// What was found, and the flag for it.
struct Instability {
  Flag flag;         ///< outlier or drift
  std::string text;  ///< "trial 3: 33.9 samples/s, 20 % below the others"
};
/// Of the record's valid trials (results/analysis/trials.hpp):
///   outlier  a trial's throughput, or its samples/J of a scope that has joules, does not belong to the other trials'
///            (outliers() of results/analysis/statistics.hpp)
///   drift    the step times, over all trials in order, rise or fall; or samples/J do from trial to trial, which takes
///            6 trials (drift() there)
/// By their construction about one record in a hundred has either without a cause, for each figure looked at.
std::vector<Instability> find_instability(const Record& record);
/// Adds those flags to record.verdict.
void judge_stability(Record& record);

/// A line on how far the machine moved along a run; empty if it did not. Points that differ in accumulation, say,
/// time the same products alone (ceiling_flops_per_s) under the same setting: where the first and the last of them are
/// more than 5 % apart, so may be what was measured on that machine between. Points whose products were timed once are
/// left out.
std::string run_drift(const std::vector<Record>& records);

}  // namespace tw::results
