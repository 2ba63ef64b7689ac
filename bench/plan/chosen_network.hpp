// The network that options choose, and the length of its samples.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "models/catalog/description.hpp"

namespace tw::bench {

/// --model, with the content of the file of layers that a described one needs (empty: none), cut by --layers and
/// --table-rows-at-most. Throws UsageError that names the option.
models::NetworkDescription chosen_network(const std::string& model, const std::string& file, std::optional<int> layers,
                                          std::optional<std::int64_t> table_rows);

/// --seq-len, or where it is not given `usual`; 0 where the network's samples have no length. Throws UsageError.
std::int64_t chosen_seq_len(const models::NetworkDescription& network, std::optional<std::int64_t> given,
                            std::int64_t usual);

}  // namespace tw::bench
