// write_offers FOLDER: made-up offers that `trainwatt validate` finds good, for the tests of what is drawn of them:
// offer1.json, offer2.json and offer3.json, each one GPU at five clocks, of which neither the fastest nor the slowest
// takes least energy.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>

#include "results/analysis/verdict.hpp"
#include "results/record/report_io.hpp"
#include "tests/results/samples.hpp"

namespace {

using namespace tw;

constexpr double clocks_mhz[] = {810, 1110, 1410, 1695, 1980};
constexpr int trials = 6;

/// Within one per cent, and not the same in any two trials.
double jitter(int trial, int shift) { return 1 + 0.004 * ((3 * trial + shift) % 5 - 2) + 0.0007 * trial; }

results::SeriesRow series(const std::string& domain, const char* quantity, double level, double swing,
                          double window_s) {
  results::SeriesRow row{"node1", domain, quantity, {}, {}, {}, {}};
  for (int i = 0; i < 40; ++i) {
    const double mean = level * (1 + swing * std::sin(0.9 * i) * std::cos(0.37 * i) - 3 * swing * std::exp(-i / 3.0));
    row.time_s.push_back(window_s * i / 40);
    row.mean.push_back(mean), row.minimum.push_back(mean * (1 - swing / 2)),
        row.maximum.push_back(mean * (1 + swing / 2));
  }
  return row;
}

results::Record point(const results::Record& base, const std::string& domain, double clock, double speed_factor,
                      double energy_factor) {
  const double speed = speed_factor * 410 * std::pow(clock / 1980, 0.8);
  const double joules = energy_factor * 0.55 * (std::pow(clock / 1980, 2) + 0.35 * 1980 / clock);
  results::Record record = base;
  record.id = "gpt2-tiny/bf16/acc4/np2/gpu_clock=" + std::to_string(static_cast<int>(clock));
  record.workload.device = "cuda";
  record.start.reset();
  record.summary.ceiling_flops_per_s = 120e9;  // above what the fastest of them reaches
  record.setting = {{"gpu_clock_mhz", {clock, clock, clock - 1, {{"node1", domain, clock, clock - 1, ""}}}}};
  record.trials.clear();
  const int steps = static_cast<int>(std::ceil(62 * speed / 64));
  std::int64_t before = 3;
  double start = 100 + 500 * static_cast<double>(std::ranges::find(clocks_mhz, clock) - std::begin(clocks_mhz));
  for (int t = 0; t < trials; ++t) {
    const double window_s = steps * 64 / (speed * jitter(t, static_cast<int>(clock) % 7));
    results::Trial trial = testing::sample_trial(steps, window_s / steps, window_s);
    for (double& loss : trial.loss) loss = 2 + 0.6 * (loss - 2) * std::exp(-0.002 * static_cast<double>(before));
    trial.first_step = before, before += steps;
    trial.start_s = start, start += window_s + 1;
    results::EnergyRow row;
    row.scope = results::Scope::device, row.domain = domain, row.host = "node1", row.method = results::Method::counter;
    row.energy_j = joules * jitter(t, 3) * steps * 64, row.window_s = window_s;
    row.update_period_s = 0.02, row.wraps = 0;
    row.uncertainty_j = 2 * *row.energy_j / window_s * (*row.update_period_s + 0.002);
    trial.energy = {row}, trial.clock_skew_s = 0.002;
    trial.series = {series(domain, "power_w", joules * speed, 0.02, window_s),
                    series(domain, "sm_clock_mhz", clock, 0.002, window_s),
                    series(domain, "temperature_c", 38 + clock / 70, 0.01, window_s)};
    trial.counters.clear();
    record.trials.push_back(std::move(trial));
  }
  results::summarise(record);
  return record;
}

results::Report offer(const char* name, const char* gpu, double speed_factor, double energy_factor) {
  results::Report report = testing::sample_energy_report();
  const std::string uuid = std::string("GPU-") + name + "-0000-4000-8000-000000000000", domain = "nvml:" + uuid;
  const results::Record base = report.records[0];
  report.records.clear(), report.parts.reset();
  report.context.idle_power = {
      {results::IdleTime::before, "node1", domain, results::Scope::device, 38.0, 2.0, 1.0, ""}};
  report.context.launch = name;
  report.context.meters = {
      {"node1", domain, "", "", results::Scope::device, results::Method::counter, true, true, 0.02}};
  report.context.devices = {{0, "node1", "cuda", gpu, uuid, "", 1, {0}, {}},
                            {1, "node1", "cuda", gpu, "", "", 1, {1}, {}}};  // its joules are not shown
  report.context.finished_at = "2026-03-01T11:00:00Z";
  nlohmann::json plan = nlohmann::json::parse(report.plan.canonical_json), points = nlohmann::json::array();
  plan.erase("kit");  // an offer of no tender
  for (const double clock : clocks_mhz) {
    report.records.push_back(point(base, domain, clock, speed_factor, energy_factor));
    report.records.back().launch = name;
    nlohmann::json one = plan.at("points").at(0);
    one["id"] = report.records.back().id, one["setting"] = {{"gpu_clock_mhz", clock}};
    points.push_back(one);
  }
  plan["points"] = points, plan["device"] = "cuda", plan["trials"] = trials, plan["suite"] = "procurement";
  report.plan = {"procurement", plan.dump()};
  return report;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: write_offers FOLDER\n"), 2;
  try {
    const std::filesystem::path folder = argv[1];
    results::create_folders(folder);
    results::write_atomically(folder / "offer1.json", results::to_json(offer("aaaaaaaa", "Stand-in GPU 1", 1, 1)));
    results::write_atomically(folder / "offer2.json",
                              results::to_json(offer("bbbbbbbb", "Stand-in GPU 2", 1.12, 0.93)));
    results::write_atomically(folder / "offer3.json", results::to_json(offer("cccccccc", "Stand-in GPU 3", 0.85, 0.8)));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_offers: %s\n", error.what());
    return 1;
  }
}
