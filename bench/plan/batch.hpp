// How the samples of a step are shared out: micro-batch × accumulation × ranks.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "bench/plan/plan.hpp"

namespace tw::bench {

/// A batch that these ranks cannot share out: left out beside combinations that can; `advice` is for who has no other.
class Indivisible : public UsageError {
 public:
  Indivisible(const std::string& key, const std::string& what, std::string its_advice, std::string its_ranks)
      : UsageError("batch-not-divisible", key, what),
        why(what),
        advice(std::move(its_advice)),
        ranks(std::move(its_ranks)) {}
  struct Words {
    std::string why, with_advice;  ///< `why`: beside combinations that can
  };
  /// Whoever runs a suite or a kit cannot change its batch, only the number of ranks: `why` has that advice, too.
  Words words(bool is_suite, bool is_kit) const;

  std::string why;  ///< with key_ref()
  std::string advice;
  std::string ranks;  ///< what helps where the batch is fixed: "choose 1, 2, 4 or 8 ranks"; empty: no number helps
};

/// "choose 1, 2, 4 or 8 ranks": the numbers up to the first above `ranks` by which `parts` can be divided; where these
/// are more than six, the last six. None is above a hundred times `ranks`. Empty where there is no part.
std::string choose_ranks(std::int64_t parts, int ranks);

/// micro × accumulate × ranks = global: two of the three given (or defaulted) determine the last. Throws UsageError,
/// and Indivisible where the ranks cannot share it out.
void solve_batch(Point& point, std::optional<std::int64_t> micro, std::optional<std::int64_t> accumulate,
                 std::optional<std::int64_t> global);
/// The same with the global batch of the point's task; neither given: accumulation 1.
void share_out_task(Point& point, std::optional<std::int64_t> micro, std::optional<std::int64_t> accumulate);
/// `--micro-batch auto`: size 1 until another is found. Throws likewise, and where the network has batch norm.
void leave_batch_open(Point& point, std::optional<std::int64_t> accumulate, std::optional<std::int64_t> global);
/// How long the steps of each size of `--micro-batch auto` are timed where a step is short; and how often the chosen
/// size, its half and its double are timed again, in turn: once where a step is long, since other programs disturb the
/// mean of such a step less than a few short ones.
inline constexpr double timed_seconds_of_size = 0.5, long_step_seconds = 2;
inline constexpr int rounds_around_the_choice = 2;
/// How many steps of `step_seconds` each are timed for a size, after its first two.
int steps_to_time(double step_seconds);
/// The point with the micro-batch that was declared, where the plan leaves it open.
Point at_declared_size(const Point& point, const RunPlan& plan);
/// How many sizes an automatic point has: 1, 2, 4, … up to the last that with_micro_batch() takes.
int count_sizes(const Point& point);
/// Throws UsageError for a size that the network cannot have; Indivisible where it was not given and follows from a
/// task's batch.
void check_micro_batch(const Point& point, bool is_given);
/// Every rank evaluates its part of the held-out samples, in whole micro-batches. Throws Indivisible.
void check_evaluation(const Point& point);

}  // namespace tw::bench
