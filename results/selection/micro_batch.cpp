#include "results/selection/micro_batch.hpp"

#include <fmt/format.h>

namespace tw::results {

bool gains_by_doubling(const MicroBatchTrial& half, const MicroBatchTrial& whole) {
  return half.samples_per_s && whole.samples_per_s &&
         *whole.samples_per_s >= (1 + least_gain_of_doubling) * *half.samples_per_s;
}

std::optional<std::int64_t> chosen_micro_batch(const std::vector<MicroBatchTrial>& trials) {
  if (trials.empty() || !trials.front().samples_per_s) return std::nullopt;
  std::size_t chosen = 0;
  while (chosen + 1 < trials.size() && gains_by_doubling(trials[chosen], trials[chosen + 1])) ++chosen;
  return trials[chosen].micro_batch;
}

std::string end_of_search(const std::vector<MicroBatchTrial>& trials) {
  const MicroBatchTrial& last = trials.back();
  if (!last.samples_per_s) return fmt::format("micro-batch {}: {}", last.micro_batch, last.reason);
  if (trials.size() > 1 && !gains_by_doubling(trials[trials.size() - 2], last))
    return fmt::format("doubling {} gains less than {:.0f} %", last.micro_batch / 2, 100 * least_gain_of_doubling);
  return fmt::format("micro-batch {}: ", 2 * last.micro_batch);
}

}  // namespace tw::results
