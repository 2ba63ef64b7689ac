// The only unit that includes valijson.
#include "results/record/schema_check.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
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

/// "<root>", "[records]", "[0]" → "/records/0"; a key is escaped as a JSON pointer's.
std::string pointer_of(const std::vector<std::string>& context) {
  std::string path;
  for (std::size_t i = 1; i < context.size(); ++i) {
    path += '/';
    for (const char c : context[i].substr(1, context[i].size() - 2))
      path += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  }
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

/// Whether a rule can tell the two apart only by the sizes of numbers: the same keys, lengths, texts, and types of
/// numbers, where "1.0" may pass for an integer and "1.5" does not.
bool are_alike(const Json& a, const Json& b) {
  if (a.type() != b.type()) return false;
  if (a.is_number_float()) {
    const auto is_whole = [](const Json& number) { return number.get<double>() == std::trunc(number.get<double>()); };
    return is_whole(a) == is_whole(b);
  }
  if (a.is_number()) return true;
  if (a.is_array()) return std::ranges::equal(a, b, are_alike);
  if (!a.is_object()) return a == b;
  const auto &of_a = a.get_ref<const Json::object_t&>(), &of_b = b.get_ref<const Json::object_t&>();
  return std::ranges::equal(of_a, of_b, [](const auto& one, const auto& other) {
    return one.first == other.first && are_alike(one.second, other.second);
  });
}

/// Takes the least and the greatest of each number of an item like both.
void widen(Json& least, Json& greatest, const Json& item) {
  if (item.is_number()) {
    if (item < least) least = item;
    if (greatest < item) greatest = item;
  } else if (item.is_structured()) {
    auto low = least.begin(), high = greatest.begin();
    for (const Json& inner : item) widen(*low++, *high++, inner);
  }
}

/// Of long lists two items of each kind, with the least and the greatest of its numbers: the rules of the schemas
/// judge an
/// item by its kind and by limits of its numbers, each for itself. Kinds that come late in a list of many are all kept.
/// False: nothing was long.
bool thin(Json& json) {
  constexpr std::size_t longest = 1000, most_kinds = 64;
  bool any = false;
  if (json.is_structured())
    for (Json& item : json) any = thin(item) || any;
  if (!json.is_array() || json.size() <= longest) return any;
  std::vector<std::pair<Json, Json>> kinds;
  Json::array_t kept;
  for (Json& item : json) {
    const auto known = std::ranges::find_if(kinds, [&](const auto& kind) { return are_alike(kind.first, item); });
    if (known != kinds.end())
      widen(known->first, known->second, item);
    else if (kinds.size() < most_kinds)
      kinds.emplace_back(item, item);
    else
      kept.push_back(std::move(item));
  }
  for (auto& [least, greatest] : kinds) kept.push_back(std::move(least)), kept.push_back(std::move(greatest));
  json.get_ref<Json::array_t&>() = std::move(kept);
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

/// Of a list of schemas, one for each value; null behind its end.
const Json* item_at(const Json& schemas, const std::string& key) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  const bool is_index = error == std::errc() && end == key.data() + key.size();
  return is_index && schemas.is_array() && index < schemas.size() ? &schemas[index] : nullptr;
}

std::string with_article(const std::string& type) {
  return type == "null" ? type : type == "object" || type == "array" || type == "integer" ? "an " + type : "a " + type;
}
/// "a, b or c"
std::string alternatives(const Json& list, std::string (*name)(const Json&)) {
  std::string out;
  for (std::size_t i = 0; i < list.size(); ++i)
    out += (i == 0 ? "" : i + 1 == list.size() ? " or " : ", ") + name(list[i]);
  return out;
}
/// "'x'" of what the library says of one key.
std::string quoted(const std::string& what) {
  const std::size_t begin = what.find('\''), end = what.rfind('\'');
  return begin < end ? what.substr(begin + 1, end - begin - 1) : "";
}

/// What the library says of a value, for people. `schema`: what is asked of it; null if that is not known.
std::string in_words(const std::string& what, const Json* schema, const Json& value) {
  const auto asked = [&](const char* key) -> const Json* {
    return schema == nullptr || !schema->contains(key) ? nullptr : &schema->at(key);
  };
  const auto limit = [&](const char* key, const char* before, const std::string& after = "") {
    const Json* const bound = asked(key);
    return bound == nullptr ? std::string() : before + bound->dump() + after;
  };
  const bool is_short = value.is_primitive() && value.dump(-1, ' ', false, Json::error_handler_t::replace).size() <= 40;
  const std::string is = is_short ? ", is " + value.dump(-1, ' ', false, Json::error_handler_t::replace) : "";
  const auto first = [&](std::initializer_list<std::string> texts) {
    const auto found = std::ranges::find_if(texts, [](const std::string& text) { return !text.empty(); });
    return found == texts.end() ? "does not fit the schema" + is : *found;
  };
  const auto says = [&](const char* begin) { return what.starts_with(begin); };
  if (says("Value type not permitted")) {
    const Json* const types = asked("type");
    if (types == nullptr) return first({});
    const std::string names =
        types->is_string() ? with_article(types->get<std::string>())
                           : alternatives(*types, [](const Json& one) { return with_article(one.get<std::string>()); });
    return "must be " + names + ", not " +
           (is_short ? value.dump(-1, ' ', false, Json::error_handler_t::replace) : with_article(value.type_name()));
  }
  if (says("Failed to match against any enum") && asked("enum") != nullptr)
    return "must be " + alternatives(*asked("enum"), [](const Json& one) { return one.dump(); }) + is;
  if (says("Failed to match expected value")) return first({limit("const", "must be ", is)});
  if (says("Failed to match regex")) return first({limit("pattern", "does not match ")});
  if (says("Expected number less"))
    return first({limit("maximum", "must be at most ", is), limit("exclusiveMaximum", "must be below ", is)});
  if (says("Expected number greater"))
    return first({limit("minimum", "must be at least ", is), limit("exclusiveMinimum", "must be above ", is)});
  if (says("String should be no fewer") || says("Array should contain no fewer") || says("Object should have no fewer"))
    return first(
        {value.empty() || value == "" ? "is empty" : "", limit("minLength", "must have ", " characters or more"),
         limit("minItems", "must have ", " values or more"), limit("minProperties", "must have ", " entries or more")});
  if (says("String should be no more")) return first({limit("maxLength", "must have at most ", " characters")});
  if (says("Array should contain no more")) return first({limit("maxItems", "must have at most ", " values")});
  if (says("Object should have no more")) return first({limit("maxProperties", "must have at most ", " entries")});
  if (says("Missing required property")) return "\"" + quoted(what) + "\" is missing";
  if (says("Object contains a property"))
    return "\"" + what.substr(what.find(": '") + 3, what.rfind('\'') - what.find(": '") - 3) + "\" is an unknown key";
  if (says("Elements at indexes")) return "has a value twice";
  return first({});
}

}  // namespace

