// `trainwatt export --to prometheus`: the text exposition format, version 0.0.4.
// For node_exporter's textfile collector: gauges in base units (seconds, joules, watts, ratios), without timestamps.
// An absent figure, and any of a point that does not count, is no sample. Labels as dcgm-exporter has them (Hostname,
// UUID).
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>

#include "results/analysis/scopes.hpp"
#include "results/analysis/trials.hpp"
#include "results/analysis/verdict.hpp"
#include "results/export/export.hpp"
#include "results/export/export_parts.hpp"
#include "results/record/report_io.hpp"

namespace tw::results {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

std::string escaped(const std::string& value) {
  std::string out;
  for (const char c : value) out += c == '\\' ? "\\\\" : c == '"' ? "\\\"" : c == '\n' ? "\\n" : std::string(1, c);
  return out;
}

/// Families in the order of their first sample; a family without samples is not written.
class Exposition {
 public:
  /// Nothing where there is no finite value: an absent figure is no sample, never 0. `help` is the same for all samples
  /// of a name, whatever the report, as node_exporter wants it of several files.
  void add(const std::string& name, const char* help, const Labels& labels, std::optional<double> value) {
    if (!value || !std::isfinite(*value)) return;
    std::string series;
    for (const auto& [label, text] : labels)  // an empty one is the same as none
      if (!text.empty()) series += fmt::format("{}{}=\"{}\"", series.empty() ? "" : ",", label, escaped(text));
    series = series.empty() ? name : name + "{" + series + "}";
    if (!series_.insert(series).second) return;  // the format has no room for two
    auto [family, is_new] = families_.try_emplace(name);
    if (is_new) {
      order_.push_back(name);
      family->second = fmt::format("# HELP {} {}\n# TYPE {} gauge\n", name, help, name);
    }
    family->second += fmt::format("{} {}\n", series, *value);
  }
  std::string text() const {
    std::string out;
    for (const std::string& name : order_) out += families_.at(name);
    return out;
  }

