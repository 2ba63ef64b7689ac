// write_offers FOLDER: made-up offers that `trainwatt validate` finds good, for the tests of what is drawn of them.
// offer1.json, offer2.json and offer3.json: each one GPU at five clocks, of which neither the fastest nor the slowest
// takes least energy.
// winner/ and undecided/: three machines in five runs each of two workloads, A/run-1/report.json to
// C/run-5/report.json. In winner/ B is far faster than A, and C slower; in undecided/ the runs of each differ more than
// the machines do.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "results/analysis/verdict.hpp"
#include "results/record/report_io.hpp"
#include "tests/results/samples.hpp"

namespace {

using namespace tw;

constexpr double clocks_mhz[] = {810, 1110, 1410, 1695, 1980};
constexpr int trials = 6;

/// Within one per cent, and not the same in any two trials.
double jitter(int trial, int shift) { return 1 + 0.004 * ((3 * trial + shift) % 5 - 2) + 0.0007 * trial; }

/// A machine, and in what its runs differ from each other.
struct Machine {
  const char *name, *gpu;
  double speed_factor = 1, energy_factor = 1;
  int run = 0;            ///< 0: the only one
  double run_factor = 1;  ///< of its speed
};
struct Place {
  std::string id;
  const char* precision;
  std::optional<double> clock;  ///< set; absent: what the machine does of itself
  double speed_factor = 1;
};

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

/// A GPU for each of the two ranks; each takes half of the power.
constexpr double share_of_gpu = 0.5;

results::Record point(const results::Record& base, const std::vector<std::string>& domains, const Machine& machine,
                      const Place& place, std::size_t at) {
  const double clock = place.clock.value_or(1980), share = clock / 1980;
  const double speed = machine.speed_factor * machine.run_factor * place.speed_factor * 410 * std::pow(share, 0.8);
  const double joules = machine.energy_factor / std::sqrt(machine.run_factor) / place.speed_factor * 0.55 *
                        (std::pow(share, 2) + 0.35 / share);
  results::Record record = base;
  record.id = place.id;
  record.workload.device = "cuda", record.workload.precision = place.precision;
  record.workload.hash = results::workload_hash(record.workload);
  record.start.reset();
  record.summary.ceiling_flops_per_s = 120e9;  // above what the fastest of them reaches
  record.setting.clear();
  if (place.clock)
    record.setting = {{"gpu_clock_mhz", {clock, clock, clock - 1, {}}}};
  for (auto& [name, setting] : record.setting)
    for (const std::string& domain : domains) setting.devices.push_back({"node1", domain, clock, clock - 1, ""});
  record.trials.clear();
  const int steps = static_cast<int>(std::ceil(62 * speed / 64));
  std::int64_t before = 3;
  double start = 100 + 500 * static_cast<double>(at);
  for (int t = 0; t < trials; ++t) {
    // No run or point repeats the figures of another.
    const double own = machine.run * 1e-4 * std::sin(1.7 * t + machine.run + 3.1 * static_cast<double>(at));
    const double window_s = steps * 64 / (speed * (jitter(t, static_cast<int>(clock) % 7 + machine.run) + own));
    results::Trial trial = testing::sample_trial(steps, window_s / steps, window_s);
    for (double& loss : trial.loss) loss = 2 + 0.6 * (loss - 2) * std::exp(-0.002 * static_cast<double>(before));
    trial.first_step = before, before += steps;
    trial.start_s = start, start += window_s + 1;
    trial.energy.clear(), trial.series.clear(), trial.clock_skew_s = 0.002;
    for (const std::string& domain : domains) {
      results::EnergyRow row;
      row.scope = results::Scope::device, row.domain = domain, row.host = "node1";
      row.method = results::Method::counter, row.update_period_s = 0.02, row.wraps = 0, row.window_s = window_s;
      row.energy_j = share_of_gpu * joules * (jitter(t, 3 + machine.run) + own) * steps * 64;
      row.uncertainty_j = 2 * *row.energy_j / window_s * (*row.update_period_s + 0.002);
      trial.energy.push_back(row);
      trial.series.push_back(series(domain, "power_w", *row.energy_j / window_s, 0.02, window_s));
      trial.series.push_back(series(domain, "sm_clock_mhz", clock, 0.002, window_s));
      trial.series.push_back(series(domain, "temperature_c", 38 + clock / 70, 0.01, window_s));
    }
    trial.counters.clear();
    record.trials.push_back(std::move(trial));
  }
  results::summarise(record);
  return record;
}

results::Report report_of(const Machine& machine, const std::vector<Place>& places) {
  results::Report report = testing::sample_energy_report();
  const std::string run = machine.run == 0 ? "" : "-" + std::to_string(machine.run);
  std::vector<std::string> domains;
  const results::Record base = report.records[0];
  report.records.clear(), report.parts.reset();
  report.context.idle_power.clear(), report.context.meters.clear(), report.context.devices.clear();
  for (int rank = 0; rank < 2; ++rank) {
    const std::string uuid =
        std::string("GPU-") + machine.name + "-0000-4000-8000-00000000000" + std::to_string(rank);
    const std::string& domain = domains.emplace_back("nvml:" + uuid);
    report.context.idle_power.push_back(
        {results::IdleTime::before, "node1", domain, results::Scope::device, share_of_gpu * 38, 1.0, 1.0, ""});
    report.context.meters.push_back(
        {"node1", domain, "", "", results::Scope::device, results::Method::counter, true, true, 0.02});
    report.context.devices.push_back({rank, "node1", "cuda", machine.gpu, uuid, "", 1, {rank}, {"CUDA runtime 13.0"}});
  }
  report.context.versions["CUDA runtime"] = "CUDA runtime 13.0";
  report.context.launch = machine.name + run;
  report.context.finished_at = "2026-03-01T11:00:00Z";
  if (machine.run > 0) {
    report.context.started_at = "2026-03-0" + std::to_string(machine.run) + "T10:00:00Z";
    report.context.finished_at = "2026-03-0" + std::to_string(machine.run) + "T11:00:00Z";
  }
  nlohmann::json plan = nlohmann::json::parse(report.plan.canonical_json), points = nlohmann::json::array();
  plan.erase("kit");  // an offer of no tender
  for (const Place& place : places) {
    report.records.push_back(point(base, domains, machine, place, report.records.size()));
    report.records.back().launch = report.context.launch;
    nlohmann::json one = plan.at("points").at(0);
    one["id"] = place.id, one["precision"] = place.precision;
    one.erase("setting");
    if (place.clock) one["setting"] = {{"gpu_clock_mhz", *place.clock}};
    points.push_back(one);
  }
  plan["points"] = points, plan["device"] = "cuda", plan["trials"] = trials, plan["suite"] = "procurement";
  report.plan = {"procurement", plan.dump()};
  return report;
}

results::Report sweep(const Machine& machine) {
  std::vector<Place> places;
  for (const double clock : clocks_mhz)
    places.push_back({"gpt2-tiny/bf16/acc4/np2/gpu_clock=" + std::to_string(static_cast<int>(clock)), "bf16", clock});
  return report_of(machine, places);
}

/// Five runs of each; `spread`: by which share the speed of runs differs.
void write_tender(const std::filesystem::path& folder, const std::vector<Machine>& machines, double spread) {
  constexpr double of_run[] = {-0.6, 0.9, -1.1, 0.4, 0.5};
  for (std::size_t m = 0; m < machines.size(); ++m) {
    for (int run = 1; run <= 5; ++run) {
      Machine one = machines[m];
      one.run = run, one.run_factor = 1 + spread * of_run[(static_cast<std::size_t>(run) + 2 * m) % 5];
      const results::Report report = report_of(
          one, {{"gpt2-tiny/bf16/acc4/np2", "bf16", {}}, {"gpt2-tiny/float32/acc4/np2", "float32", {}, 0.55}});
      const std::filesystem::path own =
          folder / std::string(1, static_cast<char>('A' + m)) / ("run-" + std::to_string(run));
      results::create_folders(own);
      results::write_atomically(own / "report.json", results::to_json(report));
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return std::fprintf(stderr, "usage: write_offers FOLDER\n"), 2;
  try {
    const std::filesystem::path folder = argv[1];
    results::create_folders(folder);
    results::write_atomically(folder / "offer1.json", results::to_json(sweep({"aaaaaaaa", "Stand-in GPU 1"})));
    results::write_atomically(folder / "offer2.json",
                              results::to_json(sweep({"bbbbbbbb", "Stand-in GPU 2", 1.12, 0.93})));
    results::write_atomically(folder / "offer3.json",
                              results::to_json(sweep({"cccccccc", "Stand-in GPU 3", 0.85, 0.8})));
    write_tender(folder / "winner",
                 {{"aaaaaaaa", "Stand-in GPU 1"},
                  {"bbbbbbbb", "Stand-in GPU 2", 1.31, 0.93},
                  {"cccccccc", "Stand-in GPU 3", 0.97, 1.04}},
                 0.008);
    write_tender(folder / "undecided",
                 {{"aaaaaaaa", "Stand-in GPU 1"},
                  {"bbbbbbbb", "Stand-in GPU 2", 1.06, 1.01},
                  {"cccccccc", "Stand-in GPU 3", 1.02, 0.99}},
                 0.09);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_offers: %s\n", error.what());
    return 1;
  }
}
