#include "bench/train/point/micro_batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>
#include <set>

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

/// The point's speed, the greater of this one and that before, or the reason why there is none (collective).
void time_size(RunContext& context, const Point& point, Measurement& measurement, results::MicroBatchTrial& trial) {
  comm::Job& job = context.job;
  const double before = trial.samples_per_s.value_or(0);
  trial.samples_per_s.reset();
  trial.reason = job.agree(why_too_large(point, context.plan, job, context.device));
  if (!trial.reason.empty()) return;
  try {
    context.device.trim();
    const double seconds = fastest_step(context, point, measurement, steps_to_time);
    trial.samples_per_s = std::max(before, static_cast<double>(point.global_batch()) / seconds);
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

/// The sizes of a point in the order 1, 2, 4, … (all calls are collective).
class Sizes {
 public:
  /// `measurement`: that of the context's plan.
  Sizes(RunContext& context, Measurement& measurement, const Point& point)
      : context_(context), measurement_(measurement), point_(point) {}

  /// Times further sizes as long as each gains enough over its half.
  void double_until_the_end() {
    while (results::is_search_open(found_.trials)) {
      const std::int64_t size = found_.trials.empty() ? 1 : 2 * found_.trials.back().micro_batch;
      std::string why;
      const std::optional<Point> sized = with_micro_batch(point_, size, why);
      if (!sized) {
        no_larger_ = results::no_such_micro_batch.text({std::to_string(size), why});
        return;
      }
      found_.trials.emplace_back().micro_batch = size;
      time(found_.trials.back(), *sized);
    }
  }

  /// Times the chosen size, its half and its double again in turn, since a disturbance of one of them may have made the
  /// choice; false if that was done before.
  bool time_again_around_the_choice() {
    const std::optional<std::int64_t> chosen = results::chosen_micro_batch(found_.trials);
    if (!chosen) return false;
    std::vector<results::MicroBatchTrial*> around;
    for (results::MicroBatchTrial& trial : found_.trials)
      if (trial.samples_per_s && 2 * trial.micro_batch >= *chosen && trial.micro_batch <= 2 * *chosen)
        around.push_back(&trial);
    const auto is_settled = [&](const auto* trial) { return settled_.contains(trial->micro_batch); };
    if (around.size() == 1 || std::ranges::all_of(around, is_settled)) return false;
    const double step_seconds =
        static_cast<double>(sized(*around.back()).global_batch()) / *around.back()->samples_per_s;
    for (int round = 0; round < (step_seconds > long_step_seconds ? 1 : rounds_around_the_choice); ++round) {
      for (results::MicroBatchTrial* trial : around) {
        settled_.insert(trial->micro_batch);
        time(*trial, sized(*trial));
      }
      std::ranges::reverse(around);  // a machine that slows down steadily favours none
    }
    return true;
  }

  /// Without the choice.
  results::MicroBatchSearch found() const {
    results::MicroBatchSearch all = found_;
    all.stopped_by = results::is_search_open(all.trials) ? no_larger_ : results::end_of_search(all.trials).text();
    return all;
  }

 private:
  Point sized(const results::MicroBatchTrial& trial) const {
    std::string why;
    return with_micro_batch(point_, trial.micro_batch, why).value();  // as when it was first timed
  }
  void time(results::MicroBatchTrial& trial, const Point& sized) {
    stop_if_interrupted(context_.job);
    context_.progress.stage(fmt::format("finding the micro-batch: {}", trial.micro_batch));
    time_size(context_, sized, measurement_, trial);
  }

  RunContext& context_;
  Measurement& measurement_;
  const Point& point_;
  results::MicroBatchSearch found_;
  std::string no_larger_;           // why there is no size after the last one
  std::set<std::int64_t> settled_;  // timed again beside their neighbours
};

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
  Sizes sizes(its, few_steps.measurement, point);
  sizes.double_until_the_end();
  while (sizes.time_again_around_the_choice()) sizes.double_until_the_end();
  found = sizes.found();
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
