#include "bench/train/point/micro_batch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <new>
#include <numeric>
#include <optional>

#include "bench/plan/batch.hpp"
#include "bench/train/job/interruption.hpp"
#include "bench/train/job/outcome.hpp"
#include "bench/train/point/point_config.hpp"
#include "bench/train/point/step_loop.hpp"
#include "models/compute/error.hpp"
#include "models/compute/machine_fault.hpp"
#include "results/analysis/statistics.hpp"
#include "results/selection/search.hpp"

namespace tw::bench {
namespace {

/// A size of the search.
struct Size {
  explicit Size(const Point& its) : point(its) {}
  Point point;
  double step_seconds = 0;     // of its first turn
  std::vector<double> speeds;  // samples/s of each turn
  double median_speed() const { return results::quantile(speeds, 0.5); }
};

/// Times sizes by turns, of one network at a time: a size needs no more memory than alone.
class Turns {
 public:
  /// `measurement`: that of the context's plan.
  Turns(RunContext& context, Measurement& measurement) : context_(context), measurement_(measurement) {}
  /// samples/s in the fastest of these steps, because another program's bursts only slow steps down; 0: as many as a
  /// turn has. The first step of a network builds things and is not timed (collective).
  double take(Size& size, int steps) {
    if (size_ != &size) build(size);
    std::vector<double> seconds = step(steps > 0 ? steps : 1);
    if (steps == 0)
      for (const double more : step(steps_of_turn(seconds.front()) - 1)) seconds.push_back(more);
    const double fastest = std::ranges::min(seconds);
    if (size.speeds.empty()) size.step_seconds = fastest;
    size.speeds.push_back(static_cast<double>(size.point.global_batch()) / std::max(fastest, 1e-9));
    return size.speeds.back();
  }
  /// So many steps of this length are timed in a turn: for 0.2 s where they are short, of a long one only one.
  static int steps_of_turn(double step_seconds) {
    constexpr double least_steps = 3, most_steps = 20, long_step_seconds = 5;
    if (step_seconds > long_step_seconds) return 1;
    return static_cast<int>(
        std::clamp(std::ceil(timed_seconds_of_turn / std::max(step_seconds, 1e-9)), least_steps, most_steps));
  }
  /// What the turns so far took in steps; equal on all ranks.
  double timed_seconds() const { return timed_seconds_; }
  /// Gives the network's memory back.
  void end() {
    run_.reset();
    size_ = nullptr;
    context_.device.trim();
  }

 private:
  void build(const Size& size) {
    end();
    run_.emplace(context_, size.point);
    together(context_.job, [&] { run_->set_up(context_.plan.seed); });
    run_->connect();
    size_ = &size;
    step(1);
  }
  /// The slowest rank's seconds of each.
  std::vector<double> step(int count) {
    if (count < 1) return {};
    measurement_.warmup_steps = count;
    std::vector<double> seconds = context_.job.maximum(run_->warm_up().step_seconds);
    timed_seconds_ = std::accumulate(seconds.begin(), seconds.end(), timed_seconds_);
    return seconds;
  }

  RunContext& context_;
  Measurement& measurement_;
  const Size* size_ = nullptr;  // whose network there is
  std::optional<PointRun> run_;
  double timed_seconds_ = 0;
};

/// Why `work`, which takes turns, could not be done; empty if it was (collective).
std::string why_not(comm::Job& job, Turns& turns, const std::function<void()>& work) {
  try {
    work();
    return {};
  } catch (const Stop& stop) {  // agreed upon
    turns.end();
    if (stop.code() == exit_interrupted) throw;
    return std::string(without_code(stop.what()));
  } catch (const models::MachineFault&) {  // no smaller size helps
    throw;
  } catch (const models::Error& error) {  // in a step, in whose collectives the other ranks may be
    turns.end();
    if (job.size() > 1) throw;
    return error.what();
  } catch (const std::bad_alloc& error) {
    turns.end();
    if (job.size() > 1) throw;
    return error.what();
  }
}

/// Blocks of a turn of each until they decide whether the greater size gains enough, or are too many or too long. Their
/// order changes from block to block, so that a machine that slows down steadily favours neither, and each network is
/// built once per block.
results::DoublingGain compare(RunContext& context, Turns& turns, Size& half, Size& whole) {
  const int steps = Turns::steps_of_turn(half.step_seconds);
  const double start = turns.timed_seconds();
  results::DoublingGain gain;
  std::vector<double> ratios;
  do {
    context.progress.stage(fmt::format("finding the micro-batch: {} and {}, block {}", half.point.micro_batch,
                                       whole.point.micro_batch, ratios.size() + 1));
    const bool is_half_first = ratios.size() % 2 == 0;
    const double first = turns.take(is_half_first ? half : whole, steps),
                 second = turns.take(is_half_first ? whole : half, steps);
    ratios.push_back(is_half_first ? second / first : first / second);
    gain = results::judge_doubling(ratios);
  } while (!gain.is_decided && ratios.size() < results::most_blocks &&
           (ratios.size() < results::blocks_if_near || turns.timed_seconds() - start < timed_seconds_of_pair));
  return gain;
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
  Turns turns(its, few_steps.measurement);
  std::deque<Size> sizes;  // their places last: a network refers to its size
  for (std::int64_t size = 1;; size *= 2) {
    std::string why;
    const std::optional<Point> sized = with_micro_batch(point, size, why);
    if (!sized) {
      found.stopped_by = results::no_such_micro_batch.text({std::to_string(size), why});
      break;
    }
    stop_if_interrupted(context.job);
    turns.end();  // its memory counts as available
    Size* const half = sizes.empty() ? nullptr : &sizes.back();
    Size& whole = sizes.emplace_back(*sized);
    results::MicroBatchTrial& trial = found.trials.emplace_back();
    trial.micro_batch = size;
    trial.reason = context.job.agree(why_too_large(*sized, few_steps, context.job, context.device));
    std::optional<results::DoublingGain> gain;
    if (trial.reason.empty())
      trial.reason = why_not(context.job, turns, [&] {
        if (half != nullptr)
          gain = compare(its, turns, *half, whole);
        else
          turns.take(whole, 0);
      });
    if (trial.reason.empty()) trial.samples_per_s = whole.median_speed(), trial.over_half = std::move(gain);
    if (half != nullptr)
      (found.trials.end() - 2)->samples_per_s = half->median_speed();  // of the turns beside this one, too
    if (!trial.samples_per_s || (half != nullptr && !results::gains_by_doubling(*(found.trials.end() - 2), trial))) {
      found.stopped_by = results::end_of_search(found.trials).text();
      if (trial.over_half && !trial.over_half->is_decided)
        context.progress.warn("micro-batch-undecided", fmt::format("{}: {}", point.id, found.stopped_by));
      break;
    }
  }
  turns.end();
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
