#include "tests/results/samples.hpp"

#include <algorithm>
#include <cmath>

#include "results/analysis/verdict.hpp"
#include "results/record/report_io.hpp"

namespace tw::testing {

using namespace results;

namespace {

constexpr const char* flops_rule =
    "model FLOPs: matmuls and convolutions 3x forward less the first layer's input gradient, causal attention counted "
    "once (transformer: 6*N_mat + 6*L*C*T a token)";  // of models/catalog
/// Of 32 tokens: 31 at 1.75 ln 2, the first at 2 ln 2.
constexpr double markov_floor = 1.2184227783280288;

struct PlannedPoint {
  std::string id, model, precision;
  int accumulate = 1, layers = 0;
};
/// In the form of bench/train; without how long is measured, the trials are not held against it.
std::string plan_of(const std::vector<PlannedPoint>& points, const std::string& steps = "",
                    const std::string& measurement = "") {
  std::string list;
  for (const PlannedPoint& p : points)
    list += (list.empty() ? "" : ",") + std::string(R"({"accumulate":)") + std::to_string(p.accumulate) + R"(,"id":")" +
            p.id + R"(","layers":)" + (p.layers > 0 ? std::to_string(p.layers) : "null") +
            R"(,"micro_batch":8,"model":")" + p.model + R"(","precision":")" + p.precision + R"(","ranks":2)" +
            (p.model.starts_with("gpt2") ? R"(,"seq_len":128})" : "}");
  return R"({"device":"cpu","points":[)" + list + R"(],"recompute":false,"seed":1,)" + steps + R"("suite":"quick")" +
         measurement + "}";
}

}  // namespace

Trial sample_trial(int steps, double step_time_s, double window_s) {
  Trial t;
  for (int i = 0; i < steps; ++i) {
    t.step_time_s.push_back(step_time_s * (1 + 0.02 * ((i * 7) % 5 - 2)));
    const double own = i == 3 ? 1e-9 * window_s : 0;  // no two windows of a training have the same
    t.loss.push_back(5.5 - 0.01 * i + 0.02 * ((i * 3) % 4) + own);
    t.gradient_norm.push_back(1.0 + 0.1 * (i % 3) + own);
  }
  t.phase_s = {{"data", 0.001},
               {"forward", 0.3 * step_time_s},
               {"backward", 0.55 * step_time_s},
               {"communication", 0.05 * step_time_s},
               {"optimizer", 0.08 * step_time_s}};
  t.window_s = window_s;
  t.steal_share = 0.004;
  t.foreign_share = 0.011;
  return t;
}

void add_warm_up(Record& record, std::int64_t steps, double seconds) {
  for (Trial& trial : record.trials) trial.start_s = *trial.start_s + seconds;
  const double step_s = seconds / static_cast<double>(std::max<std::int64_t>(1, steps));
  record.warm_up = WarmUp{std::vector<double>(static_cast<std::size_t>(steps), step_s), seconds,
                          *record.trials[0].start_s - seconds - 1,
                          std::vector<double>(std::min(static_cast<std::size_t>(steps), warm_up_losses), 4.2)};
}

Record sample_record() {
  Record r;
  r.id = "gpt2-tiny/bf16/acc4/np2";
  Workload& w = r.workload;
  w.model = "gpt2-tiny", w.device = "cpu", w.precision = "bf16", w.optimizer = "adamw";
  w.micro_batch = 8, w.accumulate = 4, w.ranks = 2, w.global_batch = 64, w.seq_len = 128;
  w.seed = 1, w.parameters = 1234567;
  w.hash = workload_hash(w);
  r.setting["cpu_frequency_mhz"] = {};
  r.trials = {sample_trial(40, 1.50, 61), sample_trial(40, 1.52, 61.8), sample_trial(40, 1.49, 60.5)};
  for (std::size_t i = 0; i < 3; ++i) {
    r.trials[i].first_step = 3 + 40 * static_cast<std::int64_t>(i);
    r.trials[i].start_s = 20 + 63 * static_cast<double>(i);
  }
  r.execution = Execution{StepMode::eager, false, "mpi", "host memory", std::nullopt, 0, true, "float32"};
  Summary& s = r.summary;
  s.peak_device_memory_bytes_per_rank = 360ull << 20;
  s.model_flops_per_sample = 1.2e9;
  s.flops_rule = "6*N_mat + 6*L*C*T per token, causal";
  s.ceiling_flops_per_s = 75e9;
  s.energy_reason = "no_energy_meter: rapl: no_driver";
  s.peak_resident_bytes_per_rank = 412ull << 20;
  s.planned_bytes_per_rank = 365ull << 20;
  s.op_share = {{"linear", 0.61}, {"attention", 0.17}, {"norm", 0.06}};
  return r;
}

