// Which rank reads and sets what, where nodes (containers, pods) share a machine or ranks see different GPUs.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "comm/job.hpp"
#include "power/visible_gpus.hpp"

namespace tw::bench {

/// What a rank sees: its machine, the GPUs that it can ask, and those that it may use (power/visible_gpus.hpp).
struct Sighted {
  std::string machine;
  std::vector<std::string> addressable, visible;
  std::string unclear = {};  ///< why it may use others, too
  std::string host = {};
};

/// The GPUs that a process uses of those that it sees: if it computes on one, only that. `gpu` is the whole GPU, also
/// if the process computes on an instance of it (name_of_gpu).
power::Sight used_of(power::Sight sight, const std::string& gpu);

/// A machine is identified by its boot id. Its reader, the lowest rank on it, reads all meters and sets all knobs that
/// it can address: NVML lists GPUs that CUDA_VISIBLE_DEVICES hides. Devices that only other ranks can address, for
/// example because of a cgroup, belong to the lowest of these ranks. So each sensor has one reader, and each knob one
/// owner.
class Machines {
 public:
  /// Collective. `gpu`: the UUID of the whole GPU that this rank computes on, if any: it then uses no other GPU, so
  /// that idle GPUs are in no joules and under no knob.
  explicit Machines(comm::Job& job, const std::string& gpu = {});
  /// The same of a part of `whole`'s job, whose hosts have their names.
  Machines(comm::Job& part, const Machines& whole);
  Machines(const std::vector<Sighted>& ranks, int rank);

  bool is_reader() const { return reader_ == rank_; }
  /// The rank that reads this one's machine.
  int reader() const { return reader_; }
  /// This rank's host, for rows that are told apart by it: with a number behind it where hosts on several machines
  /// share a name, as containers may: "node#1" on the second of them.
  const std::string& host() const { return host_; }
  /// The GPU that this rank computes on.
  const std::string& gpu() const { return gpu_; }
  /// GPUs ("nvml:GPU-…") that are this rank's though it is no reader.
  const std::set<std::string>& only_here() const { return only_here_; }
  /// Whether this rank reads or sets anything.
  bool has_part() const { return is_reader() || !only_here_.empty(); }
  /// GPUs ("nvml:GPU-…", "amdgpu:0000:c1:00.0") of this machine that some rank can ask.
  const std::set<std::string>& addressable() const { return addressable_; }
  /// GPUs that some rank may use: of this machine, and of all.
  const std::set<std::string>& visible() const { return visible_; }
  const std::set<std::string>& visible_anywhere() const { return visible_anywhere_; }
  /// Why it is not known which GPUs the ranks may use: of this machine, of any machine. Empty if it is known.
  const std::string& unclear() const { return unclear_; }
  const std::string& unclear_anywhere() const { return unclear_anywhere_; }
  /// The sum of what this machine's ranks bring (collective over all).
  double sum_here(comm::Job& job, double mine) const;

 private:
  int rank_ = 0, reader_ = 0;
  std::set<std::string> only_here_, addressable_, visible_, visible_anywhere_;
  std::string host_, gpu_, unclear_, unclear_anywhere_;

  Machines(comm::Job& job, const std::string& host_name, const std::string& gpu);
};

}  // namespace tw::bench
