// The config file: a request as a user writes it down.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "bench/plan/options/axes.hpp"
#include "bench/plan/options/config_schema.hpp"
#include "bench/plan/options/input_kind.hpp"
#include "bench/plan/options/kit.hpp"
#include "bench/plan/options/layers_file.hpp"
#include "bench/plan/options/run_options.hpp"
#include "models/catalog/described.hpp"
#include "models/catalog/nearest.hpp"
#include "results/record/report_io.hpp"

namespace tw::bench {
namespace {

using Json = nlohmann::json;

[[noreturn]] void fail(const std::string& path, const std::string& what, const char* code = "bad-config") {
  throw UsageError(code, fmt::format("{}: {}", path, what));
}

/// Item by item, as text where it is a set point that was written as a number.
template <class T>
void read_values(const Axis& axis, const Json& value, std::vector<T>& into) {
  const ValueType& type = axis.type;
  for (const Json& item : value.is_array() ? value : Json::array({value})) {
    const OptionValue read = value_of(axis.key, type, item.dump());
    const auto* word = std::get_if<std::string>(&read);
    const auto* whole = std::get_if<std::int64_t>(&read);
    if constexpr (std::is_same_v<T, std::string>)
      into.push_back(word != nullptr ? *word : plain_text(read));
    else if (word != nullptr && *word == type.zero_word)
      into.push_back(0);
    else if (whole != nullptr && *whole == 0 && !type.zero_word.empty())
      throw bad_value(axis.key, "0", "value too small (minimum 1)");
    else if (whole != nullptr && std::in_range<T>(*whole))
      into.push_back(static_cast<T>(*whole));
    else
      throw UsageError("bad-value", axis.key,
                       fmt::format("{} {:.80}: must be {}", key_ref(axis.key), item.dump(), type.wanted));
  }
}

/// Reads the axes among the keys of an object; `place` is its JSON pointer.
Axes read_axes(const Request& request, const Json& object, const std::string& place) {
  Axes axes;
  axes.place = place;
  try {
    for (const Axis& axis : axes_list())
      if (const auto found = object.find(axis.key); found != object.end())
        with_values(axis, axes, [&](auto& values) { read_values(axis, *found, values); });
    check_axes(axes);
  } catch (const UsageError& error) {
    throw error.seen_in(request, &axes);
  }
  return axes;
}

/// Axes beside the grids are the defaults of those without.
void inherit(const std::string& path, const Axes& common, std::vector<Axes>& grids) {
  for (const Axis& axis : axes_list())
    with_values(axis, common, [&](const auto& from) {
      bool used = from.empty();
      for (Axes& grid : grids) {
        if (from.empty() || count_values(axis, grid) > 0) continue;
        with_values(axis, grid, [&](auto& to) {
          if constexpr (std::is_same_v<std::decay_t<decltype(from)>, std::decay_t<decltype(to)>>) to = from;
        });
        grid.shared.insert(axis.key);
        used = true;
      }
      if (!used)
        fail(path, fmt::format("/{} beside /grids has no effect: every grid has its own: leave it out", axis.key));
    });
}

std::vector<Axes> read_grids(const Request& request, const Json& json) {
  Axes common = read_axes(request, json, "");
  const auto grids = json.find("grids");
  if (grids == json.end()) {
    if (common.model.empty()) fail(request.config, "no network given: add \"model\" or \"grids\"", "no-model");
    return {std::move(common)};
  }
  if (!grids->is_array()) fail(request.config, "/grids must be a list of objects");
  if (grids->empty()) fail(request.config, "/grids is empty: add a grid, or leave it out");
  std::vector<Axes> all;
  for (const Json& grid : *grids) {
    const std::string place = fmt::format("/grids/{}", all.size());
    if (!grid.is_object()) fail(request.config, place + " must be an object");
    all.push_back(read_axes(request, grid, place));
  }
  inherit(request.config, common, all);
  if (std::ranges::any_of(all, [](const Axes& axes) { return axes.model.empty(); }))
    fail(request.config, "a grid has no model: add \"model\"", "no-model");
  return all;
}

void read_options(Request& request, const Json& json) {
  GivenOptions given;
  try {
    for (const RunOption& option : run_options())
      if (const auto found = json.find(option.key); found != json.end())
        given[option.key] = value_of(option.key, option.type, found->dump());
    take_over(given, request);
  } catch (const UsageError& error) {
    throw error.seen_in(request);
  }
}

/// `object`: of "model", at `place`.
void check_models(const std::string& path, const Json& object, const std::string& place) {
  const auto names = object.find("model");
  if (names == object.end()) return;
  for (std::size_t i = 0; i < (names->is_array() ? names->size() : 1); ++i) {
    try {
      const std::string name = names->is_array() ? (*names)[i] : *names;
      if (!models::is_described(name)) models::find_network(name);
    } catch (const std::invalid_argument& error) {
      const std::string item = names->is_array() ? fmt::format("/{}", i) : "";
      fail(path, fmt::format("{}/model{}: {}", place, item, error.what()), "unknown-name");
    }
  }
}

}  // namespace

std::string read_config_text(const std::string& path) {
  const std::string text = read_input("--config", path, {InputKind::config, InputKind::kit});
  if (!results::json_fault(text, true).empty()) return text;  // its reader says so
  Json json = Json::parse(text, nullptr, true, true);
  const auto layers = json.is_object() ? json.find("layers_file") : json.end();
  if (layers == json.end() || !layers->is_string()) return text;
  if (layers->get_ref<const std::string&>().empty())
    fail(path, "/layers_file: is empty: name a file of layers, or leave it out", "bad-value");
  *layers = Json::parse(read_layers_file(layers->get<std::string>(), path));
  return json.dump();
}

Request read_config(const std::string& path, const std::string& text) {
  if (const std::string fault = results::json_fault(text, true); !fault.empty())
    fail(path, "is not JSON that trainwatt reads: " + fault);
  const Json json = Json::parse(text, nullptr, true, true);
  if (json.is_object() && json.contains(kit_key)) {
    const Kit kit = open_kit(path, text);
    Request request = read_config(path, kit.config_json);
    request.suite = kit.suite;
    request.kit = results::KitInfo{kit.title, kit.sha256};
    return request;
  }
  if (!json.is_object()) fail(path, "must be a JSON object");
  const ConfigFaults faults = config_faults(json.dump());
  if (!faults.named.empty()) fail(path, fmt::format("{}", fmt::join(faults.named, "; ")));
  Request request;
  request.suite = path;
  request.config = path;
  read_options(request, json);
  request.axes = read_grids(request, json);
  if (!faults.others.empty()) fail(path, fmt::format("{}", fmt::join(faults.others, "; ")));
  check_models(path, json, "");
  if (const auto grids = json.find("grids"); grids != json.end())
    for (std::size_t i = 0; i < grids->size(); ++i) check_models(path, (*grids)[i], fmt::format("/grids/{}", i));
  return request;
}

}  // namespace tw::bench
