// Reading and writing reports. All JSON of the project passes here; the library's header stays in .cpp files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// Of the reports this code writes and reads.
inline constexpr const char* schema_version = "1.0";
/// Why version `known` cannot read what version `found` wrote ("1.0": major, minor); empty: it can. Within a major
/// version, newer minor versions only add fields that a reader may ignore.
std::string version_obstacle(const std::string& found, const std::string& known);
/// Whether it can be read, but may hold more than is known.
bool is_newer_minor(const std::string& found, const std::string& known);

/// The report as JSON text (results/schema/report.schema.json), pretty-printed, keys in a stable order. Absent values
/// are null, and so are numbers that are not finite; `summarise` has made such records invalid.
std::string to_json(const Report& report);
/// One record as a single line of JSON, for records.jsonl; likewise what one rank tells the others of its node and
/// device.
std::string to_json_line(const Record& record);
std::string to_json_line(const HostInfo& host);
std::string to_json_line(const DeviceEntry& device);
/// What becomes of a name that is none of its enumeration's, such as a status.
enum class UnknownNames {
  refused,
  left_out,  ///< the value stays as it is by default: of a report whose faults are being told, and that is recomputed
};
/// Inverse of to_json; unknown keys are ignored. Throws std::runtime_error with the place in the text.
Report report_from_json(const std::string& text, UnknownNames unknown = UnknownNames::refused);
Record record_from_json(const std::string& text);
HostInfo host_from_json(const std::string& text);
DeviceEntry device_from_json(const std::string& text);

/// What a run leaves to be resumed from, likewise; it has no schema of its own.
std::string to_json(const RunStart& start);
RunStart run_start_from_json(const std::string& text);

/// Why a text is not JSON that the project reads, with the place; empty: it is. Refused besides bad syntax: duplicate
/// keys in an object, numbers beyond a double, more than 64 levels, 2^24 values, or 2^16 keys in one object, so that
/// memory is bounded by a multiple of the text's size. `comments`: // and /* */ are allowed.
std::string json_fault(const std::string& text, bool comments = false);

/// What records.jsonl holds while a run goes on and after a kill: finished points, without context and plan.
struct RecordLines {
  std::vector<Record> records;
  bool torn = false;                ///< the last line was cut off by a kill and is left out
};
/// Whether a text looks like records.jsonl and not like a report.
bool holds_record_lines(const std::string& text);
/// Throws std::runtime_error with the line.
RecordLines record_lines(const std::string& text, UnknownNames unknown = UnknownNames::refused);

/// The same with every string safe to print (text::printable).
Report printable(Report report);

/// What a run leaves in its folder: how it was started; its finished points, one a line; the report.
inline constexpr const char* run_file = "run.json";
inline constexpr const char* records_file = "records.jsonl";
inline constexpr const char* report_file = "report.json";

/// Makes a folder and what is missing above it, each on disk before the next. Throws std::system_error.
void create_folders(const std::filesystem::path& folder);
/// The same, but for the folder itself it must be this call that makes it, if several processes try at the same time.
/// What it made, outermost first and the folder last; empty if there is something of that name.
std::vector<std::filesystem::path> create_new_folder(const std::filesystem::path& folder);
/// Temporary file in the same folder, fsync, rename, fsync of the folder. Throws std::system_error (errno kept).
void write_atomically(const std::filesystem::path& path, const std::string& text);
/// Appends one line and fsyncs. A torn last line of an earlier kill is cut off first.
void append_line(const std::filesystem::path& path, const std::string& line);
/// Appends the last record to those in records.jsonl; writes all of them again, atomically, where `earlier_changed`.
void keep_last_record(const std::filesystem::path& path, const std::vector<Record>& records, bool earlier_changed);

std::string sha256_hex(const std::string& bytes);
/// What makes two points comparable: network, cut, sequence length, optimizer, parameters; of runs to a target also the
/// task, its schedule, how good is good enough and how that is looked at. Not how fast they are trained.
std::string workload_hash(const Workload& workload, const std::optional<Target>& target = {});
/// "standard, sizes of device class gpu": the suite, and the class of device whose sizes the plan has, if it names one.
std::string suite_words(const PlanInfo& plan);

}  // namespace tw::results
