// The schema, and what a schema cannot say (results/validation/checks.hpp).
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "results/analysis/conditions.hpp"
#include "results/record/json_tree.hpp"
#include "results/record/later_fields.hpp"
#include "results/record/report_io.hpp"
#include "results/record/schema_check.hpp"
#include "results/validation/checks.hpp"
#include "results/validation/validate.hpp"

namespace tw::results {
namespace {

using Json = nlohmann::json;

/// Each record as a line of JSON without its trials.
std::vector<std::string> lines_of(std::vector<Record>& records) {
  std::vector<std::string> lines;
  for (Record& record : records) {
    std::vector<Trial> trials;
    std::swap(trials, record.trials);
    lines.push_back(to_json_line(record));
    std::swap(trials, record.trials);
  }
  return lines;
}

/// Ids, and seeds of a point's runs to a target, occur once; points that train the same share theirs. Checked first,
/// since other faults follow from a duplicate.
void check_unique(const std::vector<Record>& records, Findings& found) {
  std::set<std::string> ids;
  for (std::size_t i = 0; i < records.size(); ++i) {
    std::set<std::uint64_t> seeds;
    for (std::size_t t = 0; t < records[i].trials.size(); ++t)
      if (const auto& run = records[i].trials[t].target_run; run && !seeds.insert(run->seed).second)
        found.broken("seed_duplicate", place_of(i, t) + "/target_run/seed",
                     std::to_string(run->seed) + " occurs twice in the point");
    if (!ids.insert(records[i].id).second)
      found.broken("id_duplicate", place_of(i) + "/id", "\"" + records[i].id + "\" occurs twice");
  }
}

void check_records(std::vector<Record>& records, const std::vector<std::string>& lines,
                   const std::set<std::string>& later, bool is_newer, Findings& found) {
  for (std::size_t i = 0; i < records.size(); ++i) {
    check_trials(records[i], i, found);
    check_energy_rows(records[i], i, found);
  }
  check_copies(records, found);
  check_summaries(records, lines, later, is_newer, found);
}

/// What follows from several records together.
void check_stability(Report& report, Findings& found) {
  std::vector<std::vector<FlagName>> said;
  for (const Record& record : report.records) said.push_back(record.verdict.flags);
  flag_unstable(report);
  for (std::size_t i = 0; i < report.records.size(); ++i) {
    Record& record = report.records[i];
    const bool is = has_flag(record, Flag::unstable);
    std::swap(record.verdict.flags, said[i]);
    const bool was = has_flag(record, Flag::unstable);
    if (is && !was)
      found.left_out_flag(i, Flag::unstable);
    else if (was && !is)
      found.broken("figure_differs", place_of(i) + "/verdict/flags", "the losses do not give \"unstable\"");
  }
}

/// Changes nothing, but needs the samples where they are: they may be large.
Validation check_whole(Report& report, const std::string& plan_sha256, const std::vector<MissingField>& missing,
                       bool is_newer) {
  Findings found;
  std::set<std::string> later;
  for (const MissingField& field : missing) later.insert(field.pointer);
  const std::vector<std::string> lines = lines_of(report.records);
  check_unique(report.records, found);
  check_launches(report, found);
  check_plan(report, plan_sha256, lines, found);
  check_records(report.records, lines, later, is_newer, found);
  check_stability(report, found);
  check_meters(report, found);
  check_energy(report, found);
  check_power(report, found);
  check_devices(report, is_newer, found);
  check_losses(report, found);
  return found.take();
}

/// Of a document that may be anything.
Json plan_sha256_of(const Json& document) {
  const auto member = [](const Json& json, const char* key) {
    return json.is_object() ? json.value(key, Json()) : Json();
  };
  return member(member(document, "plan"), "sha256");
}

/// Calls `check` if the schema is kept; values that the types cannot hold (integers out of range) are violations, too.
/// `document`: of `text`; it is used up.
template <class Check>
Validation validate(Json&& document, const std::string& text, const std::string& schema, Check check) {
  Validation found;
  for (const SchemaViolation& one : schema_violations(std::move(document), text, schema))
    found.violations.push_back({"schema", one.pointer.empty() ? "/" : one.pointer, one.what});
  if (!found.violations.empty()) return found;
  try {
    return check();
  } catch (const std::runtime_error& error) {
    return {.violations = {{"unreadable", "", error.what()}}};
  } catch (const Json::exception&) {  // the schema knows nothing of what is inside this text
    return {.violations = {{"plan_text", "/plan/canonical_json", "a value has the wrong type or size"}}};
  }
}

}  // namespace

std::string place_of(std::size_t record) { return "/records/" + std::to_string(record); }
std::string place_of(std::size_t record, std::size_t trial) {
  return place_of(record) + "/trials/" + std::to_string(trial);
}

void Findings::left_out_flag(std::size_t record, const FlagName& flag, const std::string& whence) {
  found_.left_out_flags.push_back({record, flag});
  note("flag_left_out", place_of(record) + "/verdict/flags",
       whence + " \"" + flag.name + "\", which the report leaves out: it counts all the same");
}

Validation validate_report(const std::string& text) {
  std::optional<Report> report;
  return validate_report(text, report);
}

Validation validate_report(const std::string& text, std::optional<Report>& report) {
  report.reset();
  Json document;
  if (const std::string fault = parse_json(text, document); !fault.empty())
    return {.violations = {{"not_json", "", "not JSON: " + fault}}};
  std::string why_unreadable;
  try {
    report = report_from_tree(document, UnknownNames::left_out);
  } catch (const std::runtime_error& error) {
    why_unreadable = error.what();
  }
  SchemaOfAge schema{report_schema_json, {}};
  bool is_newer = false;
  const Json version = document.is_object() ? document.value("schema_version", Json()) : Json();
  if (version != schema_version) {
    if (!report) return {.violations = {{"unreadable", "", why_unreadable}}};  // says best what is wrong with the whole
    is_newer = is_newer_minor(version.get<std::string>(), schema_version);
    schema = schema_of_age(text, report_schema_json, version.get<std::string>(), schema_version);
  }
  const Json plan_sha256 = plan_sha256_of(document);
  Validation found = validate(std::move(document), text, schema.text, [&] {
    if (!report) throw std::runtime_error(why_unreadable);
    try {
      return check_whole(*report, plan_sha256, schema.missing_fields, is_newer);
    } catch (...) {
      report.reset();  // its state is undefined
      throw;
    }
  });
  if (is_newer)
    found.warnings.push_back({"schema_newer", "/schema_version",
                              version.dump() + " is newer than " + schema_version +
                                  ", which this program knows: newer fields were not checked"});
  for (const MissingField& field : schema.missing_fields)
    found.warnings.push_back({"field_of_later_version", field.pointer,
                              "absent: schema version " + field.since + " brought it, the report is of " +
                                  version.get<std::string>()});
  found.missing_fields = std::move(schema.missing_fields);
  return found;
}

void add_left_out_flags(std::vector<Record>& records, const Validation& found) {
  for (const auto& [place, flag] : found.left_out_flags)
    if (place < records.size()) records[place].verdict.flags.push_back(flag);
}

Validation validate_record_lines(const std::string& text) {
  Json document = {{"records", Json::array()}}, schema = Json::parse(report_schema_json);
  schema["required"] = {"records"};
  schema["properties"]["records"].erase("minItems");
  RecordLines lines;
  try {
    lines = record_lines(text, UnknownNames::left_out);
  } catch (const std::runtime_error& error) {
    return {.violations = {{"unreadable", "", error.what()}}};
  }
  std::size_t begin = 0;
  for (std::size_t i = 0; i < lines.records.size(); ++i) {
    const std::size_t end = text.find('\n', begin);
    document["records"].push_back(Json::parse(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  const std::string whole = document.dump();
  Validation found = validate(std::move(document), whole, schema.dump(), [&] {
    Findings of_records;
    check_unique(lines.records, of_records);
    check_records(lines.records, lines_of(lines.records), {}, false, of_records);
    return of_records.take();
  });
  if (lines.torn) found.warnings.push_back({"last_line_torn", "/records", "the last line was cut off and is left out"});
  return found;
}

}  // namespace tw::results
