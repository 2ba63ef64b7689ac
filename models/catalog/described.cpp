#include "models/catalog/described.hpp"

#include <algorithm>

#include "models/catalog/families.hpp"

namespace tw::models {

std::vector<std::string> described_models() {
  std::vector<std::string> names;
  for (const auto& [name, family] : families())
    if (family.of_layers != nullptr) names.push_back(name);
  return names;
}

bool is_described(const std::string& model) { return std::ranges::count(described_models(), model) > 0; }

NetworkDescription described_network(const std::string& model, const std::string& layers_json) {
  for (const auto& [name, family] : families())
    if (family.of_layers != nullptr && name == model) return family.of_layers(layers_json);
  throw std::invalid_argument("'" + model + "' is not a network that a file describes");
}

}  // namespace tw::models
