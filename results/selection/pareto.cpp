#include "results/selection/pareto.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "results/analysis/scopes.hpp"
#include "results/analysis/statistics.hpp"
#include "results/record/text.hpp"
#include "results/selection/search.hpp"

namespace tw::results {
namespace {

/// Both the more the better: samples/s and samples/J, or less the seconds and less the joules to a target.
struct Candidate {
  std::size_t record;
  Estimate speed, efficiency;
};

std::optional<Candidate> candidate_of(const Report& report, std::size_t place, Scope scope) {
  const Record& record = report.records[place];
  const Summary& s = record.summary;
  if (record.target) {
    const std::optional<Estimate> joules = target_joules(record, scope);
    if (!joules || !s.to_target->time_s || !(s.to_target->time_s->value > 0)) return std::nullopt;
    return Candidate{place, negated(*s.to_target->time_s), negated(*joules)};
  }
  const std::optional<Estimate> joules = sample_joules(record, scope);
  if (!joules || !s.samples_per_s || !(s.samples_per_s->value > 0)) return std::nullopt;
  return Candidate{place, *s.samples_per_s, inverse(*joules)};
}

/// Of one sample, or to the target. Its interval includes every time and every joule of theirs, however correlated.
Estimate cost_of(const Candidate& one, bool to_target, const JobPrices& prices) {
  const Estimate seconds = to_target ? negated(one.speed) : inverse(one.speed);
  const Estimate joules = to_target ? negated(one.efficiency) : inverse(one.efficiency);
  const auto cost = [&](double s, double j) { return prices.hour_price * s / 3600 + prices.kwh_price * j / 3.6e6; };
  Estimate e{cost(seconds.value, joules.value), {}, {}, seconds.statistic, seconds.count};
  if (seconds.low && joules.low) e.low = cost(*seconds.low, *joules.low);
  if (seconds.high && joules.high) e.high = cost(*seconds.high, *joules.high);
  return e;
}

/// The one of `best` that costs least, where its interval separates it from every other of `all`.
std::optional<std::size_t> cheapest_of(const std::vector<Candidate>& best, const std::vector<Candidate>& all,
                                       bool to_target, const JobPrices& prices) {
  const auto price_of = [&](const Candidate& one) { return cost_of(one, to_target, prices); };
  const auto least = std::ranges::min_element(best, {}, [&](const Candidate& one) { return price_of(one).value; });
  const Estimate cost = price_of(*least);
  const bool is_shown = std::ranges::all_of(
      all, [&](const Candidate& one) { return one.record == least->record || told_apart(cost, price_of(one)); });
  return is_shown ? std::optional(static_cast<std::size_t>(least - best.begin())) : std::nullopt;
}

bool is_beyond(const Estimate& one, const Estimate& other) { return one.value > other.value && told_apart(one, other); }

std::optional<std::size_t> knee_of(const std::vector<TwoFigures>& points, const std::vector<std::size_t>& front) {
  if (front.size() < 3) return std::nullopt;
  const TwoFigures &fastest = points[front.front()], &leanest = points[front.back()];
  const double speeds = fastest.first.value - leanest.first.value,
               efficiencies = leanest.second.value - fastest.second.value;
  std::optional<std::size_t> knee;
  double farthest = 1e-9;  // outside the line by rounding alone is none
  for (std::size_t i = 1; i + 1 < front.size(); ++i) {
    const double x = (points[front[i]].first.value - leanest.first.value) / speeds;
    const double y = (points[front[i]].second.value - fastest.second.value) / efficiencies;
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

Estimate negated(const Estimate& e) {
  const auto of = [](const std::optional<double>& v) { return v ? std::optional(-*v) : std::nullopt; };
  return {-e.value, of(e.high), of(e.low), e.statistic, e.count};
}

TradeOff trade_off(const std::vector<TwoFigures>& points) {
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const TwoFigures &one = points[a], &other = points[b];
    return one.first.value != other.first.value ? one.first.value > other.first.value
                                                : one.second.value > other.second.value;
  });
  TradeOff found;
  for (const std::size_t i : order)
    if (found.front.empty() || points[i].second.value > points[found.front.back()].second.value)
      found.front.push_back(i);
    else if (std::ranges::none_of(points, [&](const TwoFigures& one) {
               return is_beyond(one.first, points[i].first) && is_beyond(one.second, points[i].second);
             }))
      found.alike.push_back(i);
  found.knee = knee_of(points, found.front);
  return found;
}

std::string unlike_precisions(const std::set<std::string>& precisions) {
  return precisions.size() < 2 ? "" : "of " + text::join(precisions, " and ") + ", which may not train alike";
}

std::vector<Front> pareto_fronts(const Report& report, const std::set<std::size_t>& left_out) {
  std::map<std::tuple<bool, std::string, std::int64_t>, std::vector<std::size_t>> workloads;
  for (std::size_t i = 0; i < report.records.size(); ++i) {
    const Record& record = report.records[i];
    if (is_valid(record) && !record.id.ends_with(again_suffix))
      workloads[{record.target.has_value(), record.workload.hash, record.workload.global_batch}].push_back(i);
  }
  std::vector<Front> fronts;
  for (const auto& [key, places] : workloads)
    for (Scope scope : telling_scopes(of(report, places))) {
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
      front.others = all.size() - best.size() - found.alike.size();
      for (const Candidate& one : best) front.records.push_back(one.record);
      for (const std::size_t i : found.alike) front.alike.push_back(all[i].record);
      front.knee = found.knee;
      if (all.empty()) break;
      const std::optional<JobPrices>& prices = report.records[all.front().record].prices;
      const auto has_others = [&](const Candidate& one) { return report.records[one.record].prices != prices; };
      if (prices && std::ranges::none_of(all, has_others)) {
        for (const Candidate& one : best) front.costs.push_back(cost_of(one, front.to_target, *prices).value);
        front.cheapest = cheapest_of(best, all, front.to_target, *prices);
      }
      break;  // the widest scope that is valid for all points and that two of them have
    }
  return fronts;
}

}  // namespace tw::results
