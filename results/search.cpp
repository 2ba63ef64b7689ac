#include "results/search.hpp"

#include <algorithm>
#include <cmath>

#include "results/statistics.hpp"

namespace tw {
namespace {

/// Half the 95 % interval over the value; nullopt where there is none.
std::optional<double> relative_half(const Estimate& e) {
  return e.low && e.high && e.value != 0 ? std::optional((*e.high - *e.low) / 2 / std::abs(e.value)) : std::nullopt;
}

Estimate with_half(double value, std::optional<double> half, int count, const char* statistic) {
  Estimate e;
  e.value = value;
  if (half) e.low = value - *half, e.high = value + *half;
  e.count = count;
  e.statistic = statistic;
  return e;
}

const Record* find(const std::vector<Record>& records, const std::string& id) {
  const auto found = std::ranges::find(records, id, &Record::id);
  return found == records.end() ? nullptr : &*found;
}

bool same(const std::optional<Estimate>& a, const std::optional<Estimate>& b) {
  constexpr double slack = 1e-9;
  const auto near = [](double x, double y) { return std::abs(x - y) <= slack * std::max(std::abs(x), std::abs(y)); };
  const auto near_if = [&](const std::optional<double>& x, const std::optional<double>& y) {
    return x.has_value() == y.has_value() && (!x || near(*x, *y));
  };
  if (!a || !b) return !a && !b;
  return near(a->value, b->value) && near_if(a->low, b->low) && near_if(a->high, b->high);
}

/// The records of a search's workload that are points of its grid, measured for the first time.
std::vector<const Record*> looked_at(const Report& report, const SearchOutcome& outcome) {
  std::vector<const Record*> all;
  for (const Record& record : report.records)
    if (record.id.starts_with(outcome.workload + "/") && !record.id.ends_with(again_suffix)) all.push_back(&record);
  return all;
}

/// Why the outcome's best is not the best of what was measured; empty where it is.
std::string not_the_best(const Report& report, const SearchOutcome& outcome, const SearchGoal& goal) {
  const Record* found = find(report.records, outcome.workload);
  if (found == nullptr || !found->summary.samples_per_s) return outcome.best.empty() ? "" : "the found settings have no record";
  const std::optional<Estimate> at_found = merit_of(*found, goal, outcome.scope);
  const Record* best = nullptr;
  double least = at_found ? at_found->value : 0;
  for (const Record* record : looked_at(report, outcome)) {
    const std::optional<Estimate> merit = merit_of(*record, goal, outcome.scope);
    if (!merit || merit->value >= least) continue;
    if (1 - record->summary.samples_per_s->value / found->summary.samples_per_s->value > goal.max_slowdown) continue;
    best = record;
    least = merit->value;
  }
  const std::string expected = best == nullptr ? "" : best->id + again_suffix;
  if (outcome.best == expected) return {};
  return expected.empty() ? "no setting measured is better than the found ones and fast enough" : "of what was measured " + best->id + " is the best";
}

}  // namespace

const std::vector<std::string>& merit_names() {
  static const std::vector<std::string> names = {"energy", "edp", "cost"};
  return names;
}
const char* to_string(SearchMerit merit) { return merit_names()[static_cast<std::size_t>(merit)].c_str(); }
std::optional<SearchMerit> merit_from_string(const std::string& name) {
  const auto found = std::ranges::find(merit_names(), name);
  if (found == merit_names().end()) return std::nullopt;
  return static_cast<SearchMerit>(found - merit_names().begin());
}

std::optional<Estimate> merit_of(const Record& record, const SearchGoal& goal, const std::string& scope) {
  const auto per_joule = record.summary.samples_per_j.find(scope);
  if (record.verdict.status != "valid" || !record.summary.samples_per_s || per_joule == record.summary.samples_per_j.end() ||
      !per_joule->second)
    return std::nullopt;
  const Estimate &speed = *record.summary.samples_per_s, &efficiency = *per_joule->second;
  const std::optional<double> of_speed = relative_half(speed), of_efficiency = relative_half(efficiency);
  // Seconds and joules of a sample, then each one's share of the merit and what a relative error of it makes.
  const double seconds = 1 / speed.value, joules = 1 / efficiency.value;
  double value = joules, by_speed = 0, by_efficiency = joules;
  if (goal.merit == SearchMerit::edp) value = by_speed = by_efficiency = joules * seconds;
  if (goal.merit == SearchMerit::cost) {
    by_speed = goal.hour_price * seconds / 3600;
    by_efficiency = goal.kwh_price * joules / 3.6e6;
    value = by_speed + by_efficiency;
  }
  std::optional<double> half;
  if (of_speed && of_efficiency) half = std::hypot(by_speed * *of_speed, by_efficiency * *of_efficiency);
  return with_half(value, half, std::min(speed.count, efficiency.count), "derived");
}

std::string widest_scope(const Record& record) {
  for (const char* scope : {"node", "device", "package"}) {
    const auto found = record.summary.samples_per_j.find(scope);
    if (found != record.summary.samples_per_j.end() && found->second) return scope;
  }
  return {};
}

void conclude(SearchOutcome& outcome, const std::vector<Record>& records) {
  outcome.merit_ratio.reset(), outcome.speed_ratio.reset();
  if (outcome.best.empty()) return;
  const Record *found = find(records, outcome.found), *best = find(records, outcome.best);
  const SearchGoal goal{*merit_from_string(outcome.merit), outcome.max_slowdown, outcome.hour_price, outcome.kwh_price};
  if (found == nullptr || best == nullptr) return;
  const std::optional<Estimate> before = merit_of(*found, goal, outcome.scope), after = merit_of(*best, goal, outcome.scope);
  if (!before || !after) {
    outcome.reason = "measured once more, one of the two has no valid joules";
    return;
  }
  outcome.merit_ratio = ratio(*after, *before);
  outcome.speed_ratio = ratio(*best->summary.samples_per_s, *found->summary.samples_per_s);
}

std::vector<std::string> search_faults(const Report& report, const SearchGoal& goal) {
  std::vector<std::string> faults;
  for (std::size_t i = 0; i < report.search->size(); ++i) {
    const SearchOutcome& outcome = (*report.search)[i];
    const std::string at = "/search/" + std::to_string(i);
    if (outcome.merit != to_string(goal.merit) || outcome.max_slowdown != goal.max_slowdown ||
        outcome.hour_price != goal.hour_price || outcome.kwh_price != goal.kwh_price) {
      faults.push_back(at + ": looks for something else than the plan");
      continue;
    }
    const std::size_t measured = looked_at(report, outcome).size();
    if (static_cast<std::size_t>(outcome.measured) != measured || outcome.measured > outcome.points)
      faults.push_back(at + "/measured: is " + std::to_string(outcome.measured) + ", the records are " + std::to_string(measured));
    if (const std::string why = not_the_best(report, outcome, goal); !why.empty())
      faults.push_back(at + "/best: is \"" + outcome.best + "\": " + why);
    if (!outcome.best.empty() && outcome.found != outcome.workload + again_suffix)
      faults.push_back(at + "/found: is not the workload's found settings measured once more");
    SearchOutcome anew = outcome;
    conclude(anew, report.records);
    if (!same(anew.merit_ratio, outcome.merit_ratio)) faults.push_back(at + "/merit_ratio: does not follow from the records");
    if (!same(anew.speed_ratio, outcome.speed_ratio)) faults.push_back(at + "/speed_ratio: does not follow from the records");
    if (outcome.reason.empty() != outcome.merit_ratio.has_value())
      faults.push_back(at + "/reason: has to stand where there is no ratio, and only there");
  }
  return faults;
}

}  // namespace tw
