#include "results/record/launches.hpp"

#include <map>

namespace tw::results {

std::vector<RecordedLaunch> launches_of(const Report& report) {
  std::vector<RecordedLaunch> launches;
  std::map<std::string, std::size_t> launch_of;
  if (report.parts)
    for (std::size_t i = 0; i < report.parts->size(); ++i) {
      const RunPart& part = (*report.parts)[i];
      if (!part.context) continue;
      for (const std::string& id : part.points) launch_of.try_emplace(id, launches.size());
      launches.push_back({&*part.context, &part.program, "/parts/" + std::to_string(i) + "/context", {}});
    }
  launches.push_back({&report.context, &report.program, "/context", {}});
  for (std::size_t i = 0; i < report.records.size(); ++i) {
    const auto known = launch_of.find(report.records[i].id);
    launches[known == launch_of.end() ? launches.size() - 1 : known->second].records.push_back(i);
  }
  return launches;
}

}  // namespace tw::results
