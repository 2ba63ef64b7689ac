#include "results/selection/search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>

#include "results/analysis/scopes.hpp"
#include "results/analysis/statistics.hpp"
#include "results/analysis/trials.hpp"
#include "results/analysis/verdict.hpp"
#include "results/record/text.hpp"

namespace tw::results {
namespace {

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

/// The records of a search's workload that are points of its grid, looked at for the first time.
std::vector<const Record*> looked_at(const Report& report, const SearchOutcome& outcome) {
  std::vector<const Record*> all;
  for (const Record& record : report.records)
    if (record.id.starts_with(outcome.workload + "/") && !record.id.ends_with(again_suffix)) all.push_back(&record);
  return all;
}

/// Why the outcome's best is not the best of what was measured; empty if it is.
std::string not_the_best(const Report& report, const SearchOutcome& outcome, const SearchGoal& goal) {
  const Record* found = find(report.records, outcome.workload);
  if (found == nullptr || !found->summary.samples_per_s)
    return outcome.best.empty() ? "" : "the found settings have no record";
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
  return expected.empty() ? "no setting measured is better than the found ones and fast enough"
                          : "of what was measured " + best->id + " is the best";
}

/// Why the repetition does not confirm that the best setting is better; empty if it does. The best was chosen as the
/// least of many figures, so chance favours it (selection bias): only the repetition is free of that.
std::string not_borne_out(const SearchOutcome& outcome) {
  const Estimate &merit = *outcome.merit_ratio, &speed = *outcome.speed_ratio;
  const auto percent = [](double share) { return text::significant(100 * share, 3) + " %"; };
  const std::string allowed = percent(outcome.max_slowdown);
  if (speed.value < 1 - outcome.max_slowdown) return again_slower.text({percent(1 - speed.value), allowed});
  if (!merit.low || !merit.high) return again_without_interval.text();
  if (*merit.low >= 1) return again_worse.text();
  if (*merit.high >= 1) return again_no_difference.text();
  if (!speed.low) return again_speed_without_interval.text({allowed});
  if (*speed.low < 1 - outcome.max_slowdown) return again_perhaps_slower.text({allowed, percent(1 - *speed.low)});
  return {};
}

/// Whether both are empty or the same of these reasons; their figures follow from the ratios.
bool same_reason_of_search(const std::string& stated, const std::string& computed) {
  constexpr KnownText known[] = {again_without_joules, again_slower,        again_without_interval,
                                 again_worse,          again_no_difference, again_speed_without_interval,
                                 again_perhaps_slower};
  return stated == computed || std::ranges::any_of(known, [&](const KnownText& one) {
           return one.is_with_any(stated) && one.is_with_any(computed);
         });
}

}  // namespace

std::optional<Estimate> merit_of(const Record& record, const SearchGoal& goal, Scope scope) {
  if (!is_valid(record) || !record.summary.samples_per_s || !of_scope(record.summary.samples_per_j, scope))
    return std::nullopt;
  std::vector<double> merits;
  double sensor = 0;  // the mean share of a merit that the sensor's own uncertainty is
  for (const Trial* trial : valid_trials(record)) {
    const double joules = joules_of(*trial, scope), samples = samples_of(record, *trial);
    const double seconds = 1 / throughput_of(record, *trial);
    double merit = joules / samples, by_joules = 1;
    if (goal.merit == SearchMerit::edp) merit *= seconds;
    if (goal.merit == SearchMerit::cost) {
      const double of_joules = goal.kwh_price * merit / 3.6e6;
      merit = goal.hour_price * seconds / 3600 + of_joules;
      by_joules = of_joules / merit;
    }
    sensor += by_joules * uncertainty_of(*trial, scope) / joules;
    merits.push_back(merit);
  }
  if (merits.empty() || !std::ranges::all_of(merits, [](double merit) { return std::isfinite(merit); }))
    return std::nullopt;
  Estimate merit = estimate(merits, interval_rule(record.summary));
  widen(merit, sensor / static_cast<double>(merits.size()));
  return merit;
}

Scope search_scope(const Record& found, const std::vector<std::string>& settings) {
  for (Scope scope : telling_scopes(found.workload.device, settings))
    if (of_scope(found.summary.samples_per_j, scope)) return scope;
  return {};
}

std::set<std::string> searched_settings(const Report& report, const SearchOutcome& outcome) {
  std::set<std::string> names;
  for (const Record* record : looked_at(report, outcome))
    for (const auto& [name, setting] : record->setting)
      if (setting.requested) names.insert(name);
  return names;
}

void conclude(SearchOutcome& outcome, const std::vector<Record>& records) {
  outcome.merit_ratio.reset(), outcome.speed_ratio.reset();
  if (outcome.best.empty()) return;
  const Record *found = find(records, outcome.found), *best = find(records, outcome.best);
  const SearchGoal goal{outcome.merit, outcome.max_slowdown, outcome.hour_price, outcome.kwh_price};
  if (found == nullptr || best == nullptr) return;
  const std::optional<Estimate> before = merit_of(*found, goal, outcome.scope),
                                after = merit_of(*best, goal, outcome.scope);
  if (!before || !after) {
    outcome.reason = again_without_joules.text();
    return;
  }
  outcome.merit_ratio = ratio(*after, *before);
  outcome.speed_ratio = ratio(*best->summary.samples_per_s, *found->summary.samples_per_s);
  outcome.reason = not_borne_out(outcome);
}

std::vector<Fault> search_faults(const Report& report, const SearchGoal& goal) {
  std::vector<Fault> faults;
  const auto broken = [&](const std::string& where, const std::string& what) {
    faults.push_back({"search_differs", where, what});
  };
  for (std::size_t i = 0; i < report.search->size(); ++i) {
    const SearchOutcome& outcome = (*report.search)[i];
    const std::string at = "/search/" + std::to_string(i);
    if (outcome.merit != goal.merit || outcome.max_slowdown != goal.max_slowdown ||
        outcome.hour_price != goal.hour_price || outcome.kwh_price != goal.kwh_price) {
      broken(at, "searches for something else than the plan");
      continue;
    }
    const std::vector<const Record*> looked = looked_at(report, outcome);
    const auto refused =
        std::ranges::count_if(looked, [](const Record* one) { return one->verdict.status == Status::unsupported; });
    const auto measured = std::ssize(looked) - refused;
    if (outcome.measured != measured || outcome.measured + outcome.refused > outcome.points)
      broken(at + "/measured",
             "is " + std::to_string(outcome.measured) + ", the records are " + std::to_string(measured));
    if (outcome.refused != refused)
      broken(at + "/refused", "is " + std::to_string(outcome.refused) + ", the records are " + std::to_string(refused));
    if (const Record* found = find(report.records, outcome.workload)) {
      const std::set<std::string> names = searched_settings(report, outcome);
      if (outcome.scope != search_scope(*found, {names.begin(), names.end()}))
        broken(at + "/scope", "is \"" + outcome.scope + "\", whose joules do not include what was searched");
    }
    if (const std::string why = not_the_best(report, outcome, goal); !why.empty())
      broken(at + "/best", "is \"" + outcome.best + "\": " + why);
    if (!outcome.best.empty() && outcome.found != outcome.workload + again_suffix)
      broken(at + "/found", "is not the repeated measurement of the workload's found settings");
    SearchOutcome anew = outcome;
    conclude(anew, report.records);
    if (!same(anew.merit_ratio, outcome.merit_ratio)) broken(at + "/merit_ratio", "does not follow from the records");
    if (!same(anew.speed_ratio, outcome.speed_ratio)) broken(at + "/speed_ratio", "does not follow from the records");
    if (outcome.best.empty() ? outcome.reason.empty() : !same_reason_of_search(outcome.reason, anew.reason))
      broken(at + "/reason", "does not follow from the records");
  }
  return faults;
}

bool gains_by_doubling(const MicroBatchTrial& half, const MicroBatchTrial& whole) {
  return half.samples_per_s && whole.samples_per_s &&
         *whole.samples_per_s >= (1 + least_gain_of_doubling) * *half.samples_per_s;
}

/// The place of the smallest size whose doubling gains less, or has no speed, or was not tried; at least one trial.
std::size_t place_of_choice(const std::vector<MicroBatchTrial>& trials) {
  std::size_t chosen = 0;
  while (chosen + 1 < trials.size() && gains_by_doubling(trials[chosen], trials[chosen + 1])) ++chosen;
  return chosen;
}

std::optional<std::int64_t> chosen_micro_batch(const std::vector<MicroBatchTrial>& trials) {
  if (trials.empty() || !trials.front().samples_per_s) return std::nullopt;
  return trials[place_of_choice(trials)].micro_batch;
}

bool is_search_open(const std::vector<MicroBatchTrial>& trials) {
  return trials.empty() || (trials.front().samples_per_s && place_of_choice(trials) + 1 == trials.size());
}

bool declares(const std::vector<std::vector<std::string>>& launches, std::int64_t size) {
  constexpr std::string_view option = "--micro-batch";
  const std::string wanted = std::to_string(size);
  bool has_words = false, is_resumed = false, is_given = false;
  for (const std::vector<std::string>& words : launches)
    for (std::size_t i = 0; i < words.size(); ++i) {
      has_words = true;
      const std::string_view word = words[i];
      is_resumed = is_resumed || word.starts_with("--resume");
      if (!word.starts_with(option)) continue;
      const std::string_view rest = word.substr(option.size());
      if (!rest.empty() && !rest.starts_with('=')) continue;
      is_given = true;
      if ((rest.empty() ? i + 1 < words.size() && words[i + 1] == wanted : rest.substr(1) == wanted)) return true;
    }
  return !has_words || (is_resumed && !is_given);
}

KnownReason end_of_search(const std::vector<MicroBatchTrial>& trials) {
  const auto ends_at = [](const MicroBatchTrial& trial) {
    return KnownReason{no_such_micro_batch, {std::to_string(trial.micro_batch), trial.reason}};
  };
  if (!trials.front().samples_per_s) return ends_at(trials.front());
  const std::size_t chosen = place_of_choice(trials);
  if (chosen + 1 == trials.size()) return {no_such_micro_batch, {std::to_string(2 * trials[chosen].micro_batch), ""}};
  if (!trials[chosen + 1].samples_per_s) return ends_at(trials[chosen + 1]);
  return {doubling_gains_little,
          {std::to_string(trials[chosen].micro_batch), fmt::format("{:.0f}", 100 * least_gain_of_doubling)}};
}

}  // namespace tw::results
