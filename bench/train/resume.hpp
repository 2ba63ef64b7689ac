// How a run goes on in the folder of an earlier launch: what that left, and whether it was the same run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench/train/options.hpp"
#include "results/record.hpp"

namespace tw {

/// Of a run's folder: how it was started; its finished points, one a line; the report.
inline constexpr const char* run_file = "run.json";
inline constexpr const char* records_file = "records.jsonl";
inline constexpr const char* report_file = "report.json";

/// What the launches before have left in a folder.
struct Earlier {
  RunStart start;               ///< of the last of them
  std::vector<Record> records;  ///< finished points
};

/// Whether a folder holds a run, or nothing at all (false). Throws UsageError where it holds something else.
bool holds_run(const std::filesystem::path& folder);
/// A last line of records.jsonl that a kill has torn is left out. Throws std::runtime_error with file and line where a
/// file is damaged.
Earlier read_earlier(const std::filesystem::path& folder);

/// All launches so far, each with its points and its context.
std::vector<RunPart> parts_of(const Earlier& earlier);

/// One way in which two launches are not the same run.
struct Difference {
  std::string text;       ///< "trials 3, now 2"
  bool is_usage = false;  ///< of what was asked for; otherwise of the program or the machine
};
/// The plan, the program, its libraries, the ranks, the nodes' processors and memory, each rank's device. Host names
/// may differ, as they do where a job is queued again; a GPU's UUID may not.
std::vector<Difference> differences(const RunStart& before, const Report& now);
/// Of options that are no part of the plan, but of how it is measured.
std::vector<Difference> differences(const Options& before, const Options& now);

/// "line 3: …": the first record that breaks the schema, or is none of this plan; empty where they are all good.
/// `report` is the one that goes on, unfinished, with the records in the order of their lines.
std::string damaged_record(const Report& report);

/// Holds a folder for one process, until it ends in whatever way.
class RunLock {
 public:
  /// Throws Stop{exit_environment} with the holder's name where another process has the folder.
  explicit RunLock(const std::filesystem::path& folder);
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;
  ~RunLock();

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

}  // namespace tw
