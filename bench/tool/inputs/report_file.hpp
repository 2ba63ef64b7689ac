// Reports as the subcommands read them, and what is found about a report, its bundle and its networks, by one way for
// every subcommand: what `validate` faults no other takes for granted.
#pragma once

#include <filesystem>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "bench/plan/options/input_kind.hpp"
#include "bench/tool/inputs/errors.hpp"
#include "results/export/bundle.hpp"
#include "results/record/record.hpp"
#include "results/record/report_io.hpp"
#include "results/selection/ranking.hpp"
#include "results/validation/validate.hpp"

namespace tw::bench::tool {

inline constexpr const char *plan_order = "plan", *run_order = "run";  ///< of --sort
struct SortOptions {
  std::string by;     ///< plan_order (Order::by_axes), run_order, or a name of results/selection/ranking.hpp
  std::string scope;  ///< of figures of joules; empty: the one that most points have
};

/// The folders run-N of a folder, by N, as scripts/repeat makes them; of anything else none. Throws UsageError for one
/// that has zeros before its number.
std::map<int, std::filesystem::path> numbered_runs(const std::filesystem::path& folder);
/// The bytes of a file or pipe, of 256 MiB at most. Throws UsageError that names it; of a folder it says what to give.
std::string read_report_file(const std::string& path);
/// Throws UsageError if something has that name.
void refuse_existing(const std::string& path);

/// Does `work`; whatever goes wrong is a UsageError that names the file, with `code` unless it has one.
template <class Work>
auto with_named_errors(const std::string& path, Work work, const char* code = "bad-report") {
  try {
    return work();
  } catch (const UsageError&) {
    throw;
  } catch (const EnvironmentError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw UsageError("out-of-memory", path + ": not enough memory");
  } catch (const std::exception& error) {
    const std::string_view its = code_of(error.what());
    throw UsageError(its.empty() ? code : std::string(its), path + ": " + std::string(without_code(error.what())));
  }
}
/// Does `work` on the text of the file that an option names.
template <class Work>
auto with_text_of(const std::string& option, const std::string& path, InputKind wanted, Work work, const char* code) {
  return with_named_errors(
      path, [&] { return work(read_input(option, path, {wanted})); }, code);
}

struct LoadedReport {
  results::Report report;                       ///< of an unfinished run the records alone
  bool is_unfinished = false, is_torn = false;  ///< torn: its last line was cut off
  results::Validation validation;
};
/// Of the notes on a report those that say that its joules may be wrong: no energy of it is compared, and no cost that
/// has joules in it.
std::vector<std::string> joule_doubts(const results::Validation& found);
/// A report, the one inside a bundle, or the records.jsonl of an unfinished run, with all that check_report() finds.
/// Throws UsageError that names the file where it cannot be read, or a file of the bundle was altered.
LoadedReport load_report(const std::string& path);
/// Runs as they were handed in: of a bundle of several runs (bench/tool/inputs/series.hpp) each, else one.
struct LoadedRuns {
  std::vector<std::pair<std::string, LoadedReport>> runs;  ///< "offer.tar.zst:run-1" of several, else the path
  results::Validation found;                               ///< of a bundle of several runs, about all of them together
};
/// Throws as load_report().
LoadedRuns load_runs(const std::string& path);
std::vector<std::string> lines_of(const std::vector<results::Fault>& faults);
/// A warning on stderr: the first of the lines, and how many more; nothing where there is none.
void say_faults(const std::string& path, const std::vector<std::string>& lines);
/// Likewise, of violations and, with a code of its own, of what else was found.
void say_findings(const std::string& path, const results::Validation& found);

/// The scope of that name; none for an empty one. Throws UsageError for others.
results::Scope parse_scope(const std::string& name);
/// What --sort and --scope ask for. Throws UsageError with the nearest word.
results::Order parse_order(const SortOptions& options, const std::vector<results::Record>& records);

/// "out: cannot be written: No space left on device: free space, or choose another folder with -o"; `option`: "-o".
std::string why_not_written(const std::filesystem::path& path, const std::system_error& error,
                            const std::string& option);
/// Writes the file that -o names atomically, and creates missing folders. Throws EnvironmentError if that fails.
void write_out(const std::filesystem::path& file, const std::string& bytes);

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
