#include "tests/results/made_reports.hpp"

#include "results/analysis/verdict.hpp"
#include "results/record/report_io.hpp"

namespace tw::testing {

using namespace results;

namespace {

void add_meter(Record& record, std::optional<double> watts, Scope scope) {
  if (!watts) return;
  for (Trial& trial : record.trials) {
    EnergyRow row;
    row.scope = scope, row.domain = "meter:0", row.host = "node1", row.method = Method::counter;
    row.energy_j = *watts * trial.window_s, row.uncertainty_j = 0, row.window_s = trial.window_s,
    row.update_period_s = 0.001, row.wraps = 0;
    trial.energy = {row};
  }
}

Record empty_record(const std::string& id) {
  Record record;
  record.id = id;
  Workload& w = record.workload;
  w.model = "gpt2-tiny", w.device = "cpu", w.precision = "bf16", w.optimizer = "adamw";
  w.micro_batch = 8, w.accumulate = 4, w.ranks = 2, w.global_batch = 64, w.seq_len = 128, w.seed = 1,
  w.parameters = 429568;
  w.hash = workload_hash(w);
  record.summary.model_flops_per_sample = 1e9, record.summary.flops_rule = "rule";
  record.summary.energy_reason = "no_energy_meter: rapl: no_driver";
  return record;
}

}  // namespace

Record made_record(const std::string& id, const std::vector<double>& samples_per_s, std::optional<double> watts,
                   Scope scope) {
  Record record = empty_record(id);
  for (const double speed : samples_per_s) {
    Trial& trial = record.trials.emplace_back();
    trial.step_time_s.assign(10, 64 / speed);
    trial.loss.assign(10, 1);
    trial.window_s = 640 / speed;
  }
  add_meter(record, watts, scope);
  summarise(record);
  return record;
}

Record made_target_record(const std::string& id, const std::vector<double>& seconds, std::optional<double> watts) {
  Record record = empty_record(id);
  record.target =
      Target{"markov", TargetMetric::excess_loss, 0.1, 1, 256, 10, 1000, {0.003, 0.1, 10, 1000}, std::nullopt, "none"};
  record.workload.hash = workload_hash(record.workload, record.target);
  std::uint64_t seed = 1;
  for (const double time : seconds) {
    Trial& trial = record.trials.emplace_back();
    trial.step_time_s.assign(100, time / 100);
    trial.loss.assign(100, 1);
    trial.window_s = time;
    trial.target_run = TargetRun{seed++, 0, {{100, time, 1.05, std::nullopt}}};
  }
  add_meter(record, watts, Scope::node);
  summarise(record);
  return record;
}

Report made_report(std::vector<Record> records) {
  Report report;
  report.program = {"trainwatt-train", "0.1.0", "0123456789ab"};
  // So short that runs of one system, all of this time, do not overlap.
  report.context.started_at = report.context.finished_at = "2026-03-01T10:00:00Z";
  report.context.hosts = {HostInfo{}};
  report.context.hosts[0].name = "node1", report.context.hosts[0].cpu = "A CPU";
  for (int rank = 0; rank < 2; ++rank) {
    DeviceEntry device;
    device.rank = rank, device.host = "node1", device.kind = "cpu", device.name = "A CPU";
    report.context.devices.push_back(device);
  }
  report.plan = {"quick", R"({"points":[],"window_s":60})"};
  report.records = std::move(records);
  return report;
}

SystemInput made_system(const std::string& name, std::vector<Record> records) {
  for (Record& record : records) record.launch = name;  // equal figures are not the same measurement
  return {name, {name + ".json"}, {made_report(std::move(records))}, {}, std::nullopt};
}

}  // namespace tw::testing
