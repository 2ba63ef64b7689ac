#include "bench/train/point/step_loop.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>
#include <numeric>
#include <set>

#include "bench/plan/batch.hpp"
#include "bench/train/job/interruption.hpp"
#include "bench/train/job/outcome.hpp"
#include "bench/train/point/point_config.hpp"
#include "comm/registry.hpp"
#include "models/compute/error.hpp"
#include "models/compute/machine_fault.hpp"
#include "results/analysis/statistics.hpp"
#include "results/analysis/to_target.hpp"
#include "results/record/report_io.hpp"

namespace tw::bench {
namespace {

void take(Samples& samples, const models::StepResult& result, double seconds) {
  samples.step_seconds.push_back(seconds);
  samples.loss.push_back(result.loss);
  samples.gradient_norm.push_back(result.gradient_norm);
  samples.phases.data += result.phases.data;
  samples.phases.forward += result.phases.forward;
  samples.phases.backward += result.phases.backward;
  samples.phases.communication += result.phases.communication;
  samples.phases.optimizer += result.phases.optimizer;
}

}  // namespace

PointRun::PointRun(RunContext& context, const Point& point)
    : context_(context), point_(point), stream_(context.device.create_stream()) {}

void PointRun::set_up(std::uint64_t seed) {
  models::TrainerConfig config = trainer_config(point_, context_.plan, context_.job.rank());
  config.seed = seed;
  config.graphs = !context_.plan.eager;
  const auto fail = [&](const char* what) {
    throw models::Error(models::Failure::environment,
                        fmt::format("{} (the point {})", what, memory_needed(config, context_.device)));
  };
  try {
    steps_ = context_.steps(context_.device, config);
  } catch (const std::bad_alloc& error) {
    fail(error.what());
  } catch (const models::MachineFault&) {  // no smaller point helps
    throw;
  } catch (const models::Error& error) {
    if (error.failure() != models::Failure::environment) throw;
    fail(error.what());
  }
}

// Each rank has chosen for itself.
std::optional<std::map<std::string, std::vector<std::string>>> PointRun::implementations() const {
  results::Record mine;
  mine.execution.emplace().implementations = steps_->implementations();
  std::map<std::string, std::set<std::string>> found;
  for (const std::string& text : context_.job.gather(results::to_json_line(mine))) {
    const results::Record its = results::record_from_json(text);
    for (const auto& [product, names] : its.execution->implementations.value())
      found[product].insert(names.begin(), names.end());
  }
  if (found.empty()) return std::nullopt;
  std::map<std::string, std::vector<std::string>> all;
  for (const auto& [product, names] : found) all[product].assign(names.begin(), names.end());
  return all;
}

results::Execution PointRun::execution() const {
  results::Execution execution;
  execution.step_mode = steps_->uses_graphs() ? results::StepMode::graph : results::StepMode::eager;
  execution.recompute = point_.recomputed_layers > 0;
  execution.recomputed_layers = point_.recomputed_layers;
  execution.deterministic = context_.plan.is_deterministic();
  execution.communicator = communicator_->name();
  execution.route = communicator_->route();
  if (point_.ranks > 1) execution.reduce_precision = models::to_string(reduce_type(context_.plan));
  execution.implementations = implementations();
  if (models::scales_loss(precision_of(point_.precision)))
    execution.loss_scaling = results::LossScaling{last_.loss_scale, last_.skipped_steps};
  return execution;
}

void PointRun::connect() {
  try {
    communicator_ = comm::create_communicator(context_.plan.comm, context_.job, context_.device);
  } catch (const models::ApiError&) {  // of MPI itself, by which the ranks agree
    throw;
  } catch (const models::Error& error) {  // thrown on all ranks alike
    throw Stop(exit_environment, coded(error));
  }
  steps_->connect(*communicator_);
  bucketer_ = std::make_unique<comm::Bucketer>(
      *communicator_, context_.device, static_cast<std::int64_t>(context_.bucket_mib * 1024 * 1024),
      comm::Bucketer::Start::by_communicator, std::string(), reduce_type(context_.plan));
  sync_.ready = [this](models::Stream& stream, models::Tensor gradients, models::GradientRange range) {
    bucketer_->ready(stream, gradients, range.begin, range.end);
  };
  sync_.piece_bytes = bucketer_->piece_bytes();
  sync_.finish = [this](models::Stream& stream, models::Tensor gradients) { bucketer_->finish(stream, gradients); };
}

Samples PointRun::warm_up() {
  Samples samples;
  const EnergyWindow::WarmUp watched(context_.energy);
  const Measurement& measurement = context_.plan.measurement;
  const double most = measurement.window_seconds;
  communicator_->barrier(*stream_);
  stream_->synchronize();
  const auto start = steps_->now();
  if (context_.started) samples.start_seconds = std::chrono::duration<double>(start - *context_.started).count();
  context_.progress.stage("warm-up");
  const bool judges = !measurement.steps;
  bool changes = judges;
  int count = 0, next_look = 0;  // each tenth of the steps: a look takes longer the more there are
  while (true) {
    const bool looks = count >= next_look;
    if (looks) settle(samples);
    if (looks && judges) changes = !results::is_steady(samples.step_seconds, measurement.window_seconds);
    if (looks) next_look = count + count / 10 + 1;
    const auto now =
        context_.job.maximum({seconds_since(start), interruption_requested() ? 1.0 : 0.0, changes ? 1.0 : 0.0});
    if (now[1] > 0) throw Stop(exit_interrupted, interrupted_by_signal);
    const bool may_end = !judges || (looks && now[2] == 0) || now[0] >= most;
    if (count >= measurement.warmup_steps && may_end) break;
    step(samples);
    ++count;
  }
  settle(samples);
  samples.window_seconds = seconds_since(start);
  // Of the steps as they are recorded: those since the last look too.
  const bool is_flat = !judges || results::is_steady(samples.step_seconds, measurement.window_seconds);
  is_steady_ = context_.job.maximum({is_flat ? 0.0 : 1.0}).front() == 0;
  if (steps_->runs_ahead()) keep_pace(samples.step_seconds);
  return samples;
}

// The window's end is decided upon by the host's clock, which is ahead of the steps by those in flight.
void PointRun::keep_pace(const std::vector<double>& step_seconds) {
  constexpr double ahead_seconds = 0.5;
  const std::size_t count = std::min<std::size_t>(step_seconds.size(), 10);  // the last: the first ones build things
  const double mine =
      std::accumulate(step_seconds.end() - static_cast<std::ptrdiff_t>(count), step_seconds.end(), 0.0) /
      static_cast<double>(std::max<std::size_t>(1, count));
  step_pace_ = context_.job.maximum({mine}).front();
  const double steps = step_pace_ > 0 ? std::clamp(ahead_seconds / step_pace_, 2.0, 1e4) : 1e4;
  steps_->set_ahead(static_cast<int>(steps));
}

Samples PointRun::window(int trial) {
  const Measurement& measurement = context_.plan.measurement;
  const std::int64_t limit = measurement.steps.value_or(std::numeric_limits<std::int64_t>::max());
  return measured([&](Samples& samples, Clock::time_point start) {
    Lookout lookout(context_.job, std::min(1.0, measurement.window_seconds / 8), step_pace_);
    for (std::int64_t done = 1; done <= limit; ++done) {
      step(samples);
      const std::optional<double> seconds = lookout.look(done, seconds_since(start));
      if (!seconds) continue;
      if (!measurement.steps && *seconds >= measurement.window_seconds) break;
      context_.progress.stage(measurement.steps ? fmt::format("step {}/{}", done, limit)
                                                : fmt::format("trial {}/{}", trial + 1, measurement.trials));
    }
  });
}

Samples PointRun::to_target(const results::Target& target, results::TargetRun& run) {
  return measured([&](Samples& samples, Clock::time_point start) {
    Lookout lookout(context_.job, 1.0);
    std::int64_t done = 0;
    for (bool ended = false; !ended;) {
      step(samples);
      ++done;
      if (done % target.evaluation_interval != 0 && done != target.most_steps) {
        lookout.look(done, seconds_since(start));
        continue;
      }
      settle(samples);
      const double before = seconds_since(start);
      results::Evaluation& now = run.evaluations.emplace_back(evaluate_held_out(context_.job, *steps_, point_));
      now.step = done;
      now.time_s = seconds_since(start);
      run.evaluation_s += now.time_s - before;
      const double metric = results::metric_of(target, now);
      ended = !std::isfinite(metric) || results::reaches(target, now) || done == target.most_steps;
      context_.progress.stage(fmt::format("seed {}: {}", run.seed, results::progress_words(target, now)));
    }
  });
}

OperatorTimes operator_times(const models::OpProfile& profile, double step_seconds) {
  const double whole = std::max(step_seconds, std::accumulate(profile.seconds.begin(), profile.seconds.end(), 0.0));
  OperatorTimes times;
  for (std::size_t op = 0; op < profile.seconds.size(); ++op) {
    if (profile.calls[op] == 0) continue;
    const char* const name = models::to_string(static_cast<models::Op>(op));
    times.seconds[name] = profile.seconds[op];
    times.shares[name] = profile.seconds[op] / whole;
  }
  return times;
}

OperatorTimes PointRun::profile() {
  models::Device& device = context_.device;
  device.reset_profile();
  Samples samples;
  if (steps_->runs_ahead()) step(samples);
  device.set_profiling(true);
  try {
    step(samples);
    settle(samples);
  } catch (...) {
    device.set_profiling(false);
    throw;
  }
  device.set_profiling(false);
  return operator_times(device.profile(), samples.step_seconds.back());
}

Samples PointRun::measured(const std::function<void(Samples&, Clock::time_point start)>& work) {
  Samples samples;
  communicator_->barrier(*stream_);
  stream_->synchronize();
  // CPU times are read outside of the meters' edges, which lie next to the steps' own.
  samples.node_before = read_cpu_times();
  samples.cpu_seconds = -process_cpu_seconds();
  const auto step_clock = [this] { return steps_->now(); };
  const auto start = context_.energy.begin(step_clock);
  if (context_.started) samples.start_seconds = std::chrono::duration<double>(start - *context_.started).count();
  try {
    work(samples, start);
    settle(samples);
    stream_->synchronize();
  } catch (...) {
    if (context_.job.size() == 1) context_.energy.end();  // the next point has a window, too
    throw;
  }
  const auto end = context_.energy.end(step_clock);
  samples.window_seconds = std::chrono::duration<double>(end - start).count();
  samples.cpu_seconds += process_cpu_seconds();
  samples.node_after = read_cpu_times();
  return samples;
}

double PointRun::seconds_since(Clock::time_point start) const {
  return std::chrono::duration<double>(steps_->now() - start).count();
}

void PointRun::step(Samples& samples) {
  if (steps_->runs_ahead()) return steps_->enqueue(sync_);
  const auto start = steps_->now();
  const models::StepResult result = steps_->step(sync_);
  take(samples, result, seconds_since(start));
  last_ = result;
}

void PointRun::settle(Samples& samples) {
  if (!steps_->runs_ahead()) return;
  for (const models::StepResult& result : steps_->collect()) {
    take(samples, result, result.seconds);
    last_ = result;
  }
}

results::Evaluation evaluate_held_out(comm::Job& job, StepSource& steps, const Point& point) {
  double loss = 0, correct = 0, predictions = 0;
  const std::int64_t batches = point.task->held_out_samples / point.micro_batch;
  for (std::int64_t batch = job.rank(); batch < batches; batch += job.size()) {
    const models::EvaluationResult result = steps.evaluate(static_cast<std::uint64_t>(batch));
    loss += result.loss;
    correct += static_cast<double>(result.correct);
    predictions += static_cast<double>(result.predictions);
  }
  const std::vector<double> all = job.sum({loss, correct, predictions, interruption_requested() ? 1.0 : 0.0});
  if (all[3] > 0) throw Stop(exit_interrupted, interrupted_by_signal);
  results::Evaluation evaluation;
  evaluation.loss = all[0] / static_cast<double>(batches);
  if (point.task->metric == models::TaskDescription::Metric::error) evaluation.error = 1 - all[1] / all[2];
  return evaluation;
}

/// Over the ranks, of each step.
static std::vector<double> mean_losses(comm::Job& job, const std::vector<double>& mine) {
  std::vector<double> losses = job.sum(mine);
  for (double& loss : losses) loss /= job.size();
  return losses;
}

results::Trial merge(comm::Job& job, EnergyWindow& energy, const Samples& mine) {
  results::Trial trial;
  trial.step_time_s = job.maximum(mine.step_seconds);
  trial.loss = mean_losses(job, mine.loss);
  trial.gradient_norm = mine.gradient_norm;  // of the reduced gradient: equal on all ranks
  const models::PhaseSeconds& p = mine.phases;
  const std::vector<double> phases = job.sum({p.data, p.forward, p.backward, p.communication, p.optimizer});
  const double steps = static_cast<double>(mine.step_seconds.size()) * job.size();
  const char* names[] = {"data", "forward", "backward", "communication", "optimizer"};
  for (std::size_t i = 0; i < phases.size(); ++i) trial.phase_s[names[i]] = steps > 0 ? phases[i] / steps : 0;
  trial.window_s = job.maximum({mine.window_seconds}).front();
  trial.start_s = mine.start_seconds;  // the first rank's, which keeps the record
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

results::WarmUp merge_warm_up(comm::Job& job, const Samples& mine) {
  results::WarmUp warm_up;
  const std::size_t kept = std::min(mine.loss.size(), results::warm_up_losses);
  warm_up.loss =
      mean_losses(job, std::vector<double>(mine.loss.begin(), mine.loss.begin() + static_cast<std::ptrdiff_t>(kept)));
  warm_up.step_time_s = job.maximum(mine.step_seconds);
  warm_up.window_s = job.maximum({mine.window_seconds}).front();
  warm_up.start_s = mine.start_seconds;
  return warm_up;
}

double fastest_step(RunContext& context, const Point& point, Measurement& measurement,
                    const std::function<int(double)>& more) {
  PointRun run(context, point);
  together(context.job, [&] { run.set_up(context.plan.seed); });
  run.connect();
  const auto least_of = [&](int steps) {
    measurement.warmup_steps = steps;
    return std::ranges::min(context.job.maximum(run.warm_up().step_seconds));
  };
  least_of(1);
  const double first = least_of(1);
  return first > long_step_seconds ? first : std::min(first, least_of(more(first)));
}

results::TargetRun merge(comm::Job& job, results::TargetRun run) {
  std::vector<double> seconds = {run.evaluation_s};
  for (const results::Evaluation& evaluation : run.evaluations) seconds.push_back(evaluation.time_s);
  seconds = job.maximum(std::move(seconds));
  run.evaluation_s = seconds[0];
  for (std::size_t i = 0; i < run.evaluations.size(); ++i) run.evaluations[i].time_s = seconds[i + 1];
  return run;
}

}  // namespace tw::bench
