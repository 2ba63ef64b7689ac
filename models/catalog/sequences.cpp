#include "models/catalog/sequences.hpp"

namespace tw::models {

const char* sequence_unit(DataKind kind) { return kind == DataKind::series ? "time steps" : "tokens"; }

std::string why_no_seq_len(const NetworkDescription& network, std::int64_t seq_len) {
  const DataDescription data = network.data();
  const bool is_masked = data.kind == DataKind::masked_tokens;
  const std::int64_t shortest = is_masked ? shortest_masked_sequence : 1;
  if (seq_len < shortest)
    return "value too small for " + network.name + " (minimum " + std::to_string(shortest) +
           (is_masked ? ": two segments between three special tokens)" : ")");
  if (seq_len > data.longest_sequence)
    return "value too large for " + network.name + " (maximum " + std::to_string(data.longest_sequence) + ")";
  return {};
}

}  // namespace tw::models
