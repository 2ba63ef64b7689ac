// `trainwatt export --to benchmark-json`: as Google Benchmark's --benchmark_format=json, json_schema_version 1.
#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "results/analysis/trials.hpp"
#include "results/export/export.hpp"
#include "results/export/export_parts.hpp"
#include "results/record/report_io.hpp"

namespace tw::results {
namespace {

using Json = nlohmann::ordered_json;

/// Google Benchmark's programs warn of it.
bool is_debug(const Report& report) {
  return std::ranges::any_of(report.records, [](const Record& record) { return has_flag(record, Flag::debug_build); });
}

/// Its own programs read one host.
Json context_of(const Report& report) {
  const Context& c = report.context;
  Json context = {{"date", c.started_at},
                  {"host_name", c.hosts.empty() ? "" : c.hosts.front().name},
                  {"executable", c.argv.empty() ? report.program.name : c.argv.front()},
                  {"num_cpus", c.hosts.empty() ? 0 : c.hosts.front().usable_threads},
                  {"mhz_per_cpu", c.hosts.empty() ? 0 : std::lround(c.hosts.front().cpu_max_mhz.value_or(0))},
                  {"caches", Json::array()},
                  {"load_avg", Json::array()},
                  {"library_build_type", is_debug(report) ? "debug" : "release"},
                  {"json_schema_version", 1}};
  context["trainwatt_version"] = report.program.version + " " + report.program.git_commit;
  context["trainwatt_suite"] = report.plan.suite;
  context["trainwatt_plan_sha256"] = sha256_hex(report.plan.canonical_json);
  context["trainwatt_note"] =
      "each repetition is a trial; real_time is the mean optimizer step, cpu_time is not measured (0)";
  return context;
}

/// real_time of a trial: of steps the mean step, of a run to a target and of a command the whole window.
double time_of(const Record& record, const Trial& trial) {
  if (record.target || is_command(record) || trial.step_time_s.empty()) return trial.window_s;
  double sum = 0;
  for (const double step : trial.step_time_s) sum += step;
  return sum / static_cast<double>(trial.step_time_s.size());
}

}  // namespace

std::string to_benchmark_json(const Report& raw, const ExportOptions& options) {
  Report report = printable(raw);
  sort_records(report.records, options.order);
  const std::vector<std::string> ids = unique_ids(report.records);
  Json benchmarks = Json::array(), context = context_of(report);
  context["trainwatt_not_counted"] = Json::array();
  for (std::size_t i = 0; i < report.records.size(); ++i) {
    const Record& record = report.records[i];
    const std::vector<const Trial*> trials = valid_trials(record);
    if (!is_valid(record) || trials.empty()) {
      // compare.py includes the time of every benchmark in its mean.
      context["trainwatt_not_counted"].push_back({{"name", ids[i]}, {"why", why_not_counted(record)}});
      continue;
    }
    for (std::size_t t = 0; t < trials.size(); ++t) {
      const Trial& trial = *trials[t];
      Json row = {{"name", ids[i]},
                  {"family_index", i},
                  {"per_family_instance_index", 0},
                  {"run_name", ids[i]},
                  {"run_type", "iteration"},
                  {"repetitions", trials.size()},
                  {"repetition_index", t},
                  {"threads", record.workload.ranks},
                  {"iterations", std::max<std::size_t>(trial.step_time_s.size(), 1)},
                  {"real_time", 1e3 * time_of(record, trial)},
                  {"cpu_time", 0.0},
                  {"time_unit", "ms"}};
      if (const double rate = throughput_of(record, trial); std::isfinite(rate)) row["items_per_second"] = rate;
      std::map<std::string, double> joules;
      for (const auto& [scope, estimate] : record.summary.energy_j)
        if (estimate) joules[to_string(scope)] = joules_of(trial, scope);
      for (const auto& [scope, value] : joules) {
        if (!std::isfinite(value)) continue;
        row[scope + "_energy_j"] = value;
        if (const double samples = samples_of(record, trial); std::isfinite(samples) && samples > 0)
          row[scope + "_j_per_sample"] = value / samples;
      }
      benchmarks.push_back(row);
    }
  }
  return Json{{"context", context}, {"benchmarks", benchmarks}}.dump(2) + "\n";
}

}  // namespace tw::results
