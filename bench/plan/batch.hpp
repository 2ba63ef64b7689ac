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
  Indivisible(const std::string& key, const std::string& what, std::string its_advice)
      : UsageError("batch-not-divisible", key, what), why(what), advice(std::move(its_advice)) {}
  std::string why;  ///< with key_ref()
  std::string advice;
};

/// micro × accumulate × ranks = global: two of the three given (or defaulted) determine the last. Throws UsageError,
/// and Indivisible where the ranks cannot share it out.
void solve_batch(Point& point, std::optional<std::int64_t> micro, std::optional<std::int64_t> accumulate,
                 std::optional<std::int64_t> global);
/// `--micro-batch auto`: size 1 until another is found. Throws likewise, and where the network has batch norm.
void leave_batch_open(Point& point, std::optional<std::int64_t> accumulate, std::optional<std::int64_t> global);
/// Throws UsageError for a size that the network cannot have; Indivisible where it was not given and follows from a
/// task's batch.
void check_micro_batch(const Point& point, bool is_given);
/// Every rank evaluates its part of the held-out samples, in whole micro-batches. Throws Indivisible.
void check_evaluation(const Point& point);

}  // namespace tw::bench
