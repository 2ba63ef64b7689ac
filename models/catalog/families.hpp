// The list of families. Each defines tw::models::family::NAME::describe() in models/families/NAME/description.cpp.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/catalog/description.hpp"
#include "models/catalog/tasks.hpp"

// A program of tests may be compiled with a longer list.
#ifndef TW_FAMILY_LIST
#define TW_FAMILY_LIST "models/families/families.def"
#endif

namespace tw::models {

/// Elements that a block takes for one micro-batch.
struct BlockElements {
  double output = 0;  ///< what it hands to the next block: kept even where its layer is recomputed
  double saved = 0;   ///< at least, of what else its backward reads: not kept there
};

struct Family {
  std::vector<NetworkDescription> networks{};  ///< in the order of `trainwatt models`
  std::vector<TaskDescription> tasks{};        ///< with a target, of these networks
  /// Of a family whose networks are described by files, under the family's name: reads one (described.hpp). Else null.
  NetworkDescription (*of_layers)(const std::string& json) = nullptr;
  /// Of one of its networks, for least_memory(): the block in front of the layers, then each of these (LayerCount).
  std::vector<BlockElements> (*blocks)(const NetworkDescription& network, std::int64_t micro_batch,
                                       std::int64_t seq_len) = nullptr;
  /// Of one of its networks, for least_memory(): elements of what NetworkShape::products() of as many layers read, each
  /// tensor once, without the network's input. Null: hardly two of its products read the same.
  double (*read_by_products)(const NetworkDescription& network, std::int64_t micro_batch, std::int64_t seq_len,
                             int layers) = nullptr;
};

/// Sizes that have `layers`, with the first so many.
template <class Sizes>
Sizes first_layers(Sizes sizes, int layers) {
  sizes.layers = layers;
  return sizes;
}

/// Batch norms behind the convolutions of `products`, one behind each; each shape once.
std::vector<Norm> batch_norms(const std::vector<Product>& products);

/// Family::blocks of equal layers that map rows of `width` to such rows and begin with a norm: what their products read
/// is saved.
std::vector<BlockElements> equal_blocks(const NetworkDescription& network, std::int64_t micro_batch,
                                        std::int64_t seq_len, std::int64_t width);

/// Each line of families.def, by name.
const std::vector<std::pair<std::string, Family>>& families();

}  // namespace tw::models

#define TW_FAMILY(name)                \
  namespace tw::models::family::name { \
  Family describe();                   \
  }
#include TW_FAMILY_LIST
#undef TW_FAMILY
