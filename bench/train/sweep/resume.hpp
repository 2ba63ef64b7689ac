// How a run is resumed in the folder of an earlier launch: what that left, and whether it was the same run.
#pragma once

#include <sys/file.h>

#include <filesystem>
#include <string>
#include <vector>

#include "bench/train/job/options.hpp"
#include "power/meter/descriptor.hpp"
#include "results/record/record.hpp"
#include "results/record/report_io.hpp"

namespace tw::bench {

/// What the launches before have left in a folder.
struct Earlier {
  results::RunStart start;               ///< of the last of them
  std::vector<results::Record> records;  ///< finished points
};

/// Whether a folder holds a run, or nothing at all (false). Throws UsageError if it holds something else.
bool holds_run(const std::filesystem::path& folder);
/// A last line of records.jsonl that a kill has torn is left out. Throws std::runtime_error with file and line where a
/// file is damaged.
Earlier read_earlier(const std::filesystem::path& folder);

/// What continues a run as it was launched: "mpirun -np 2 trainwatt-train --resume out/a".
std::string resume_command(const results::Context& launch, const std::filesystem::path& folder);

/// All launches so far, each with its points and its context.
std::vector<results::RunPart> parts_of(const Earlier& earlier);

/// One way in which two launches are not the same run.
struct LaunchDifference {
  std::string text;       ///< "trials 3, now 2"
  bool is_usage = false;  ///< of what was asked for; otherwise of the program or the machine
};
/// The plan, the program, its libraries, the ranks, the nodes' processors, memory, kernels and counted meters, each
/// rank's device. Host names may differ, as they do where a job is queued again; a GPU's UUID may not. The libraries of
/// `before` are those of the first rank's machine, so that only there the two can be compared.
std::vector<LaunchDifference> differences(const results::RunStart& before, const results::Report& now);
/// Of options that are no part of the plan, but of how it is measured.
std::vector<LaunchDifference> differences(const Options& before, const Options& now);

/// The first record that breaks the schema or is not of this plan, and what to do: "line 3: …: …"; or a missing one:
/// "part 1 says it measured …, and records.jsonl has no such line". Empty if all are good. `report`: the unfinished
/// report with its parts, and with the records in the order of their lines. `is_forced`: despite differences.
std::string unfit_records(const results::Report& report, bool is_forced);

/// "other nodes than before (n3, before n1)"; empty if each launch ran on nodes of the same names. Of one model they
/// may still differ in what a sample costs them.
std::string other_hosts(const results::RunStart& before, const results::Context& now);

/// Holds a folder for one process, until that ends in any way. Where the file system knows no locks, the process
/// that stands in the file is looked for, which only its own host can: that of another host keeps the folder until
/// somebody removes the file.
class RunLock {
 public:
  using Lock = int (*)(int fd, int operation);
  /// Throws Stop{exit_environment} with the holder's name where another process has the folder.
  explicit RunLock(const std::filesystem::path& folder, Lock lock = ::flock);
  ~RunLock();
  /// Whether the file system knows locks.
  bool is_known() const { return is_known_; }

 private:
  bool is_known_ = true;
  std::filesystem::path path_;
  power::Descriptor file_;
};

}  // namespace tw::bench
