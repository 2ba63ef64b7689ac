// The only unit that includes valijson.
#include "results/record/schema_check.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

namespace tw::results {
namespace {

using Json = nlohmann::json;
using Adapter = valijson::adapters::NlohmannJsonAdapter;

/// "<root>", "[records]", "[0]" → "/records/0"
std::string pointer_of(const std::vector<std::string>& context) {
  std::string path;
  for (std::size_t i = 1; i < context.size(); ++i) path += "/" + context[i].substr(1, context[i].size() - 2);
  return path;
}

/// The library matches patterns by recursion, a frame a character: of a long text only the beginning is looked at. All
/// patterns of the schemas are of short texts, or go by the first character that does not fit.
void cut_strings(Json& json) {
  constexpr std::size_t longest = 1000;
  if (json.is_structured()) {
    for (Json& item : json) cut_strings(item);
  } else if (json.is_string() && json.get_ref<std::string&>().size() > longest) {
    std::string& text = json.get_ref<std::string&>();
    std::size_t end = longest;
    while ((static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not inside a character
    text.resize(end);
  }
}

/// Of a long list of numbers those that any rule for all of them turns on: the least, the greatest, and one of each
/// type. False where nothing was long.
bool thin(Json& json) {
  constexpr std::size_t longest = 1000;
  bool any = false;
  if (!json.is_array() || json.size() <= longest ||
      !std::ranges::all_of(json, [](const Json& item) { return item.is_number() || item.is_null(); })) {
    if (json.is_structured())
      for (Json& item : json) any = thin(item) || any;
    return any;
  }
  auto& items = json.get_ref<Json::array_t&>();
  std::map<std::pair<Json::value_t, bool>, std::pair<Json, Json>> ends;  // "1.0" may pass for an integer, "1.5" not
  for (const Json& item : items) {
    const bool whole = item.is_null() || item.get<double>() == std::trunc(item.get<double>());
    auto& [least, greatest] = ends.try_emplace({item.type(), whole}, item, item).first->second;
    if (item < least) least = item;
    if (greatest < item) greatest = item;
  }
  Json::array_t kept;
  for (auto& [type, end] : ends) kept.push_back(std::move(end.first)), kept.push_back(std::move(end.second));
  items = std::move(kept);
  return true;
}

constexpr std::size_t most_values = 100'000, most_violations = 1000;

/// Shortens lists, but for their first item, once so many values have been kept: each value may have violations, and
/// the library keeps all of them, some hundred bytes each.
void prune(Json& json, std::size_t& left) {
  if (left > 0) --left;
  if (json.is_array()) {
    auto& items = json.get_ref<Json::array_t&>();
    std::size_t kept = 0;
    while (kept < items.size() && (kept == 0 || left > 0)) prune(items[kept++], left);
    items.resize(kept);
  } else if (json.is_object()) {
    for (Json& item : json) prune(item, left);
  }
}

}  // namespace

std::vector<SchemaViolation> schema_violations(const std::string& document_text, const std::string& schema_text) {
  const Json schema_json = Json::parse(schema_text);
  Json document = Json::parse(document_text, nullptr, true, true);
  cut_strings(document);
  valijson::Schema schema;
  valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
  parser.populateSchema(Adapter(schema_json), schema);
  valijson::Validator validator;
  const bool was_long = thin(document);
  if (validator.validate(schema, Adapter(document), nullptr)) return {};
  if (was_long) {  // which of them it is
    document = Json::parse(document_text, nullptr, true, true);
    cut_strings(document);
  }
  std::size_t left = most_values;
  prune(document, left);
  valijson::ValidationResults results;
  if (validator.validate(schema, Adapter(document), &results))
    return {{"", "a value behind the first " + std::to_string(most_values) + " does not fit the schema"}};

  // A failure deep inside is reported once more at each level above it: keep the innermost.
  std::set<std::vector<std::string>> failing;
  for (const auto& error : results) failing.insert(error.context);
  std::vector<SchemaViolation> violations;
  std::set<std::pair<std::string, std::string>> seen;
  for (const auto& error : results) {
    if (violations.size() == most_violations) {
      violations.push_back({"", "there are more violations than the " + std::to_string(most_violations) + " above"});
      break;
    }
    const auto next = failing.upper_bound(error.context);
    const bool has_inner = next != failing.end() && next->size() > error.context.size() &&
                           std::equal(error.context.begin(), error.context.end(), next->begin());
    const std::string& what = error.description;
    const bool echo = what.starts_with("Failed to validate against") || what.starts_with("Failed to validate item");
    if (has_inner && echo) continue;
    const std::string pointer = pointer_of(error.context);
    if (seen.emplace(pointer, what).second) violations.push_back({pointer, what});
  }
  return violations;
}

std::vector<std::string> schema_faults(const std::string& document, const std::string& schema) {
  std::vector<std::string> lines;
  for (const SchemaViolation& one : schema_violations(document, schema))
    lines.push_back((one.pointer.empty() ? "/" : one.pointer) + ": " + one.what);
  return lines;
}

}  // namespace tw::results
