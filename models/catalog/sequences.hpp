// Which lengths of sequences a network takes, and what they are counted in.
#pragma once

#include <cstdint>
#include <string>

#include "models/catalog/description.hpp"

namespace tw::models {

/// Of masked tokens: two segments with words of their own between three special tokens.
constexpr std::int64_t shortest_masked_sequence = 8;

/// What the length of a sample counts: "tokens", or "time steps" of series.
const char* sequence_unit(DataKind kind);
/// Why a network whose samples are sequences does not take this length: "value too small for bert-tiny (minimum 8: …)".
/// Empty where it does.
std::string why_no_seq_len(const NetworkDescription& network, std::int64_t seq_len);

}  // namespace tw::models
