#include "bench/plan/options/option_value.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "bench/plan/options/usage_error.hpp"
#include "models/catalog/nearest.hpp"

namespace tw::bench {

using Json = nlohmann::json;
using Kind = ValueType::Kind;

ValueType flag() { return {.kind = Kind::flag, .wanted = "true or false", .schema = R"({"type": "boolean"})"}; }

ValueType yes_or_no() { return {.kind = Kind::yes_no, .wanted = "true or false", .schema = R"({"type": "boolean"})"}; }

ValueType whole_number(std::int64_t least, std::int64_t most) {
  Json schema = {{"type", "integer"}, {"minimum", least}};
  const bool has_most = most < std::numeric_limits<std::int64_t>::max();
  if (has_most || least == 0) schema["maximum"] = most;
  return {.kind = Kind::integer,
          .wanted = has_most ? fmt::format("a whole number from {} to {}", least, most)
                             : fmt::format("a whole number, at least {}", least),
          .schema = schema.dump(),
          .least = least,
          .most = most};
}

ValueType whole_number_or(const std::string& word, std::int64_t most) {
  ValueType type = whole_number(1, most);
  type.wanted += fmt::format(", or \"{}\"", word);
  type.schema = Json::array({Json::parse(type.schema), {{"enum", Json::array({word})}}}).dump();
  type.zero_word = word;
  return type;
}

std::string written(const ValueType& type, std::int64_t value) {
  return value == 0 && !type.zero_word.empty() ? type.zero_word : std::to_string(value);
}

ValueType number_from_0() {
  return {.kind = Kind::number, .wanted = "a number, at least 0", .schema = R"({"type": "number", "minimum": 0})"};
}

ValueType number_above_0(double most) {
  Json schema = {{"type", "number"}, {"exclusiveMinimum", 0}};
  const bool has_most = most < std::numeric_limits<double>::max();
  if (has_most) schema["maximum"] = most == std::trunc(most) ? Json(static_cast<std::int64_t>(most)) : Json(most);
  return {.kind = Kind::number,
          .wanted = has_most ? fmt::format("a number above 0 (maximum {})", most) : "a number above 0",
          .schema = schema.dump(),
          .most_number = most,
          .is_above = true};
}

ValueType one_of(std::vector<std::string> words) {
  return {.wanted = fmt::format("one of {}", fmt::join(words, ", ")),
          .schema = Json({{"enum", words}}).dump(),
          .words = std::move(words)};
}

ValueType value_like(const std::string& wanted, const std::string& schema, Kind kind) {
  return {.kind = kind, .wanted = wanted, .schema = schema};
}

void throw_unknown(const std::string& key, const std::string& word, const std::vector<std::string>& known) {
  static const std::map<std::string, std::string> names_elsewhere = {
      {"fp32", "float32"}, {"f32", "float32"}, {"single", "float32"}, {"bfloat16", "bf16"},
      {"float16", "fp16"}, {"half", "fp16"},   {"gpu", "cuda"}};
  const auto ours = names_elsewhere.find(word);
  constexpr std::size_t few = 2;  // are listed: what is near one of them may be meant otherwise, as "tpu" beside "cpu"
  const std::string close =
      known.size() <= few ? "" : models::nearest(ours == names_elsewhere.end() ? word : ours->second, known);
  throw UsageError("unknown-name", key,
                   fmt::format("unknown {} '{}': {}", key_ref(key), models::cut_word(word),
                               close.empty() ? fmt::format("known: {}", fmt::join(known, ", "))
                                             : fmt::format("did you mean '{}'?", close)));
}

namespace {

/// "value too large (maximum 64)"; empty if it fits.
template <class Number>
std::string out_of_bounds(Number value, Number least, Number most, bool is_above) {
  if (value > most) return fmt::format("value too large (maximum {})", most);
  if (value >= least && !(is_above && value == least)) return {};
  return is_above ? fmt::format("must be above {}", least) : fmt::format("value too small (minimum {})", least);
}

}  // namespace

void check_value(const std::string& key, const ValueType& type, const OptionValue& value) {
  const auto* word = std::get_if<std::string>(&value);
  if (word != nullptr && !type.words.empty() && std::ranges::find(type.words, *word) == type.words.end())
    throw_unknown(key, *word, type.words);
  const auto* whole = std::get_if<std::int64_t>(&value);
  const auto* fraction = std::get_if<double>(&value);
  std::string why;
  if (whole != nullptr && *whole == 0 && !type.zero_word.empty()) return;
  if (type.kind == Kind::integer && whole != nullptr) why = out_of_bounds(*whole, type.least, type.most, false);
  if (type.kind == Kind::number && (whole != nullptr || fraction != nullptr)) {
    const double number = whole != nullptr ? static_cast<double>(*whole) : *fraction;
    why = std::isfinite(number) ? out_of_bounds(number, type.least_number, type.most_number, type.is_above)
                                : "must be a finite number";
  }
  if (!why.empty()) throw bad_value(key, plain_text(value), why);
}

std::string json_text(const OptionValue& value) {
  return std::visit(
      [](const auto& one) {
        if constexpr (std::is_same_v<std::decay_t<decltype(one)>, std::monostate>)
          return std::string("null");
        else if constexpr (std::is_same_v<std::decay_t<decltype(one)>, JsonObject>)
          return one.text;
        else
          return Json(one).dump();
      },
      value);
}

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> parts(1);
  for (const char c : text)
    if (c == at)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

std::string plain_text(const OptionValue& value) {
  if (const auto* word = std::get_if<std::string>(&value)) return models::cut_word(*word);
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{}", *number);
  if (const auto* object = std::get_if<JsonObject>(&value)) return models::cut_word(object->text);
  return json_text(value);
}

OptionValue value_of(const std::string& key, const ValueType& type, const std::string& json) {
  const Json value = Json::parse(json);
  const auto whole = [&](const Json& number) -> std::optional<std::int64_t> {
    if (number.is_number_unsigned() && !std::in_range<std::int64_t>(number.get<std::uint64_t>())) return std::nullopt;
    if (number.is_number_integer()) return number.get<std::int64_t>();
    constexpr double beyond = 9223372036854775808.0;  // 2^63
    const double fraction = number.is_number() ? number.get<double>() : 0.5;
    if (std::trunc(fraction) != fraction || !(std::abs(fraction) < beyond)) return std::nullopt;
    return static_cast<std::int64_t>(fraction);
  };
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_string()) return value.get<std::string>();
  if (value.is_object()) return JsonObject{value.dump()};
  if (value.is_array() && type.kind == Kind::integers) {
    std::vector<std::int64_t> list;
    for (const Json& item : value)
      if (const auto one = whole(item)) list.push_back(*one);
    if (list.size() == value.size()) return list;
  }
  if (const auto one = whole(value)) return *one;
  if (!value.is_number() || (type.kind != Kind::number && type.kind != Kind::text))
    throw UsageError("bad-value", key, fmt::format("{} {:.80}: must be {}", key_ref(key), json, type.wanted));
  return value.get<double>();
}

}  // namespace tw::bench
