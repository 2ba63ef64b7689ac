#include "tests/results/validation/forgeries.hpp"

#include <algorithm>
#include <limits>
#include <numbers>
#include <numeric>
#include <set>
#include <stdexcept>

#include "results/analysis/verdict.hpp"
#include "results/record/report_io.hpp"
#include "tests/results/samples.hpp"

namespace tw::testing {
using namespace results;

namespace {

template <class Change>
void each_trial(Report& report, Change change) {
  for (Record& record : report.records)
    for (Trial& trial : record.trials) change(trial);
}
template <class Change>
void each_counted_row(Report& report, Change change) {
  each_trial(report, [&](Trial& trial) {
    for (EnergyRow& row : trial.energy)
      if (row.counted && row.energy_j) change(row);
  });
}
double total_counted(const Trial& trial, const std::string& domain) {
  double joules = 0;
  for (const EnergyRow& row : trial.energy)
    if (row.counted && row.domain == domain) joules += row.energy_j.value_or(0);
  return joules;
}
double total(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }

void thousandth_of_joules(Report& report) {
  each_counted_row(report, [](EnergyRow& row) { *row.energy_j *= 1e-3, *row.uncertainty_j *= 1e-3; });
}
void thousandfold_joules(Report& report) {
  each_counted_row(report, [](EnergyRow& row) { *row.energy_j *= 1e3, *row.uncertainty_j *= 1e3; });
}
void no_series(Report& report) {
  each_trial(report, [](Trial& trial) {
    for (EnergyRow& row : trial.energy) row.window_s = trial.window_s = std::max(trial.window_s, 10.0);
    trial.series.clear();
  });
}
/// Not below what idling takes.
void scaled_joules(Report& report, double factor) {
  each_counted_row(report, [&](EnergyRow& row) { *row.energy_j *= factor, *row.uncertainty_j *= factor; });
}
template <class Change>
void each_power_series(Report& report, Change change) {
  each_trial(report, [&](Trial& trial) {
    for (SeriesRow& series : trial.series)
      if (series.quantity == "power_w") change(series, trial);
  });
}
void thousandth_of_joules_and_power(Report& report) {
  thousandth_of_joules(report);
  each_power_series(report, [](SeriesRow& series, const Trial&) {
    for (auto* values : {&series.minimum, &series.mean, &series.maximum})
      for (double& watts : *values) watts *= 1e-3;
  });
}
void reversed_series(Report& report) {
  scaled_joules(report, 0.6);
  each_power_series(report, [](SeriesRow& series, const Trial&) { std::ranges::reverse(series.time_s); });
}
void empty_series(Report& report) {
  scaled_joules(report, 0.6);
  each_power_series(report, [](SeriesRow& series, const Trial&) {
    for (auto* values : {&series.time_s, &series.minimum, &series.mean, &series.maximum}) values->clear();
  });
}
void negative_series(Report& report) {
  scaled_joules(report, 0.6);
  each_power_series(report, [](SeriesRow& series, const Trial&) { series.minimum[0] = -1e6; });
}
void series_of_another_window(Report& report) {
  scaled_joules(report, 0.6);
  each_power_series(report, [](SeriesRow& series, const Trial& trial) { series.time_s.back() = 10 * trial.window_s; });
}
void power_twice(Report& report) {
  each_trial(report, [](Trial& trial) {
    const std::vector<SeriesRow> all = trial.series;
    trial.series.insert(trial.series.end(), all.begin(), all.end());
  });
}
template <class Keep>
void keep_entry(SeriesRow& series, Keep keep) {
  for (auto* values : {&series.time_s, &series.minimum, &series.mean, &series.maximum}) *values = {keep(*values)};
}
void end_of_series(Report& report) {
  scaled_joules(report, 0.6);
  each_power_series(report, [](SeriesRow& series, const Trial& trial) {
    keep_entry(series, [](const auto& values) { return values.back(); });
    series.time_s[0] = 0.9 * trial.window_s;
  });
}
void begin_of_series(Report& report) {
  scaled_joules(report, 0.6);
  each_power_series(report, [](SeriesRow& series, const Trial&) {
    keep_entry(series, [](const auto& values) { return values.front(); });
  });
}
/// Between whose least and greatest values any mean may lie.
void wide_series(Report& report) {
  scaled_joules(report, 0.1);
  each_power_series(report, [](SeriesRow& series, const Trial&) {
    for (std::size_t i = 0; i < series.mean.size(); ++i) series.minimum[i] = 0, series.maximum[i] = 2 * series.mean[i];
  });
}
void huge_power(Report& report) {
  scaled_joules(report, 100);
  each_power_series(report, [](SeriesRow& series, const Trial&) { series.maximum[0] = 1e12; });
}
/// Rails may be read by other means than a counter.
void rapl_as_hwmon(Report& report) {
  scaled_joules(report, 0.55);
  const auto rename = [](auto& rows) {
    for (auto& row : rows)
      if (row.domain.starts_with("rapl:")) row.domain = "hwmon:" + row.domain.substr(5);
  };
  rename(report.context.meters), rename(report.context.idle_power);
  each_trial(report, [&](Trial& trial) { rename(trial.energy), rename(trial.series); });
}
void no_idle_power(Report& report) { report.context.idle_power.clear(); }
void null_idle_power(Report& report) {
  for (IdleRow& row : report.context.idle_power) row.power_w.reset();
}
/// A quarter of idling's joules, and a set point that the plan does not have, which would allow a twentieth.
void set_point_without_a_request(Report& report) {
  for (IdleRow& row : report.context.idle_power) {
    const Trial& trial = report.records[0].trials[0];
    row.power_w = 4 * total_counted(trial, row.domain) / trial.window_s, row.uncertainty_w = 0;
  }
  for (Record& record : report.records)
    record.setting.clear(), record.setting["cpu_governor"].accepted = SetPoint("powersave");
}
void own_samples(Report& report) {
  each_trial(report, [](Trial& trial) { trial.samples = 1e6, trial.samples_s = trial.window_s / 10; });
}
void training_as_a_command(Report& report) {
  for (Record& record : report.records) {
    record.workload.device = "command";
    for (Trial& trial : record.trials) trial.samples = 1e6;
  }
}
/// The last one; with all that stands under its name.
void deleted_package(Report& report) {
  std::string last;
  for (const MeterEntry& meter : report.context.meters)
    if (meter.domain.starts_with("rapl:package-")) last = meter.domain.substr(0, meter.domain.find('/'));
  const auto erase = [&](auto& rows) {
    std::erase_if(rows, [&](const auto& row) { return row.domain.starts_with(last); });
  };
  erase(report.context.meters), erase(report.context.idle_power);
  each_trial(report, [&](Trial& trial) { erase(trial.energy), erase(trial.series); });
}
void slow_counter(Report& report) {
  each_counted_row(report, [](EnergyRow& row) { *row.update_period_s *= 1000; });
}
void other_windows_of_meters(Report& report) {
  each_counted_row(report, [](EnergyRow& row) { *row.window_s += 0.9; });
}
void far_readings(Report& report) {
  each_trial(report, [](Trial& trial) { trial.clock_skew_s = 30; });
}
void deleted_meter(Report& report) {
  std::string domain;
  each_counted_row(report, [&](const EnergyRow& row) { domain = row.domain; });
  each_trial(report, [&](Trial& trial) {
    std::erase_if(trial.energy, [&](const EnergyRow& row) { return row.domain == domain; });
  });
}
void left_out_meter(Report& report) {
  std::string domain;
  each_counted_row(report, [&](const EnergyRow& row) { domain = row.domain; });
  each_counted_row(report, [&](EnergyRow& row) {
    if (row.domain == domain) row.counted = false, row.reason = "duplicate";
  });
}
/// The second package, also among the meters; its joules are in no total any more.
void leave_out_package(Report& report, const std::string& reason) {
  const std::string domain = "rapl:package-1";
  for (MeterEntry& meter : report.context.meters)
    if (meter.domain == domain) meter.counted = false, meter.reason = reason;
  each_counted_row(report, [&](EnergyRow& row) {
    if (row.domain == domain) row.counted = false, row.reason = reason;
  });
}
void contained_package(Report& report) { leave_out_package(report, "contained"); }
void duplicate_package(Report& report) { leave_out_package(report, "duplicate"); }
void package_of_another_job(Report& report) { leave_out_package(report, "not_visible"); }
/// What could not be read has no row.
void unread_package(Report& report) {
  deleted_package(report);
  MeterEntry unread;
  unread.host = report.context.hosts[0].name, unread.domain = "rapl:package-1", unread.reason = "permission";
  report.context.meters.push_back(unread);
}
void rapl_as_node(Report& report) {
  each_counted_row(report, [](EnergyRow& row) { row.scope = Scope::node; });
}
void rapl_as_node_everywhere(Report& report) {
  rapl_as_node(report);
  for (MeterEntry& meter : report.context.meters)
    if (meter.counted) meter.scope = Scope::node;
  for (IdleRow& row : report.context.idle_power) row.scope = Scope::node;
}
void other_method(Report& report) {
  each_counted_row(report, [](EnergyRow& row) { row.method = Method::integrated_power; });
}
void split_steps(Report& report) {
  for (Record& record : report.records) {
    const auto twice = [](std::vector<double>& values, double factor) {
      std::vector<double> all;
      for (const double value : values) all.insert(all.end(), 2, factor * value);
      values = all;
    };
    std::int64_t first = record.trials.empty() ? 0 : record.trials[0].first_step;
    for (Trial& trial : record.trials) {
      twice(trial.step_time_s, 0.5), twice(trial.loss, 1), twice(trial.gradient_norm, 1);
      trial.first_step = first;
      first += std::ssize(trial.step_time_s);
    }
  }
}
void chosen_trials(Report& report) {
  for (Record& record : report.records)
    for (std::size_t t = 1; t < record.trials.size(); ++t)
      record.trials[t].first_step += 200 * static_cast<std::int64_t>(t);
}
/// And of the plan.
void dropped_first_trials(Report& report) {
  for (Record& record : report.records) {
    add_warm_up(record, record.trials[0].first_step, 6);
    for (const std::int64_t more = 8 * std::ssize(record.trials[0].step_time_s); Trial& trial : record.trials)
      trial.first_step += more;
  }
}
/// Whose steps are called the warm-up's.
void first_trials_as_warm_up(Report& report) {
  for (Record& record : report.records) {
    const std::int64_t more = 2 * std::ssize(record.trials[0].step_time_s);
    for (Trial& trial : record.trials) trial.first_step += more;
    add_warm_up(record, record.trials[0].first_step, 150);
  }
}
void warm_up_with_a_step_of_no_number(Report& report) {
  first_trials_as_warm_up(report);
  for (Record& record : report.records) record.warm_up->step_time_s[0] = std::numeric_limits<double>::quiet_NaN();
}
void warm_up_without_start(Report& report) {
  for (Record& record : report.records) {
    add_warm_up(record, record.trials[0].first_step, 6);
    record.warm_up->start_s.reset();
  }
}
void warm_up_within_a_trial(Report& report) {
  for (Record& record : report.records) {
    add_warm_up(record, record.trials[0].first_step, 6);
    record.warm_up->start_s = *record.trials[0].start_s - 1;
  }
}
void warm_up_shorter_than_its_steps(Report& report) {
  for (Record& record : report.records) {
    add_warm_up(record, record.trials[0].first_step, 6);
    record.warm_up->window_s = 2;
  }
}
void losses_of_a_part_of_the_warm_up(Report& report) {
  for (Record& record : report.records) {
    add_warm_up(record, record.trials[0].first_step, 6);
    record.warm_up->loss.resize(2);
  }
}
void skipped_warm_up(Report& report) {
  for (Record& record : report.records) {
    const std::int64_t less = record.trials.empty() ? 0 : record.trials[0].first_step;
    for (Trial& trial : record.trials) trial.first_step -= less;
  }
}
/// 6 % shorter than their own steps.
void short_windows(Report& report) {
  each_trial(report, [](Trial& trial) {
    double phases = 0;
    for (const auto& [name, seconds] : trial.phase_s) phases += seconds * static_cast<double>(trial.step_time_s.size());
    trial.window_s = 0.94 * std::min(phases, total(trial.step_time_s));
  });
}
void no_phases(Report& report) {
  each_trial(report, [](Trial& trial) { trial.phase_s.clear(); });
}
void split_steps_without_phases(Report& report) { split_steps(report), no_phases(report); }
void short_windows_without_phases(Report& report) { short_windows(report), no_phases(report); }
void phases_of_zero(Report& report) {
  each_trial(report, [](Trial& trial) {
    for (auto& [name, seconds] : trial.phase_s) seconds = 0;
  });
}
void wonderful_mfu(Report& report) { report.records[0].summary.mfu = 5; }
void some_mfu(Report& report) { report.records[0].summary.mfu = 0.5; }
void short_run(Report& report) { report.context.finished_at = report.context.started_at; }
void overlapping_trials(Report& report) {
  each_trial(report, [](Trial& trial) { trial.start_s = 1; });
}
void a_start_is_gone(Report& report) { report.records[0].trials[0].start_s.reset(); }
/// What a run of the plan's short windows did not do.
void long_windows(Report& report) {
  each_trial(report, [](Trial& trial) {
    const double factor = 200 / trial.window_s;
    trial.window_s *= factor;
    const std::size_t steps = trial.step_time_s.size();
    for (auto* values : {&trial.step_time_s, &trial.loss, &trial.gradient_norm})
      for (std::size_t i = 0; static_cast<double>(values->size()) < factor * static_cast<double>(steps); ++i)
        values->push_back((*values)[i]);
  });
}
void one_device(Report& report) { report.context.devices.resize(1); }
void the_same_rank_twice(Report& report) { report.context.devices[1].rank = 0; }
void another_device(Report& report) {
  for (DeviceEntry& device : report.context.devices) device.kind = device.kind == "cpu" ? "cuda" : "cpu";
}
/// Of a third of its peak: MFU would be three times as much.
void an_h200_as_an_a100(Report& report) {
  for (DeviceEntry& device : report.context.devices)
    device.kind = "cuda", device.name = "NVIDIA A100-SXM4-40GB", device.memory_bytes = std::uint64_t{140} << 30;
}
/// A second point that trains the same, on as many ranks, in another split; `change` is of its trials.
template <class Change>
void train_again(Report& report, Change change) {
  Record other = report.records[0];
  other.id += "/again";
  for (Trial& trial : other.trials) {
    if (trial.start_s) *trial.start_s += 1000;
    change(trial);
  }
  for (auto& [name, setting] : other.setting) setting.requested.reset();
  for (auto& [name, setting] : report.records[0].setting) setting.requested.reset();
  report.records.push_back(other);
}
void other_losses_of_the_same(Report& report) {
  train_again(report, [](Trial& trial) {
    for (double& loss : trial.loss) loss *= 1.2;
  });
}
/// The first common step is as it was.
void another_second_loss(Report& report) {
  train_again(report, [](Trial& trial) {
    if (trial.loss.size() > 1) trial.loss[1] *= 1.2;
  });
}
void accepted_by_no_device(Report& report) { report.records[0].setting["cpu_power_limit_w"].accepted = 200; }
void observed_on_no_device(Report& report) { report.records[0].setting["cpu_power_limit_w"].observed = 200; }
void unavailable_meters(Report& report) {
  for (MeterEntry& meter : report.context.meters) meter.available = false, meter.reason = "permission";
}
void invented_flag(Report& report) { report.records[0].verdict.flags.emplace_back("certified"); }
void count(Report& report, const char* quantity, double change) {
  each_trial(report, [&](Trial& t) { t.counters = {{report.context.hosts[0].name, "cpu", quantity, change}}; });
}
void negative_throttling(Report& report) { count(report, "throttle_thermal_events", -3); }
void negative_throttling_time(Report& report) { count(report, "throttle_thermal_s", -0.5); }
void change_long_after_the_trial(Report& report) {
  Trial& trial = report.records[0].trials[0];
  trial.setting_changes = {{"cpu_power_limit_w", report.context.hosts[0].name, "rapl:package-0", false,
                            trial.window_s + 1000, "limit_uw = 1", "limit_uw = 2"}};
}
void change_on_another_node(Report& report) {
  report.records[0].trials[0].setting_changes = {
      {"cpu_power_limit_w", "elsewhere", "rapl:package-0", false, 0.1, "limit_uw = 1", "limit_uw = 2"}};
}
/// Each with a hash of its own, though the plans are the same.
void blank_in_the_plan(Report& report) { report.plan.canonical_json += " "; }
void number_written_otherwise_in_the_plan(Report& report) {
  std::string& plan = report.plan.canonical_json;
  plan.replace(plan.find(R"("seed":1)"), 8, R"("seed":1e0)");
}
void more_threads(Report& report) {
  for (Record& record : report.records) record.workload.threads_per_rank += 1;
}

/// Where a node's energy is compared, its packages' is not looked at.
void node_below_its_packages(Report& report) {
  const std::string host = report.context.hosts[0].name;
  report.context.meters.push_back({host, "external", "", "", Scope::node, Method::integrated_power, true, true, 0.001});
  report.context.idle_power.push_back({IdleTime::before, host, "external", Scope::node, 1.0, 0.1, 1.0, ""});
  each_trial(report, [&](Trial& trial) {
    EnergyRow node;
    double sum = 0;
    for (const EnergyRow& row : trial.energy)
      if (row.counted && row.energy_j && row.host == host)
        sum += *row.energy_j, node = row;
    if (sum == 0) return;
    node.scope = Scope::node, node.domain = "external", node.method = Method::integrated_power;
    node.energy_j = 0.3 * sum, node.uncertainty_j = 0.01 * *node.energy_j, node.update_period_s = 0.001;
    node.wraps.reset(), trial.energy.push_back(node);
  });
}
/// Bounds that are so far apart that everything lies between them.
void huge_uncertainty(Report& report) {
  scaled_joules(report, 0.5);
  each_counted_row(report, [](EnergyRow& row) { row.uncertainty_j = 10 * *row.energy_j; });
}
void huge_uncertainty_of_idle_power(Report& report) {
  thousandth_of_joules_and_power(report);
  each_counted_row(report, [](EnergyRow& row) { row.uncertainty_j = 1e4 * *row.energy_j; });
  for (IdleRow& row : report.context.idle_power)
    if (row.power_w) row.uncertainty_w = 10 * *row.power_w;
}
void no_uncertainty(Report& report) {
  each_counted_row(report, [](EnergyRow& row) { row.uncertainty_j = 0; });
}
void no_compiler(Report& report) { report.context.versions.erase("compiler"); }
void empty_compiler(Report& report) { report.context.versions["compiler"].clear(); }
void no_libraries(Report& report) {
  report.context.versions.erase("oneDNN");
  for (DeviceEntry& device : report.context.devices) device.libraries.clear();
}
void no_onednn(Report& report) { report.context.versions.erase("oneDNN"); }
void another_onednn(Report& report) { report.context.versions["oneDNN"] = "oneDNN 99.0.0"; }

/// By its share of the hosts the rent of a run is divided.
void a_host_more(Report& report) {
  report.context.hosts.emplace_back(report.context.hosts[0]).name = "spare";
}
/// What was measured once, at the better precision.
void copied_as_another_precision(Report& report) {
  Record copy = report.records[0];
  copy.id += "/again", copy.workload.precision = copy.workload.precision == "bf16" ? "float32" : "bf16";
  copy.workload.hash = workload_hash(copy.workload, copy.target);
  report.records.push_back(copy);
}

/// With the losses that belong to each place.
void fastest_trial_everywhere(Report& report) {
  std::vector<Trial>& trials = report.records[0].trials;
  const Trial fastest = *std::ranges::min_element(trials, {}, &Trial::window_s);
  double factor = std::numbers::sqrt2 / 1.4;
  for (Trial& trial : trials) {
    const auto times = [&](double& value) { value *= factor; };
    trial.window_s = fastest.window_s, trial.phase_s = fastest.phase_s;
    for (std::size_t i = 0; i < trial.step_time_s.size(); ++i)
      trial.step_time_s[i] = fastest.step_time_s[i % fastest.step_time_s.size()];
    times(trial.window_s), std::ranges::for_each(trial.step_time_s, times);
    for (auto& [name, seconds] : trial.phase_s) times(seconds);
    factor *= std::numbers::sqrt2 / 1.413;
  }
}
void losses_of_the_first_trial(Report& report) {
  each_trial(report, [&](Trial& trial) {
    const std::vector<double>& first = report.records[0].trials[0].loss;
    std::copy_n(first.begin(), std::min(first.size(), trial.loss.size()), trial.loss.begin());
  });
}
void all_meters_of_a_host(Report& report) {
  HostInfo other = report.context.hosts[0];
  other.name = "other", other.container.reset(), report.context.hosts.push_back(other);
  report.context.devices.back().host = other.name;
}
/// The last host's, beside others that count.
void rows_of_a_host(Report& report) {
  all_meters_of_a_host(report);
  const std::string host = report.context.hosts.back().name;
  MeterEntry none;
  none.host = host, none.domain = "rapl", none.reason = "no_driver";
  report.context.meters.push_back(none);
}
/// Joules of packages stay in the report, and a node meter that reads less is all that counts.
void packages_in_a_node(Report& report) {
  node_below_its_packages(report);
  const auto contain = [](auto& rows) {
    for (auto& row : rows)
      if (row.scope == Scope::package) row.counted = false, row.reason = "contained";
  };
  contain(report.context.meters), each_trial(report, [&](Trial& trial) { contain(trial.energy); });
}
void longer_period(Report& report) {
  const auto longer = [](auto& rows) {
    for (auto& row : rows)
      if (row.update_period_s) row.update_period_s = *row.update_period_s + 0.5;
  };
  longer(report.context.meters);
  each_counted_row(report, [](EnergyRow& row) { row.uncertainty_j = 0.3 * *row.energy_j; });
  each_trial(report, [&](Trial& trial) {
    longer(trial.energy);
    for (SeriesRow& series : trial.series) {
      const double watts = series.mean[0];
      series = {series.host, series.domain, series.quantity, {}, {}, {}, {}};
      for (double time = 0; time < trial.window_s; time += 0.1) {
        series.time_s.push_back(time);
        for (auto* values : {&series.minimum, &series.mean, &series.maximum}) values->push_back(watts);
      }
    }
  });
}

}  // namespace

const std::vector<Forgery>& forgeries() {
  static const std::vector<Forgery> all = {
      {"thousandth_of_joules", "energy_differs_from_power", thousandth_of_joules},
      {"thousandth_of_joules_and_power", "energy_below_idle", thousandth_of_joules_and_power},
      {"thousandfold_joules", "energy_differs_from_power", thousandfold_joules},
      {"no_series", "power_series_missing", no_series},
      {"reversed_series", "power_series", reversed_series},
      {"empty_series", "power_series", empty_series},
      {"negative_series", "power_series", negative_series},
      {"series_of_another_window", "power_series", series_of_another_window},
      {"power_twice", "power_series", power_twice},
      {"end_of_series", "power_series", end_of_series},
      {"begin_of_series", "energy_differs_from_power", begin_of_series},
      {"wide_series", "energy_differs_from_power", wide_series},
      {"huge_power", "energy_differs_from_power", huge_power},
      {"rapl_as_hwmon", "energy_differs_from_power", rapl_as_hwmon},
      {"no_idle_power", "idle_missing", no_idle_power},
      {"null_idle_power", "idle_missing", null_idle_power},
      {"set_point_without_a_request", "energy_below_idle", set_point_without_a_request},
      {"own_samples", "samples_s", own_samples},
      {"training_as_a_command", "plan_differs", training_as_a_command},
      {"rows_of_a_host", "meter_row_missing", rows_of_a_host},
      {"deleted_package", "packages_missing", deleted_package},
      {"slow_counter", "meter_period", slow_counter},
      {"other_windows_of_meters", "energy_window", other_windows_of_meters},
      {"far_readings", "clock_skew", far_readings},
      {"dropped_first_trials", "steps_order", dropped_first_trials},
      {"first_trials_as_warm_up", "warm_up", first_trials_as_warm_up},
      {"warm_up_with_a_step_of_no_number", "warm_up", warm_up_with_a_step_of_no_number},
      {"warm_up_without_start", "warm_up", warm_up_without_start},
      {"warm_up_within_a_trial", "trials_overlap", warm_up_within_a_trial},
      {"warm_up_shorter_than_its_steps", "warm_up", warm_up_shorter_than_its_steps},
      {"losses_of_a_part_of_the_warm_up", "warm_up", losses_of_a_part_of_the_warm_up},
      {"deleted_meter", "meter_row_missing", deleted_meter},
      {"left_out_meter", "meter_row_left_out", left_out_meter},
      {"contained_package", "meter_left_out", contained_package},
      {"duplicate_package", "meter_left_out", duplicate_package},
      {"package_of_another_job", "meter_left_out", package_of_another_job},
      {"unread_package", "meter_left_out", unread_package},
      {"rapl_as_node", "meter_scope", rapl_as_node},
      {"rapl_as_node_everywhere", "meter_scope", rapl_as_node_everywhere},
      {"other_method", "meter_method", other_method},
      {"split_steps", "phases_exceed_step", split_steps},
      {"chosen_trials", "steps_order", chosen_trials},
      {"skipped_warm_up", "steps_order", skipped_warm_up},
      {"short_windows", "phases_exceed_window", short_windows},
      {"split_steps_without_phases", "phases_missing", split_steps_without_phases},
      {"short_windows_without_phases", "phases_missing", short_windows_without_phases},
      {"phases_of_zero", "phases_missing", phases_of_zero},
      {"wonderful_mfu", "mfu_above_peak", wonderful_mfu, true},
      {"some_mfu", "mfu_without_peak", some_mfu, true},
      {"short_run", "trial_outside_run", short_run},
      {"overlapping_trials", "trials_overlap", overlapping_trials},
      {"a_start_is_gone", "trial_start_missing", a_start_is_gone},
      {"long_windows", "window_beyond_plan", long_windows},
      {"one_device", "rank_devices", one_device},
      {"the_same_rank_twice", "rank_devices", the_same_rank_twice},
      {"another_device", "rank_devices", another_device},
      {"an_h200_as_an_a100", "device_memory", an_h200_as_an_a100},
      {"other_losses_of_the_same", "losses_differ", other_losses_of_the_same},
      {"another_second_loss", "losses_differ", another_second_loss},
      {"accepted_by_no_device", "setting_differs", accepted_by_no_device},
      {"observed_on_no_device", "setting_differs", observed_on_no_device},
      {"unavailable_meters", "meter_unavailable", unavailable_meters},
      {"invented_flag", "flag_unknown", invented_flag},
      {"negative_throttling", "counter_negative", negative_throttling},
      {"negative_throttling_time", "counter_negative", negative_throttling_time},
      {"change_long_after_the_trial", "setting_change_time", change_long_after_the_trial},
      {"change_on_another_node", "host_unknown", change_on_another_node},
      {"blank_in_the_plan", "plan_text", blank_in_the_plan},
      {"number_written_otherwise_in_the_plan", "plan_text", number_written_otherwise_in_the_plan},
      {"more_threads", "threads_differ", more_threads},
      {"node_below_its_packages", "energy_below_parts", node_below_its_packages},
      {"huge_uncertainty", "energy_differs_from_power", huge_uncertainty},
      {"huge_uncertainty_of_idle_power", "energy_below_idle", huge_uncertainty_of_idle_power},
      {"no_uncertainty", "energy_row", no_uncertainty},
      {"a_host_more", "host_without_rank", a_host_more},
      {"no_compiler", "version_missing", no_compiler},
      {"empty_compiler", "version_missing", empty_compiler},
      {"no_libraries", "version_missing", no_libraries},
      {"no_onednn", "version_missing", no_onednn},
      {"another_onednn", "version_differs", another_onednn},
      {"fastest_trial_everywhere", "trial_copied", fastest_trial_everywhere},
      {"losses_of_the_first_trial", "trial_copied", losses_of_the_first_trial},
      {"all_meters_of_a_host", "meters_missing", all_meters_of_a_host},
      {"packages_in_a_node", "meter_left_out", packages_in_a_node},
      {"longer_period", "meter_period", longer_period},
      {"copied_as_another_precision", "record_copied", copied_as_another_precision},
  };
  return all;
}

Report forged(Report report, const std::string& name) {
  const auto one = std::ranges::find(forgeries(), name, &Forgery::name);
  if (one == forgeries().end()) throw std::out_of_range("no forgery is called " + name);
  if (one->is_of_figures) summarise(report);
  one->forge(report);
  if (!one->is_of_figures) summarise(report);
  return report;
}

}  // namespace tw::testing
