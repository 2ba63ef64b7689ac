#include "bench/train/run_point.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <numeric>

#include "bench/ceiling/ceiling.hpp"
#include "bench/inventory/inventory.hpp"
#include "bench/train/outcome.hpp"
#include "bench/train/steady.hpp"
#include "bench/train/target_run.hpp"
#include "comm/bucketer.hpp"
#include "results/report_io.hpp"
#include "results/statistics.hpp"
#include "results/text.hpp"
#include "results/to_target.hpp"
#include "results/verdict.hpp"

namespace tw {
namespace {

constexpr const char* interrupted_by_signal = "interrupted by a signal";

volatile std::sig_atomic_t interruption = 0;
void on_signal(int) { interruption = 1; }

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

DType dtype_of(const std::string& precision) { return precision == "bf16" ? DType::bf16 : DType::float32; }

/// Ends the point on all ranks where a signal asked for that on any of them (collective).
void stop_if_interrupted(Job& job) {
  if (job.maximum({interruption ? 1.0 : 0.0}).front() > 0) throw Stop(exit_interrupted, interrupted_by_signal);
}

/// What this rank saw of one window.
struct Samples {
  std::vector<double> step_seconds, loss, gradient_norm;
  PhaseSeconds phases;   // summed over steps
  double window_seconds = 0;
  // Along the window: this rank's threads, and the whole node.
  double cpu_seconds = 0;
  std::optional<CpuTimes> node_before, node_after;
};

void take(Samples& samples, const StepResult& result, double seconds) {
  samples.step_seconds.push_back(seconds);
  samples.loss.push_back(result.loss);
  samples.gradient_norm.push_back(result.gradient_norm);
  samples.phases.data += result.phases.data;
  samples.phases.forward += result.phases.forward;
  samples.phases.backward += result.phases.backward;
  samples.phases.communication += result.phases.communication;
  samples.phases.optimizer += result.phases.optimizer;
}

/// One point's run on this rank.
class PointRun {
 public:
  PointRun(RunContext& context, const Point& point) : context_(context), point_(point), stream_(context.device.create_stream()) {}

  /// Everything that may fail for want of memory or support; no collectives inside.
  void set_up(std::uint64_t seed) {
    TrainerConfig config = trainer_config(point_, context_.plan, context_.job.rank());
    config.seed = seed;
    steps_ = context_.steps(context_.device, config);
  }
  /// Collective.
  void connect() {
    communicator_ = context_.job.communicator(context_.device);
    bucketer_ = std::make_unique<Bucketer>(*communicator_, static_cast<std::int64_t>(context_.bucket_mib * 1024 * 1024));
    sync_.ready = [this](Stream& stream, Tensor gradients, GradientRange range) {
      bucketer_->ready(stream, gradients, range.begin, range.end);
    };
    sync_.finish = [this](Stream& stream, Tensor gradients) { bucketer_->finish(stream, gradients); };
  }

  /// Until every rank's step time is flat, or a trial's length has passed; where a number of steps was asked for, that of
  /// the warm-up is exact too.
  Samples warm_up() {
    Samples samples;
    const Measurement& measurement = context_.plan.measurement;
    const double least = 0.1 * measurement.window_seconds, most = measurement.window_seconds;
    const auto start = Clock::now();
    context_.progress.stage("warm-up");
    const bool judges = !measurement.steps && measurement.warmup_steps > 0;
    bool changes = judges;
    int next_look = 0;  // each tenth of the steps: a look takes longer the more there are
    while (true) {
      const auto count = static_cast<int>(samples.step_seconds.size());
      const bool looks = count >= next_look;
      if (looks && judges) changes = !is_steady(samples.step_seconds);
      if (looks) next_look = count + count / 10 + 1;
      const auto now = context_.job.maximum({seconds_since(start), interruption ? 1.0 : 0.0, changes ? 1.0 : 0.0});
      if (now[1] > 0) throw Stop(exit_interrupted, interrupted_by_signal);
      is_steady_ = now[2] == 0;
      const bool may_end = !judges || (looks && is_steady_ && now[0] >= least) || now[0] >= most;
      if (count >= measurement.warmup_steps && may_end) break;
      step(samples);
    }
    return samples;
  }
  bool is_steady_at_start() const { return is_steady_; }

