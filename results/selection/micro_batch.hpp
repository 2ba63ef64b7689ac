// Which micro-batch `--micro-batch auto` takes of those that it tried.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "results/record/known_texts.hpp"
#include "results/record/record.hpp"

namespace tw::results {

/// Twice the micro-batch has to be this much faster to be worth its memory.
inline constexpr double least_gain_of_doubling = 0.02;
bool gains_by_doubling(const MicroBatchTrial& half, const MicroBatchTrial& whole);
/// The smallest size whose doubling gains less, or has no speed, or was not tried. Nullopt where the first has none.
std::optional<std::int64_t> chosen_micro_batch(const std::vector<MicroBatchTrial>& trials);

/// Whether whoever ran the plan has given the size.
inline bool is_declared(const MicroBatchSearch& search) {
  return search.trials.empty() && declared_by_option.is(search.stopped_by);
}
/// Whether the arguments of the launches of a run ("trainwatt-train", "--micro-batch", "16", …) declare this size; also
/// where they cannot tell: there are none, or a resumed run has the options of a launch that left no record.
bool declares(const std::vector<std::vector<std::string>>& launches, std::int64_t size);

/// How `stopped_by` begins after these trials, at least one: "doubling 4 gains less than 2 %", or "micro-batch 8: "
/// with the reason why that size has no speed or was not tried.
KnownReason end_of_search(const std::vector<MicroBatchTrial>& trials);

}  // namespace tw::results
