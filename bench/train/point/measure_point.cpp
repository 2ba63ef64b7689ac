#include "bench/train/point/measure_point.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <sstream>
#include <string_view>

#include "bench/ceiling/ceiling.hpp"
#include "bench/inventory/inventory.hpp"
#include "bench/plan/reference_steps.hpp"
#include "bench/terminal/error_line.hpp"
#include "bench/train/job/interruption.hpp"
#include "bench/train/job/outcome.hpp"
#include "bench/train/point/micro_batch.hpp"
#include "bench/train/point/point_config.hpp"
#include "bench/train/point/step_loop.hpp"
#include "models/compute/error.hpp"
#include "models/compute/machine_fault.hpp"
#include "results/analysis/verdict.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"

namespace tw::bench {
namespace {

results::Workload workload_of(const Point& point, const RunContext& context) {
  results::Workload workload;
  workload.model = point.network.name;
  workload.layers = point.layers;
  workload.table_rows_at_most = point.table_rows_at_most;
  workload.data = models::to_string(point.network.data().kind);
  workload.device = context.plan.device;
  workload.precision = point.precision;
  workload.micro_batch = point.micro_batch;
  workload.accumulate = point.accumulate;
  workload.global_batch = point.global_batch();
  if (point.network.has_sequence()) workload.seq_len = point.seq_len;
  workload.ranks = point.ranks;
  workload.threads_per_rank = context.device.info().threads;
  workload.optimizer = models::to_string(models::default_optimizer(point.network).kind);
  workload.seed = context.plan.seed;
  workload.parameters = models::count_parameters(point.network);
  return workload;
}

/// The largest rank's memory since it was last reset (collective).
void note_peak(RunContext& context, results::Summary& summary) {
  const std::vector<double> peak = context.job.maximum(
      {static_cast<double>(peak_resident_bytes()), static_cast<double>(context.device.peak_allocated_bytes())});
  summary.peak_resident_bytes_per_rank = static_cast<std::uint64_t>(peak[0]);
  summary.peak_device_memory_bytes_per_rank = static_cast<std::uint64_t>(peak[1]);
}

/// Adds what a run of the point's steps was like to what those before were.
void note_execution(const PointRun& run, results::Record& record) {
  const std::int64_t skipped =
      record.execution && record.execution->loss_scaling ? record.execution->loss_scaling->skipped_steps : 0;
  record.execution = run.execution();
  if (record.execution->loss_scaling) record.execution->loss_scaling->skipped_steps += skipped;
}

/// Completes a record that has all its trials: what the settings showed along them, and what follows (collective).
void finish(RunContext& context, results::Record& record) {
  record.verdict.flags.insert(record.verdict.flags.begin(), context.flags.begin(), context.flags.end());
  record.summary.energy_reason = context.energy_reason;
  if (context.settings) context.settings->observe(record.setting);
  observe_settings(record.setting, record.trials, context.gpus);
  results::summarise(record);
}

/// What is known of a point before it is run.
results::Record described(const Point& point, const RunContext& context) {
  results::Record record;
  record.id = point.id;
  record.workload = workload_of(point, context);
  if (point.task) record.target = target_of(point, record.workload);
  record.prices = context.plan.prices;
  record.workload.hash = results::workload_hash(record.workload, record.target);
  record.summary.model_flops_per_sample = models::model_flops_per_sample(point.network, point.seq_len);
  if (point.recomputed_layers > 0)
    record.summary.hardware_flops_per_sample =
        record.summary.model_flops_per_sample +
        models::recomputed_flops_per_sample(point.network, point.seq_len, point.recomputed_layers);
  record.summary.flops_rule = models::flops_rule();
  return record;
}

/// The record of a point that has no trials.
results::Record not_run(results::Record record, results::Status status, const std::string& reason) {
  record.verdict = results::Verdict{status, {}, {reason}};
  results::summarise(record);  // why each figure is absent
  return record;
}

/// Of a point that has ended with an error that has its code.
results::Status status_of(std::string_view coded) {
  return code_of(coded) == unsupported_code ? results::Status::unsupported : results::Status::failed;
}

/// Why a point ended; with the memory that it needs, where it wanted some in vain.
std::string why_ended(const std::exception& error, const RunContext& context, const Point& point) {
  const auto* known = dynamic_cast<const models::Error*>(&error);
  if (known != nullptr && known->failure() != models::Failure::environment) return error.what();
  if (dynamic_cast<const models::MachineFault*>(&error) != nullptr) return error.what();
  return fmt::format("{} (the point {})", error.what(),
                     memory_needed(trainer_config(point, context.plan, context.job.rank()), context.device));
}

class TrainerSteps : public StepSource {
 public:
  TrainerSteps(models::Device& device, const models::TrainerConfig& config) : trainer_(device, config) {}
  void connect(models::Exchange& exchange) override { trainer_.connect(exchange); }
  models::StepResult step(const models::GradientSync& sync) override { return trainer_.step(sync); }
  bool runs_ahead() const override { return trainer_.runs_ahead(); }
  void enqueue(const models::GradientSync& sync) override { trainer_.enqueue_step(sync); }
  std::vector<models::StepResult> collect() override { return trainer_.collect(); }
  void set_ahead(int steps) override { trainer_.set_ahead(steps); }
  models::EvaluationResult evaluate(std::uint64_t batch_index) override { return trainer_.evaluate(batch_index); }
  std::uint64_t planned_bytes() const override { return trainer_.memory().total(); }
  std::map<std::string, std::vector<std::string>> implementations() const override {
    return trainer_.implementations();
  }
  bool uses_graphs() const override { return trainer_.uses_graphs(); }

