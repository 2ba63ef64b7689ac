#include "bench/train/team.hpp"

namespace tw {

Team::Team(std::unique_ptr<Job> its_job, const std::string& host, const MeterOptions& meters)
    : job(std::move(its_job)), machines(*job, host), energy(*job, machines, meters) {
  for (const std::string& one : job->gather(machines.host())) hosts.insert(one);
}

Team* Teams::first(int ranks) {
  const auto known = teams_.find(ranks);
  if (known != teams_.end()) return known->second.get();
  std::unique_ptr<Job> part = job_.first(ranks);
  return (teams_[ranks] = part ? std::make_unique<Team>(std::move(part), machines_.host(), meters_) : nullptr).get();
}

}  // namespace tw
