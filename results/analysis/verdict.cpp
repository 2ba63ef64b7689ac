#include "results/analysis/verdict.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string_view>
#include <vector>

#include "results/analysis/conditions.hpp"
#include "results/analysis/run_rules.hpp"
#include "results/analysis/to_target.hpp"
#include "results/analysis/trials.hpp"
#include "results/devices/device_figures.hpp"
#include "results/record/launches.hpp"

namespace tw::results {
namespace {

/// A neighbour that takes 2 % of the CPU moves a step time by about as much as a 3-trial interval is wide.
constexpr double steal_threshold = 0.02;
/// Above what an idle system's own services take. A neighbour also shares memory bandwidth, caches and the meter.
constexpr double foreign_threshold = 0.05;
constexpr std::size_t loss_steps_to_judge = 20;
/// Between the sum of a window's step times (each the slowest rank's) and the window itself.
constexpr double steps_disagree_threshold = 0.05;
const std::string_view no_meter = to_string(Flag::no_energy_meter);
constexpr std::string_view evaluations_too = "samples and FLOPs per joule: the joules include the evaluations";

/// Of what this file decides, from samples alone. All others are the caller's and stay, as do flags of another source.
constexpr std::string_view own_reasons[] = {"loss_not_finite: ", "step_time: ",  "window: ",
                                            "no_trials: ",       "throttled: ", "not_applied: ",
                                            "target_missed: ",   "off_reference: "};

bool is_own_flag(const FlagName& flag) {
  return flag.known() && facts_of(*flag.known()).source == FlagSource::samples;
}
bool is_own_reason(std::string_view reason) {
  return std::any_of(std::begin(own_reasons), std::end(own_reasons),
                     [&](std::string_view prefix) { return reason.substr(0, prefix.size()) == prefix; });
}

double sum(const std::vector<double>& values) { return std::accumulate(values.begin(), values.end(), 0.0); }
bool is_finite(double v) { return std::isfinite(v); }

/// Left out because another row already covers its joules, or because they are not the job's: nothing is missing. Any
/// other row that is not counted leaves a hole in its scope, whether joules stand in it (implausible) or not.
bool is_covered_elsewhere(const EnergyRow& row) {
  return !row.counted &&
         (row.why() == Reason::contained || row.why() == Reason::duplicate || row.why() == Reason::not_visible);
}
bool is_implausible(const EnergyRow& row) { return row.why() == Reason::implausible; }

/// A step time is the slowest rank's, so that their sum may pass the window where the ranks take turns to be slow; what
/// lies between steps (evaluations, in a run to a target) is in the window alone.
bool steps_disagree(const Trial& trial) {
  const double seconds = sum(trial.step_time_s) + (trial.target_run ? trial.target_run->evaluation_s : 0);
  return std::abs(seconds - trial.window_s) > steps_disagree_threshold * trial.window_s;
}

Estimate scaled(Estimate e, double factor) {
  e.value *= factor;
  if (e.low) *e.low *= factor;
  if (e.high) *e.high *= factor;
  return e;
}

/// Hosts that read all of a machine's meters. A reader has rows of whole sources ("nvml", "rapl") or of scopes other
/// than device; another host on its machine (a container, a pod) that reads GPUs which the reader cannot address has
/// neither.
std::set<std::string> reading_hosts(const Record& record) {
  std::set<std::string> hosts;
  for (const Trial& trial : record.trials)
    for (const EnergyRow& row : trial.energy)
      if (row.domain.find(':') == std::string::npos || (row.scope != Scope::none && row.scope != Scope::device))
        hosts.insert(row.host);
  return hosts;
}

/// "no meter on node2, node3".
std::string no_meter_on(const std::set<std::string>& hosts) {
  constexpr std::size_t most_named = 8;
  std::string text = "no meter on ";
  std::size_t named = 0;
  for (const std::string& host : hosts) {
    if (named == most_named) return text + " and " + std::to_string(hosts.size() - named) + " more";
    text += (named++ == 0 ? "" : ", ") + host;
  }
  return text;
}

/// Joules of one scope in one trial, or why there are none.
struct ScopeTotal {
  double energy_j = 0, uncertainty_j = 0;
  std::string reason;
};
/// The samples are those of all hosts, so that each of the several `readers` must add to the joules.
ScopeTotal scope_total(const Trial& trial, Scope scope, const std::set<std::string>& readers) {
  ScopeTotal total;
  bool any = false;
  std::set<std::string> without = readers;
  for (const EnergyRow& row : trial.energy) {
    if (row.scope == scope && (row.counted || row.why() == Reason::not_visible)) without.erase(row.host);
    if (row.scope != scope || is_covered_elsewhere(row)) continue;
    const bool is_estimate = row.counted && row.method == Method::estimate;  // which enters no total
    if (!row.energy_j || !is_finite(*row.energy_j) || !row.counted || is_implausible(row) || is_estimate) {
      const char* fallback = is_estimate ? "an estimate" : row.energy_j ? "not counted" : "not read";
      if (readers.size() > 1) total.reason = row.host + ": ";
      total.reason += row.domain + ": " + (row.reason.empty() ? fallback : row.reason);
      return total;
    }
    any = true;
    total.energy_j += *row.energy_j;
    total.uncertainty_j += row.uncertainty_j.value_or(0);  // added, not in quadrature: one clock's error is in all rows
  }
  if (!any)
    total.reason = "no counted meter";
  else if (readers.size() > 1 && !without.empty())
    total.reason = no_meter_on(without);
  else if (!(total.energy_j > 0))
    total.reason = "counter did not move";  // 0 J is never a measurement
  return total;
}

bool has_row(const Record& record, std::string_view reason) {
  return std::any_of(record.trials.begin(), record.trials.end(), [&](const Trial& t) {
    return std::any_of(t.energy.begin(), t.energy.end(), [&](const EnergyRow& row) { return row.reason == reason; });
  });
}
/// Flags that name why a meter that answered is not believed.
std::vector<Flag> disbeliefs(const Record& record) {
  std::vector<Flag> all;
  for (std::size_t i = 0; i < name_list<Flag>.size(); ++i)
    if (const Flag flag{static_cast<int>(i)};
        facts_of(flag).use.kind == FlagUse::voids_joules && has_row(record, to_string(flag)))
      all.push_back(flag);
  return all;
}
bool has_wrapped_row(const Record& record) {
  const auto wrapped = [](const EnergyRow& row) {
    return row.why() == Reason::wrapped || (row.wraps.value_or(0) > 0 && !is_covered_elsewhere(row));
  };
  return std::any_of(record.trials.begin(), record.trials.end(),
                     [&](const Trial& t) { return std::any_of(t.energy.begin(), t.energy.end(), wrapped); });
}
bool has_no_meter(const Record& record) {
  const auto& energy = record.summary.energy_j;
  if (!energy.empty() && valid_trials(record).empty()) return false;  // nothing is known of the meters
  return disbeliefs(record).empty() &&
         std::none_of(energy.begin(), energy.end(), [](const auto& scope) { return scope.second.has_value(); });
}

void summarise_energy(Record& record, IntervalRule rule) {
  Summary& s = record.summary;
  s.energy_j.clear(), s.flops_per_w.clear(), s.samples_per_j.clear();
  std::set<Scope> scopes;
  for (const Trial& t : record.trials)
    for (const EnergyRow& row : t.energy)
      if (row.scope != Scope::none) scopes.insert(row.scope);
  if (scopes.empty()) {
    std::vector<std::string> reasons;  // of sources that found no sensor, each once
    for (const Trial& t : record.trials)
      for (const EnergyRow& row : t.energy)
        if (const std::string r = row.domain + ": " + row.reason;
            std::find(reasons.begin(), reasons.end(), r) == reasons.end())
          reasons.push_back(r);
    if (!reasons.empty()) {
      s.energy_reason = no_meter;
      for (std::size_t i = 0; i < reasons.size(); ++i) s.energy_reason += (i == 0 ? ": " : "; ") + reasons[i];
    } else if (record.trials.empty()) {
      if (s.energy_reason.empty()) s.energy_reason = "not measured";
    } else if (!s.energy_reason.starts_with(no_meter)) {
      s.energy_reason = std::string(no_meter) + (s.energy_reason.empty() ? "" : ": " + s.energy_reason);
    }
    return;
  }
  s.energy_reason.clear();
  const std::set<std::string> readers = reading_hosts(record);
  const std::vector<const Trial*> trials = valid_trials(record);
  for (Scope scope : scopes) {
    std::vector<double> energy, samples_per_j, relative;
    std::string reason = trials.empty() ? "no valid trial" : "";
    for (const Trial* trial : trials) {
      const ScopeTotal total = scope_total(*trial, scope, readers);
      reason = total.reason;
      if (!reason.empty()) break;
      energy.push_back(total.energy_j);
      samples_per_j.push_back(samples_of(record, *trial) / total.energy_j);
      relative.push_back(total.uncertainty_j / total.energy_j);
    }
    if (!reason.empty()) {
      s.energy_j[scope] = s.flops_per_w[scope] = s.samples_per_j[scope] = std::nullopt;
      s.energy_reason += (s.energy_reason.empty() ? "" : "; ") + scope + ": " + reason;
      continue;
    }
    // The sensor's own half width, relative, mean over trials.
    const double sensor = sum(relative) / static_cast<double>(relative.size());
    Estimate joules = record.target ? estimate_of_all(energy, rule) : estimate(energy, rule);
    widen(joules, sensor);
    s.energy_j[scope] = of_positive(joules);
    s.samples_per_j[scope] = s.flops_per_w[scope] = std::nullopt;
    if (record.target || !std::all_of(samples_per_j.begin(), samples_per_j.end(), is_finite)) continue;
    Estimate efficiency = estimate(samples_per_j, rule);
    widen(efficiency, sensor);
    s.samples_per_j[scope] = efficiency = of_positive(efficiency);
    if (s.model_flops_per_sample > 0) s.flops_per_w[scope] = scaled(efficiency, s.model_flops_per_sample);
  }
  if (has_no_meter(record))
    s.energy_reason = std::string(no_meter) + ": " + s.energy_reason;
  else if (record.target)
    s.energy_reason += (s.energy_reason.empty() ? "" : "; ") + std::string(evaluations_too);
}

void summarise_speed(Record& record, IntervalRule rule) {
  Summary& s = record.summary;
  s.samples_per_s = s.tokens_per_s = s.flops_per_s = s.step_time_s = std::nullopt;
  s.step_time_p50_s = s.step_time_p90_s = s.step_time_p99_s = s.step_time_min_s = s.step_time_max_s = std::nullopt;
  std::vector<double> throughput, step_time, all;
  for (const Trial* trial : valid_trials(record)) {
    const std::vector<double>& steps = trial->step_time_s;
    if (const double rate = throughput_of(record, *trial); is_finite(rate)) throughput.push_back(rate);
    step_time.push_back(sum(steps) / static_cast<double>(steps.size()));
    all.insert(all.end(), steps.begin(), steps.end());
  }
  if (!throughput.empty()) s.samples_per_s = of_positive(estimate(throughput, rule));
  if (!step_time.empty()) {
    s.step_time_s = of_positive(estimate(step_time, rule));
    if (record.workload.seq_len && !record.workload.has_series() && s.samples_per_s)
      s.tokens_per_s = scaled(*s.samples_per_s, static_cast<double>(*record.workload.seq_len));
    if (s.model_flops_per_sample > 0 && s.samples_per_s)
      s.flops_per_s = scaled(*s.samples_per_s, s.model_flops_per_sample);
    s.step_time_p50_s = quantile(all, 0.5);
    s.step_time_p90_s = quantile(all, 0.9);
    s.step_time_p99_s = quantile(all, 0.99);
    s.step_time_min_s = quantile(all, 0);
    s.step_time_max_s = quantile(all, 1);
  }
  s.of_ceiling.reset();
  if (s.flops_per_s && s.ceiling_flops_per_s && *s.ceiling_flops_per_s > 0) {
    s.of_ceiling = s.flops_per_s->value / *s.ceiling_flops_per_s;
    s.of_ceiling_reason.clear();
  } else if (s.of_ceiling_reason.empty()) {
    s.of_ceiling_reason = s.flops_per_s ? "ceiling not measured" : "no throughput";
  }
  set_mfu(s);
}

std::vector<double> all_losses(const Record& record) {
  std::vector<double> losses;
  for (const Trial& t : record.trials) losses.insert(losses.end(), t.loss.begin(), t.loss.end());
  return losses;
}

/// Those of one training each: of all trials in a row, or of each run to a target, which begins anew.
std::vector<std::vector<double>> loss_curves(const Record& record) {
  if (!record.target) return {all_losses(record)};
  std::vector<std::vector<double>> curves;
  for (const Trial& t : record.trials) curves.push_back(t.loss);
  return curves;
}

/// Nullopt if any is none.
std::optional<double> slope_of(const std::vector<double>& losses) {
  if (losses.size() < 2 || !std::all_of(losses.begin(), losses.end(), is_finite)) return std::nullopt;
  return slope(losses);
}

void summarise_loss(Record& record) {
  Summary& s = record.summary;
  s.loss_first = s.loss_last = s.loss_slope_per_step = std::nullopt;
  const std::vector<std::vector<double>> curves = loss_curves(record);
  const auto mean_of = [&](auto value) -> std::optional<double> {
    double total = 0;
    for (const std::vector<double>& losses : curves) {
      const std::optional<double> one = losses.empty() ? std::nullopt : std::optional<double>(value(losses));
      if (!one || !is_finite(*one)) return std::nullopt;
      total += *one;
    }
    return curves.empty() ? std::nullopt : std::optional(total / static_cast<double>(curves.size()));
  };
  s.loss_first = mean_of([](const std::vector<double>& losses) { return losses.front(); });
  s.loss_last = mean_of([](const std::vector<double>& losses) { return losses.back(); });
  s.loss_slope_per_step =
      mean_of([](const std::vector<double>& losses) { return slope_of(losses).value_or(std::nan("")); });
}

/// Whether a training of enough steps to judge it has losses that do not fall.
bool falls_nowhere(const Record& record) {
  const std::vector<std::vector<double>> curves = loss_curves(record);
  return std::any_of(curves.begin(), curves.end(), [](const std::vector<double>& losses) {
    return losses.size() >= loss_steps_to_judge && slope_of(losses).value_or(-1) >= 0;
  });
}

/// Whether a trial's window is too short for a published figure; the period is the slowest counted meter's.
bool is_short(const Trial& trial) {
  double period = 0;
  for (const EnergyRow& row : trial.energy)
    if (row.counted && row.energy_j) period = std::max(period, row.update_period_s.value_or(0));
  return trial.window_s < std::max(published_window_s, published_window_periods * period);
}

void judge(Record& record, const std::vector<double>& losses) {
  Verdict& v = record.verdict;
  const Summary& s = record.summary;
  std::erase_if(v.flags, is_own_flag);
  std::erase_if(v.reasons, is_own_reason);
  const auto flag = [&](Flag one) { v.flags.emplace_back(one); };
  if (v.status == Status::unsupported || v.status == Status::failed) {
    if (has_refused_setting(record)) flag(Flag::not_applied);
    return;
  }
  if (record.trials.empty()) v.reasons.push_back("no_trials: nothing was measured");
  for (std::size_t i = 0; i < record.trials.size(); ++i) {
    const std::vector<double>& steps = record.trials[i].step_time_s;
    const std::string trial = "trial " + std::to_string(i + 1);
    if (steps.empty())
      v.reasons.push_back("step_time: " + trial + " has no step");
    else if (!has_steps(record.trials[i]))
      v.reasons.push_back("step_time: " + trial + " has a step that took no positive, finite time");
    if (!has_window(record.trials[i]))
      v.reasons.push_back("window: that of " + trial + " has no positive, finite length");
  }
  if (const auto bad = std::find_if_not(losses.begin(), losses.end(), is_finite); bad != losses.end()) {
    flag(Flag::loss_not_finite);
    v.reasons.push_back("loss_not_finite: at measured step " + std::to_string(bad - losses.begin() + 1) + " of " +
                        std::to_string(losses.size()));
  } else if (falls_nowhere(record)) {
    flag(Flag::loss_not_falling);
  }
  if (!record.trials.empty()) {
    if (std::any_of(record.trials.begin(), record.trials.end(), is_short)) flag(Flag::short_window);
    if (record.trials.size() < least_trials) flag(Flag::few_trials);
    const auto stolen = [](const Trial& t) { return t.steal_share && *t.steal_share > steal_threshold; };
    if (std::any_of(record.trials.begin(), record.trials.end(), stolen)) flag(Flag::steal);
    const auto shared = [](const Trial& t) { return t.foreign_share && *t.foreign_share > foreign_threshold; };
    if (std::any_of(record.trials.begin(), record.trials.end(), shared)) flag(Flag::busy_host);
    if (std::any_of(record.trials.begin(), record.trials.end(), steps_disagree)) flag(Flag::steps_disagree);
    for (const Flag one : disbeliefs(record)) flag(one);
    if (has_wrapped_row(record)) flag(Flag::wrapped);
    if (has_no_meter(record)) flag(Flag::no_energy_meter);
    if (s.of_ceiling && *s.of_ceiling > 1) flag(Flag::above_ceiling);
  }
  judge_conditions(record);
  judge_stability(record);
  judge_target(record);
  v.status = v.reasons.empty() ? Status::valid : Status::invalid;
}

}  // namespace

void summarise(Record& record, IntervalRule rule) {
  const std::vector<double> losses = all_losses(record);
  summarise_speed(record, rule);
  summarise_energy(record, rule);
  summarise_loss(record);
  summarise_target(record, rule);
  judge(record, losses);
}

IntervalRule interval_rule(const Summary& summary) {
  const auto is_olympic = [](const std::optional<Estimate>& e) { return e && e->statistic == Statistic::olympic_mean; };
  return is_olympic(summary.samples_per_s) || is_olympic(summary.step_time_s) ? IntervalRule::olympic_bootstrap
                                                                              : IntervalRule::student;
}

void summarise_devices(Record& record, std::span<const DeviceEntry> devices) {
  set_device_figures(record, device_figures(record, valid_trials(record), devices));
}

void summarise(Report& report) {
  for (Record& record : report.records) summarise(record);
  for (const RecordedLaunch& launch : launches_of(report))
    for (const std::size_t place : launch.records)
      summarise_devices(report.records[place], launch.context->devices);
  flag_unstable(report);
}

std::optional<double> credible_of_ceiling(const Summary& summary) {
  return summary.of_ceiling && *summary.of_ceiling <= 1 + ceiling_tolerance ? summary.of_ceiling : std::nullopt;
}

std::string why_no_of_ceiling(const Summary& summary) {
  if (!summary.of_ceiling) return summary.of_ceiling_reason;
  return credible_of_ceiling(summary) ? "" : "above_ceiling: the step ran faster than its own products alone";
}

int exit_code(const Report& report) {
  bool tried = false;
  for (const Record& record : report.records) {
    if (record.target && record.verdict.status == Status::failed) return 1;
    for (const FlagName& flag : record.verdict.flags)
      if (flag.is(FlagUse::fails_run)) return 1;
  }
  for (const Record& record : report.records) {
    if (is_valid(record)) return 0;
    tried = tried || record.verdict.status != Status::unsupported;
  }
  return tried ? 4 : 0;
}

}  // namespace tw::results