  Samples window(double step_estimate_seconds, int trial) {
    const Measurement& measurement = context_.plan.measurement;
    // The ranks look up together about once a second: for the window's end and for signals.
    const std::int64_t stride = step_estimate_seconds > 0
        ? std::clamp<std::int64_t>(static_cast<std::int64_t>(std::min(1.0, measurement.window_seconds / 8) / step_estimate_seconds), 1, 10000) : 1;
    const std::int64_t limit = measurement.steps.value_or(std::numeric_limits<std::int64_t>::max());
    return measured([&](Samples& samples, Clock::time_point start) {
      std::int64_t done = 0;
      while (done < limit) {
        for (std::int64_t i = 0; i < stride && done < limit; ++i, ++done) step(samples);
        const auto now = context_.job.maximum({seconds_since(start), interruption ? 1.0 : 0.0});
        if (now[1] > 0) throw Stop(exit_interrupted, interrupted_by_signal);
        if (!measurement.steps && now[0] >= measurement.window_seconds) break;
        context_.progress.stage(measurement.steps ? fmt::format("step {}/{}", done, limit)
                                                  : fmt::format("trial {}/{}", trial + 1, measurement.trials));
      }
    });
  }

  /// From the first step's data to the first evaluation at or under the target, inside one window; or to the last step, or
  /// to a loss that is no number any more.
  Samples to_target(const Target& target, TargetRun& run) {
    return measured([&](Samples& samples, Clock::time_point start) {
      for (bool ended = false; !ended;) {
        step(samples);
        const auto done = static_cast<std::int64_t>(samples.step_seconds.size());
        if (done % target.evaluation_interval != 0 && done != target.most_steps) continue;
        const double before = seconds_since(start);
        Evaluation& now = run.evaluations.emplace_back(evaluate_held_out(context_.job, *steps_, point_));
        now.step = done;
        now.time_s = seconds_since(start);
        run.evaluation_s += now.time_s - before;
        const double metric = metric_of(target, now);
        ended = !std::isfinite(metric) || reaches(target, now) || done == target.most_steps;
        context_.progress.stage(fmt::format("seed {}: step {}, {:.4g} of {:.4g}", run.seed, done, metric, target.value));
      }
    });
  }

  /// Shares of the operators in one step, measured apart because timing each costs time.
  std::map<std::string, double> profile() {
    Device& device = context_.device;
    device.profile() = OpProfile{};
    device.set_profiling(true);
    Samples samples;
    step(samples);
    device.set_profiling(false);
    std::map<std::string, double> shares;
    const OpProfile& profile = device.profile();
    for (std::size_t op = 0; op < profile.seconds.size(); ++op)
      if (profile.calls[op] > 0) shares[to_string(static_cast<Op>(op))] = profile.seconds[op] / samples.step_seconds.front();
    return shares;
  }

  std::uint64_t planned_bytes() const { return steps_->planned_bytes(); }

 private:
  /// Barrier, synchronise, read meters, barrier, work, synchronise, barrier, read meters, barrier (DESIGN §5.5).
  template <class Work>
  Samples measured(Work work) {
    Samples samples;
    communicator_->barrier(*stream_);
    stream_->synchronize();
    context_.energy.begin();
    samples.node_before = read_cpu_times();
    samples.cpu_seconds = -process_cpu_seconds();
    const auto start = Clock::now();
    work(samples, start);
    stream_->synchronize();
    samples.window_seconds = seconds_since(start);
    samples.cpu_seconds += process_cpu_seconds();
    samples.node_after = read_cpu_times();
    context_.energy.end();
    return samples;
  }
  void step(Samples& samples) {
    const auto start = Clock::now();
    const StepResult result = steps_->step(sync_);
    take(samples, result, seconds_since(start));
  }

