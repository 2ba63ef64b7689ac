#include "results/analysis/conditions.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <tuple>

#include "results/analysis/statistics.hpp"
#include "results/analysis/trials.hpp"
#include "results/record/text.hpp"

namespace tw::results {
namespace {

constexpr double capped_share = 0.01, power_tolerance = 0.05, loss_band = 0.02;

bool ends_with(const std::string& text, std::string_view end) { return text.ends_with(end); }

bool is_set(const Record& record) {
  return std::any_of(record.setting.begin(), record.setting.end(),
                     [](const auto& setting) { return setting.second.requested.has_value(); });
}

/// Losses by optimizer step since the weights were made: a slower setting has done fewer steps before its first trial.
std::map<std::int64_t, double> losses_of(const Record& record) {
  std::map<std::int64_t, double> losses;
  for (const Trial& trial : record.trials)
    for (std::size_t i = 0; i < trial.loss.size(); ++i)
      losses[trial.first_step + static_cast<std::int64_t>(i)] = trial.loss[i];
  return losses;
}

/// Whether the record's losses leave those of the same workload at the found setting.
bool leaves_band(const Report& report, const Record& record) {
  const auto found = std::find_if(report.records.begin(), report.records.end(), [&](const Record& other) {
    const Workload &a = record.workload, &b = other.workload;
    return !is_set(other) && !other.target && !other.trials.empty() && a.hash == b.hash && a.precision == b.precision &&
           a.micro_batch == b.micro_batch && a.accumulate == b.accumulate && a.ranks == b.ranks && a.seed == b.seed;
  });
  if (found == report.records.end()) return false;
  const std::map<std::int64_t, double> theirs = losses_of(*found);
  std::size_t steps = 0;
  double deviation = 0;
  for (const auto& [step, loss] : losses_of(record))
    if (const auto same = theirs.find(step); same != theirs.end()) {
      deviation += std::abs(loss - same->second) / std::max(1e-12, std::abs(same->second));
      ++steps;
    }
  return steps > 0 && !(deviation / static_cast<double>(steps) <= loss_band);  // not a number is outside every band
}

/// A state that somebody else asked for, such as a scheduler: it is not a set point of the plan, so the point counts
/// whatever is observed; the flags say whether the state was confirmed.
void judge_found(const Setting& setting, const std::function<void(Flag)>& flag) {
  if (setting.devices.empty()) flag(Flag::not_observed);
  for (const SettingRow& row : setting.devices) {
    if (!row.observed || (!setting.found_minimum && !setting.found_maximum)) {
      flag(Flag::not_observed);
      continue;
    }
    const auto misses = [&](const std::optional<SetPoint>& bound, double sign) {
      if (!bound) return false;
      if (!bound->name.empty()) return *bound != *row.observed;
      return sign * (row.observed->number - bound->number) > clock_tolerance * bound->number;
    };
    if (misses(setting.found_minimum, -1) || misses(setting.found_maximum, 1)) flag(Flag::not_applied);
  }
}

/// "2.80 s into"; the first reading of a trial takes microseconds, and is "at the start of" it.
std::string when(double seconds) {
  constexpr double start = 0.01;
  return seconds < start ? "at the start of" : text::significant(seconds) + " s into";
}

/// What read back otherwise along the trial, or could not be read back.
void judge_changes(const Trial& trial, const std::string& number, Verdict& v, const std::function<void(Flag)>& flag) {
  if (!trial.setting_changes) return;
  for (const SettingChange& change : *trial.setting_changes) {
    if (!change.found) {
      flag(Flag::not_observed);
    } else if (!change.requested) {
      flag(Flag::setting_changed);
    } else {
      flag(Flag::not_applied);
      v.reasons.push_back("not_applied: " + change.setting + " of " + change.domain + " on " + change.host +
                          ": another program changed " + change.expected + " to " + *change.found + "; seen " +
                          when(change.time_s) + " trial " + number);
    }
  }
}

constexpr double ceilings_apart = 0.05;

std::string percent(double share) { return text::significant(100 * std::abs(share), 2) + " %"; }

/// A figure of each valid trial.
struct Series {
  std::string unit;
  std::vector<double> values;
};

std::vector<Series> figures_of(const Record& record, const std::vector<const Trial*>& trials) {
  std::vector<Series> all = {{"samples/s", {}}};
  for (const Trial* trial : trials) all[0].values.push_back(throughput_of(record, *trial));
  for (const auto& [scope, joules] : record.summary.samples_per_j) {
    if (!joules) continue;
    Series& series = all.emplace_back(Series{"samples/J (" + scope + ")", {}});
    for (const Trial* trial : trials) series.values.push_back(samples_of(record, *trial) / joules_of(*trial, scope));
  }
  std::erase_if(all, [](const Series& series) {
    return !std::ranges::all_of(series.values, [](double v) { return std::isfinite(v); });
  });
  return all;
}

/// What makes the ceilings of two records timings of the same products on the same machine.
auto ceiling_key(const Record& record) {
  const Workload& w = record.workload;
  std::map<std::string, std::pair<double, std::string>> requested;
  for (const auto& [name, setting] : record.setting)
    if (setting.requested) requested[name] = {setting.requested->number, setting.requested->name};
  return std::tuple(w.hash, w.device, w.precision, w.micro_batch, w.ranks, w.threads_per_rank, requested);
}

}  // namespace

void judge_conditions(Record& record) {
  Verdict& v = record.verdict;
  const auto flag = [&](Flag one) {
    if (!has_flag(record, one)) v.flags.emplace_back(one);
  };
  std::set<std::string> capped;  // devices
  for (std::size_t i = 0; i < record.trials.size(); ++i) {
    const Trial& trial = record.trials[i];
    judge_changes(trial, std::to_string(i + 1), v, flag);
    for (const CounterRow& counter : trial.counters) {
      const double share = trial.window_s > 0 ? counter.change / trial.window_s : 0;
      if (holds_back(trial, counter)) {
        flag(Flag::throttled);
        v.reasons.push_back("throttled: " + counter.domain + " on " + counter.host + " for " +
                            text::significant(100 * share) + " % of trial " + std::to_string(i + 1) + " (" +
                            counter.quantity + ")");
      } else if (counter.is(Quantity::thermal_events) && counter.change > 0) {
        flag(Flag::throttled);
      } else if (counter.is(Quantity::power_cap_seconds) && share > capped_share) {
        flag(Flag::power_capped);
        capped.insert(counter.host + " " + counter.domain);
      } else if ((counter.is(Quantity::ecc_errors) || counter.is(Quantity::xid_errors)) && counter.change > 0) {
        flag(Flag::device_errors);
      }
    }
  }
  const auto cpu_cap = record.setting.find("cpu_power_limit_w");
  const bool has_cpu_cap = cpu_cap != record.setting.end() && cpu_cap->second.requested;
  for (const auto& [name, setting] : record.setting) {
    if (setting.found_by) judge_found(setting, flag);
    if (!setting.requested) continue;
    const bool is_power = ends_with(name, "_w"), is_gpu_clock = name.starts_with("gpu_") && !is_power;
    for (const SettingRow& row : setting.devices) {
      const std::string where =
          name + " " + text::set_point(*setting.requested) + " of " + row.domain + " on " + row.host;
      if (!row.accepted) {
        flag(Flag::not_applied);
        v.reasons.push_back("not_applied: " + where + ": " + (row.reason.empty() ? "not accepted" : row.reason));
      } else if (!row.observed) {
        flag(Flag::not_observed);
      } else {
        if (*row.observed == *row.accepted) continue;
        const double off = row.accepted->number > 0 ? row.observed->number / row.accepted->number - 1 : 0;
        const bool within = is_power ? off <= power_tolerance : std::abs(off) <= clock_tolerance;
        if (row.accepted->name.empty() && within) continue;
        flag(Flag::not_applied);
        // A cap that binds is expected where caps are swept.
        const bool held_back =
            is_gpu_clock ? capped.count(row.host + " " + row.domain) > 0 : name == "cpu_frequency_mhz" && has_cpu_cap;
        if (held_back && off < 0) continue;
        v.reasons.push_back("not_applied: " + where + ": " + text::observed(*row.observed) + " under load");
      }
    }
    if (setting.devices.empty()) {
      flag(Flag::not_applied);
      v.reasons.push_back("not_applied: " + name + ": no device has it");
    }
  }
}

std::optional<SetPoint> accepted_by_all(const std::vector<SettingRow>& devices) {
  const auto same = [&](const SettingRow& row) { return row.accepted && row.accepted == devices.front().accepted; };
  return !devices.empty() && std::ranges::all_of(devices, same) ? devices.front().accepted : std::nullopt;
}

double distance_from(const SetPoint& asked, const SetPoint& value) {
  return asked.name.empty() ? std::abs(value.number - asked.number) : value == asked ? 0 : 1;
}

std::optional<SetPoint> farthest_observed(const Setting& setting) {
  const std::optional<SetPoint>& asked = setting.requested ? setting.requested : setting.found_maximum;
  std::optional<SetPoint> farthest;
  for (const SettingRow& row : setting.devices)
    if (row.observed &&
        (!farthest || (asked && distance_from(*asked, *row.observed) > distance_from(*asked, *farthest))))
      farthest = row.observed;
  return farthest;
}

std::vector<std::string> refused_settings(const Record& record) {
  std::vector<std::string> names;
  for (const auto& [name, setting] : record.setting) {
    const auto refuses = [](const SettingRow& row) { return !row.accepted; };
    if (setting.requested && (setting.devices.empty() || std::ranges::any_of(setting.devices, refuses)))
      names.push_back(name);
  }
  return names;
}

bool has_refused_setting(const Record& record) { return !refused_settings(record).empty(); }

bool flag_unstable(Report& report) {
  bool earlier_changed = false;
  for (Record& record : report.records) {
    const bool had = std::erase(record.verdict.flags, Flag::unstable) > 0;
    const bool has = is_set(record) && !record.target && leaves_band(report, record);
    // Before those that summarise() renews.
    if (has) record.verdict.flags.insert(record.verdict.flags.begin(), Flag::unstable);
    earlier_changed = earlier_changed || (had != has && &record != &report.records.back());
  }
  return earlier_changed;
}

std::vector<Instability> find_instability(const Record& record) {
  std::vector<Instability> found;
  const std::vector<const Trial*> trials = valid_trials(record);
  std::vector<std::size_t> numbers;  // of the valid trials, as people count
  for (std::size_t i = 0; i < record.trials.size(); ++i)
    if (is_valid(record.trials[i])) numbers.push_back(i + 1);
  const std::vector<Series> figures = figures_of(record, trials);
  for (const Series& figure : figures) {
    const std::vector<std::size_t> out = outliers(figure.values);
    double others = 0;
    for (std::size_t i = 0; i < figure.values.size(); ++i)
      if (!std::ranges::binary_search(out, i))  // they are in order
        others += figure.values[i] / static_cast<double>(figure.values.size() - out.size());
    for (const std::size_t i : out)
      found.push_back({Flag::outlier, "trial " + std::to_string(numbers[i]) + ": " + text::si(figure.values[i]) + " " +
                                          figure.unit + ", " + percent(figure.values[i] / others - 1) +
                                          (figure.values[i] < others ? " below" : " above") + " the others"});
  }
  std::vector<double> step_times;
  for (const Trial* trial : trials)
    step_times.insert(step_times.end(), trial->step_time_s.begin(), trial->step_time_s.end());
  const auto judge_drift = [&](const std::string& what, const std::vector<double>& values) {
    if (const std::optional<double> change = drift(values))
      found.push_back({Flag::drift, what + (*change > 0 ? " rise by " : " fall by ") + percent(*change) +
                                        " from the first to the last"});
  };
  judge_drift("step times", step_times);
  for (const Series& figure : figures)
    if (figure.unit != "samples/s") judge_drift(figure.unit, figure.values);  // the step times have told of these
  return found;
}

void judge_stability(Record& record) {
  for (const Instability& one : find_instability(record))
    if (!has_flag(record, one.flag)) record.verdict.flags.push_back(one.flag);
}

std::string run_drift(const std::vector<Record>& records) {
  struct Pair {
    const Record *first, *last;
  };
  std::map<decltype(ceiling_key(Record())), Pair> same;
  for (const Record& record : records)
    if (record.summary.ceiling_flops_per_s && !has_flag(record, Flag::ceiling_once) && !record.trials.empty())
      same.try_emplace(ceiling_key(record), Pair{&record, &record}).first->second.last = &record;
  double most = ceilings_apart;
  std::string text;
  for (const auto& [key, pair] : same) {
    const double change = *pair.last->summary.ceiling_flops_per_s / *pair.first->summary.ceiling_flops_per_s - 1;
    if (!(std::abs(change) > most)) continue;
    most = std::abs(change);
    text = "the matrix products of " + pair.last->id + ", timed alone, ran " + percent(change) +
           (change < 0 ? " slower" : " faster") + " than the same products at " + pair.first->id +
           ": the machine changed during the run, so other points may differ by as much for this reason alone";
  }
  return text;
}

}  // namespace tw::results
