// The processes that a launcher has started on one node: one of them reads the meters, for all.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <filesystem>

#include "bench/node_power/node_power.hpp"
#include "comm/launch.hpp"
#include "power/meter/descriptor.hpp"

namespace tw::bench::tool {

/// The place of this process among those that a launcher started with it, and where they meet.
struct Place : comm::Launch {
  std::string meeting;  ///< names the launch on this node, as a part of a file's name; empty: started alone
};
Place find_place();

/// GPUs ("nvml:GPU-…", "amdgpu:0000:c1:00.0") that a task may use.
struct Gpus {
  std::set<std::string> names;
  std::string unclear;  ///< why it may use others, too
};

/// Which GPUs are the job's, from what each of a node's tasks may use: those are counted that one of them may use. This
/// process reads alone: what a cgroup keeps from it leaves the node's GPUs without joules, as do tasks that said
/// nothing, for the samples would be those of more GPUs than the joules.
GpuChoice choose_gpus(const Place& place, const std::vector<std::string>& addressable, const Gpus& mine,
                      const std::vector<Gpus>& others);

/// Processes of one launch on one node meet in a folder of this user's over locked files: a lock goes with its process,
/// however that ends, and a file that nobody has locked is a leftover.
class Rendezvous {
 public:
  /// Throws EnvironmentError if the folder is not this user's alone.
  explicit Rendezvous(const Place& place);
  ~Rendezvous();

  /// Whether this process is to read: the first of its node, unless another waited for it in vain; where no process
  /// knows its place, the first to come here.
  bool is_reader(const std::optional<int>& local_rank) { return local_rank.value_or(0) == 0 && take_reading(); }

  enum class Held {
    may_begin,  ///< the reader has begun
    reads,      ///< nobody had come to read, as where only this task is metered: it falls to this process
    alone       ///< the reader has not begun within a minute
  };
  /// Of one that does not read: it is here until its end, and may use these GPUs.
  Held hold(const std::optional<int>& local_rank, const Gpus& visible);
  /// Of the reader: until all others are here, where it is not known how many until nobody has come for a second; one
  /// that is later than ten seconds is not waited for. What each may use.
  std::vector<Gpus> gather(int local_ranks);
  /// Of the reader: the others may begin.
  void go();
  /// Of the reader: until all others have ended, or this program is told to end; false then.
  bool wait() const;

 private:
  bool take_reading();
  void show(const std::string& name, const std::string& text);
  bool is_held(const std::string& name) const;
  std::vector<std::filesystem::path> held() const;

  std::filesystem::path folder_;
  power::Descriptor lock_, reader_lock_;
  bool reads_ = false, gave_up_ = false;
};

}  // namespace tw::bench::tool
