// Records and reports to test with: hand-made numbers, no measurement.
#pragma once

#include "results/record/record.hpp"

namespace tw::testing {

/// Steps of `step_time_s` each with a slowly falling loss, over `window_s`.
results::Trial sample_trial(int steps, double step_time_s, double window_s);
/// Three 60 s trials of a small transformer, no meter, not yet summarised.
results::Record sample_record();
/// So many steps that end a second before the first trial; the trials begin later by their time.
void add_warm_up(results::Record& record, std::int64_t steps, double seconds);
/// sample_record with joules of two packages, dram and a contained core zone.
results::Record sample_record_with_energy();
/// Two valid points, one unsupported, one failed; summarised. Every optional of the context occurs present and absent.
results::Report sample_report();
/// The meters of sample_record_with_energy, as a context has them, and series of power that bear a trial's joules out.
std::vector<results::MeterEntry> sample_meters();
std::vector<results::IdleRow> sample_idle();  ///< of those that count, before all points
std::vector<results::SeriesRow> sample_power(const results::Trial& trial);
/// One point of sample_record_with_energy, with its meters.
results::Report sample_energy_report();

/// Three runs to a target, reached after 3, 2 and 3 evaluations of 10 steps; with a reference and joules.
results::Record sample_target_record();
/// That one, and one of images that missed its target with its second seed.
results::Report sample_target_report();

/// Whether the record has the flag of this name.
bool has(const results::Record& record, const char* flag);

}  // namespace tw::testing
