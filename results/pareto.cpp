#include "results/pareto.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "results/scopes.hpp"
#include "results/search.hpp"

namespace tw {
namespace {

struct Candidate {
  std::size_t record;
  double speed, efficiency;  // samples/s, samples/J
};

std::optional<double> efficiency_of(const Record& record, const std::string& scope) {
  const auto found = record.summary.samples_per_j.find(scope);
  if (found == record.summary.samples_per_j.end() || !found->second) return std::nullopt;
  return found->second->value;
}

std::optional<std::size_t> knee_of(const std::vector<Candidate>& front) {
  if (front.size() < 3) return std::nullopt;
  const Candidate &fastest = front.front(), &leanest = front.back();
  const double speeds = fastest.speed - leanest.speed, efficiencies = leanest.efficiency - fastest.efficiency;
  std::optional<std::size_t> knee;
  double farthest = 1e-9;  // outside the line by rounding alone is none
  for (std::size_t i = 1; i + 1 < front.size(); ++i) {
    const double x = (front[i].speed - leanest.speed) / speeds;
    const double y = (front[i].efficiency - fastest.efficiency) / efficiencies;
    if (x + y - 1 > farthest) {
      farthest = x + y - 1;
      knee = i;
    }
  }
  return knee;
}

std::vector<const Record*> of(const Report& report, const std::vector<std::size_t>& places) {
  std::vector<const Record*> records;
  for (const std::size_t i : places) records.push_back(&report.records[i]);
  return records;
}

}  // namespace

std::vector<Front> pareto_fronts(const Report& report) {
  std::map<std::pair<std::string, std::int64_t>, std::vector<std::size_t>> workloads;
  for (std::size_t i = 0; i < report.records.size(); ++i) {
    const Record& record = report.records[i];
    if (record.verdict.status == "valid" && record.summary.samples_per_s && !record.target && !record.id.ends_with(again_suffix))
      workloads[{record.workload.hash, record.workload.global_batch}].push_back(i);
  }
  std::vector<Front> fronts;
  for (const auto& [key, places] : workloads)
    for (const std::string& scope : telling_scopes(of(report, places))) {
      std::vector<Candidate> all;
      for (const std::size_t i : places)
        if (const auto efficiency = efficiency_of(report.records[i], scope))
          all.push_back({i, report.records[i].summary.samples_per_s->value, *efficiency});
      if (all.size() < 2) continue;
      std::ranges::sort(all, [](const Candidate& a, const Candidate& b) {
        return a.speed != b.speed ? a.speed > b.speed : a.efficiency > b.efficiency;
      });
      std::vector<Candidate> best;
      for (const Candidate& one : all)
        if (best.empty() || one.efficiency > best.back().efficiency) best.push_back(one);
      Front& front = fronts.emplace_back();
      front.hash = key.first, front.scope = scope, front.others = all.size() - best.size();
      for (const Candidate& one : best) front.records.push_back(one.record);
      front.knee = knee_of(best);
      break;  // the widest scope that tells of all points and that two of them have
    }
  return fronts;
}

}  // namespace tw