Record sample_record_with_energy() {
  Record r = sample_record();
  r.summary.energy_reason.clear();
  for (Trial& t : r.trials) {
    const auto row = [&](Scope scope, const char* domain, double joules) {
      EnergyRow e;
      e.scope = scope, e.domain = domain, e.host = "node1", e.method = Method::counter;
      e.energy_j = joules, e.uncertainty_j = 2, e.window_s = t.window_s, e.update_period_s = 0.001, e.wraps = 0;
      return e;
    };
    t.energy = {row(Scope::package, "rapl:package-0", 6000), row(Scope::package, "rapl:package-1", 5800),
                row(Scope::dram, "rapl:dram-0", 900), row(Scope::package, "rapl:core-0", 4000)};
    t.energy[3].counted = false;
    t.energy[3].reason = "contained";
    t.clock_skew_s = 0.002;
  }
  return r;
}

Report sample_report() {
  Report report;
  report.program = {"trainwatt-train", "0.1.0", "0123456789ab"};
  Context& c = report.context;
  c.launch = "5ca1ab1e0ddba115";
  c.started_at = "2026-03-01T10:00:00Z";
  c.finished_at = "2026-03-01T10:12:30Z";
  c.argv = {"build/bin/trainwatt-train", "--suite", "quick", "--out", "out/r1"};
  c.environment = {{"OMP_NUM_THREADS", "1"}};
  c.versions = {{"build_type", "Release"},
                {"compiler", "gcc 12.2.0"},
                {"mpi", "Open MPI 4.1.4"},
                {"oneDNN", "oneDNN 2.6.3"}};
  c.launcher = "mpirun";
  HostInfo h;
  h.name = "node1", h.cpu = "Intel(R) Xeon(R) Platinum 8488C", h.hypervisor = "kvm";
  h.sockets = 1, h.cores = 1, h.hardware_threads = 2, h.usable_threads = 2, h.numa_nodes = 1, h.memory_bytes = 16ull << 30;
  h.kernel = "6.1.0-18-amd64", h.os = "Debian GNU/Linux 12 (bookworm)";
  h.nics = {"eth0 10000 Mbit/s"};
  h.steal_share_since_boot = 0.0012;
  h.topology_xml_sha256 = sha256_hex("topology");
  c.hosts = {h};
  for (int rank = 0; rank < 2; ++rank) {
    DeviceEntry d;
    d.rank = rank, d.host = "node1", d.kind = "cpu", d.name = h.cpu, d.instruction_set = "AVX512_CORE_AMX",
    d.threads = 1;
    d.affinity = {rank};
    d.libraries = {"oneDNN 2.6.3"};
    c.devices.push_back(d);
  }
  MeterEntry m;
  m.host = "node1", m.domain = "rapl", m.reason = "no_driver", m.detail = "/sys/class/powercap has no intel-rapl zone";
  c.meters = {m};
  c.warnings = {"2 ranks share 1 core (2 hardware threads)"};
  report.plan = {"quick", plan_of({{"gpt2-tiny/bf16/acc4/np2", "gpt2-tiny", "bf16", 4},
                                   {"resnet-tiny/float32/acc1/np2", "resnet-tiny", "float32", 1},
                                   {"gpt2-tiny/fp8/acc4/np2", "gpt2-tiny", "fp8", 4},
                                   {"gpt2-tiny/float32/acc4/np2", "gpt2-tiny", "float32", 4}})};

  Record a = sample_record();
  a.workload.parameters = 429568;  // as the catalog has them
  a.workload.hash = workload_hash(a.workload);
  a.summary.model_flops_per_sample = 339738624;
  a.summary.flops_rule = flops_rule;
  Record b = a;
  EnergyRow absent;
  absent.domain = "rapl", absent.host = "node1", absent.counted = false, absent.reason = "no_driver";
  for (Trial& t : a.trials) t.energy = {absent};
  b.id = "resnet-tiny/float32/acc1/np2";
  b.workload.model = "resnet-tiny", b.workload.precision = "float32", b.workload.optimizer = "sgd";
  b.workload.accumulate = 1, b.workload.global_batch = 16, b.workload.seq_len.reset();
  b.workload.parameters = 132186, b.summary.model_flops_per_sample = 37026816;
  b.workload.hash = workload_hash(b.workload);
  b.trials = {sample_trial(30, 0.21, 6.4)};
  b.trials[0].start_s = 240;
  b.verdict.flags = {Flag::steps_given, Flag::narrow_affinity};
  b.summary.ceiling_flops_per_s.reset();
  Record u = a;
  u.id = "gpt2-tiny/fp8/acc4/np2";
  u.workload.precision = "fp8";
  u.trials.clear(), u.summary = {};
  u.verdict = {Status::unsupported, {}, {"fp8: this CPU has no 8-bit floating point"}};
  Record f = u;
  f.id = "gpt2-tiny/float32/acc4/np2";
  f.workload.precision = "float32";
  f.verdict = {Status::failed, {}, {"rank 1 (node1): needs 9.1 GiB, 2.0 GiB free"}};
  report.records = {a, b, u, f};
  for (Record& r : report.records) {
    r.launch = c.launch;
    summarise(r);
  }
  return report;
}

