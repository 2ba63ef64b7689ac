// Each family defines tw::models::family::NAME::blocks() in its folder: build_blocks() of models/network/network.hpp
// for its networks, with micro_batch ≥ 1. Throws Error{usage} for a sequence or description that does not fit.
#pragma once

#include "models/catalog/families.hpp"
#include "models/network/network.hpp"

#define TW_FAMILY(name)                                                                              \
  namespace tw::models::family::name {                                                               \
  std::vector<std::unique_ptr<Block>> blocks(const NetworkDescription& network, Precision precision, \
                                             std::int64_t micro_batch, std::int64_t seq_len);        \
  }
#include TW_FAMILY_LIST
#undef TW_FAMILY
