// `trainwatt export --to mllog`.
// MLCommons' log lines (":::MLLOG {…}"): for each trial, in a namespace of its own, what it trains, run_start, the
// evaluations, run_stop with its status; "aborted" where it does not count or did not reach its target. Times within a
// trial are those measured; a report does not know when each began, so that they are laid end to end from its start.
// What MLPerf's rules want besides (who submits, in which division) is not in a report and not made up.
#include <cmath>
#include <nlohmann/json.hpp>

#include "results/analysis/to_target.hpp"
#include "results/analysis/trials.hpp"
#include "results/export/export.hpp"
#include "results/export/export_parts.hpp"
#include "results/record/report_io.hpp"

namespace tw::results {
namespace {

using Json = nlohmann::ordered_json;

/// The events of one trial. Its namespace is its own, so that what begins also ends there.
class Log {
 public:
  Log(std::string name, double start_ms) : name_(std::move(name)), start_ms_(start_ms) {}

  void point(const char* key, const Json& value, double at_s = 0, const Json& metadata = Json::object()) {
    line("POINT_IN_TIME", key, value, at_s, metadata);
  }
  void line(const char* type, const char* key, const Json& value, double at_s, const Json& metadata) {
    const Json event = {
        {"namespace", name_}, {"time_ms", static_cast<std::int64_t>(std::llround(start_ms_ + 1e3 * at_s))},
        {"event_type", type}, {"key", key},
        {"value", value},     {"metadata", metadata}};
    // ASCII, since the parser reads Latin-1; and no name may hold what it looks for in a line.
    std::string text = event.dump(-1, ' ', true);
    for (std::size_t at = 0; (at = text.find(":::", at)) != std::string::npos; at += 8) text.replace(at, 1, "\\u003a");
    text_ += ":::MLLOG " + text + "\n";
  }
  std::string take() { return std::move(text_); }

 private:
  const std::string name_;
  const double start_ms_;
  std::string text_;
};

Json number(double value) { return std::isfinite(value) ? Json(value) : Json(); }

void log_inputs(Log& log, const Report& report, const Record& record, const Trial& trial) {
  const Workload& w = record.workload;
  std::string platform;
  for (const HostInfo& host : report.context.hosts)
    platform += (platform.empty() ? "" : "; ") + host.name + ": " + host.cpu;
  log.point("submission_benchmark", w.model);
  log.point("submission_platform", platform);
  log.point("seed", trial.target_run ? trial.target_run->seed : w.seed);
  log.point("global_batch_size", w.global_batch);
  log.point("gradient_accumulation_steps", w.accumulate);
  if (w.seq_len) log.point("max_sequence_length", *w.seq_len);
  log.point("opt_name", w.optimizer);
  if (record.target) {
    const Target& target = *record.target;
    log.point("opt_base_learning_rate", number(target.schedule.learning_rate));
    log.point("opt_learning_rate_warmup_steps", target.schedule.warmup_steps);
    log.point("opt_learning_rate_decay_steps", target.schedule.decay_steps);
    log.point("eval_samples", target.held_out_samples);
  }
  if (const double samples = samples_of(record, trial); std::isfinite(samples)) log.point("train_samples", samples);
}

std::string trial_log(const Report& report, const Record& record, const std::string& name, const Trial& trial,
                      double start_ms) {
  Log log(name, start_ms);
  log_inputs(log, report, record, trial);
  log.line("INTERVAL_START", "run_start", Json(), 0, Json::object());
  bool reached = !record.target;
  if (trial.target_run && record.target)
    for (const Evaluation& evaluation : trial.target_run->evaluations) {
      const double metric = metric_of(*record.target, evaluation);
      const bool is_error = record.target->metric == TargetMetric::error;
      // As MLPerf HPC names what is the less the better.
      log.point(is_error ? "eval_accuracy" : "eval_error", number(is_error ? 1 - metric : metric), evaluation.time_s,
                {{"samples_count", evaluation.step * record.workload.global_batch},
                 {"metric", is_error ? "accuracy" : to_string(record.target->metric)},
                 {"target", number(is_error ? 1 - record.target->value : record.target->value)}});
      if (reaches(*record.target, evaluation)) reached = true;
    }
  Json stats = {{"throughput", number(throughput_of(record, trial))}, {"window_s", number(trial.window_s)}};
  Json joules = Json::object();
  for (const auto& [scope, estimate] : record.summary.energy_j)
    if (estimate && std::isfinite(joules_of(trial, scope))) joules[to_string(scope)] = joules_of(trial, scope);
  stats["energy_j"] = joules;
  log.point("tracked_stats", stats, trial.window_s, {{"steps", trial.step_time_s.size()}});
  const bool counts = is_valid(record) && is_valid(trial) && reached;
  Json metadata = {{"status", counts ? "success" : "aborted"}};
  if (!counts) metadata["reason"] = !reached ? "target not reached" : why_not_counted(record);
  log.line("INTERVAL_END", "run_stop", Json(), trial.window_s, metadata);
  return log.take();
}

}  // namespace

std::string to_mllog(const Report& raw, const ExportOptions& options) {
  Report report = printable(raw);
  sort_records(report.records, options.order);
  const std::vector<std::string> ids = unique_ids(report.records);
  double now_ms = 1e3 * static_cast<double>(unix_seconds(report.context.started_at).value_or(0));
  std::string out;
  for (std::size_t i = 0; i < report.records.size(); ++i) {
    const Record& record = report.records[i];
    if (!has_run(record)) {
      Log log(ids[i], now_ms);
      log.point("submission_benchmark", record.workload.model);
      log.point("run_stop", Json(), 0, {{"status", "aborted"}, {"reason", why_not_counted(record)}});
      out += log.take();
      continue;
    }
    for (std::size_t t = 0; t < record.trials.size(); ++t) {
      const Trial& trial = record.trials[t];
      out += trial_log(report, record, ids[i] + "/trial" + std::to_string(t + 1), trial, now_ms);
      if (std::isfinite(trial.window_s) && trial.window_s > 0) now_ms += 1e3 * trial.window_s;
    }
  }
  return out;
}

}  // namespace tw::results
