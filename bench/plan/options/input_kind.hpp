// What kind of file a user has given: an option that takes another kind says so, instead of what does not fit in it.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace tw::bench {

/// `report`: or the records.jsonl of a run; `other`: known, and taken by no option. Not recognised: weights, signers.
enum class InputKind {
  report,
  bundle,
  config,
  kit,
  prices,
  rules,
  weights,
  probe,
  site,
  power_csv,
  signers,
  key,
  layers,
  other
};

/// "a kit (trainwatt freeze), not a report: trainwatt-train --config runs it, …"; empty if the text is of a wanted
/// kind, or of none that is known. Goes by its first MiB, which may be anything; what was cut off is recognised, too.
std::string other_kind(std::string_view text, std::initializer_list<InputKind> wanted);

/// The text of the file that an option names, of 1 MiB at most. Throws UsageError that names both: cannot-read,
/// bad-file (a folder, too large), wrong-file (another kind).
std::string read_input(const std::string& option, const std::string& path, std::initializer_list<InputKind> wanted);

/// Throws UsageError if the file is of another kind (wrong-file) or cannot be opened (cannot-read); its reader names
/// any other fault.
void check_kind(const std::string& option, const std::string& path, std::initializer_list<InputKind> wanted);

}  // namespace tw::bench
