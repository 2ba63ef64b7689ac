#include "bench/plan/chosen_network.hpp"

#include <fmt/format.h>

#include <stdexcept>

#include "bench/plan/options/layers_file.hpp"
#include "bench/plan/options/usage_error.hpp"
#include "models/catalog/described.hpp"
#include "models/catalog/sequences.hpp"

namespace tw::bench {

models::NetworkDescription chosen_network(const std::string& model, const std::string& file, std::optional<int> layers,
                                          std::optional<std::int64_t> table_rows) {
  const bool is_described = models::is_described(model);
  models::NetworkDescription network;
  try {
    network = is_described ? network_of_layers(model, file) : models::find_network(model);
  } catch (const std::invalid_argument& error) {
    throw UsageError("unknown-name", "model", error.what());
  }
  if (layers && is_described)
    throw UsageError("option-does-not-apply", "layers",
                     fmt::format("{}: does not apply to {}: shorten the file", key_ref("layers"), model));
  try {
    if (layers) network = models::cut_layers(std::move(network), *layers);
  } catch (const std::invalid_argument& error) {
    throw bad_value("layers", std::to_string(*layers), error.what());
  }
  if (!table_rows) return network;
  if (network.shape->tables().rows.empty())
    throw UsageError("option-does-not-apply", "table_rows_at_most",
                     fmt::format("{}: {} has no tables: leave it out", key_ref("table_rows_at_most"), network.name));
  try {
    return models::limit_table_rows(std::move(network), *table_rows);
  } catch (const std::invalid_argument& error) {
    throw bad_value("table_rows_at_most", std::to_string(*table_rows), error.what());
  }
}

std::int64_t chosen_seq_len(const models::NetworkDescription& network, std::optional<std::int64_t> given,
                            std::int64_t usual) {
  if (!network.has_sequence()) {
    if (given)
      throw UsageError("option-does-not-apply", "seq_len",
                       fmt::format("{}: does not apply to {}, which trains on {}: leave it out", key_ref("seq_len"),
                                   network.name, models::to_string(network.data().kind)));
    return 0;
  }
  const std::int64_t seq_len = given.value_or(usual);
  if (const std::string why = models::why_no_seq_len(network, seq_len); !why.empty())
    throw bad_value("seq_len", std::to_string(seq_len), why);
  return seq_len;
}

}  // namespace tw::bench