std::vector<MeterEntry> sample_meters() {
  const auto meter = [](const char* domain, Scope scope, bool counted) {
    return MeterEntry{"node1", domain, counted ? "" : "contained", "", scope, Method::counter, true, counted, 0.001};
  };
  return {meter("rapl:package-0", Scope::package, true), meter("rapl:package-1", Scope::package, true),
          meter("rapl:dram-0", Scope::dram, true), meter("rapl:core-0", Scope::package, false)};
}

std::vector<IdleRow> sample_idle() {
  std::vector<IdleRow> rows;
  for (const MeterEntry& meter : sample_meters())
    if (meter.counted)
      rows.push_back({IdleTime::before, meter.host, meter.domain, meter.scope, meter.scope == Scope::dram ? 5.5 : 42.5,
                      0.085, 1.0, ""});
  return rows;
}

std::vector<SeriesRow> sample_power(const Trial& trial) {
  std::vector<SeriesRow> all;
  for (const EnergyRow& row : trial.energy) {
    if (!row.counted) continue;
    const double watts = *row.energy_j / *row.window_s;
    all.push_back({row.host,
                   row.domain,
                   "power_w",
                   {0, 0.5 * *row.window_s},
                   {0.99 * watts, 0.99 * watts},
                   {watts, watts},
                   {1.01 * watts, 1.01 * watts}});
  }
  return all;
}