  RunContext& context_;
  const Point& point_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<StepSource> steps_;
  std::unique_ptr<Communicator> communicator_;
  std::unique_ptr<Bucketer> bucketer_;
  GradientSync sync_;
  bool is_steady_ = true;
};

/// The ranks' samples as one trial: the slowest rank's step times, mean losses, mean phases (collective).
Trial merge(Job& job, EnergyWindow& energy, const Samples& mine) {
  Trial trial;
  trial.step_time_s = job.maximum(mine.step_seconds);
  trial.loss = job.sum(mine.loss);
  for (double& loss : trial.loss) loss /= job.size();
  trial.gradient_norm = mine.gradient_norm;  // of the reduced gradient: equal on all ranks
  const PhaseSeconds& p = mine.phases;
  const std::vector<double> phases = job.sum({p.data, p.forward, p.backward, p.communication, p.optimizer});
  const double steps = static_cast<double>(mine.step_seconds.size()) * job.size();
  const char* names[] = {"data", "forward", "backward", "communication", "optimizer"};
  for (std::size_t i = 0; i < phases.size(); ++i) trial.phase_s[names[i]] = steps > 0 ? phases[i] / steps : 0;
  trial.window_s = job.maximum({mine.window_seconds}).front();
  // Of one machine: its clock of CPU time runs for all of its containers and pods.
  const double own_seconds = energy.machines().sum_here(job, mine.cpu_seconds);
  // The report names the worst node's shares. -1: nobody could read them.
  const std::vector<double> worst =
      job.maximum({steal_share(mine.node_before, mine.node_after).value_or(-1.0),
                   foreign_share(mine.node_before, mine.node_after, own_seconds).value_or(-1.0)});
  if (worst[0] >= 0) trial.steal_share = worst[0];
  if (worst[1] >= 0) trial.foreign_share = std::min(worst[1], 1.0);
  energy.collect(trial);
  return trial;
}

/// The slowest rank's times of an evaluation that all shared (collective).
TargetRun merge(Job& job, TargetRun run) {
  std::vector<double> seconds = {run.evaluation_s};
  for (const Evaluation& evaluation : run.evaluations) seconds.push_back(evaluation.time_s);
  seconds = job.maximum(std::move(seconds));
  run.evaluation_s = seconds[0];
  for (std::size_t i = 0; i < run.evaluations.size(); ++i) run.evaluations[i].time_s = seconds[i + 1];
  return run;
}

Workload workload_of(const Point& point, const RunContext& context) {
  Workload workload;
  workload.model = point.network.name;
  workload.layers = point.layers;
  workload.device = context.plan.device;
  workload.precision = point.precision;
  workload.micro_batch = point.micro_batch;
  workload.accumulate = point.accumulate;
  workload.global_batch = point.global_batch();
  if (point.network.is_tokens()) workload.seq_len = point.seq_len;
  workload.ranks = point.ranks;
  workload.threads_per_rank = context.device.info().threads;
  workload.optimizer = default_optimizer(point.network).kind == OptimizerConfig::Kind::adamw ? "adamw" : "sgd";
  workload.seed = context.plan.seed;
  workload.parameters = count_parameters(point.network);
  workload.hash = workload_hash(workload);
  return workload;
}

/// The largest rank's memory since it was last reset (collective).
void note_peak(Job& job, Summary& summary) {
  summary.peak_resident_bytes_per_rank = static_cast<std::uint64_t>(job.maximum({static_cast<double>(peak_resident_bytes())}).front());
}

/// A record with all its trials: what the settings showed along them, and what follows (collective).
Record finished(RunContext& context, Record record) {
  record.verdict.flags.insert(record.verdict.flags.begin(), context.flags.begin(), context.flags.end());
  record.summary.energy_reason = context.energy_reason;
  if (context.settings) context.settings->observe(record.setting);
  observe_settings(record.setting, record.trials, context.gpus);
  summarise(record);
  return record;
}

Record not_run(Record record, const char* status, const std::string& reason) {
  record.verdict = Verdict{status, {}, {reason}};
  summarise(record);  // why each figure is absent
  return record;
}

class TrainerSteps : public StepSource {
 public:
  TrainerSteps(Device& device, const TrainerConfig& config) : trainer_(device, config) {}
  StepResult step(const GradientSync& sync) override { return trainer_.step(sync); }
  EvaluationResult evaluate(std::uint64_t batch_index) override { return trainer_.evaluate(batch_index); }
  std::uint64_t planned_bytes() const override { return trainer_.memory().total(); }

