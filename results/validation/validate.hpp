// Whether a report keeps its schema and agrees with itself (`trainwatt validate`; results/README.md lists the codes).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "results/record/fault.hpp"
#include "results/record/later_fields.hpp"
#include "results/record/record.hpp"

namespace tw::results {

/// A flag that the samples or the plan give and the report leaves out.
struct LeftOutFlag {
  std::size_t record = 0;
  FlagName flag;
};
struct Validation {
  std::vector<Fault> violations{};             ///< of the schema and of invariants; empty = good
  std::vector<Fault> warnings{};               ///< what a reader should know of a good file
  std::vector<MissingField> missing_fields{};  ///< each a warning
  std::vector<LeftOutFlag> left_out_flags{};   ///< each a warning
};
/// How old the report is its schema_version says, not the program that it names.
Validation validate_report(const std::string& text);
/// The same, and the report as stored there; absent if it cannot be read.
Validation validate_report(const std::string& text, std::optional<Report>& report);
/// Gives the records the flags that were left out: whoever reads a report takes them for its own.
void add_left_out_flags(std::vector<Record>& records, const Validation& found);
/// Likewise for records.jsonl; the records are in order under /records.
Validation validate_record_lines(const std::string& text);

}  // namespace tw::results
