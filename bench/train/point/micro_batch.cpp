#include "bench/train/point/micro_batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <optional>

#include "bench/plan/batch.hpp"
#include "bench/train/job/interruption.hpp"
#include "bench/train/job/outcome.hpp"
#include "bench/train/point/point_config.hpp"
#include "bench/train/point/step_loop.hpp"
#include "models/compute/error.hpp"
#include "models/compute/machine_fault.hpp"
#include "results/selection/search.hpp"

namespace tw::bench {
namespace {

/// For a second.
int steps_to_time(double step_seconds) {
  constexpr double least_steps = 3, most_steps = 20;
  return static_cast<int>(
      std::clamp(std::ceil(timed_seconds_of_size / std::max(step_seconds, 1e-9)), least_steps, most_steps));
}

/// The point's speed, or the reason why there is none (collective).
void time_size(RunContext& context, const Point& point, Measurement& measurement, results::MicroBatchTrial& trial) {
  comm::Job& job = context.job;
  trial.reason = job.agree(why_too_large(point, context.plan, job, context.device));
  if (!trial.reason.empty()) return;
  try {
    context.device.trim();
    trial.samples_per_s =
        static_cast<double>(point.global_batch()) / fastest_step(context, point, measurement, steps_to_time);
  } catch (const Stop& stop) {  // agreed upon
    if (stop.code() == exit_interrupted) throw;
    trial.reason = without_code(stop.what());
  } catch (const models::MachineFault&) {  // no smaller size helps
    throw;
  } catch (const models::Error& error) {  // in a step, in whose collectives the other ranks may be
    if (job.size() > 1) throw;
    trial.reason = error.what();
  } catch (const std::bad_alloc& error) {
    if (job.size() > 1) throw;
    trial.reason = error.what();
  }
  context.device.trim();
}

}  // namespace

results::MicroBatchSearch find_micro_batch(RunContext& context, const Point& point) {
  results::MicroBatchSearch found;
  if (context.plan.declared_micro_batch) {
    found.chosen = *context.plan.declared_micro_batch;
    found.stopped_by = results::declared_by_option.text();
    return found;
  }
  RunPlan few_steps = context.plan;
  few_steps.measurement.steps = 1;
  RunContext its{.job = context.job,
                 .device = context.device,
                 .plan = few_steps,
                 .energy = context.energy,
                 .progress = context.progress,
                 .bucket_mib = context.bucket_mib,
                 .steps = context.steps};
  for (std::int64_t size = 1;; size *= 2) {
    std::string why;
    const std::optional<Point> sized = with_micro_batch(point, size, why);
    if (!sized) {
      found.stopped_by = results::no_such_micro_batch.text({std::to_string(size), why});
      break;
    }
    stop_if_interrupted(context.job);
    context.progress.stage(fmt::format("finding the micro-batch: {}", size));
    results::MicroBatchTrial& trial = found.trials.emplace_back();
    trial.micro_batch = size;
    time_size(its, *sized, few_steps.measurement, trial);
    const bool is_first = found.trials.size() == 1;
    if (!trial.samples_per_s || (!is_first && !results::gains_by_doubling(*(found.trials.end() - 2), trial))) {
      found.stopped_by = results::end_of_search(found.trials).text();
      break;
    }
  }
  const std::optional<std::int64_t> chosen = results::chosen_micro_batch(found.trials);
  if (!chosen) throw Stop(exit_environment, "micro-batch-none", "no micro-batch fits: " + found.stopped_by);
  found.chosen = *chosen;
  return found;
}

std::map<std::string, results::MicroBatchSearch> recalled_micro_batches(const RunPlan& plan,
                                                                        const std::vector<results::Record>& records) {
  std::map<std::string, results::MicroBatchSearch> found;
  for (const results::Record& record : records) {
    const auto point = std::ranges::find(plan.points, record.id, &Point::id);
    if (record.micro_batch_search && point != plan.points.end())
      found.insert_or_assign(size_key(*point), *record.micro_batch_search);
  }
  return found;
}

}  // namespace tw::bench
