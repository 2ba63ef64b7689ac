// Reading and writing reports. All JSON of the project passes here; the library's header stays in .cpp files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "results/record.hpp"

namespace tw {

/// Of the reports this code writes and reads.
inline constexpr const char* schema_version = "1.0";
/// The text of results/schema/report.schema.json (JSON Schema draft-07), compiled in.
extern const char* const report_schema_json;

/// The report as JSON text (schema results/schema/report.schema.json), pretty-printed, keys in a stable order. Absent values
/// are null; so is a number that is not finite, which `summarise` has made invalid.
std::string to_json(const Report& report);
/// One record as a single line of JSON, for records.jsonl.
std::string to_json_line(const Record& record);
/// Inverse of to_json; unknown keys are ignored. Throws std::runtime_error with the place in the text.
Report report_from_json(const std::string& text);
Record record_from_json(const std::string& text);

/// Temporary file in the same folder, fsync, rename, fsync of the folder. Throws std::system_error (errno kept).
void write_atomically(const std::filesystem::path& path, const std::string& text);
/// Appends one line and fsyncs. A torn last line of an earlier kill is cut off first.
void append_line(const std::filesystem::path& path, const std::string& line);

/// Schema violations and broken invariants of a report's JSON text, one line each with a JSON pointer; empty = good.
std::vector<std::string> validate_report(const std::string& text);

std::string sha256_hex(const std::string& bytes);

}  // namespace tw