 private:
  Trainer trainer_;
};

/// Trains the point to its target with each of its seeds, from new weights each time (collective). Throws Stop on all ranks
/// where a network does not fit.
void run_to_target(RunContext& context, const Point& point, Record& record) {
  Job& job = context.job;
  for (const std::uint64_t seed : point.seeds) {
    context.progress.stage("building plans and weights");
    PointRun run(context, point);
    together(job, [&] { run.set_up(seed); });
    run.connect();
    TargetRun target_run;
    target_run.seed = seed;
    const Samples samples = run.to_target(*record.target, target_run);
    record.trials.push_back(merge(job, context.energy, samples));
    record.trials.back().target_run = merge(job, std::move(target_run));
    record.summary.planned_bytes_per_rank = run.planned_bytes();
  }
  note_peak(job, record.summary);
  record.summary.of_ceiling_reason = "not measured in runs to a target";
}

}  // namespace

EvaluationResult StepSource::evaluate(std::uint64_t) { throw Error(Failure::internal, "these steps have nothing to evaluate"); }

std::unique_ptr<StepSource> trainer_steps(Device& device, const TrainerConfig& config) {
  return std::make_unique<TrainerSteps>(device, config);
}

bool interruption_requested() { return interruption != 0; }

void install_signal_handlers() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
}

TrainerConfig trainer_config(const Point& point, const RunPlan& plan, int rank) {
  TrainerConfig config;
  config.network = point.network;
  config.precision = dtype_of(point.precision);
  config.micro_batch = point.micro_batch;
  config.seq_len = point.seq_len;
  config.accumulate = point.accumulate;
  config.optimizer = default_optimizer(point.network);
  if (point.task) {
    config.optimizer.learning_rate = point.task->learning_rate;
    config.optimizer.final_learning_rate_share = point.task->final_learning_rate_share;
    config.optimizer.warmup_steps = point.task->warmup_steps;
    config.optimizer.decay_steps = point.task->decay_steps;
  }
  config.seed = plan.seed;
  config.recompute = plan.recompute;
  config.rank = rank;
  config.ranks = point.ranks;
  return config;
}

std::string why_unsupported(const Point& point, const Device& device) {
  if (point.precision != "float32" && point.precision != "bf16")
    return fmt::format("{} has no {} yet: choose float32 or bf16", to_string(device.info().kind), point.precision);
  const DType dtype = dtype_of(point.precision);
  if (const std::string why = device.why_unsupported(dtype); !why.empty()) return fmt::format("{}: {}", point.precision, why);
  const Op heavy = point.network.is_tokens() ? Op::linear_forward : Op::convolution_forward;
  if (!device.supports(heavy, dtype))
    return fmt::format("{} has no {} in {}", to_string(device.info().kind), to_string(heavy), point.precision);
  return {};
}

/// "needs 9.1 GiB on node1 (4 ranks × 2.3 GiB), 8.0 GiB are available"; empty where they are.
std::string why_no_memory(const Job& job, std::size_t rank_bytes) {
  constexpr double gib = 1024.0 * 1024 * 1024;
  const double each = static_cast<double>(rank_bytes) / gib, needed = each * job.local_size();
  const auto available = memory_available_bytes();
  const double there = available ? static_cast<double>(*available) / gib : 0;
  if (!available || needed <= there) return {};
  return fmt::format("needs {:.1f} GiB on {} ({} ranks × {:.1f} GiB), {:.1f} GiB are available", needed, job.host(),
                     job.local_size(), each, there);
}

std::string why_too_large(const Point& point, const RunPlan& plan, const Job& job, int threads) {
  const std::string why = why_no_memory(job, plan_memory(trainer_config(point, plan, job.rank()), threads).total());
  if (why.empty()) return {};
  return fmt::format("{} {}: use a smaller --micro-batch, --recompute, fewer ranks per node or a smaller network",
                     point.id, why);
}

std::string why_no_ceiling(const Point& point, const Job& job, int threads) {
  const std::string why = why_no_memory(
      job, ceiling_bytes(point.network, dtype_of(point.precision), point.micro_batch, point.seq_len, threads));
  return why.empty() ? why : "timing the products alone " + why;
}

