// Files that people write, such as prices and rules: JSON with comments, held against a schema of results/schema/.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

namespace tw::results::input {

/// Throws std::runtime_error: "WHERE: WHAT". `where`: a JSON pointer, "/systems/node/capex".
[[noreturn]] void fail(const std::string& where, const std::string& what);
/// The text as an object. Throws std::runtime_error if it is something else.
nlohmann::ordered_json read(const std::string& text);
/// Throws std::runtime_error with the first fault; `schema_name`: "prices.schema.json", which explains the fields.
void hold_against(const std::string& text, const std::string& schema, const char* schema_name);

/// Takes the members that an object has by their own names (TW_FIELDS of results/record/fields.hpp); the others stay as
/// they are. `Json`: nlohmann::ordered_json.
template <class Json>
class Take {
 public:
  explicit Take(const Json& object) : object_(object) {}
  template <class T>
  void operator()(const char* key, T& into) const {
    if (const auto found = object_.find(key); found != object_.end()) into = found->template get<T>();
  }
  template <class T>
  void operator()(const char* key, std::optional<T>& into) const {
    if (const auto found = object_.find(key); found != object_.end()) into = found->template get<T>();
  }

 private:
  const Json& object_;
};

}  // namespace tw::results::input
