#include "bench/plan/options/layers_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "bench/plan/options/input_kind.hpp"
#include "bench/plan/options/usage_error.hpp"
#include "models/catalog/described.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"

namespace tw::bench {
namespace {

/// Throws models::LayersFault.
models::NetworkDescription described_by(const std::string& model, const std::string& layers) {
  models::NetworkDescription network = models::described_network(model, layers);
  network.name += "-" + results::sha256_hex(layers).substr(0, 12);
  return network;
}

}  // namespace

std::string read_layers_file(const std::string& path, const std::string& config) {
  const std::string option = config.empty() ? "--layers-file" : config + ": /layers_file";
  const std::string text = read_input(option, path, {InputKind::layers});
  const auto fail = [&](const std::string& code, const std::string& what) {
    throw UsageError(code, fmt::format("{} {}: {}", option, path, what));
  };
  if (const std::string fault = results::json_fault(text); !fault.empty())
    fail("layers-json", fmt::format("not JSON: {}{}", fault,
                                    results::json_fault(text, true).empty()
                                        ? "; a file of layers has no // comments: use the key \"comment\""
                                        : ""));
  const auto json = nlohmann::json::parse(text);
  if (!json.is_object()) fail("layers-json", "must be a JSON object with the layers");
  std::string layers = json.dump();
  try {  // here, where the file has a name; all described models read the same layers
    models::described_network(models::described_models().front(), layers);
  } catch (const models::LayersFault& fault) {
    fail(fault.code(), results::text::printable(fault.what()));
  }
  return layers;
}

models::NetworkDescription network_of_layers(const std::string& model, const std::string& layers) {
  if (layers.empty())
    throw UsageError(
        "option-needs", "model",
        fmt::format("{} {} needs {}: add the file with its layers", key_ref("model"), model, key_ref("layers_file")));
  try {
    return described_by(model, layers);
  } catch (const models::LayersFault& fault) {
    throw UsageError(fault.code(), "layers_file",
                     fmt::format("{}: {}", key_ref("layers_file"), results::text::printable(fault.what())));
  }
}

bool is_name_of_layers(const std::string& name) {
  return std::ranges::any_of(models::described_models(),
                             [&](const std::string& model) { return name.starts_with(model + "-"); });
}

models::NetworkDescription recorded_network(const std::string& name, const std::string& layers) {
  if (layers.empty()) throw std::invalid_argument("the plan has no layers_file that describes the network");
  for (const std::string& model : models::described_models()) {
    if (!name.starts_with(model + "-")) continue;
    models::NetworkDescription network;
    try {
      network = described_by(model, layers);
    } catch (const models::LayersFault& fault) {
      throw std::invalid_argument("the plan's layers_file describes no network: " +
                                  results::text::printable(fault.what()));
    }
    if (network.name == name) return network;
    throw std::invalid_argument("the plan's layers_file describes \"" + network.name + "\"");
  }
  throw std::invalid_argument("no network of a layers_file has this name");
}

}  // namespace tw::bench
