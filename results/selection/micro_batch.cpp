#include "results/selection/micro_batch.hpp"

#include <fmt/format.h>

#include <string_view>

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

bool declares(const std::vector<std::vector<std::string>>& launches, std::int64_t size) {
  constexpr std::string_view option = "--micro-batch";
  const std::string wanted = std::to_string(size);
  bool has_words = false, is_resumed = false, is_given = false;
  for (const std::vector<std::string>& words : launches)
    for (std::size_t i = 0; i < words.size(); ++i) {
      has_words = true;
      const std::string_view word = words[i];
      is_resumed = is_resumed || word.starts_with("--resume");
      if (!word.starts_with(option)) continue;
      const std::string_view rest = word.substr(option.size());
      if (!rest.empty() && !rest.starts_with('=')) continue;
      is_given = true;
      if ((rest.empty() ? i + 1 < words.size() && words[i + 1] == wanted : rest.substr(1) == wanted)) return true;
    }
  return !has_words || (is_resumed && !is_given);
}

KnownReason end_of_search(const std::vector<MicroBatchTrial>& trials) {
  const MicroBatchTrial& last = trials.back();
  if (!last.samples_per_s) return {no_such_micro_batch, {std::to_string(last.micro_batch), last.reason}};
  if (trials.size() > 1 && !gains_by_doubling(trials[trials.size() - 2], last))
    return {doubling_gains_little,
            {std::to_string(last.micro_batch / 2), fmt::format("{:.0f}", 100 * least_gain_of_doubling)}};
  return {no_such_micro_batch, {std::to_string(2 * last.micro_batch), ""}};
}

}  // namespace tw::results
