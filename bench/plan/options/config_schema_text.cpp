// The schema of a config file, made of the options and axes.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/plan/options/axes.hpp"
#include "bench/plan/options/config_schema.hpp"
#include "bench/plan/options/run_options.hpp"

namespace tw::bench {
namespace {

using Json = nlohmann::ordered_json;

Json any_of(Json alternatives) { return {{"anyOf", std::move(alternatives)}}; }

Json schema_of(const ValueType& type) {
  const Json made = Json::parse(type.schema);
  return made.is_array() ? any_of(made) : made;
}

Json described(const std::string& wanted, const Json& schema) {
  Json out = {{"description", wanted}};
  out.update(schema);
  return out;
}

/// A value of the axis, or a list of them.
Json axis_schema(const Axis& axis) {
  const Json one = schema_of(axis.type);
  const Json list = {{"type", "array"}, {"minItems", 1}, {"items", one}};
  return described(axis.type.wanted + ", or a list of them", any_of(Json::array({one, list})));
}

Json required(const char* key) { return {{"required", Json::array({key})}}; }

/// What options are to each other.
Json dependencies() {
  Json all = Json::object();
  for (const RunOption& option : run_options()) {
    if (option.needs != nullptr) all[option.key] = Json::array({option.needs});
    if (option.excludes.empty()) continue;
    Json others = Json::array();
    for (const char* other : option.excludes) others.push_back(required(other));
    all[option.key]["not"] = any_of(std::move(others));
  }
  return all;
}

Json made_schema() {
  Json references = Json::object(), definitions = Json::object();
  for (const Axis& axis : axes_list()) {
    references[axis.key] = {{"$ref", std::string("#/definitions/") + axis.key}};
    definitions[axis.key] = axis_schema(axis);
  }
  definitions["grid"] = {{"type", "object"},
                         {"description", "an object with axes"},
                         {"properties", references},
                         {"additionalProperties", false}};
  Json properties = references;
  for (const RunOption& option : run_options())
    properties[option.key] = described(option.type.wanted, schema_of(option.type));
  properties["grids"] = {{"type", "array"},
                         {"minItems", 1},
                         {"description", "a list of objects with axes"},
                         {"items", {{"$ref", "#/definitions/grid"}}}};
  Json grids = required("grids");
  grids["properties"]["grids"]["items"] = required("model");
  const Json prices = any_of(Json::array({required("hour_price"), required("kwh_price")}));
  return {
      {"$schema", "http://json-schema.org/draft-07/schema#"},
      {"title", "trainwatt config"},
      {"description",
       "What --config takes: keys as the long options, with underscores. A description completes the sentence "
       "\"… must be\" in what the programs say of a value that does not fit."},
      {"type", "object"},
      {"properties", properties},
      {"additionalProperties", false},
      {"anyOf", Json::array({required("model"), grids})},
      {"dependencies", dependencies()},
      {"if", required("search")},
      {"then",
       {{"if", {{"properties", {{"search", {{"const", "cost"}}}}}}}, {"then", prices}, {"else", {{"not", prices}}}}},
      {"definitions", definitions}};
}

/// One property a line.
std::string written(const Json& json, int depth) {
  if (!json.is_object() || json.empty() || depth == 0) return json.dump();
  const std::string indent(static_cast<std::size_t>(2 * (2 - depth)), ' ');
  std::string out;
  for (const auto& [key, value] : json.items())
    out += (out.empty() ? "{\n" : ",\n") + indent + "  " + Json(key).dump() + ": " + written(value, depth - 1);
  return out + "\n" + indent + "}";
}

}  // namespace

const std::string& config_schema_json() {
  static const std::string text = written(made_schema(), 2).append("\n");
  return text;
}

}  // namespace tw::bench
