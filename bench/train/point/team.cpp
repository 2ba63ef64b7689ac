#include "bench/train/point/team.hpp"

namespace tw::bench {

Team::Team(std::unique_ptr<comm::Job> its_job, const Machines& all, const power::MeterOptions& meters,
           const EnergyWindow& whole)
    : job(std::move(its_job)), machines(*job, all), energy(*job, machines, meters, &whole) {
  for (const std::string& one : job->gather(machines.host())) hosts.insert(one);
}

Team* Teams::first(int ranks) {
  const auto known = teams_.find(ranks);
  if (known != teams_.end()) return known->second.get();
  std::unique_ptr<comm::Job> part = job_.first(ranks);
  return (teams_[ranks] = part ? std::make_unique<Team>(std::move(part), machines_, meters_, whole_) : nullptr).get();
}

}  // namespace tw::bench
