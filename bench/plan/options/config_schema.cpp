#include "bench/plan/options/config_schema.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "bench/plan/options/axes.hpp"
#include "bench/plan/options/run_options.hpp"
#include "models/catalog/nearest.hpp"
#include "results/record/schema_check.hpp"

namespace tw::bench {
namespace {

using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;

Ordered any_of(Ordered alternatives) { return {{"anyOf", std::move(alternatives)}}; }

Ordered schema_of(const ValueType& type) {
  const Ordered made = Ordered::parse(type.schema);
  return made.is_array() ? any_of(made) : made;
}

Ordered described(const std::string& wanted, const Ordered& schema) {
  Ordered out = {{"description", wanted}};
  out.update(schema);
  return out;
}

/// A value of the axis, or a list of them.
Ordered axis_schema(const Axis& axis) {
  const Ordered one = schema_of(axis.type);
  const Ordered list = {{"type", "array"}, {"minItems", 1}, {"items", one}};
  return described(axis.type.wanted + ", or a list of them", any_of(Ordered::array({one, list})));
}

Ordered required(const char* key) { return {{"required", Ordered::array({key})}}; }

/// What options are to each other.
Ordered dependencies() {
  Ordered all = Ordered::object();
  for (const RunOption& option : run_options()) {
    if (option.needs != nullptr) all[option.key] = Ordered::array({option.needs});
    if (option.excludes.empty()) continue;
    Ordered others = Ordered::array();
    for (const char* other : option.excludes) others.push_back(required(other));
    all[option.key]["not"] = any_of(std::move(others));
  }
  return all;
}

Ordered made_schema() {
  Ordered references = Ordered::object(), definitions = Ordered::object();
  for (const Axis& axis : axes_list()) {
    references[axis.key] = {{"$ref", std::string("#/definitions/") + axis.key}};
    definitions[axis.key] = axis_schema(axis);
  }
  definitions["grid"] = {{"type", "object"},
                         {"description", "an object with axes"},
                         {"properties", references},
                         {"additionalProperties", false}};
  Ordered properties = references;
  for (const RunOption& option : run_options())
    properties[option.key] = described(option.type.wanted, schema_of(option.type));
  properties["grids"] = {{"type", "array"},
                         {"minItems", 1},
                         {"description", "a list of objects with axes"},
                         {"items", {{"$ref", "#/definitions/grid"}}}};
  Ordered grids = required("grids");
  grids["properties"]["grids"]["items"] = required("model");
  const Ordered prices = any_of(Ordered::array({required("hour_price"), required("kwh_price")}));
  return {
      {"$schema", "http://json-schema.org/draft-07/schema#"},
      {"title", "trainwatt config"},
      {"description",
       "Config files for --config. Keys are the long option names with underscores. Each description completes the "
       "sentence \"KEY must be …\" of an error message."},
      {"type", "object"},
      {"properties", properties},
      {"additionalProperties", false},
      {"anyOf", Ordered::array({required("model"), grids})},
      {"dependencies", dependencies()},
      {"if", required("search")},
      {"then",
       {{"if", {{"properties", {{"search", {{"const", "cost"}}}}}}}, {"then", prices}, {"else", {{"not", prices}}}}},
      {"definitions", definitions}};
}

/// One property a line.
std::string written(const Ordered& json, int depth) {
  if (!json.is_object() || json.empty() || depth == 0) return json.dump();
  const std::string indent(static_cast<std::size_t>(2 * (2 - depth)), ' ');
  std::string out;
  for (const auto& [key, value] : json.items())
    out += (out.empty() ? "{\n" : ",\n") + indent + "  " + Ordered(key).dump() + ": " + written(value, depth - 1);
  return out + "\n" + indent + "}";
}

/// What the schema says of the value at `pointer`: of its key, also for a value in a list.
const Json& schema_of(const Json& root, const Json::json_pointer& pointer) {
  const Json* schema = nullptr;
  for (Json::json_pointer above = pointer; (schema = results::asked_at(root, above)) == nullptr; above.pop_back()) {
  }
  return *schema;
}

/// All words that an enum anywhere in it allows.
void collect_words(const Json& schema, std::vector<std::string>& words) {
  if (const auto found = schema.find("enum"); found != schema.end())
    for (const Json& one : *found)
      if (auto word = one.get<std::string>(); std::ranges::find(words, word) == words.end()) words.push_back(word);
  if (const auto choices = schema.find("anyOf"); choices != schema.end())
    for (const Json& choice : *choices) collect_words(choice, words);
  if (const auto items = schema.find("items"); items != schema.end()) collect_words(*items, words);
}

std::vector<std::string> unknown_keys(const Json& object, const Json& schema, const std::string& place) {
  std::vector<std::string> known, faults, unlike;
  for (const auto& [key, value] : schema.at("properties").items()) known.push_back(key);
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) != known.end()) continue;
    const std::string close = models::nearest(key, known), word = models::cut_word(key);
    if (close.empty())
      unlike.push_back(place + "/" + word);
    else
      faults.push_back(fmt::format("unknown key {}/{}: did you mean '{}'?", place, word, close));
  }
  if (!unlike.empty())  // the known ones once, behind all that are like none of them
    faults.push_back(fmt::format("unknown key{} {} (known: {})", unlike.size() == 1 ? "" : "s", fmt::join(unlike, ", "),
                                 fmt::join(known, ", ")));
  return faults;
}

