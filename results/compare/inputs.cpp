// Reads what people write for a comparison: prices and baseline rules. Schemas say most of what may be wrong; what they
// say badly is said here first.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "results/compare/baseline.hpp"
#include "results/cost/cost.hpp"
#include "results/cost/plausible_prices.hpp"
#include "results/record/fields.hpp"
#include "results/record/report_io.hpp"
#include "results/record/schema_check.hpp"
#include "results/record/text.hpp"

namespace tw::results {
namespace {

using Json = nlohmann::ordered_json;  // rows stay in the order of the file

[[noreturn]] void fail(const std::string& where, const std::string& what) {
  throw std::runtime_error(where + ": " + what);
}

/// An object, no more than that.
Json read(const std::string& text) {
  if (const std::string fault = json_fault(text, true); !fault.empty()) throw std::runtime_error("not JSON: " + fault);
  Json json = Json::parse(text, nullptr, true, true);
  if (!json.is_object()) fail("/", std::string("must be an object, not ") + json.type_name());
  return json;
}

void hold_against(const std::string& text, const std::string& schema, const char* schema_name) {
  const std::vector<std::string> faults = schema_faults(text, schema);
  if (faults.empty()) return;
  throw std::runtime_error(fmt::format("{}{}; {} explains each field", faults[0],
                                       faults.size() > 1 ? fmt::format(" (and {} more)", faults.size() - 1) : "",
                                       schema_name));
}

/// Takes members that an object has by their own names (TW_FIELDS); the others stay as they are.
class Take {
 public:
  explicit Take(const Json& object) : object_(object) {}
  template <class T>
  void operator()(const char* key, T& into) const {
    if (const auto found = object_.find(key); found != object_.end()) into = found->get<T>();
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& into) const {
    if (const auto found = object_.find(key); found != object_.end()) into = found->get<T>();
  }

 private:
  const Json& object_;
};

/// What may be given beside the systems and in each.
void take_common(const Take& take, PriceRow& row) {
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

const char* const rule_kinds[] = {"variance", "value", "failure"};

/// The schema with, for each rule, the form of its kind alone: of a rule that fits none of several forms, a validator
/// tells what it lacks of the others, too.
std::string schema_of_kinds(const Json& json, Json schema) {
  const auto rules = json.find("rules");
  if (rules == json.end() || !rules->is_array() || rules->empty()) return schema.dump();
  Json forms = Json::array();
  for (const Json& rule : *rules)
    forms.push_back(schema["definitions"]["rule"]["oneOf"][static_cast<std::size_t>(
        std::ranges::find(rule_kinds, rule["kind"].get<std::string>()) - std::begin(rule_kinds))]);
  schema["properties"]["rules"]["items"] = std::move(forms);
  return schema.dump();
}

/// The kind first: which keys a rule may have hangs on it.
void check_rules(const Json& json, const Json& schema) {
  const auto rules = json.find("rules");
  if (rules == json.end() || !rules->is_array()) return;
  for (std::size_t i = 0; i < rules->size(); ++i) {
    const Json& rule = (*rules)[i];
    const std::string where = "/rules/" + std::to_string(i);
    if (!rule.is_object()) fail(where, "must be an object");
    const auto kind = std::ranges::find_if(
        rule_kinds, [&](const char* name) { return rule.contains("kind") && rule["kind"] == name; });
    if (kind == std::end(rule_kinds)) fail(where + "/kind", "must be variance, value or failure");
    const Json& form = schema["definitions"]["rule"]["oneOf"][static_cast<std::size_t>(kind - rule_kinds)];
    for (const auto& [key, value] : rule.items())
      if (!form["properties"].contains(key)) fail(where + "/" + key, std::string("is no key for a ") + *kind + " rule");
    for (const Json& key : form["required"])
      if (!rule.contains(key.get<std::string>())) fail(where, "has no " + key.get<std::string>());
    if (*kind == std::string("variance") && !rule.contains("most_below") && !rule.contains("most_above"))
      fail(where, "has neither most_below nor most_above");
    if (*kind == std::string("value") && !rule.contains("at_least") && !rule.contains("at_most"))
      fail(where, "has neither at_least nor at_most");
    if (rule.contains("at_least") && rule.contains("at_most") && rule["at_least"].is_number() &&
        rule["at_most"].is_number() && rule["at_least"].get<double>() > rule["at_most"].get<double>())
      fail(where, "has at_least above at_most, which no value can keep");
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

std::map<std::string, double> weights_from_json(const std::string& text) {
  std::map<std::string, double> weights;
  const Json json = read(text);
  for (const auto& [name, weight] : json.items()) {
    if (!weight.is_number() || weight.get<double>() < 0) fail("/" + name, "must be a number, at least 0");
    weights[name] = weight.get<double>();
  }
  if (weights.empty()) fail("/", "holds no weight");
  return weights;
}

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
    return fmt::format("row {} is the price of the hosts {}, and the report was made on {}: make sure that it is the "
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
  return fmt::format("row {} lists no hosts, and its name fits none of the report's host, processor and devices ({}): "
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

BaselineRules baseline_from_json(const std::string& text) {
  const Json json = read(text);
  const Json schema = Json::parse(baseline_schema_json);
  check_rules(json, schema);
  hold_against(text, schema_of_kinds(json, schema), "baseline.schema.json");
  BaselineRules result;
  const Take take_file(json);
  TW_FIELDS(take_file, result, note)
  const std::vector<std::string> figures = rule_figures();
  for (std::size_t i = 0; i < json["rules"].size(); ++i) {
    const Json& object = json["rules"][i];
    BaselineRule& rule = result.rules.emplace_back();
    const std::string where = "/rules/" + std::to_string(i);
    const Take take(object);
    TW_FIELDS(take, rule, name, figure, points, most_below, most_above, at_least, at_most, surely)
    rule.kind = static_cast<RuleKind>(std::ranges::find(rule_kinds, object["kind"].get<std::string>()) -
                                      std::begin(rule_kinds));
    std::string scope;
    std::vector<std::string> flags;
    take("scope", scope), take("flags", flags);
    rule.scope = named<Scope>(scope).value_or(Scope::none);  // the schema knows no other
    for (const std::string& flag : flags) {
      if (!named<Flag>(flag)) fail(where + "/flags", "\"" + flag + "\" is not a known flag");
      rule.flags.push_back(*named<Flag>(flag));
    }
    if (rule.kind == RuleKind::failure) continue;
    if (rule.most_below.value_or(0) >= 1)
      fail(where + "/most_below", "must be a share below 1, such as 0.05 for 5 %");
    if (std::ranges::find(figures, rule.figure) == figures.end()) {
      std::string known;
      for (const std::string& name : figures) known += (known.empty() ? "" : ", ") + name;
      fail(where + "/figure", "\"" + rule.figure + "\" is unknown; known: " + known);
    }
    if (rule.surely && std::ranges::count(compared_figures(), rule.figure, &ComparedFigure::name) == 0)
      fail(where + "/surely", "needs an interval, and " + rule.figure + " has none");
    const Merit* merit = find_merit(rule.figure);
    const bool of_joules = merit != nullptr && merit->by_scope;
    if (rule.kind == RuleKind::value && of_joules != (rule.scope != Scope::none))
      fail(where + "/scope", of_joules ? "is missing: joules of which scope?"
                                       : "says nothing about " + rule.figure + ", which has no joules");
  }
  return result;
}

}  // namespace tw::results
