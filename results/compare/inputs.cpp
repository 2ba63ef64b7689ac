// Reads what people write for a comparison: weights and baseline rules. Schemas find most faults; those that they
// describe badly are reported here first.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "results/compare/baseline.hpp"
#include "results/record/fields.hpp"
#include "results/record/input_json.hpp"
#include "results/record/schema_check.hpp"

namespace tw::results {
namespace {

using input::fail, input::hold_against, input::read, input::Take;
using Json = nlohmann::ordered_json;

/// In the schema, in the order of the kinds.
const Json& form_of(const Json& schema, RuleKind kind) {
  return schema["definitions"]["rule"]["oneOf"][static_cast<std::size_t>(kind)];
}

/// The schema with, for each rule, the form of its kind alone: of a rule that fits none of several forms, a validator
/// tells what it lacks of the others, too.
std::string schema_of_kinds(const Json& json, Json schema) {
  const auto rules = json.find("rules");
  if (rules == json.end() || !rules->is_array() || rules->empty()) return schema.dump();
  Json forms = Json::array();
  for (const Json& rule : *rules) forms.push_back(form_of(schema, *named<RuleKind>(rule["kind"].get<std::string>())));
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
    const Json name = rule.value("kind", Json());
    const std::optional<RuleKind> kind = named<RuleKind>(name.is_string() ? name.get<std::string>() : "");
    if (!kind) fail(where + "/kind", "must be variance, value or failure");
    const Json& form = form_of(schema, *kind);
    for (const auto& [key, value] : rule.items())
      if (!form["properties"].contains(key)) fail(where + "/" + key, std::string("is no key for a ") + *kind + " rule");
    for (const Json& key : form["required"])
      if (!rule.contains(key.get<std::string>())) fail(where, "has no " + key.get<std::string>());
    if (*kind == RuleKind::variance && !rule.contains("most_below") && !rule.contains("most_above"))
      fail(where, "has neither most_below nor most_above");
    if (*kind == RuleKind::value && !rule.contains("at_least") && !rule.contains("at_most"))
      fail(where, "has neither at_least nor at_most");
    if (rule.contains("at_least") && rule.contains("at_most") && rule["at_least"].is_number() &&
        rule["at_most"].is_number() && rule["at_least"].get<double>() > rule["at_most"].get<double>())
      fail(where, "has at_least above at_most, which no value can keep");
  }
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
    rule.kind = *named<RuleKind>(object["kind"].get<std::string>());
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