 private:
  std::vector<std::string> order_;
  std::map<std::string, std::string> families_;
  std::set<std::string> series_;
};

/// The figure and the ends of its interval, each a family of its own.
void add_estimate(Exposition& out, const std::string& name, const char* help, const Labels& labels,
                  const std::optional<Estimate>& estimate) {
  if (!estimate) return;
  out.add(name, help, labels, estimate->value);
  out.add(name + "_low", "Lower end of the 95 % interval over trials.", labels, estimate->low);
  out.add(name + "_high", "Upper end of the 95 % interval over trials.", labels, estimate->high);
}

Labels with(Labels labels, const std::string& name, const std::string& value) {
  labels.emplace_back(name, value);
  return labels;
}

void add_report(Exposition& out, const Report& report) {
  if (report.program.name.empty()) return;  // an unfinished run's records
  out.add("trainwatt_report_info", "The report that these figures are from; always 1.",
          {{"program", report.program.name},
           {"version", report.program.version},
           {"git_commit", report.program.git_commit},
           {"suite", report.plan.suite},
           {"plan_sha256", sha256_hex(report.plan.canonical_json)}},
          1);
  const auto time = [&](const char* name, const char* help, const std::string& text) {
    if (const auto seconds = unix_seconds(text)) out.add(name, help, {}, static_cast<double>(*seconds));
  };
  time("trainwatt_run_start_timestamp_seconds", "When the run began, in seconds since 1970.",
       report.context.started_at);
  time("trainwatt_run_end_timestamp_seconds", "When the run ended, in seconds since 1970.", report.context.finished_at);
  for (const char* status : name_list<Status>) {
    double points = 0;
    for (const Record& record : report.records) points += record.verdict.status == named<Status>(status);
    out.add("trainwatt_points", "Points of the report by verdict.", {{"status", status}}, points);
  }
  for (const MeterEntry& meter : report.context.meters)
    out.add("trainwatt_meter_available", "Whether this energy meter answered (1) or not (0).",
            {{"Hostname", meter.host}, {"domain", meter.domain}, {"UUID", std::string(gpu_uuid(meter.domain))}},
            meter.available ? 1 : 0);
}

void add_figures(Exposition& out, const Record& record, const Labels& labels) {
  const Summary& s = record.summary;
  add_estimate(out, "trainwatt_samples_per_second", "Throughput: samples trained per second.", labels, s.samples_per_s);
  out.add("trainwatt_tokens_per_second", "Throughput: tokens trained per second.", labels,
          s.tokens_per_s ? std::optional(s.tokens_per_s->value) : std::nullopt);
  out.add("trainwatt_model_flops_per_second", "Model FLOPs trained per second, by the report's rule.", labels,
          s.flops_per_s ? std::optional(s.flops_per_s->value) : std::nullopt);
  add_estimate(out, "trainwatt_step_time_seconds", "Mean time of an optimizer step.", labels, s.step_time_s);
  out.add("trainwatt_step_time_p99_seconds", "99th percentile of the time of an optimizer step.", labels,
          s.step_time_p99_s);
  out.add("trainwatt_of_ceiling_ratio", "FLOP rate divided by that of the network's own products timed alone.", labels,
          credible_of_ceiling(s));
  out.add("trainwatt_mfu_ratio", "Model FLOP rate divided by the vendor's dense peak.", labels, s.mfu);
  const auto bytes = [](const std::optional<std::uint64_t>& value) {
    return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
  };
  out.add("trainwatt_peak_device_memory_bytes", "Peak memory allocated on its device by any rank.", labels,
          bytes(s.peak_device_memory_bytes_per_rank));
  const GpuUse gpu = s.gpu.value_or(GpuUse());
  out.add("trainwatt_gpu_utilisation_ratio", "Share of the trials in which a kernel ran, mean over the point's GPUs.",
          labels, gpu.utilisation);
  out.add("trainwatt_gpu_sm_active_ratio", "Share of the multiprocessors' time in which they worked.", labels,
          gpu.sm_active);
  out.add("trainwatt_gpu_memory_used_bytes", "Most memory in use on any of the point's GPUs, by any program.", labels,
          bytes(gpu.memory_used_bytes));
  for (const auto& [scope, joules] : s.samples_per_j)
    if (joules)
      add_estimate(out, "trainwatt_sample_energy_joules", "Energy of one trained sample, by scope.",
                   with(labels, "scope", to_string(scope)), joules_per_sample(*joules));
  for (const auto& [scope, efficiency] : s.flops_per_w)
    if (efficiency)
      out.add("trainwatt_model_flops_per_joule", "Model FLOPs trained per joule, by scope.",
              with(labels, "scope", to_string(scope)), efficiency->value);
  if (!s.to_target) return;
  add_estimate(out, "trainwatt_time_to_target_seconds", "Time from the first step to the target.", labels,
               s.to_target->time_s);
  for (const auto& [scope, joules] : s.to_target->energy_j)
    add_estimate(out, "trainwatt_energy_to_target_joules", "Energy from the first step to the target, by scope.",
                 with(labels, "scope", to_string(scope)), joules);
}

/// Per sensor, so that it fits beside the exporter of the same device: labels as dcgm-exporter's.
void add_meters(Exposition& out, const Record& record, const std::string& id) {
  std::map<std::pair<std::string, std::string>, std::pair<std::string, double>> joules, seconds;
  for (const Trial* trial : valid_trials(record))
    for (const EnergyRow& row : trial->energy) {
      if (!row.counted || !row.energy_j || !row.window_s) continue;
      auto& sum = joules[{row.host, row.domain}];
      sum.first = to_string(row.scope), sum.second += *row.energy_j;
      seconds[{row.host, row.domain}].second += *row.window_s;
    }
  for (const auto& [sensor, sum] : joules) {
    const Labels labels = {{"point", id},
                           {"Hostname", sensor.first},
                           {"domain", sensor.second},
                           {"UUID", std::string(gpu_uuid(sensor.second))},
                           {"scope", sum.first}};
    out.add("trainwatt_meter_energy_joules", "Energy that one counted sensor read over all trials of a point.", labels,
            sum.second);
    if (const double time = seconds.at(sensor).second; time > 0)
      out.add("trainwatt_meter_power_watts", "Mean power that one counted sensor read over all trials of a point.",
              labels, sum.second / time);
  }
}

}  // namespace

std::string to_prometheus(const Report& raw, const ExportOptions& options) {
  Report report = printable(raw);
  sort_records(report.records, options.order);
  const std::vector<std::string> ids = unique_ids(report.records);
  Exposition out;
  add_report(out, report);
  for (std::size_t i = 0; i < report.records.size(); ++i) {
    const Record& record = report.records[i];
    const Workload& w = record.workload;
    out.add("trainwatt_point_info", "What a point trains and how; always 1.",
            {{"point", ids[i]},
             {"model", w.model},
             {"device", w.device},
             {"precision", w.precision},
             {"global_batch", std::to_string(w.global_batch)},
             {"ranks", std::to_string(w.ranks)},
             {"workload_hash", w.hash}},
            1);
    out.add("trainwatt_point_valid", "Whether the point counts (1) or not (0: invalid, unsupported or failed).",
            {{"point", ids[i]}}, is_valid(record) ? 1 : 0);
    for (const FlagName& flag : record.verdict.flags)
      out.add("trainwatt_point_flag", "Flags of a point's verdict, each 1.", {{"point", ids[i]}, {"flag", flag.name}},
              1);
    if (!is_valid(record)) continue;  // its figures do not count
    add_figures(out, record, {{"point", ids[i]}});
    add_meters(out, record, ids[i]);
  }
  return out.text();
}

}  // namespace tw::results
