// Builds the blocks of a network. Each family defines tw::models::family::NAME::blocks() in its folder: build_blocks()
// for its networks, with micro_batch ≥ 1. It throws Error{usage} for a sequence or description that does not fit.
#pragma once

#include "models/catalog/families.hpp"
#include "models/network/network.hpp"

namespace tw::models {

/// Builds the blocks of a described network for one micro-batch shape. seq_len is ignored for images.
/// Throws Error{usage} for a batch, sequence or description that does not fit.
std::vector<std::unique_ptr<Block>> build_blocks(const NetworkDescription& network, Precision precision,
                                                 std::int64_t micro_batch, std::int64_t seq_len);

}  // namespace tw::models

#define TW_FAMILY(name)                                                                              \
  namespace tw::models::family::name {                                                               \
  std::vector<std::unique_ptr<Block>> blocks(const NetworkDescription& network, Precision precision, \
                                             std::int64_t micro_batch, std::int64_t seq_len);        \
  }
#include TW_FAMILY_LIST
#undef TW_FAMILY
