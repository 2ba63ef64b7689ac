// What is found about a report, its bundle and its networks, by one way for every subcommand that reads reports: what
// `validate` faults no other takes for granted.
#pragma once

#include <optional>
#include <string>

#include "results/export/bundle.hpp"
#include "results/record/record.hpp"
#include "results/record/report_io.hpp"

namespace tw::bench::tool {

struct CheckedReport {
  /// Of an unfinished run the records alone; with the flags that its samples give, and where something is wrong with it
  /// with the summaries and verdicts that its samples give, whatever it states. Absent if it cannot be read.
  std::optional<results::Report> report;
  std::string why_unreadable;  ///< empty if there is a report; with a code where it is known to be another file
  bool is_no_report = false;   ///< but a file of another kind, whole or damaged
  bool is_unfinished = false;  ///< the records.jsonl of a run without report
  bool is_torn = false;        ///< whose last line was cut off
  std::optional<results::BundleFiles> bundle;
  /// The schema and all that follows from the samples, the networks of this version, and of a bundle that its files
  /// agree; not kits, signatures and run rules.
  results::Validation found;
};
/// `bytes`: a report, records.jsonl, or a bundle, whole or damaged.
CheckedReport check_report(std::string bytes);

}  // namespace tw::bench::tool
