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

struct Family {
  std::vector<NetworkDescription> networks{};  ///< in the order of `trainwatt models`
  std::vector<TaskDescription> tasks{};        ///< with a target, of these networks
  /// Of a family whose networks are described by files, under the family's name: reads one (described.hpp). Else null.
  NetworkDescription (*of_layers)(const std::string& json) = nullptr;
};

/// Sizes that have `layers`, with the first so many.
template <class Sizes>
Sizes first_layers(Sizes sizes, int layers) {
  sizes.layers = layers;
  return sizes;
}

/// Batch norms behind the convolutions of `products`, one behind each; each shape once.
std::vector<Norm> batch_norms(const std::vector<Product>& products);

/// Each line of families.def, by name.
const std::vector<std::pair<std::string, Family>>& families();

}  // namespace tw::models

#define TW_FAMILY(name)                \
  namespace tw::models::family::name { \
  Family describe();                   \
  }
#include TW_FAMILY_LIST
#undef TW_FAMILY
