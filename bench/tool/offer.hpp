// Bundles and run rules as `trainwatt validate` looks at them.
#pragma once

#include <string>

#include "bench/tool/check.hpp"
#include "bench/tool/commands.hpp"

namespace tw::tool {

/// Holds a report against the kit that it should be of: the kit's SHA-256, and the very plan that the kit makes for
/// that many ranks on that device. Throws UsageError where the kit cannot be read.
void check_kit(const Report& report, const std::string& kit_path, Validation& found);

/// Holds a report against the run rules (results/run_rules.hpp): those kept and those that do not apply on stdout. Of an
/// offer those broken become violations, those that cannot be checked warnings; of a report, which may be for a look
/// only (`offer` null), both stand on stdout and change nothing.
void check_rules(const std::string& path, const Report& report, Validation* offer);

/// Whose signature a bundle has, on stdout; what is wrong with it goes into `found`. `signers`: allowed signers as
/// ssh-keygen reads them; empty: it is not checked.
void check_signature(const std::string& name, const BundleFiles& files, const std::string& signers, Validation& found);

/// What a bundle says of itself, for people: program, suite, kit, hosts, records, signature, run rules, one line each
/// on stdout; what breaks a rule or is wrong goes into `checked.found`.
void check_offer(const std::string& path, CheckedReport& checked, const ValidateOptions& options);

}  // namespace tw::tool
