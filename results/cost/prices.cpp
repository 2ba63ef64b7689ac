#include "results/cost/prices.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "results/cost/plausible_prices.hpp"
#include "results/record/fields.hpp"
#include "results/record/input_json.hpp"
#include "results/record/schema_check.hpp"
#include "results/record/text.hpp"

namespace tw::results {
namespace {

using input::fail, input::hold_against, input::read, input::Take;
using Json = nlohmann::ordered_json;  // rows stay in the order of the file

/// What may be given beside the systems and in each.
void take_common(const Take<Json>& take, PriceRow& row) {
  TW_FIELDS(take, row, electricity_per_kwh, pue, carbon_g_per_kwh, utilisation)
}

/// Which of the row's keys are given beside the systems, and which nowhere.
void tell_sources(const Json& file, const Json& system, const Json& schema, PriceRow& row) {
  for (const auto& [key, ignored] : schema["definitions"]["system"]["properties"].items()) {
    if (system.contains(key)) continue;
    const bool is_common = key != "note" && schema["properties"].contains(key);  // the file's note is another
    (is_common && file.contains(key) ? row.for_all : row.not_given).insert(key);
  }
}

/// Known keys, and rent or purchase: oneOf would say no more than that none fits.
void check_prices(const Json& json, const Json& schema) {
  const auto known = [](const Json& object, const Json& properties, const std::string& where) {
    for (const auto& [key, value] : object.items())
      if (!properties.contains(key)) {
        std::string all;
        for (const auto& [name, ignored] : properties.items()) all += (all.empty() ? "" : ", ") + name;
        fail(where + "/" + key, "is unknown; known: " + all);
      }
  };
  known(json, schema["properties"], "");
  const auto systems = json.find("systems");
  if (systems == json.end() || !systems->is_object()) return;  // the schema says so
  for (const auto& [name, row] : systems->items()) {
    if (name.empty()) fail("/systems/", "has no name: name the kind of node");
    if (!row.is_object()) continue;
    known(row, schema["definitions"]["system"]["properties"], "/systems/" + name);
    const bool rented = row.contains("rent_per_month"), bought = row.contains("capex");
    if (rented == bought)
      fail("/systems/" + name, rented ? "has rent_per_month and capex: a node is rented or bought"
                                      : "has neither rent_per_month nor capex with life_years");
    if (bought && !row.contains("life_years"))
      fail("/systems/" + name, "capex needs life_years (depreciation period in years)");
  }
}

bool lists(const PriceRow& row, const std::string& host) {
  return std::ranges::any_of(row.hosts, [&](const std::string& pattern) {
    return pattern.ends_with('*') ? host.starts_with(pattern.substr(0, pattern.size() - 1)) : host == pattern;
  });
}

/// "nvidia", "h100" of "NVIDIA H100": words of three letters and digits or more, in small letters.
std::set<std::string> name_words(const std::string& name) {
  constexpr std::size_t least = 3;
  std::set<std::string> words;
  std::string word;
  for (const char c : name + " ") {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      word += static_cast<char>(std::tolower(byte));
    } else {
      if (word.size() >= least) words.insert(word);
      word.clear();
    }
  }
  return words;
}

}  // namespace

Prices prices_from_json(const std::string& text) {
  const Json json = read(text);
  const Json schema = Json::parse(prices_schema_json);
  check_prices(json, schema);
  hold_against(text, prices_schema_json, "prices.schema.json");
  Prices prices;
  const Take take_file(json);
  TW_FIELDS(take_file, prices, currency, note)
  if (results::text::printable(prices.currency) != prices.currency)
    fail("/currency", "must not contain a control character");
  for (const auto& [name, object] : json["systems"].items()) {
    PriceRow& row = prices.rows.emplace_back();
    row.name = name;
    const Take take(object);
    take_common(take_file, row), take_common(take, row);
    TW_FIELDS(take, row, hosts, note, rent_per_month, electricity_included, capex, life_years, maintenance_per_year,
              fixed_opex_per_year, network_storage_capex, network_storage_power_w)
    row.file_note = prices.note;
    tell_sources(json, object, schema, row);
    if (const std::string impossible = impossible_price(row, prices.currency); !impossible.empty())
      throw std::runtime_error(impossible);
    row.doubts = implausible_prices(row, prices.currency);
  }
  return prices;
}

std::string price_doubt(const PriceRow& row, const std::string& system, const Report& report) {
  const Context& context = report.context;
  if (context.hosts.empty()) return {};
  std::vector<std::string> machine;
  const auto add = [&](const std::string& name) {
    if (!name.empty() && std::ranges::find(machine, name) == machine.end()) machine.push_back(name);
  };
  if (!row.hosts.empty()) {
    for (const HostInfo& host : context.hosts)
      if (!lists(row, host.name)) add(host.name);
    if (machine.empty()) return {};
    return fmt::format(
        "row {} is the price of the hosts {}, and the report was made on {}: make sure that it is the "
        "price of this machine",
        row.name, fmt::join(row.hosts, ", "), fmt::join(machine, ", "));
  }
  if (row.name == system) return {};
  for (const HostInfo& host : context.hosts) add(host.name), add(host.cpu);
  for (const DeviceEntry& device : context.devices) add(device.name);
  const std::set<std::string> of_row = name_words(row.name);
  for (const std::string& name : machine)
    for (const std::string& word : name_words(name))
      if (of_row.contains(word)) return {};
  return fmt::format(
      "row {} lists no hosts, and its name fits none of the report's host, processor and devices ({}): "
      "make sure that it is the price of this machine",
      row.name, fmt::join(machine, ", "));
}

const PriceRow* find_price(const Prices& prices, const std::string& name, const std::vector<std::string>& hosts) {
  const auto called = std::ranges::find(prices.rows, name, &PriceRow::name);
  if (called != prices.rows.end()) return &*called;
  const PriceRow* found = nullptr;
  for (const PriceRow& row : prices.rows) {
    const bool all =
        !hosts.empty() && std::ranges::all_of(hosts, [&](const std::string& host) { return lists(row, host); });
    if (all && found != nullptr) return nullptr;
    if (all) found = &row;
  }
  return found != nullptr || prices.rows.size() != 1 || !prices.rows[0].hosts.empty() ? found : &prices.rows[0];
}

}  // namespace tw::results