Report sample_energy_report() {
  Report report = sample_report();
  Record r = sample_record_with_energy();
  r.workload = report.records[0].workload;
  r.workload.layers = 1;
  r.workload.parameters = 231296, r.workload.hash = workload_hash(r.workload);
  r.summary.model_flops_per_sample = 176160768, r.summary.flops_rule = flops_rule;
  report.records = {r};
  report.plan.canonical_json = plan_of({{r.id, "gpt2-tiny", "bf16", 4, 1}}, R"("steps":null,)",
                                       R"(,"trials":3,"warmup_steps":3,"window_s":60.0)");
  const std::string last = R"("seq_len":128})";
  std::string& plan = report.plan.canonical_json;
  plan.replace(plan.find(last), last.size(), R"("seq_len":128,"setting":{"cpu_frequency_mhz":2400.0}})");
  report.plan.kit = KitInfo{"Tender 7", std::string(64, 'a')};
  plan.insert(plan.find(R"("points")"), R"("kit":")" + report.plan.kit->sha256 + R"(",)");
  report.records[0].setting["cpu_frequency_mhz"] = {2400, 2400, std::nullopt, {{"node1", "cpu", 2400, std::nullopt, "no channel"}}};
  report.context.warnings.clear();
  report.context.hosts[0].container = "docker", report.context.hosts[0].cpu_max_mhz = 3800;
  report.context.meters = sample_meters();
  for (Trial& trial : report.records[0].trials) {
    trial.series = sample_power(trial);
    trial.counters = {{"node1", "cpu", "throttle_thermal_events", 0}};
    trial.sampler_cpu_share = 0.0004;
  }
  report.context.idle_power = sample_idle();
  report.context.idle_power.push_back(
      {IdleTime::after, "node1", "rapl:package-0", Scope::package, std::nullopt, std::nullopt, std::nullopt, "lost"});
  HostInfo& host = report.context.hosts[0];
  host.sockets = host.cores = host.numa_nodes = 2, host.hardware_threads = host.usable_threads = 4;
  summarise(report.records[0]);
  report.records[0].start = {47.5, 12};
  report.records[0].launch = report.context.launch;
  Context killed = report.context;  // in its first point
  killed.launch = "0ddba1150ddba115";
  killed.started_at = "2026-03-01T09:00:00Z", killed.finished_at = "", killed.versions["mpi"] = "Open MPI 4.1.3";
  killed.meters.clear(), killed.idle_power.clear();
  report.parts = {{report.program, {}, {}, killed},
                  {report.program, {report.records[0].id}, {"mpi Open MPI 4.1.3, now Open MPI 4.1.4"}, std::nullopt}};
  return report;
}

Record sample_target_record() {
  Record r = sample_record_with_energy();
  r.id = "gpt2-tiny/bf16/mb4/t32/acc4/np2/to0.1";
  Workload& w = r.workload;
  w.parameters = 429568, w.micro_batch = 4, w.global_batch = 32, w.seq_len = 32;
  r.summary.model_flops_per_sample = 78643200, r.summary.flops_rule = flops_rule;
  r.summary.ceiling_flops_per_s.reset(), r.summary.of_ceiling_reason = "not measured in runs to a target";
  r.summary.op_share.clear();
  r.setting.clear();
  r.target = Target{"markov",
                    TargetMetric::excess_loss,
                    0.1,
                    markov_floor,
                    256,
                    10,
                    60,
                    {0.003, 0.1, 10, 1000},
                    ConvergenceReference{"JAX 0, float32", 8, 26, 3, 17, 35},
                    ""};
  w.hash = workload_hash(w, r.target);
  r.prices = JobPrices{3.6, 0.36};
  const std::vector<std::vector<double>> excess = {{0.9, 0.2, 0.09}, {0.5, 0.095, 0}, {0.7, 0.12, 0.08}};
  for (std::size_t i = 0; i < r.trials.size(); ++i) {
    Trial& trial = r.trials[i];
    TargetRun run{i + 1, 0.75, {}};
    for (const double value : excess[i])
      if (value > 0) {
        const auto step = 10 * static_cast<std::int64_t>(run.evaluations.size() + 1);
        run.evaluations.push_back({step, 0.5 * static_cast<double>(step) + 0.25, r.target->floor + value, std::nullopt});
      }
    const auto steps = static_cast<int>(run.evaluations.back().step);
    const Trial made = sample_trial(steps, 0.475, run.evaluations.back().time_s + 0.01);
    trial.step_time_s = made.step_time_s, trial.loss = made.loss, trial.gradient_norm = made.gradient_norm;
    trial.phase_s = made.phase_s, trial.window_s = made.window_s, trial.first_step = 0;
    for (EnergyRow& row : trial.energy) row.window_s = made.window_s, *row.energy_j *= made.window_s / 60;
    trial.target_run = std::move(run);
    trial.start_s = 20 + 20 * static_cast<double>(i);
  }
  return r;
}