Record run_point(RunContext& context, const Point& point) {
  Job& job = context.job;
  Record record;
  record.id = point.id;
  record.workload = workload_of(point, context);
  if (point.task) record.target = target_of(point, record.workload);
  Summary& summary = record.summary;
  summary.model_flops_per_sample = model_flops_per_sample(point.network, point.seq_len);
  summary.flops_rule = flops_rule();
  if (const std::string why = job.agree(why_unsupported(point, context.device)); !why.empty())
    return not_run(std::move(record), "unsupported", why);
  if (const std::string why = job.agree(why_too_large(point, context.plan, job, context.device.info().threads)); !why.empty())
    return not_run(std::move(record), "failed", why);

  stop_if_interrupted(job);
  if (context.settings) {
    context.progress.stage("applying settings");
    record.setting = context.settings->apply(point.setting);
    for (const auto& [name, setting] : record.setting) {
      std::string why = setting.devices.empty() ? "no device has this knob" : "";
      for (const SettingRow& row : setting.devices)
        if (!row.accepted && why.empty()) why = fmt::format("{} on {}: {}", row.domain, row.host, row.reason);
      if (why.empty()) continue;
      return not_run(std::move(record), "unsupported", fmt::format("{} {}: {}", name, text::set_point(*setting.requested, 6), why));
    }
  }
  note_found(record.setting, context.found);
  if (point.task) {
    reset_peak_resident_bytes();
    try {
      run_to_target(context, point, record);
    } catch (const Stop& stop) {
      if (stop.code() == exit_interrupted) throw;
      record.trials.clear();
      return not_run(std::move(record), "failed", stop.what());
    }
    return finished(context, std::move(record));
  }

  const DType dtype = dtype_of(point.precision);
  summary.of_ceiling_reason = job.agree(why_no_ceiling(point, job, context.device.info().threads));
  const bool has_ceiling = summary.of_ceiling_reason.empty();
  if (!has_ceiling) context.progress.line(fmt::format("warning: {}: no of_ceiling: {}", point.id, summary.of_ceiling_reason));
  const auto ceiling = [&](const Ceiling* earlier) {
    if (!has_ceiling) return Ceiling();
    context.progress.stage("timing the products alone");
    return measure_ceiling(context.device, point.network, dtype, point.micro_batch, point.seq_len,
                           context.plan.measurement.ceiling_seconds / 2, earlier);
  };
  Ceiling before, after;
  auto run = std::make_unique<PointRun>(context, point);
  try {
    together(job, [&] { before = ceiling(nullptr); });
    stop_if_interrupted(job);
    context.progress.stage("building plans and weights");
    reset_peak_resident_bytes();  // the network's, not that of the ceiling's operands
    together(job, [&] { run->set_up(context.plan.seed); });
  } catch (const Stop& stop) {
    if (stop.code() == exit_interrupted) throw;
    return not_run(std::move(record), "failed", stop.what());
  }
  run->connect();

  const Samples warm = run->warm_up();
  if (!run->is_steady_at_start()) record.verdict.flags.push_back("not_steady");
  // The later half of the warm-up tells the pace; the slowest rank's counts.
  std::vector<double> pace(warm.step_seconds.begin() + static_cast<std::ptrdiff_t>(warm.step_seconds.size() / 2), warm.step_seconds.end());
  const double estimate_seconds = job.maximum({pace.empty() ? 0.0 : quantile(pace, 0.5)}).front();
  auto steps_done = static_cast<std::int64_t>(warm.step_seconds.size());
  for (int trial = 0; trial < context.plan.measurement.trials; ++trial) {
    const Samples samples = run->window(estimate_seconds, trial);
    record.trials.push_back(merge(job, context.energy, samples));
    record.trials.back().first_step = steps_done;
    steps_done += static_cast<std::int64_t>(samples.step_seconds.size());
  }
  summary.op_share = run->profile();
  summary.planned_bytes_per_rank = run->planned_bytes();
  note_peak(job, summary);
  // Without the network, whose memory the plans for timing would come on top of.
  run.reset();
  try {
    together(job, [&] { after = ceiling(&before); });
  } catch (const Stop& stop) {  // a measured point is not lost for want of its second ceiling
    record.verdict.flags.push_back("ceiling_once");
    context.progress.line(fmt::format("warning: {}: the products were timed before the trials only: {}", point.id, stop.what()));
  }
  // The better of the two timings: a ceiling that is too low would flatter the step.
  if (has_ceiling) summary.ceiling_flops_per_s = job.sum({std::max(before.flops_per_s, after.flops_per_s)}).front();
  if (context.plan.measurement.steps) record.verdict.flags.push_back("steps_given");
  return finished(context, std::move(record));
}

}  // namespace tw
