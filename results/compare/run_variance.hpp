// How much the runs of a machine differ: what they ran on, and earlier runs that it is learned from. Internal to
// results/, but for fault_of().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "results/compare/break_even.hpp"
#include "results/compare/comparison.hpp"
#include "results/compare/differences.hpp"

namespace tw::results {

/// The kind of machine that a report was made on: processors, cores and hypervisor of each host, and the devices of its
/// ranks, without their names and numbers, so that another node of the same kind is the same machine.
std::string machine_of(const Report& report);

/// The earlier runs of each system that was run once, on its machine.
class EarlierRuns {
 public:
  /// `groups` of one machine each; `wanted`: the records of the reference, by workload. All of them live longer than
  /// this.
  EarlierRuns(const std::vector<SystemInput>& groups, const std::vector<SystemInput>& systems,
              const std::vector<const Record*>& wanted);
  /// Groups that serve a system.
  const std::vector<LearnedSpread>& learned() const { return learned_; }
  /// The groups of a system, in an order that is the same for each workload: its records, one for each run; empty if
  /// a run of the group lacks the workload.
  std::vector<std::vector<CostRun>> groups_of(std::size_t system, std::size_t workload) const;

 private:
  struct Group {
    const SystemInput* runs;
    std::vector<std::size_t> systems;
    std::vector<std::vector<RecordPair>> pairs;  // by run and workload
  };
  std::vector<Group> groups_;
  std::vector<LearnedSpread> learned_;
};

/// What keeps earlier reports from saying how runs differ.
struct RunVarianceFault {
  std::string code;  ///< "run-variance-one-run", "-copy", "-gap", "-report", "-machine" or "-workload"
  std::string text;
};
/// Of `earlier`, groups of two runs or more of one machine each (CompareOptions::run_variance), for the systems that
/// were run once: each of these needs a group of its machine that holds all workloads that are compared.
std::optional<RunVarianceFault> fault_of(const std::vector<SystemInput>& earlier,
                                         const std::vector<SystemInput>& systems, const CompareOptions& options);

}  // namespace tw::results
