#include "models/catalog/facts.hpp"

#include <charconv>
#include <nlohmann/json.hpp>
#include <type_traits>

namespace tw::models {

double shortest_decimal(float value) {
  char text[64];
  double decimal = value;  // of NaN and infinity, which from_chars also reads
  std::from_chars(text, std::to_chars(text, text + sizeof text, value).ptr, decimal);
  return decimal;
}

nlohmann::ordered_json json_of(const std::vector<Fact>& facts) {
  nlohmann::ordered_json all = nlohmann::ordered_json::object();
  const auto json = [](const auto& value) -> nlohmann::ordered_json {
    if constexpr (std::is_same_v<decltype(value), const float&>)
      return shortest_decimal(value);
    else
      return value;
  };
  for (const Fact& fact : facts) all[fact.name] = std::visit(json, fact.value);
  return all;
}

}  // namespace tw::models
