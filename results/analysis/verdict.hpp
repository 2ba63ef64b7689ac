// What a point is worth, and why.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "results/analysis/statistics.hpp"
#include "results/record/record.hpp"

namespace tw::results {

/// A step may look this much faster than its own products timed alone: both are measured. Above that the ceiling was
/// disturbed, and the share says nothing.
inline constexpr double ceiling_tolerance = 0.05;

/// Fills record.summary (all that follows from trials, workload and the model FLOPs, ceiling and memory already set
/// there) and record.verdict, from the raw samples alone. Calling it again changes nothing. Trials that failed or are
/// invalid (results/analysis/trials.hpp) enter no mean and no quantile.
///
/// The caller may set beforehand, and finds kept: status unsupported or failed, reasons (any makes the record
/// invalid), flags of another source, summary.energy_reason where no meter exists, of_ceiling_reason,
/// peak_flops_per_s, gpu and mfu_reason. Decided here: mfu by that peak, and the flags
/// of FlagSource::samples (results/record/flags.def), also by results/analysis/conditions.hpp and to_target.hpp.
///
/// A scope has no joules where an estimate is among those that are counted. It has them only where every host that
/// reads a machine's meters counts one of that scope in it, or has GPUs there that are not the job's: the samples are
/// those of all hosts. The reason names the hosts without.
///
/// `rule`: `olympic_bootstrap` makes the intervals of older programs, for holding a report of theirs against its
/// samples.
void summarise(Record& record, IntervalRule rule = IntervalRule::student);
/// Which rule made the intervals of a summary: older programs call the speed of 10 trials or more an olympic mean.
IntervalRule interval_rule(const Summary& summary);
/// Fills what needs to know the devices, one entry a rank, of the launch that measured the record: peak_flops_per_s,
/// mfu, gpu. A metered command keeps what it says.
void summarise_devices(Record& record, std::span<const DeviceEntry> devices);
/// All records with their devices, and what follows from several together (flag_unstable). Whoever reads a report
/// that somebody else may have written takes nothing that it states of its samples for granted.
void summarise(Report& report);

/// summary.of_ceiling where it may be read as a figure: absent above 1 + ceiling_tolerance, too. What is printed,
/// sorted and exported for people takes it from here; the report keeps the quotient.
std::optional<double> credible_of_ceiling(const Summary& summary);
/// Why that is absent; empty if it is not.
std::string why_no_of_ceiling(const Summary& summary);

/// Exit code of a whole run: 0 good, 1 where a target was missed, a reference left or a run to a target
/// failed, 4 where no record is valid although one was tried.
int exit_code(const Report& report);

}  // namespace tw::results
