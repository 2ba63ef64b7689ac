#include "results/analysis/phases.hpp"

#include <algorithm>
#include <map>

#include "results/analysis/trials.hpp"

namespace tw::results {

std::vector<std::pair<std::string, double>> mean_phases(const Record& record) {
  std::map<std::string, double> seconds;
  double steps = 0;
  for (const Trial* trial : valid_trials(record)) {  // as the step time beside it
    const double n = static_cast<double>(trial->step_time_s.size());
    for (const auto& [phase, mean] : trial->phase_s) seconds[phase] += mean * n;
    steps += n;
  }
  if (seconds.empty() || !(steps > 0) || !record.summary.step_time_s) return {};
  double rest = record.summary.step_time_s->value;
  std::vector<std::pair<std::string, double>> ordered;
  for (const char* known : {"data", "forward", "backward", "communication", "optimizer"})  // as they happen
    if (const auto found = seconds.find(known); found != seconds.end()) {
      ordered.emplace_back(known, found->second / steps);
      seconds.erase(found);
    }
  for (const auto& [phase, total] : seconds) ordered.emplace_back(phase, total / steps);
  for (const auto& [phase, mean] : ordered) rest -= mean;
  ordered.emplace_back("rest", std::max(0.0, rest));
  return ordered;
}

}  // namespace tw::results
