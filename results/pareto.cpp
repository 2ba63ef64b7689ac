#include "results/pareto.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "results/export_parts.hpp"
#include "results/scopes.hpp"
#include "results/search.hpp"

namespace tw {
namespace {

/// Both the more the better: samples/s and samples/J, or less the seconds and less the joules to a target.
struct Candidate {
  std::size_t record;
  double speed, efficiency;
};

std::optional<Candidate> candidate_of(const Report& report, std::size_t place, const std::string& scope) {
  const Record& record = report.records[place];
  const Summary& s = record.summary;
  if (record.target) {
    const std::optional<Estimate> joules = target_joules(record, scope);
    if (!joules || !s.to_target->time_s || !(s.to_target->time_s->value > 0)) return std::nullopt;
    return Candidate{place, -s.to_target->time_s->value, -joules->value};
  }
  const std::optional<Estimate> joules = sample_joules(record, scope);
  if (!joules || !s.samples_per_s || !(s.samples_per_s->value > 0)) return std::nullopt;
  return Candidate{place, s.samples_per_s->value, 1 / joules->value};
}

/// Of one sample, or to the target.
double cost_of(const Candidate& one, bool to_target, const JobPrices& prices) {
  const double seconds = to_target ? -one.speed : 1 / one.speed, joules = to_target ? -one.efficiency : 1 / one.efficiency;
  return prices.hour_price * seconds / 3600 + prices.kwh_price * joules / 3.6e6;
}

std::optional<std::size_t> knee_of(const std::vector<TwoFigures>& points, const std::vector<std::size_t>& front) {
  if (front.size() < 3) return std::nullopt;
  const TwoFigures &fastest = points[front.front()], &leanest = points[front.back()];
  const double speeds = fastest.first - leanest.first, efficiencies = leanest.second - fastest.second;
  std::optional<std::size_t> knee;
  double farthest = 1e-9;  // outside the line by rounding alone is none
  for (std::size_t i = 1; i + 1 < front.size(); ++i) {
    const double x = (points[front[i]].first - leanest.first) / speeds;
    const double y = (points[front[i]].second - fastest.second) / efficiencies;
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

TradeOff trade_off(const std::vector<TwoFigures>& points) {
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    return points[a].first != points[b].first ? points[a].first > points[b].first : points[a].second > points[b].second;
  });
  TradeOff found;
  for (const std::size_t i : order)
    if (found.front.empty() || points[i].second > points[found.front.back()].second) found.front.push_back(i);
  found.knee = knee_of(points, found.front);
  return found;
}

std::string unlike_precisions(const std::set<std::string>& precisions) {
  return precisions.size() < 2 ? "" : fmt::format("of {}, which may not train alike", fmt::join(precisions, " and "));
}

std::vector<Front> pareto_fronts(const Report& report, const std::set<std::size_t>& left_out) {
  std::map<std::tuple<bool, std::string, std::int64_t>, std::vector<std::size_t>> workloads;
  for (std::size_t i = 0; i < report.records.size(); ++i) {
    const Record& record = report.records[i];
    if (record.verdict.status == "valid" && !record.id.ends_with(again_suffix))
      workloads[{record.target.has_value(), record.workload.hash, record.workload.global_batch}].push_back(i);
  }
  std::vector<Front> fronts;
  for (const auto& [key, places] : workloads)
    for (const std::string& scope : telling_scopes(of(report, places))) {
      std::vector<Candidate> all;
      for (const std::size_t i : places)
        if (const std::optional<Candidate> one = candidate_of(report, i, scope)) all.push_back(*one);
      if (all.size() < 2) continue;
      Front& front = fronts.emplace_back();
      std::tie(front.to_target, front.hash, front.global_batch) = key;
      front.scope = scope, front.without = places.size() - all.size();
      std::erase_if(all, [&](const Candidate& one) { return left_out.contains(one.record); });
      std::vector<TwoFigures> figures;
      for (const Candidate& one : all) {
        figures.push_back({one.speed, one.efficiency});
        front.precisions.insert(report.records[one.record].workload.precision);
      }
      const TradeOff found = trade_off(figures);
      std::vector<Candidate> best;
      for (const std::size_t i : found.front) best.push_back(all[i]);
      front.others = all.size() - best.size();
      for (const Candidate& one : best) front.records.push_back(one.record);
      front.knee = found.knee;
      if (all.empty()) break;
      const std::optional<JobPrices>& prices = report.records[all.front().record].prices;
      const auto has_others = [&](const Candidate& one) { return report.records[one.record].prices != prices; };
      if (prices && std::ranges::none_of(all, has_others)) {
        for (const Candidate& one : best) front.costs.push_back(cost_of(one, front.to_target, *prices));
        front.cheapest = static_cast<std::size_t>(std::ranges::min_element(front.costs) - front.costs.begin());
      }
      break;  // the widest scope that tells of all points and that two of them have
    }
  return fronts;
}

}  // namespace tw
