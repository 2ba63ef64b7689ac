#include "bench/train/sweep/search_run.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <sstream>

#include "bench/plan/search.hpp"
#include "bench/train/job/outcome.hpp"
#include "results/analysis/conditions.hpp"
#include "results/analysis/scopes.hpp"
#include "results/record/names_format.hpp"
#include "results/selection/search.hpp"

namespace tw::bench {
namespace {

/// One workload's search.
class Searching {
 public:
  Searching(comm::Job& job, const RunPlan& plan, const SearchSpace& space, const MeasurePoint& measure)
      : job_(job), plan_(plan), space_(space), measure_(measure) {
    const SearchRequest& search = *plan.search;
    goal_ = {search.merit, search.max_slowdown, search.hour_price, search.kwh_price};
    outcome_.workload = plan.points[space.found].id;
    outcome_.merit = goal_.merit;
    outcome_.max_slowdown = search.max_slowdown;
    outcome_.hour_price = search.hour_price, outcome_.kwh_price = search.kwh_price;
    outcome_.points = static_cast<int>(space.points.size());
  }

  results::SearchOutcome operator()() {
    const Look at_found = look(space_.found);
    if (!at_found.is_valid)
      return without("the found settings have no valid measurement with the joules that the search needs");
    const std::optional<std::size_t> best =
        find_best(space_, goal_.max_slowdown, [&](std::size_t point) { return look(point); });
    if (!best && outcome_.measured == 0) return without("all settings that were tried were refused");
    if (!best) return without("no measured setting is both valid and fast enough");
    if (looks_.at(*best).merit >= at_found.merit)
      return without("no measured setting is better than the found settings");
    outcome_.found = again(space_.found);
    outcome_.best = again(*best);
    return outcome_;
  }

 private:
  results::SearchOutcome without(const char* reason) {
    outcome_.reason = reason;
    return outcome_;
  }
  /// What root makes of the point's record, on all ranks (collective).
  Look look(std::size_t point) {
    const results::Record& record = measure_(plan_.points[point]);
    std::string text;
    if (job_.is_root()) {
      if (point == space_.found) {
        std::vector<std::string> settings;
        for (const power::KnobKind kind : space_.kinds) settings.emplace_back(power::to_string(kind));
        outcome_.scope = results::search_scope(record, settings);
        if (record.summary.samples_per_s) found_speed_ = record.summary.samples_per_s->value;
      }
      if (const std::optional<results::Estimate> merit = results::merit_of(record, goal_, outcome_.scope))
        text = fmt::format("{} {} {}", results::to_string(results::Status::valid), merit->value,
                           1 - record.summary.samples_per_s->value / found_speed_);
      else if (record.verdict.status == results::Status::unsupported)
        text = fmt::format("refused {}", fmt::join(results::refused_settings(record), " "));
    }
    std::istringstream words(job_.broadcast(text));
    Look seen;
    std::string word;
    words >> word;
    seen.is_valid = word == results::to_string(results::Status::valid);
    if (seen.is_valid) words >> seen.merit >> seen.slowdown;
    if (point != space_.found) ++(word == "refused" ? outcome_.refused : outcome_.measured);
    while (words >> word)
      if (const std::optional<power::KnobKind> kind = power::knob_kind_from_string(word)) seen.refused.push_back(*kind);
    looks_[point] = seen;
    return seen;
  }
  std::string again(std::size_t point) {
    Point once_more = plan_.points[point];
    once_more.id += results::again_suffix;
    measure_(once_more);
    return once_more.id;
  }

  comm::Job& job_;
  const RunPlan& plan_;
  const SearchSpace& space_;
  const MeasurePoint& measure_;
  results::SearchGoal goal_;
  results::SearchOutcome outcome_;
  std::map<std::size_t, Look> looks_;
  double found_speed_ = 0;
};

}  // namespace

std::string why_no_energy(const std::vector<results::MeterEntry>& meters) {
  std::string reasons;
  for (const results::MeterEntry& meter : meters) {
    if (meter.counted) return {};
    const std::string reason = meter.domain + ": " + meter.reason;
    if (reasons.find(reason) == std::string::npos) reasons += (reasons.empty() ? "" : "; ") + reason;
  }
  return reasons;
}

std::set<power::KnobKind> kinds_of(const RunPlan& plan) {
  std::set<power::KnobKind> kinds;
  for (const Point& point : plan.points)
    for (const auto& [kind, value] : point.setting) kinds.insert(kind);
  return kinds;
}

results::Scope scope_to_search(const RunPlan& plan, const std::vector<results::MeterEntry>& meters) {
  if (const std::string why = why_no_energy(meters); !why.empty())
    throw Stop(exit_environment, "no-energy",
               fmt::format("--search needs an energy meter, and none is readable ({}): see trainwatt probe", why));
  std::vector<std::string> settings;
  for (const power::KnobKind kind : kinds_of(plan)) settings.emplace_back(power::to_string(kind));
  const std::vector<results::Scope> telling = results::telling_scopes(plan.device, settings);
  for (results::Scope scope : telling)
    if (std::ranges::any_of(meters,
                            [&](const results::MeterEntry& meter) { return meter.counted && meter.scope == scope; }))
      return scope;
  throw Stop(exit_environment, "no-energy",
             fmt::format("--search: {} on {} needs {} energy, and no meter counts it", fmt::join(settings, ", "),
                         plan.device, fmt::join(telling, " or ")));
}

std::vector<results::SearchOutcome> run_search(comm::Job& job, const RunPlan& plan, const MeasurePoint& measure) {
  std::vector<results::SearchOutcome> outcomes;
  for (const SearchSpace& space : search_spaces(plan)) outcomes.push_back(Searching(job, plan, space, measure)());
  return outcomes;
}

}  // namespace tw::bench
