// Long lists, whose items are not all held against the schema.
#include "results/record/schema_check.hpp"

#include <gtest/gtest.h>

#include <string>

namespace tw::results {
namespace {

/// A list of numbers is looked at by its ends; what is wrong in it is found and named all the same.
TEST(SchemaCheck, LongListsOfNumbers) {
  const auto faults = [](const std::string& items, const std::string& odd) {
    std::string list = "[";
    for (int i = 0; i < 3000; ++i) list += (i > 0 ? "," : "") + (i == 2000 ? odd : std::to_string(i + 1));
    const std::vector<std::string> found = schema_faults(list + "]", R"({"type": "array", "items": )" + items + "}");
    return found.empty() ? "" : found.front();
  };
  EXPECT_EQ(faults(R"({"type": "integer", "minimum": 1, "maximum": 3000})", "7"), "");
  EXPECT_TRUE(faults(R"({"type": "integer", "minimum": 1})", "0").starts_with("/2000: "));
  EXPECT_TRUE(faults(R"({"type": "integer", "maximum": 3000})", "3001").starts_with("/2000: "));
  EXPECT_TRUE(faults(R"({"type": "integer"})", "1.5").starts_with("/2000: "));
  EXPECT_TRUE(faults(R"({"type": "number"})", "null").starts_with("/2000: "));
  EXPECT_TRUE(faults(R"({"type": "number"})", "\"1\"").starts_with("/2000: "));
  EXPECT_EQ(faults(R"({"type": ["number", "null"], "exclusiveMinimum": 0})", "null"), "");
  EXPECT_TRUE(faults(R"({"type": ["number", "null"], "exclusiveMinimum": 0})", "-0.5").starts_with("/2000: "));
}

/// Of items that only differ by their numbers, the least and the greatest are looked at.
TEST(SchemaCheck, LongListsOfObjects) {
  constexpr const char* schema = R"({"type": "array", "items": {"type": "object", "properties": {
      "n": {"type": "integer", "minimum": 1, "maximum": 3000},
      "in": {"type": "object", "properties": {"x": {"type": ["number", "null"], "exclusiveMinimum": 0}}},
      "list": {"type": "array", "items": {"type": "number", "maximum": 10}, "minItems": 2},
      "word": {"type": "string", "minLength": 1}, "reason": {"type": "string"}},
    "required": ["n", "in", "list", "word", "reason"], "additionalProperties": false,
    "if": {"properties": {"in": {"properties": {"x": {"type": "null"}}}}},
    "then": {"properties": {"reason": {"minLength": 1}}}}})";
  const auto item = [](int n, const std::string& x, const std::string& list, const std::string& word) {
    return R"({"n": )" + std::to_string(n) + R"(, "in": {"x": )" + x + R"(}, "list": )" + list + R"(, "word": ")" +
           word + R"(", "reason": ""})";
  };
  const auto faults = [&](const std::string& odd, bool many_kinds) {
    std::string text = "[";
    for (int i = 0; i < 3000; ++i) {
      const std::string number = std::to_string(i);
      const std::string good =
          item(i + 1, number + ".5", i % 2 == 0 ? "[1, 2.5]" : "[3, 4, 5]", many_kinds ? number : "word");
      text += (i > 0 ? "," : "") + (i == 2000 ? odd : good);
    }
    const std::vector<std::string> found = schema_faults(text + "]", schema);
    return found.empty() ? "" : found.front();
  };
  for (const bool many_kinds : {false, true}) {
    EXPECT_EQ(faults(item(7, "2.5", "[1, 2.5]", "word"), many_kinds), "");
    EXPECT_TRUE(faults(item(0, "2.5", "[1, 2.5]", "word"), many_kinds).starts_with("/2000/n: "));
    EXPECT_TRUE(faults(item(3001, "2.5", "[1, 2.5]", "word"), many_kinds).starts_with("/2000/n: "));
    EXPECT_TRUE(faults(item(7, "-2.5", "[1, 2.5]", "word"), many_kinds).starts_with("/2000/in/x: "));
    EXPECT_TRUE(faults(item(7, "2.5", "[1, 10.5]", "word"), many_kinds).starts_with("/2000/list/1: "));
    EXPECT_TRUE(faults(item(7, "2.5", "[1]", "word"), many_kinds).starts_with("/2000/list: "));
    EXPECT_TRUE(faults(item(7, "2.5", "[1, 2.5]", ""), many_kinds).starts_with("/2000/word: "));
    EXPECT_TRUE(faults(item(7, "null", "[1, 2.5]", "word"), many_kinds).starts_with("/2000/reason: "));
    EXPECT_TRUE(faults(item(7, "true", "[1, 2.5]", "word"), many_kinds).starts_with("/2000/in/x: "));
    EXPECT_TRUE(faults("{}", many_kinds).starts_with("/2000: "));
    EXPECT_TRUE(faults("7", many_kinds).starts_with("/2000: "));
  }
}

}  // namespace
}  // namespace tw::results
