#include "results/analysis/run_rules.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "results/analysis/completeness.hpp"
#include "results/analysis/conditions.hpp"
#include "results/analysis/statistics.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"

namespace tw::results {
namespace {

constexpr std::size_t most_named = 3;

/// A record's name as each of its places begins with it; whoever makes it long gains nothing by that.
std::string name_of(const Record& record) {
  constexpr std::size_t longest = 200;
  if (record.id.size() <= longest) return record.id;
  std::size_t end = longest;
  while (end > 0 && (static_cast<unsigned char>(record.id[end]) & 0xc0) == 0x80) --end;  // whole characters
  return record.id.substr(0, end) + "…";
}
std::string trial_of(const Record& record, std::size_t trial) {
  return fmt::format("{}, trial {}", name_of(record), trial + 1);
}

/// "gpt2/bf16, resnet/bf16, bert/bf16; and 2 more"
std::string listed(const std::vector<std::string>& all, const char* between) {
  const auto end = all.begin() + static_cast<std::ptrdiff_t>(std::min(most_named, all.size()));
  return fmt::format("{}{}", fmt::join(all.begin(), end, between),
                     all.size() > most_named ? fmt::format("; and {} more", all.size() - most_named) : "");
}
std::string names_of(const Report& report, const std::function<bool(const Record&)>& is) {
  std::vector<std::string> names;
  for (const Record& record : report.records)
    if (is(record)) names.push_back(name_of(record));
  return listed(names, ", ");
}

void break_at(RunRuleCheck& found, const Record& record, std::string where, std::string what) {
  if (!found.places.empty() && found.places.back().record == &record)
    ++found.places.back().count;
  else
    found.places.push_back({&record, std::move(where), std::move(what)});
}
void set(RunRuleCheck& found, RunRuleState state, std::string reason) {
  found.state = state, found.reason = std::move(reason);
}
bool nothing_ran(const Report& report, RunRuleCheck& found) {
  if (std::ranges::any_of(report.records, has_run)) return false;
  set(found, RunRuleState::not_checkable, "no point ran");
  return true;
}

/// Calls `visit` with each energy reading, its record and its trial's number.
template <class Visit>
void each_row(const Report& report, Visit visit) {
  for (const Record& record : report.records)
    for (std::size_t t = 0; t < record.trials.size(); ++t)
      for (const EnergyRow& row : record.trials[t].energy) visit(row, record, t);
}
bool has_counted_joules(const Report& report) {
  bool any = false;
  each_row(report,
           [&](const EnergyRow& row, const Record&, std::size_t) { any = any || (row.counted && row.energy_j); });
  return any;
}
std::string meter_of(const EnergyRow& row) { return row.domain + " on " + row.host; }

void complete(const Report& report, RunRuleCheck& found) {
  for (const std::string& id : missing_points(report)) {
    Record named;
    named.id = id;
    found.places.push_back({nullptr, name_of(named), "has no record"});
  }
  for (const Record& record : report.records)
    if (record.verdict.status == Status::failed || record.verdict.status == Status::invalid)
      break_at(found, record, name_of(record),
               to_string(record.verdict.status) +
                   (record.verdict.reasons.empty() ? "" : ": " + record.verdict.reasons.front()));
  if (!report.plan.canonical_json.empty() && report.context.finished_at.empty())
    found.places.push_back({nullptr, "run", "has no end: it was killed, or still runs"});
  if (report.plan.canonical_json.empty())
    return set(found, RunRuleState::not_checkable, "the records of an unfinished run do not contain the plan");
  set(found, RunRuleState::kept,
      report.search ? "a search chose the points, and none failed"
                    : "every point of the plan has a record, and none failed");
}

void window(const Report& report, RunRuleCheck& found) {
  for (RunRulePlace& place : found.places) {
    const RunRuleFlag& is_short = found.rule->flags.front();
    double shortest = HUGE_VAL;
    for (const Trial& trial : place.record->trials) shortest = std::min(shortest, trial.window_s);
    if (has_flag(*place.record, is_short.flag) && std::isfinite(shortest))
      place.what.insert(is_short.means.size(), ", the shortest window lasts " + text::duration(shortest));
  }
  if (!nothing_ran(report, found)) found.reason = "every window is long enough";
}

void trials(const Report& report, RunRuleCheck& found) {
  if (!nothing_ran(report, found)) found.reason = fmt::format("every point has {} trials or more", least_trials);
}

/// Whether its warm-up goes on until the step time is flat: not by steps, to a target, or of a command.
bool warms_up(const Record& record) {
  return has_run(record) && !has_flag(record, Flag::steps_given) && !record.target && !is_command(record);
}

void steady(const Report& report, RunRuleCheck& found) {
  if (nothing_ran(report, found)) return;
  const auto ran = std::ranges::count_if(report.records, has_run),
             flat = std::ranges::count_if(report.records, warms_up);
  if (flat == 0)
    return set(found, RunRuleState::not_checkable,
               "no point warmed up until its step time was flat: steps, a target or a command set its length");
  found.reason = fmt::format("{} of {} points warmed up until their step time was flat, and none drifted", flat, ran);
}

void temperature(const Report& report, RunRuleCheck& found) {
  std::optional<double> first;
  std::size_t known = 0;
  for (const Record& record : report.records) {
    if (!record.start) continue;
    if (!first) first = record.start->temperature_c;
    ++known;
    if (!(record.start->temperature_c <= *first + start_band_c))
      break_at(found, record, name_of(record),
               fmt::format("began at {} °C, the first at {} °C", text::significant(record.start->temperature_c),
                           text::significant(*first)));
  }
  if (!first) return set(found, RunRuleState::not_checkable, "no record has a starting temperature");
  found.reason = fmt::format("{} of {} points have a starting temperature, and all are within the band", known,
                             report.records.size());
}

/// Whether the plan's seeds are another list than --seeds N deals: the plan's seed and those after it, consecutive ones
/// to each point, where points that train the same share theirs. Without a plan nobody knows.
bool are_listed(const PlanInfo& info) {
  const nlohmann::json plan = read_plan(info.canonical_json);
  if (plan.is_null() || !plan.contains("seed") || !plan["seed"].is_number_unsigned()) return false;
  std::set<std::uint64_t> all;
  for (const nlohmann::json& point : plan["points"]) {
    std::optional<std::uint64_t> before;
    for (const nlohmann::json& seed : point.value("seeds", nlohmann::json::array())) {
      if (!seed.is_number_unsigned() || (before && seed != *before + 1)) return true;
      before = seed.get<std::uint64_t>();
      all.insert(*before);
    }
  }
  return !all.empty() && (*all.begin() != plan["seed"] || *all.rbegin() - *all.begin() + 1 != all.size());
}

void seeds(const Report& report, RunRuleCheck& found) {
  const bool are_chosen = !report.plan.kit && are_listed(report.plan);
  std::size_t runs = 0;
  for (const Record& record : report.records) {
    std::map<std::uint64_t, std::size_t> seen;
    for (std::size_t t = 0; t < record.trials.size(); ++t) {
      if (!record.trials[t].target_run) continue;
      ++runs;
      const std::uint64_t seed = record.trials[t].target_run->seed;
      if (const auto [first, is_new] = seen.emplace(seed, t); !is_new)
        break_at(found, record, trial_of(record, t),
                 fmt::format("seed {} is used again, first by trial {}", seed, first->second + 1));
    }
    if (are_chosen && !seen.empty()) break_at(found, record, name_of(record), "its seeds were chosen by hand");
  }
  if (runs == 0) return set(found, RunRuleState::not_applicable, "no run trained to a target");
  if (report.plan.canonical_json.empty())
    return set(found, RunRuleState::not_checkable,
               "the records of an unfinished run do not contain the plan, which has the seeds");
  found.reason = fmt::format("{} runs, those of a point with different seeds, which {}", runs,
                             report.plan.kit ? "the kit fixes" : "were counted");
}

void one_reader(const Report& report, RunRuleCheck& found) {
  if (!has_counted_joules(report))
    return set(found, RunRuleState::not_applicable, "no meter's joules are in the report");
  std::size_t left_out = 0;
  for (const Record& record : report.records)
    for (std::size_t t = 0; t < record.trials.size(); ++t) {
      std::set<std::pair<std::string, std::string>> seen;
      for (const EnergyRow& row : record.trials[t].energy) {
        if (!row.energy_j) continue;
        left_out += !row.counted;
        if (row.counted && (!seen.insert({row.host, row.domain}).second || row.why() == Reason::contained ||
                            row.why() == Reason::duplicate))
          break_at(found, record, trial_of(record, t), meter_of(row) + ": counted twice");
      }
    }
  found.reason = "every sensor in a total is counted once";
  if (left_out > 0) found.reason += fmt::format("; readings left out of the totals: {}", left_out);
}

void absence(const Report& report, RunRuleCheck& found) {
  each_row(report, [&](const EnergyRow& row, const Record& record, std::size_t t) {
    if (!row.energy_j && row.reason.empty())
      break_at(found, record, trial_of(record, t), meter_of(row) + ": absent without a reason");
    if (row.counted && row.method == Method::estimate)
      break_at(found, record, trial_of(record, t), meter_of(row) + ": an estimate in a total");
  });
  if (nothing_ran(report, found)) return;
  const std::string without =
      names_of(report, [](const Record& record) { return has_run(record) && !record.summary.energy_reason.empty(); });
  found.reason = without.empty() ? "nothing is absent" : "energy is absent, with a reason, in: " + without;
}

/// Whether a set point was refused, so that nothing was measured: what a machine cannot do breaks no rule.
bool is_refused(const Record& record) {
  return record.verdict.status == Status::unsupported && !has_run(record) && has_refused_setting(record);
}

void settings(const Report& report, RunRuleCheck& found) {
  const auto asked = std::ranges::count_if(report.records, [](const Record& record) {
    return std::ranges::any_of(record.setting,
                               [](const auto& one) { return one.second.requested || one.second.found_by; });
  });
  if (asked == 0) return set(found, RunRuleState::not_applicable, "nothing was set");
  std::vector<std::string> why;
  std::ptrdiff_t refused = 0;
  for (const Record& record : report.records)
    if (is_refused(record)) {
      ++refused;
      const std::string one = record.verdict.reasons.empty() ? "refused" : record.verdict.reasons.front();
      if (std::ranges::find(why, one) == why.end()) why.push_back(one);
    }
  if (refused > 0)
    return set(
        found, RunRuleState::not_checkable,
        fmt::format("{} point{} unsupported here ({}){}", refused, refused == 1 ? "" : "s", listed(why, "; "),
                    asked > refused ? fmt::format("; {} had the requested value under load", asked - refused) : ""));
  found.reason = text::count(asked, "point") + " had the requested value under load";
}

void throttling(const Report& report, RunRuleCheck& found) {
  if (nothing_ran(report, found)) return;
  const bool is_told = std::ranges::any_of(report.records, [](const Record& record) {
    return std::ranges::any_of(record.trials, [](const Trial& trial) {
      return std::ranges::any_of(trial.counters,
                                 [](const CounterRow& counter) { return counter.quantity.starts_with("throttle_"); });
    });
  });
  if (!is_told) return set(found, RunRuleState::not_checkable, "no device counts its throttling");
  found.reason = "no device that counts throttling was throttled";
}

void restored(const Report& report, RunRuleCheck& found) {
  const bool is_set = std::ranges::any_of(report.records, [](const Record& record) {
    return std::ranges::any_of(record.setting, [](const auto& one) { return one.second.accepted.has_value(); });
  });
  if (!is_set) return set(found, RunRuleState::not_applicable, "nothing was set");
  set(found, RunRuleState::not_checkable,
      "settings are restored after the report is written; trainwatt restore shows what is left");
}

void energy(const Report& report, RunRuleCheck& found) {
  bool any = false;
  each_row(report, [&](const EnergyRow& row, const Record& record, std::size_t t) {
    any = any || row.energy_j;
    const auto broken = [&](const std::string& what) {
      break_at(found, record, trial_of(record, t), meter_of(row) + ": " + what);
    };
    if (row.counted && row.energy_j && !(*row.energy_j > 0))
      broken("start = stop, the counter did not move");
    else if (row.why() == Reason::not_updated)
      broken("start = stop, the meter shows no change");
    else if (row.why() == Reason::implausible || row.why() == Reason::wrapped || row.why() == Reason::reset ||
             row.why() == Reason::stalled)
      broken(row.reason);
  });
  if (!any) return set(found, RunRuleState::not_checkable, "no meter answered");
  found.reason = "every counted meter changed, by no more than its part can draw";
}

/// Where a series of power leaves more of its window unseen than its own pace explains; empty: nowhere.
std::string hole_of(const SeriesRow& series, double window_s) {
  const std::vector<double>& times = series.time_s;
  if (times.size() < 2)
    return window_s > 2 * coarsest_sampling_s ? "has fewer than two samples in " + text::duration(window_s) : "";
  std::vector<double> distances;
  for (std::size_t i = 1; i < times.size(); ++i) distances.push_back(times[i] - times[i - 1]);
  if (!std::ranges::all_of(distances, [](double d) { return d > 0; })) return "has times that are not ascending";
  const double allowed = std::max(coarsest_sampling_s, widest_sampling_gap * quantile(distances, 0.5));
  double before = 0;
  for (std::size_t i = 0; i <= times.size(); ++i) {
    const double now = i < times.size() ? times[i] : window_s;
    if (!(now - before <= allowed))
      return "shows nothing for " + text::duration(now - before) + " from " + text::duration(before) + " on";
    before = now;
  }
  return {};
}

void sampling(const Report& report, RunRuleCheck& found) {
  std::size_t looked_at = 0;
  for (const Record& record : report.records)
    for (std::size_t t = 0; t < record.trials.size(); ++t) {
      const Trial& trial = record.trials[t];
      for (const SeriesRow& series : trial.series) {
        if (!series.is(Quantity::power)) continue;
        ++looked_at;
        if (const std::string hole = hole_of(series, trial.window_s); !hole.empty())
          break_at(found, record, trial_of(record, t), series.domain + " on " + series.host + " " + hole);
      }
      for (const EnergyRow& row : trial.energy)
        if (row.why() == Reason::gap || row.why() == Reason::not_covered || row.why() == Reason::lost)
          break_at(found, record, trial_of(record, t), meter_of(row) + ": " + row.reason);
    }
  if (looked_at == 0) return set(found, RunRuleState::not_checkable, "no series of power is in the report");
  found.reason = fmt::format("{} series of power cover their windows", looked_at);
}

void random_input(const Report& report, RunRuleCheck& found) {
  if (nothing_ran(report, found)) return;
  const std::string commands =
      names_of(report, [](const Record& record) { return has_run(record) && is_command(record); });
  if (!commands.empty())
    return set(found, RunRuleState::not_checkable, "the input of a metered command is unknown: " + commands);
  found.reason = "trainwatt-train only reads synthetic data";
}

void uncertainty(const Report& report, RunRuleCheck& found) {
  each_row(report, [&](const EnergyRow& row, const Record& record, std::size_t t) {
    if (row.counted && row.energy_j && !row.uncertainty_j)
      break_at(found, record, trial_of(record, t), meter_of(row) + ": has none");
  });
  if (!has_counted_joules(report))
    return set(found, RunRuleState::not_applicable, "no meter's joules are in the report");
  found.reason = "every counted reading has an uncertainty";
}

void own_gpus(const Report& report, RunRuleCheck& found) {
  const auto is_on_gpu = [](const Record& record) {
    return has_run(record) && record.workload.known_device() == DeviceKind::cuda;
  };
  if (std::ranges::none_of(report.records, is_on_gpu))
    return set(found, RunRuleState::not_applicable, "no point trained on a GPU");
  found.reason = "no two ranks share a GPU";
}

std::vector<RunRule> make_rules() {
  return {
      {"complete",
       "the run has finished, every point of the plan has a record, and none failed or is invalid",
       "the run has not finished, or points have no record, failed or are invalid",
       {},
       complete},
      {"window",
       fmt::format("windows last at least {} s and {} update periods of their meter, set in seconds, not in steps",
                   published_window_s, published_window_periods),
       "windows are short, set in steps, or not the sum of their steps",
       {{Flag::short_window, "a window is short"},
        {Flag::steps_given, "measured by steps"},
        {Flag::steps_disagree, "its steps do not add up to the window"}},
       window},
      {"trials",
       fmt::format("each point has at least {} trials", least_trials),
       fmt::format("points have fewer than {} trials", least_trials),
       {{Flag::few_trials, fmt::format("fewer than {}", least_trials)}},
       trials},
      {"steady",
       "trials begin when the step time is flat, and nothing drifts during them",
       "the speed was still changing",
       {{Flag::not_steady, "the step time was still changing"},
        {Flag::drift, "step times or samples/J drifted over the trials"}},
       steady},
      {"temperature",
       fmt::format("after a change of settings, points begin at most {} °C above the first", start_band_c),
       "points began warmer than the first one",
       {},
       temperature},
      {"seeds",
       "runs of a point to a target have different seeds, which are counted or fixed by a kit",
       "a seed was used twice, or seeds were chosen by hand",
       {},
       seeds},
      {"one_reader",
       "each physical sensor is read once on a node, and no joule is counted twice",
       "a sensor was counted twice",
       {},
       one_reader},
      {"absence",
       "without a meter, energy is null with a reason; estimates are in no total",
       "joules are absent without a reason, or estimated",
       {},
       absence},
      {"settings",
       "each set point is requested, accepted and observed under load",
       "a setting did not take effect, or was changed",
       {{Flag::not_applied, "did not take effect, or did not last"},
        {Flag::not_observed, "could not be observed under load"},
        {Flag::setting_changed, "should stay as found, but was changed during a window"}},
       settings},
      {"throttling",
       "no device is slowed down by heat or a power brake",
       "heat or a power brake slowed a device down",
       {{Flag::throttled, "throttled"}},
       throttling},
      {"own_gpus",
       "each rank has a GPU of its own",
       "ranks shared a GPU",
       {{Flag::shared_gpu, "ranks share a GPU: they wait for each other, and its peak counts once in the MFU"}},
       own_gpus},
      {"restored",
       "every setting is restored to the found value, however the run ends",
       "a setting was not restored",
       {},
       restored},
      {"energy",
       "every counted meter changes during a window (start = stop is no measurement), by no more than its "
       "part "
       "can draw",
       "a meter did not change, or shows an implausible value",
       {},
       energy},
      {"random_input",
       "input data is random, never zeros, because clocks and power depend on the values",
       "input data was not random",
       {},
       random_input},
      {"sampling",
       fmt::format("power is sampled during the whole window, without a gap over {} s and over {} × the usual "
                   "interval",
                   coarsest_sampling_s, widest_sampling_gap),
       "samples of power have gaps",
       {},
       sampling},
      {"uncertainty", "every energy reading has an uncertainty", "joules have no uncertainty", {}, uncertainty},
  };
}

void find_flagged(const Report& report, RunRuleCheck& found) {
  for (const Record& record : report.records) {
    if (is_refused(record)) continue;
    std::vector<std::string> what;
    for (const auto& [flag, means] : found.rule->flags)
      if (has_flag(record, flag)) what.push_back(means);
    if (!what.empty()) break_at(found, record, name_of(record), fmt::format("{}", fmt::join(what, ", ")));
  }
}

}  // namespace

const std::vector<RunRule>& run_rules() {
  static const std::vector<RunRule> rules = make_rules();
  return rules;
}

std::vector<RunRuleCheck> check_run_rules(const Report& report) {
  std::vector<RunRuleCheck> checks;
  for (const RunRule& rule : run_rules()) {
    RunRuleCheck& found = checks.emplace_back();
    found.rule = &rule;
    find_flagged(report, found);
    rule.check(report, found);
    if (!found.places.empty()) set(found, RunRuleState::broken, "");
  }
  return checks;
}

std::string finding(const RunRuleCheck& check) {
  if (check.state != RunRuleState::broken) return check.reason;
  std::vector<std::string> all;
  for (const RunRulePlace& place : check.places)
    all.push_back(place.where + ": " + place.what +
                  (place.count > 1 ? fmt::format(" ({} more there)", place.count - 1) : ""));
  return listed(all, "; ");
}

std::string finding_sentence(const RunRuleCheck& check) {
  return check.state == RunRuleState::broken ? finding(check) + "."
                                             : text::sentence(finding(check));  // begins with an id
}

}  // namespace tw::results