Report sample_target_report() {
  Report report = sample_report();
  report.context.warnings.clear();
  Record missed = sample_target_record();
  missed.id = "resnet-tiny/bf16/mb4/acc4/np2/to0.11";
  Workload& w = missed.workload;
  w.model = "resnet-tiny", w.optimizer = "sgd", w.seq_len.reset(), w.parameters = 132186;
  missed.summary.model_flops_per_sample = 37026816;
  missed.target = Target{"gratings",   TargetMetric::error,
                         0.11,         0,
                         1024,         10,
                         30,           {0.01, 0.1, 10, 1000},
                         std::nullopt, "no reference at a global batch of 32"};
  w.hash = workload_hash(w, missed.target);
  for (std::size_t i = 0; i < missed.trials.size(); ++i) {
    Trial& trial = missed.trials[i];
    trial.target_run->seed = i + 4;
    trial.start_s = 120 + 20 * static_cast<double>(i);
    for (Evaluation& evaluation : trial.target_run->evaluations) evaluation.error = 0.11 + 0.02 * (30.0 - static_cast<double>(evaluation.step));
    if (i == 1) {  // the second goes on to the last step and never gets there
      const Trial made = sample_trial(30, 0.475, 15.3);
      trial.step_time_s = made.step_time_s, trial.loss = made.loss, trial.gradient_norm = made.gradient_norm;
      for (EnergyRow& row : trial.energy) *row.energy_j *= 15.3 / trial.window_s, row.window_s = 15.3;
      trial.window_s = 15.3;
      trial.target_run->evaluations.push_back({30, 15.25, 0.6, 0.125});
    }
  }
  report.records = {sample_target_record(), missed};
  report.context.meters = sample_meters(), report.context.idle_power = sample_idle();
  for (Record& record : report.records)
    for (Trial& trial : record.trials) trial.series = sample_power(trial);
  const auto point = [](const Record& r, const std::string& target, const std::string& seeds) {
    return R"({"accumulate":4,"id":")" + r.id + R"(","layers":null,"micro_batch":4,"model":")" + r.workload.model +
           R"(","precision":"bf16","ranks":2,"seeds":[)" + seeds + "]" + (r.workload.seq_len ? R"(,"seq_len":32)" : "") +
           R"(,"target":{)" + target + "}}";
  };
  report.plan = {
      "convergence",
      R"({"device":"cpu","prices":{"hour_price":3.6,"kwh_price":0.36},"points":[)" +
          point(
              report.records[0],
              R"("evaluation_interval":10,"floor":1.2184227783280288,"held_out_samples":256,"metric":"excess_loss","most_steps":60,"schedule":{"decay_steps":1000,"final_share":0.1,"learning_rate":0.003,"warmup_steps":10},"task":"markov","value":0.1)",
              "1,2,3") +
          "," +
          point(
              report.records[1],
              R"("evaluation_interval":10,"floor":0.0,"held_out_samples":1024,"metric":"error","most_steps":30,"schedule":{"decay_steps":1000,"final_share":0.1,"learning_rate":0.01,"warmup_steps":10},"task":"gratings","value":0.11)",
              "4,5,6") +
          R"(],"recompute":false,"seed":1,"steps":null,"suite":"convergence","trials":3,"warmup_steps":0,"window_s":null})"};
  for (Record& r : report.records) {
    r.launch = report.context.launch;
    summarise(r);
  }
  return report;
}

bool has(const Record& record, const char* flag) {
  return has_flag(record, FlagName(flag));
}

}  // namespace tw::testing
