#include "models/catalog/description.hpp"

#include <cstddef>
#include <numeric>
#include <stdexcept>

#include "models/catalog/described.hpp"
#include "models/catalog/families.hpp"
#include "models/catalog/nearest.hpp"

namespace tw::models {

const char* to_string(DataKind kind) {
  static constexpr const char* names[] = {"tokens",           "images",          "masked_tokens",   "clicks",
                                          "segmented_images", "restored_images", "measured_images", "series"};
  return names[static_cast<std::size_t>(kind)];
}

const char* sample_name(DataKind kind) {
  static constexpr const char* names[] = {"sequence", "image", "sequence", "impression",
                                          "image",    "image", "image",    "sequence"};
  return names[static_cast<std::size_t>(kind)];
}

std::int64_t Tables::all_rows() const { return std::accumulate(rows.begin(), rows.end(), std::int64_t{0}); }

Tables NetworkShape::tables() const { return {}; }

const std::vector<NetworkDescription>& catalog() {
  static const std::vector<NetworkDescription> networks = [] {
    std::vector<NetworkDescription> all;
    for (const auto& [name, family] : families()) all.insert(all.end(), family.networks.begin(), family.networks.end());
    return all;
  }();
  return networks;
}

NetworkDescription find_network(const std::string& name) {
  std::vector<std::string> names;
  std::string list;
  for (const NetworkDescription& network : catalog()) {
    if (network.name == name) return network;
    names.push_back(network.name);
    list += (list.empty() ? "" : ", ") + network.name;
  }
  for (const std::string& described : described_models()) {
    if (described == name)
      throw std::invalid_argument("model '" + name + "' is described by a file of layers, which is not taken here");
    names.push_back(described);
    list += ", " + described;
  }
  const std::string meant = nearest(name, names);
  throw std::invalid_argument("unknown network '" + cut_word(name) + "'" +
                              (meant.empty() ? "" : ", did you mean '" + meant + "'?") + " (known: " + list + ")");
}

NetworkDescription cut_layers(NetworkDescription network, int layers) {
  const LayerCount has = network.shape->layers();
  if (layers < has.least || layers > has.count)
    throw std::invalid_argument(
        "cannot cut " + network.name + " to " + std::to_string(layers) + (layers == 1 ? " layer" : " layers") +
        ": it has " + std::to_string(has.count) + " " + has.name +
        (has.least == has.count ? ", and none can be left out"
                                : ", choose " + std::to_string(has.least) + " to " + std::to_string(has.count)));
  network.shape = network.shape->cut(layers);
  return network;
}

NetworkDescription limit_table_rows(NetworkDescription network, std::int64_t most) {
  constexpr std::int64_t least = 2;  // the synthetic clicks draw rows in pairs
  if (most < least)
    throw std::invalid_argument("tables need at least " + std::to_string(least) + " rows, not " + std::to_string(most));
  std::shared_ptr<const NetworkShape> shorter = network.shape->with_table_rows_at_most(most);
  if (!shorter) throw std::invalid_argument(network.name + " has no tables whose rows could be limited");
  network.shape = std::move(shorter);
  return network;
}

int layer_count(const NetworkDescription& network) { return network.shape->layers().count; }

std::int64_t count_parameters(const NetworkDescription& network) { return network.shape->count_parameters(); }

std::int64_t count_dense_parameters(const NetworkDescription& network) {
  return count_parameters(network) - network.shape->tables().elements();
}

OptimizerConfig default_optimizer(const NetworkDescription& network) {
  return network.shape->default_optimizer(network.default_micro_batch);
}

}  // namespace tw::models
