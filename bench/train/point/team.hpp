// The first ranks of a job, for points that take fewer than all.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "bench/train/job/machines.hpp"
#include "bench/train/node/energy_window.hpp"
#include "comm/job.hpp"

namespace tw::bench {

/// A job of these ranks, with the machines and the meters that are theirs: joules of nodes on which nobody trains are not
/// counted.
struct Team {
  /// `all`: of the whole job, and `whole` its meters.
  Team(std::unique_ptr<comm::Job> its_job, const Machines& all, const power::MeterOptions& meters,
       const EnergyWindow& whole);
  std::unique_ptr<comm::Job> job;
  std::set<std::string> hosts;
  Machines machines;
  EnergyWindow energy;
};

class Teams {
 public:
  Teams(comm::Job& job, const Machines& machines, power::MeterOptions meters, const EnergyWindow& whole)
      : job_(job), machines_(machines), meters_(std::move(meters)), whole_(whole) {}
  /// The first `ranks` ranks; null on the others (collective over the job). All read the meters of the whole job, which are
  /// opened anew only where NodePower::share says that they must be.
  Team* first(int ranks);

 private:
  comm::Job& job_;
  const Machines& machines_;
  power::MeterOptions meters_;
  const EnergyWindow& whole_;
  std::map<int, std::unique_ptr<Team>> teams_;
};

}  // namespace tw::bench
