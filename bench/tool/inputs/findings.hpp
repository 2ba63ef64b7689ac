// What `trainwatt validate` says of a file, as data, how it is printed, and how bundles and run rules are looked at.
#pragma once

#include <string>
#include <vector>

#include "bench/tool/inputs/report_file.hpp"
#include "results/analysis/run_rules.hpp"
#include "results/record/fault.hpp"
#include "results/validation/validate.hpp"

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

struct ValidateOptions {
  std::vector<std::string> paths;
  std::string signers;   ///< allowed signers as ssh-keygen reads them; empty: signatures are not checked
  std::string kit;       ///< the kit that the runs are of; empty: any plan
  bool verbose = false;  ///< each run rule, too
  bool json = false;     ///< findings_json()
};

/// Holds a report against the kit that it should be of: the kit's SHA-256, and the very plan that the kit makes for
/// that many ranks on that device. Throws UsageError if the kit cannot be read.
void check_kit(const results::Report& report, const std::string& kit_path, results::Validation& found);

/// What the runs of one system lack as an offer of the kit, besides the run rules: each against the kit, all of them
/// together, and how many the kit asks for. What not all runs lack has the `paths` of those that do before it. Throws
/// as check_kit().
std::vector<results::Fault> offer_faults(const std::vector<results::Report>& runs,
                                         const std::vector<std::string>& paths, const std::string& kit_path);

/// Holds a report against the run rules (results/analysis/run_rules.hpp). Of an offer those broken are faults, too, and
/// those that cannot be checked notes; a report may be for a look only.
void check_rules(const results::Report& report, bool is_offer, FileFindings& found);

/// Adds whose signature a bundle has, or what is wrong with it. `signers`: allowed signers as ssh-keygen reads them;
/// empty: it is not checked.
void check_signature(const results::BundleFiles& files, const std::string& signers, FileFindings& found);

/// Adds what a bundle says of itself (program, suite, kit, hosts, records), and what is wrong with it as an offer.
void check_offer(const CheckedReport& checked, FileFindings& found);

}  // namespace tw::bench::tool