const Json* asked_at(const Json& root, const Json::json_pointer& pointer) {
  std::vector<std::string> keys;
  for (Json::json_pointer rest = pointer; !rest.empty(); rest.pop_back()) keys.insert(keys.begin(), rest.back());
  const auto resolved = [&](const Json* schema) {
    while (schema->is_object() && schema->contains("$ref"))
      schema = &root.at(Json::json_pointer((*schema)["$ref"].get<std::string>().substr(1)));
    return schema;
  };
  const Json* schema = resolved(&root);
  for (const std::string& key : keys) {
    const Json* inner = nullptr;
    if (const auto properties = schema->find("properties"); properties != schema->end() && properties->contains(key))
      inner = &properties->at(key);
    else if (const auto other = schema->find("additionalProperties"); other != schema->end() && other->is_object())
      inner = &*other;
    else if (const auto items = schema->find("items"); items != schema->end())
      inner = items->is_object() ? &*items : item_at(*items, key);
    if (inner == nullptr) return nullptr;
    schema = resolved(inner);
  }
  return schema;
}

std::vector<SchemaViolation> schema_violations(const std::string& document, const std::string& schema) {
  return schema_violations(Json::parse(document, nullptr, true, true), document, schema);
}

std::vector<SchemaViolation> schema_violations(nlohmann::json&& document, const std::string& document_text,
                                               const std::string& schema_text) {
  const Json schema_json = Json::parse(schema_text);
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
  const auto described = [&](const std::string& where, const std::string& what) {
    const Json::json_pointer pointer(where);
    return in_words(what, asked_at(schema_json, pointer), document.contains(pointer) ? document.at(pointer) : Json());
  };
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
    if (seen.emplace(pointer, what).second) violations.push_back({pointer, described(pointer, what)});
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
