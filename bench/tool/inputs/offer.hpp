// Bundles and run rules as `trainwatt validate` looks at them.
#pragma once

#include <string>
#include <vector>

#include "bench/tool/inputs/check.hpp"
#include "bench/tool/inputs/errors.hpp"
#include "bench/tool/inputs/findings.hpp"

namespace tw::bench::tool {

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
