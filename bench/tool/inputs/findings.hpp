// What `trainwatt validate` says of a file, as data, and how it is printed.
#pragma once

#include <string>
#include <vector>

#include "results/analysis/run_rules.hpp"
#include "results/record/fault.hpp"

namespace tw::bench::tool {

/// A run rule, checked on a report.
struct RuleFinding {
  std::string id, asks, why;  ///< why: what was found, or why it cannot be checked or does not apply
  results::RunRuleState state = results::RunRuleState::kept;
};
enum class FileKind { report, unfinished, bundle, series, unreadable };  ///< series: a bundle of several runs
struct FileFindings {
  std::string path;
  FileKind kind = FileKind::report;
  std::vector<std::string> facts;             ///< of a bundle: program, kit, signature; a line each
  std::vector<results::Fault> faults, notes;  ///< run rules that an offer breaks are faults, with the code rule_broken
  std::vector<RuleFinding> rules;             ///< in the order of the table; empty if they were not looked at
  std::string why_unreadable;                 ///< of FileKind::unreadable
  int exit_code = 0;
};

/// Whether nothing is wrong but broken run rules and what an offer was asked for.
bool is_consistent(const FileFindings& found);

/// For people: facts, faults and notes, then one line with what it comes to: "consistent; not fit for publication: 2 of
/// 6 rules broken (window, steady)". Of 6: those that apply and can be checked. `verbose`: what was found of each rule,
/// too. `named`: under the file's path. No line passes 80 columns but for a longer word. Safe to print.
std::string findings_text(const FileFindings& found, bool verbose, bool named);

/// {"files": [{"path", "kind", "consistent", "fit_for_publication", "faults": [{"code", "where", "text", "file"}],
/// "notes", "rules": [{"id", "kept", "state", "asks", "why"}], "facts", "error", "exit_code"}], "exit_code"}. kept:
/// null if a rule does not apply or cannot be checked; fit_for_publication: null if the rules were not looked at;
/// error: null, or why the file cannot be read.
std::string findings_json(const std::vector<FileFindings>& files, int exit_code);

}  // namespace tw::bench::tool
