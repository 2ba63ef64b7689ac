// What a schema says of a value, in words.
#include "results/record/schema_check.hpp"

#include <gtest/gtest.h>

namespace tw::results {
namespace {

TEST(SchemaCheck, SaysWhereAndWhatIsWanted) {
  const std::string schema = R"({"type": "object", "required": ["a"], "additionalProperties": false,
    "properties": {"a": {"$ref": "#/definitions/share"}, "list": {"type": "array", "minItems": 1, "items": {"enum": ["x", "y"]}},
                   "both": {"type": ["number", "null"]}, "text": {"type": "string", "minLength": 2, "pattern": "^z"},
                   "kind": {"const": "k"}},
    "definitions": {"share": {"type": "number", "minimum": 0, "exclusiveMaximum": 1}}})";
  using Lines = std::vector<std::string>;
  const auto faults = [&](const std::string& document) { return schema_faults(document, schema); };
  EXPECT_EQ(faults(R"({"a": 0.5, "list": ["x"], "both": null, "text": "zz", "kind": "k"})"), Lines{});
  EXPECT_EQ(faults("{}"), Lines{R"(/: "a" is missing)"});
  EXPECT_EQ(faults(R"({"a": "0.5"})"), Lines{R"(/a: must be a number, not "0.5")"});
  EXPECT_EQ(faults(R"({"a": {}})"), Lines{"/a: must be a number, not an object"});
  EXPECT_EQ(faults(R"({"a": -1})"), Lines{"/a: must be at least 0, is -1"});
  EXPECT_EQ(faults(R"({"a": 1})"), Lines{"/a: must be below 1, is 1"});
  EXPECT_EQ(faults(R"({"a": 0, "b's": 1})"), Lines{R"(/: "b's" is an unknown key)"});
  EXPECT_EQ(faults(R"({"a": 0, "list": ["x", "q"]})"), Lines{R"(/list/1: must be "x" or "y", is "q")"});
  EXPECT_EQ(faults(R"({"a": 0, "list": []})"), Lines{"/list: is empty"});
  EXPECT_EQ(faults(R"({"a": 0, "both": true})"), Lines{"/both: must be a number or null, not true"});
  EXPECT_EQ(faults(R"({"a": 0, "text": "z"})"), Lines{"/text: must have 2 characters or more"});
  EXPECT_EQ(faults(R"({"a": 0, "text": "abc"})"), Lines{R"(/text: does not match "^z")"});
  EXPECT_EQ(faults(R"({"a": 0, "kind": "other"})"), Lines{R"(/kind: must be "k", is "other")"});
}

}  // namespace
}  // namespace tw::results
