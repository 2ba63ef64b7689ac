// What a vendor hands in (`trainwatt bundle`): the files of a run, what is derived of them for people and spreadsheets,
// and the SHA-256 of each. Packing them into one archive, and signatures, are not here (bench/tool).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "results/record/report_io.hpp"
#include "results/validation/validate.hpp"

namespace tw::results {

/// Bytes by name; there are no folders inside a bundle.
using BundleFiles = std::map<std::string, std::string>;

/// Besides report_file, records_file and run_file.
inline constexpr const char* bundle_file = "bundle.json";  ///< what made the bundle, and over what it was forced
inline constexpr const char* environment_file =
    "environment.json";                                 ///< the report's context, and those of earlier launches
inline constexpr const char* power_file = "power.csv";  ///< the time series along each trial, RFC 4180
inline constexpr const char* readme_file = "README.txt";
inline constexpr const char* sums_file = "SHA256SUMS";           ///< of all files but itself and its signature
inline constexpr const char* signature_file = "SHA256SUMS.sig";  ///< as `ssh-keygen -Y sign` writes it; may be missing
inline constexpr const char* bundle_version = "1.0";

/// Adds what is derived, and the sums, to the files of a run: report_file, and records_file and run_file where there
/// are any. `forced_over`: what the report breaks, where it is bundled all the same. The same files make the same
/// bundle. Throws std::runtime_error if the report cannot be read.
BundleFiles make_bundle(BundleFiles run, const std::vector<std::string>& forced_over);

/// The text of bundle_file. `runs`: of a bundle of several.
std::string bundle_json(const std::vector<std::string>& forced_over, std::optional<std::size_t> runs = {});

/// Each file but the sums and their signature, as sha256sum writes and checks it.
std::string checksums(const BundleFiles& files);
/// Files that were altered, are missing or are not in the sums. That the sums themselves are those that
/// the vendor made only a signature can say.
std::vector<Fault> checksum_faults(const BundleFiles& files);

/// All that follows from the files alone: the sums; the report as `validate_report` has it; that records, start, series
/// and environment say what the report says; over what the bundle was forced. Lines begin with the file's name. A run
/// of steps without its raw records is broken: its report could not be checked.
Validation validate_bundle(const BundleFiles& files);

}  // namespace tw::results