 private:
  models::Trainer trainer_;
};

/// One run to the target, from new weights (collective).
void run_seed(RunContext& context, const Point& point, std::uint64_t seed, results::Record& record) {
  comm::Job& job = context.job;
  stop_if_interrupted(job);
  context.progress.stage("building plans and weights");
  PointRun run(context, point);
  together(job, [&] { run.set_up(seed); });
  run.connect();
  stop_if_interrupted(job);
  results::TargetRun target_run;
  target_run.seed = seed;
  const Samples samples = run.to_target(*record.target, target_run);
  record.trials.push_back(merge(job, context.energy, samples));
  record.trials.back().target_run = merge(job, std::move(target_run));
  record.summary.planned_bytes_per_rank = run.planned_bytes();
  note_execution(run, record);
}

/// Trains the point to its target with each of its seeds (collective). Throws Stop on all ranks where a network does
/// not fit, or a signal asked for the end: what the seeds before have reached is then lost, and the Stop says how many
/// these are.
void run_to_target(RunContext& context, const Point& point, results::Record& record) {
  context.device.trim();
  context.device.reset_peak_allocated_bytes();
  for (const std::uint64_t seed : point.seeds) {
    try {
      run_seed(context, point, seed, record);
    } catch (const Stop& stop) {
      if (stop.code() != exit_interrupted) throw;
      throw Stop(exit_interrupted, fmt::format("{} after {} of {} seeds", interrupted_by_signal, record.trials.size(),
                                               point.seeds.size()));
    }
  }
  note_peak(context, record.summary);
  record.summary.of_ceiling_reason = "not measured in runs to a target";
}

/// Trains the point for its windows, between two timings of its products (collective). Throws Stop on all ranks if it
/// does not fit.
void run_windows(RunContext& context, const Point& point, results::Record& record) {
  comm::Job& job = context.job;
  results::Summary& summary = record.summary;
  const models::Precision precision = precision_of(point.precision);
  summary.of_ceiling_reason = job.agree(why_no_ceiling(point, job, context.device));
  const bool has_ceiling = summary.of_ceiling_reason.empty();
  if (!has_ceiling)
    context.progress.warn("no-ceiling", fmt::format("{}: no of_ceiling: {}", point.id, summary.of_ceiling_reason));
  const auto ceiling = [&](const Ceiling* earlier) {
    if (!has_ceiling) return Ceiling();
    return measure_ceiling(context.device, point.network, precision, point.micro_batch, point.seq_len,
                           context.plan.measurement.ceiling_seconds / 2, earlier, [&] {
                             context.progress.stage("timing the products alone");
                             if (interruption_requested()) throw Stop(exit_interrupted, interrupted_by_signal);
                           });
  };
  Ceiling before, after;
  auto run = std::make_unique<PointRun>(context, point);
  together(job, [&] { before = ceiling(nullptr); });
  stop_if_interrupted(job);
  context.progress.stage("building plans and weights");
  context.device.trim();
  context.device.reset_peak_allocated_bytes();
  reset_peak_resident_bytes();  // the network's, not that of the ceiling's operands
  together(job, [&] { run->set_up(context.plan.seed); });
  run->connect();

  const Samples warm = run->warm_up();
  if (!run->is_steady_at_start()) record.verdict.flags.push_back(results::Flag::not_steady);
  record.warm_up = merge_warm_up(job, warm);
  auto steps_done = static_cast<std::int64_t>(warm.step_seconds.size());
  for (int trial = 0; trial < context.plan.measurement.trials; ++trial) {
    const Samples samples = run->window(trial);
    record.trials.push_back(merge(job, context.energy, samples));
    record.trials.back().first_step = steps_done;
    steps_done += static_cast<std::int64_t>(samples.step_seconds.size());
  }
  note_execution(*run, record);
  try {
    OperatorTimes times = run->profile();
    summary.op_share = std::move(times.shares);
    summary.op_seconds = std::move(times.seconds);
  } catch (const models::Error&
               error) {  // nor because the operators' shares failed; of several ranks the others are in a collective
    if (job.size() > 1) throw;
    context.progress.warn("no-operator-shares", fmt::format("{}: no shares of operators: {}", point.id, error.what()));
  }
  summary.planned_bytes_per_rank = run->planned_bytes();
  note_peak(context, summary);
  // Without the network, whose memory the plans for timing would come on top of.
  run.reset();
  try {
    together(job, [&] { after = ceiling(&before); });
  } catch (const Stop& stop) {  // a measured point is not lost because its second ceiling failed
    if (stop.code() == exit_interrupted) throw;
    record.verdict.flags.push_back(results::Flag::ceiling_once);
    context.progress.warn("ceiling-once", fmt::format("{}: the ceiling was measured only before the trials: {}",
                                                      point.id, without_code(stop.what())));
  }
  // The better of the two timings: a ceiling that is too low would flatter the step.
  if (has_ceiling) summary.ceiling_flops_per_s = job.sum({std::max(before.flops_per_s, after.flops_per_s)}).front();
  if (context.plan.measurement.steps) record.verdict.flags.push_back(results::Flag::steps_given);
}

/// What was found for this size before, by the first rank; nullopt where nothing was (collective over the job).
std::optional<results::MicroBatchSearch> known_micro_batch(RunContext& context, const Point& point) {
  if (!point.is_automatic || context.micro_batches == nullptr) return std::nullopt;
  results::Record known;
  const auto found = context.micro_batches->find(size_key(point));
  if (found != context.micro_batches->end()) known.micro_batch_search = found->second;
  return results::record_from_json(context.job.broadcast(results::to_json_line(known))).micro_batch_search;
}

/// The point at its size, which is the record's from here on. An automatic point takes the one that is known, or finds
/// it (collective over the ranks that train).
Point at_its_size(RunContext& context, const Point& point, std::optional<results::MicroBatchSearch> known,
                  results::Record& record) {
  if (!point.is_automatic) return point;
  record.micro_batch_search = known ? std::move(known) : find_micro_batch(context, point);
  std::string why;
  const std::optional<Point> sized = with_micro_batch(point, record.micro_batch_search->chosen, why);
  if (!sized) throw Stop(exit_usage, "bad-value", fmt::format("{}: micro-batch {}", point.id, why));
  if (why = context.job.agree(why_too_large(*sized, context.plan, context.job, context.device)); !why.empty())
    throw Stop(exit_environment, "micro-batch-none", fmt::format("micro-batch {}: {}", sized->micro_batch, why));
  reset_peak_resident_bytes();  // of the sizes that were tried
  results::Workload& workload = record.workload;
  workload.micro_batch = sized->micro_batch, workload.accumulate = sized->accumulate;
  workload.global_batch = sized->global_batch();
  return *sized;
}

/// The first ranks of a job do `work`, which may throw Stop on all of them, while the others sleep; then all ranks have
/// its record, or throw that Stop (collective over the job).
template <class Work>
void while_others_sleep(comm::Job& job, bool works, results::Record& record, Work&& work) {
  std::optional<Stop> stop;
  try {
    if (works) work();
  } catch (const Stop& thrown) {
    stop = thrown;
  }
  job.meet();
  const std::string code = job.broadcast(stop ? std::to_string(stop->code()) : "");
  const std::string text = job.broadcast(stop ? stop->what() : results::to_json_line(record));
  if (!code.empty()) throw Stop(std::stoi(code), text);
  if (!works) record = results::record_from_json(text);
}

/// Leaves out devices that are set like all of the job's, but that no rank used: of other nodes, of ranks that slept.
void keep_devices_of(const Team* team, comm::Job& job, std::map<std::string, results::Setting>& settings) {
  std::string lines;
  if (team != nullptr) {
    for (const std::string& host : team->hosts) lines += host + "\n";
    for (const std::string& gpu : team->machines.visible_anywhere()) lines += gpu + "\n";
  }
  std::istringstream all(job.broadcast(lines));
  std::set<std::string> used;
  for (std::string one; std::getline(all, one);) used.insert(one);
  for (auto& [name, setting] : settings)
    std::erase_if(setting.devices, [&](const results::SettingRow& row) {
      return used.count(row.host) == 0 || (row.domain.starts_with("nvml:") && used.count(row.domain) == 0);
    });
}

/// A set point that some device did not take, and why; empty if all did.
std::string refused(const std::map<std::string, results::Setting>& settings) {
  for (const auto& [name, setting] : settings) {
    std::string why = setting.devices.empty() ? "no device has this knob" : "";
    for (const results::SettingRow& row : setting.devices)
      if (!row.accepted && why.empty()) why = fmt::format("{} on {}: {}", row.domain, row.host, row.reason);
    if (!why.empty()) return fmt::format("{} {}: {}", name, results::text::set_point(*setting.requested), why);
  }
  return {};
}

/// Has set points read back along the windows while it lives.
class Watched {
 public:
  Watched(EnergyWindow& energy, JobSettings* settings) : energy_(energy) {
    energy_.watch(settings != nullptr ? settings->watch() : nullptr);
  }
  ~Watched() { energy_.watch(nullptr); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  EnergyWindow& energy_;
};

}  // namespace

Team::Team(std::unique_ptr<comm::Job> its_job, const Machines& all, const power::MeterOptions& meters,
           const EnergyWindow& whole)
    : job(std::move(its_job)), machines(*job, all), energy(*job, machines, meters, &whole) {
  for (const std::string& one : job->gather(machines.host())) hosts.insert(one);
}

Team* Teams::first(int ranks) {
  const auto known = teams_.find(ranks);
  if (known != teams_.end()) return known->second.get();
  std::unique_ptr<comm::Job> part = job_.first(ranks);
  return (teams_[ranks] = part ? std::make_unique<Team>(std::move(part), machines_, meters_, whole_) : nullptr).get();
}

std::string why_lost(models::Device& device) {
  try {
    device.create_stream()->synchronize();
    return {};
  } catch (const std::exception& error) {
    return error.what();
  }
}

results::Record failed_point(const RunContext& context, const Point& point, const std::string& why) {
  return not_run(described(point, context), results::Status::failed, why);
}

void StepSource::enqueue(const models::GradientSync&) {
  throw models::Error(models::Failure::internal, "these steps cannot be enqueued");
}
std::vector<models::StepResult> StepSource::collect() { return {}; }

models::EvaluationResult StepSource::evaluate(std::uint64_t) {
  throw models::Error(models::Failure::internal, "these steps have nothing to evaluate");
}

std::unique_ptr<StepSource> trainer_steps(models::Device& device, const models::TrainerConfig& config) {
  return std::make_unique<TrainerSteps>(device, config);
}

RunContext RunContext::of(Team& team) const {
  return {.job = *team.job,
          .device = device,
          .plan = plan,
          .energy = team.energy,
          .progress = progress,
          .bucket_mib = bucket_mib,
          .energy_reason = energy_reason,
          .flags = flags,
          .settings = settings,
          .found = found,
          .gpus = team.machines.visible_anywhere(),
          .steps = steps,
          .teams = nullptr,
          .looks_after = looks_after,
          .started = started};
}

results::Record run_point(RunContext& whole, const Point& point) {
  comm::Job& job = whole.job;
  const bool all_train = point.ranks == job.size();
  Team* team = all_train ? nullptr : whole.teams->first(point.ranks);
  const bool trains = all_train || team != nullptr;
  std::optional<RunContext> of_team;
  if (team != nullptr) of_team.emplace(whole.of(*team));
  RunContext& context = of_team ? *of_team : whole;

  results::Record record = described(point, whole);
  if (const std::string why = job.agree(why_unsupported(point, whole.device)); !why.empty())
    return not_run(std::move(record), results::Status::unsupported, why);
  if (const std::string why = job.agree(trains ? why_too_large(point, whole.plan, context.job, whole.device) : "");
      !why.empty())
    return not_run(std::move(record), results::Status::failed, why);

  stop_if_interrupted(job);
  if (whole.settings) {
    whole.progress.stage("applying settings");
    record.setting = whole.settings->apply(point.setting);
    if (const std::string why = refused(record.setting); !why.empty())
      return not_run(std::move(record), results::Status::unsupported, why);
  }
  note_found(record.setting, whole.found);
  const Watched watched(context.energy, whole.settings != nullptr ? whole.settings : whole.looks_after);

  std::optional<results::MicroBatchSearch> known = known_micro_batch(whole, point);
  results::Record before = record;
  // What ends a point on its only rank ends that point alone. Of several, the others may be in the middle of a step's
  // collectives: there the job ends. --resume begins the point once more, and goes on behind it where it ends that job,
  // too (in_flight.hpp).
  const auto failed_alone = [&](const std::exception& error) {
    if (context.job.size() > 1) throw;
    record = not_run(before, status_of(coded(error)), why_ended(error, context, point));
  };
  const auto measure = [&] {
    try {
      const Point sized = at_its_size(context, point, std::move(known), record);
      before = record;
      if (sized.task)
        run_to_target(context, sized, record);
      else
        run_windows(context, sized, record);
    } catch (const Stop& stop) {
      if (stop.code() == exit_interrupted) throw;
      record = not_run(before, status_of(stop.what()), std::string(without_code(stop.what())));
    } catch (const models::Error& error) {
      failed_alone(error);
    } catch (const std::bad_alloc& error) {
      failed_alone(error);
    }
  };
  if (all_train) {
    measure();
  } else {
    keep_devices_of(team, job, record.setting);
    while_others_sleep(job, trains, record, measure);
  }
  if (record.micro_batch_search && whole.micro_batches != nullptr)
    whole.micro_batches->insert_or_assign(size_key(point), *record.micro_batch_search);
  if (!record.trials.empty()) finish(whole, record);
  return record;
}

}  // namespace tw::bench
