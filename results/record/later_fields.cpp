#include "results/record/later_fields.hpp"

#include <nlohmann/json.hpp>

#include "results/record/report_io.hpp"

namespace tw::results {
namespace {

using Json = nlohmann::json;

/// Of a newer minor version: unknown fields are allowed.
void allow_more(Json& schema) {
  if (schema.is_object())
    if (const auto found = schema.find("additionalProperties"); found != schema.end() && *found == false)
      schema.erase(found);
  if (schema.is_structured())
    for (Json& item : schema) allow_more(item);
}

/// Those of `object`'s fields that are later than `version`.
bool is_later(const Json& field, const std::string& version) {
  return field.is_object() && field.contains("since") && is_newer_minor(field["since"].get<std::string>(), version);
}

/// Takes them from what is required, and says whether there are any.
bool require_less(Json& schema, const std::string& version) {
  bool any = false;
  if (schema.is_object() && schema.contains("properties") && schema.contains("required") &&
      schema["required"].is_array()) {
    const Json& properties = schema["properties"];
    Json kept = Json::array();
    for (const Json& name : schema["required"])
      if (const auto field = properties.find(name.get<std::string>());
          field == properties.end() || !is_later(*field, version))
        kept.push_back(name);
    any = kept.size() < schema["required"].size();
    schema["required"] = std::move(kept);
  }
  if (schema.is_structured())
    for (Json& item : schema) any = require_less(item, version) || any;
  return any;
}

class Finder {
 public:
  Finder(const Json& root, std::string version) : root_(root), version_(std::move(version)) {}

  void walk(const Json& document, const Json& schema, const std::string& at) {
    if (!schema.is_object()) return;
    if (const auto reference = schema.find("$ref"); reference != schema.end())
      return walk(document, root_.at(Json::json_pointer(reference->get<std::string>().substr(1))), at);
    if (document.is_array() && schema.contains("items"))
      for (std::size_t i = 0; i < document.size(); ++i)
        walk(document[i], schema["items"], at + "/" + std::to_string(i));
    if (!document.is_object()) return;
    const Json none = Json::object(), &properties = schema.contains("properties") ? schema["properties"] : none;
    for (const Json& name : schema.value("required", Json::array())) {
      const auto field = properties.find(name.get<std::string>());
      if (field == properties.end() || document.contains(name.get<std::string>()) || !is_later(*field, version_))
        continue;
      found_.push_back({at + "/" + name.get<std::string>(), (*field)["since"].get<std::string>(),
                        field->value("needed_by", std::vector<std::string>())});
    }
    for (const auto& [name, value] : document.items())
      if (const auto field = properties.find(name); field != properties.end())
        walk(value, *field, at + "/" + name);
      else if (schema.contains("additionalProperties"))
        walk(value, schema["additionalProperties"], at + "/" + name);
  }
  std::vector<MissingField> take() { return std::move(found_); }

 private:
  const Json& root_;
  std::string version_;
  std::vector<MissingField> found_;
};

}  // namespace

SchemaOfAge schema_of_age(const std::string& document, const std::string& schema, const std::string& version,
                          const std::string& known) {
  SchemaOfAge aged;
  Json tree = Json::parse(schema);
  if (tree.contains("properties") && tree["properties"].contains("schema_version"))
    tree["properties"]["schema_version"].erase("const");
  if (is_newer_minor(version, known)) {
    allow_more(tree);
  } else if (require_less(tree, version)) {
    const Json whole = Json::parse(schema);
    Finder finder(whole, version);
    finder.walk(Json::parse(document), whole, "");
    aged.missing_fields = finder.take();
  }
  aged.text = tree.dump();
  return aged;
}

}  // namespace tw::results
