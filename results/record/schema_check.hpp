// Checks a JSON text against a draft-07 schema.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace tw::results {

/// The texts of results/schema/*.schema.json (draft-07), compiled in.
extern const char* const report_schema_json;
extern const char* const prices_schema_json;
extern const char* const baseline_schema_json;

struct SchemaViolation {
  std::string pointer;  ///< JSON pointer of the value that does not fit; empty: the document
  std::string what;     ///< "must be a number, not a string"
};

/// The innermost violations only; the levels above them are not reported again. Both texts are JSON.
std::vector<SchemaViolation> schema_violations(const std::string& document, const std::string& schema);

/// The same of a text that has been parsed, without comments. The tree is used up.
std::vector<SchemaViolation> schema_violations(nlohmann::json&& document, const std::string& document_text,
                                               const std::string& schema);

/// The same, a line each: "/records/0/id: …". Comments are allowed in the document.
std::vector<std::string> schema_faults(const std::string& document, const std::string& schema);

/// What a schema asks of the value at `pointer`; null if alternatives do not say which.
const nlohmann::json* asked_at(const nlohmann::json& schema, const nlohmann::json_pointer<std::string>& pointer);

}  // namespace tw::results
