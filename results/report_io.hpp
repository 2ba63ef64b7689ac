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

/// What a run leaves to be resumed from, likewise; it has no schema of its own.
std::string to_json(const RunStart& start);
RunStart run_start_from_json(const std::string& text);

/// Why a text is not JSON that the project reads, with the place; empty: it is. Refused besides bad syntax: a key that
/// occurs twice in an object, a number beyond a double, more than 64 levels.
std::string json_fault(const std::string& text);

/// What records.jsonl holds while a run goes on and after a kill: finished points, without context and plan.
struct RecordLines {
  std::vector<Record> records;
  bool torn = false;                ///< the last line was cut off by a kill and is left out
};
/// Whether a text looks like records.jsonl and not like a report.
bool holds_record_lines(const std::string& text);
/// Throws std::runtime_error with the line.
RecordLines record_lines(const std::string& text);

/// The same with every string safe to print (text::printable).
Report printable(Report report);

/// Makes a folder and what is missing above it, each on disk before the next. Throws std::system_error.
void create_folders(const std::filesystem::path& folder);
/// Temporary file in the same folder, fsync, rename, fsync of the folder. Throws std::system_error (errno kept).
void write_atomically(const std::filesystem::path& path, const std::string& text);
/// Appends one line and fsyncs. A torn last line of an earlier kill is cut off first.
void append_line(const std::filesystem::path& path, const std::string& line);
/// Appends the last record to those in records.jsonl; writes all of them again, atomically, where `earlier_changed`.
void keep_last_record(const std::filesystem::path& path, const std::vector<Record>& records, bool earlier_changed);

/// One line each, with a JSON pointer. Not safe to print as they are: they quote what the file says.
struct Validation {
  std::vector<std::string> violations;      ///< of the schema and of invariants; empty = good
  std::vector<std::string> warnings;        ///< what a reader should know of a good file
};
Validation validate_report(const std::string& text);
/// Likewise for records.jsonl; the records stand in order under /records.
Validation validate_record_lines(const std::string& text);

/// The ids of the plan's points that have no record; none where the plan cannot be read.
std::vector<std::string> missing_points(const Report& report);
/// Whether the run says that it was cut short: a warning of the context begins with "interrupted".
bool was_interrupted(const Context& context);

std::string sha256_hex(const std::string& bytes);
/// What makes two points comparable: network, cut, sequence length, optimizer, parameters; of runs to a target also the
/// task, its schedule, how good is good enough and how that is looked at. Not how fast they are trained.
std::string workload_hash(const Workload& workload, const std::optional<Target>& target = {});

}  // namespace tw