std::string does_not_fit(const Json& value, const Json& schema, const std::string& place) {
  std::string text = fmt::format("{} {}: must be {}", place.empty() ? "the file" : place, value.dump().substr(0, 80),
                                 schema.value("description", "something else"));
  std::vector<std::string> words;
  collect_words(schema, words);
  const std::string close = value.is_string() ? models::nearest(value.get<std::string>(), words) : "";
  return close.empty() ? text : text + fmt::format("; did you mean '{}'?", close);
}

/// Draft-07 takes 1.0 for an integer, and the library does not.
void write_whole_numbers_as_such(Json& json) {
  if (json.is_structured())
    for (Json& item : json) write_whole_numbers_as_such(item);
  if (!json.is_number_float()) return;
  const double number = json.get<double>();
  constexpr double beyond = 9223372036854775808.0;  // 2^63
  if (std::abs(number) < beyond && std::trunc(number) == number) json = static_cast<std::int64_t>(number);
}

}  // namespace

const std::string& config_schema_json() {
  static const std::string text = written(made_schema(), 2).append("\n");
  return text;
}

ConfigFaults config_faults(const std::string& config) {
  const Json document = Json::parse(config), root = Json::parse(config_schema_json());
  Json numbers = document;
  write_whole_numbers_as_such(numbers);
  ConfigFaults faults;
  std::vector<results::SchemaViolation> violations = results::schema_violations(numbers.dump(), config_schema_json());
  // A value of a list says more than the list.
  std::ranges::stable_sort(violations, std::ranges::greater(),
                           [](const results::SchemaViolation& one) { return std::ranges::count(one.pointer, '/'); });
  for (const results::SchemaViolation& violation : violations) {
    const Json::json_pointer pointer(violation.pointer);
    const Json& value = document.at(pointer);
    const Json& schema = schema_of(root, pointer);
    const auto add = [](std::vector<std::string>& list, const std::string& text) {
      if (std::ranges::find(list, text) == list.end()) list.push_back(text);
    };
    if (value.is_object() && schema.contains("properties")) {
      const std::vector<std::string> unknown = unknown_keys(value, schema, violation.pointer);
      for (const std::string& one : unknown) add(faults.named, one);
      if (unknown.empty())
        add(faults.others, (violation.pointer.empty() ? "/" : violation.pointer) + ": " + violation.what);
    } else if (value.is_array() && value.empty()) {
      add(faults.others, fmt::format("{} is empty: it must be {}", violation.pointer, schema.value("description", "")));
    } else if (value.is_array()) {
      add(faults.others, violation.pointer + ": " + violation.what);
    } else {
      add(faults.named, does_not_fit(value, schema, violation.pointer));
    }
  }
  return faults;
}

}  // namespace tw::bench
