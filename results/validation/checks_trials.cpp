// What the numbers of one trial, and those of the trials of one record, must say of each other.
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include "results/analysis/fingerprint.hpp"
#include "results/analysis/losses.hpp"
#include "results/analysis/to_target.hpp"
#include "results/record/text.hpp"
#include "results/validation/checks.hpp"

namespace tw::results {
namespace {

std::string length(const char* other, std::size_t found, std::size_t expected) {
  return "has " + text::count(found, "value") + ", " + other + " has " + std::to_string(expected);
}

double phase(const Trial& trial, const char* name) {
  const auto found = trial.phase_s.find(name);
  return found == trial.phase_s.end() || !std::isfinite(found->second) ? 0 : found->second;
}

/// Events of a GPU, by which phases and steps are timed, have a resolution of half a microsecond; a step has six.
constexpr double event_seconds = 5e-6;
/// What a step does behind its last phase.
constexpr double behind_phases = 0.01;

/// At most the sum of `steps` step times within `seconds`. A step time is the slowest rank's. No rank's own steps pass
/// the window. The sum of the slowest ones may, since a
/// rank begins its next step while another still ends this one: from the last rank's contribution to the gradients on,
/// when no rank waits for another. That is at most the communication and the update of one rank, and so at most the sum
/// of both over the ranks, which is their mean × the ranks.
double most_step_seconds(const Trial& trial, int ranks, double seconds, double steps) {
  if (ranks == 1) return seconds * time_slack;
  const double ends = phase(trial, "communication") + phase(trial, "optimizer");
  const double all = seconds * ranks * time_slack;
  if (ends <= 0) return all;
  return std::min(all, seconds * (time_slack + behind_phases) + steps * ranks * ends);
}

/// Phases are parts of a step, each the mean over steps and ranks: together no more than the slowest rank's steps, and
/// no more than the window, which holds each rank's steps one after another. Training always has them.
void check_phases(const Trial& trial, const std::string& at, Findings& found) {
  if (trial.step_time_s.empty()) return;
  double phases = 0;
  for (const auto& [name, seconds] : trial.phase_s) phases += seconds;
  if (phases <= 0) {
    found.broken("phases_missing", at + "/phase_s", "has no time, and trainwatt-train times the phases of every step");
    return;
  }
  const double steps = static_cast<double>(trial.step_time_s.size());
  const double of_steps = std::accumulate(trial.step_time_s.begin(), trial.step_time_s.end(), 0.0) / steps;
  if (!std::isfinite(phases) || !std::isfinite(of_steps)) return;
  if (phases > of_steps * time_slack + event_seconds)
    found.broken("phases_exceed_step", at + "/phase_s", "add up to more than the mean step");
  else if (phases * steps > trial.window_s * time_slack + steps * event_seconds)
    found.broken("phases_exceed_window", at + "/phase_s", "times the steps are more than the window");
}

void check_trial(const Trial& trial, const Workload& workload, const std::string& at, Findings& found) {
  const int ranks = workload.ranks;
  const std::size_t steps = trial.step_time_s.size();
  if (trial.samples_s && (!trial.samples || *trial.samples_s > trial.window_s * time_slack))
    found.broken("samples_s", at + "/samples_s",
                 trial.samples ? "is longer than the window" : "is given although samples is absent");
  const bool shown = workload.known_device() != DeviceKind::command;  // a metered command shows neither
  if (shown && (trial.samples || trial.samples_s))
    found.broken("samples_s", at + (trial.samples ? "/samples" : "/samples_s"),
                 "is given for training, whose samples are steps x global batch");
  if (shown && trial.loss.size() != steps)
    found.broken("length_differs", at + "/loss", length("step_time_s", trial.loss.size(), steps));
  if (shown && trial.gradient_norm.size() != steps)
    found.broken("length_differs", at + "/gradient_norm", length("step_time_s", trial.gradient_norm.size(), steps));
  double sum = 0;
  bool inside = true;
  for (double t : trial.step_time_s) {
    if (std::isfinite(t)) sum += t;
    inside = inside && !(t > trial.window_s * time_slack);
  }
  if (!inside) found.broken("window_short", at + "/window_s", "is shorter than a step inside it");
  if (sum > most_step_seconds(trial, ranks, trial.window_s, static_cast<double>(steps)))
    found.broken(
        "steps_exceed_window", at + "/step_time_s",
        ranks == 1 ? "add up to more than the window" : "add up to more than the window and what ranks may overlap");
  if (shown) check_phases(trial, at, found);
}

/// A run goes on from evaluation to evaluation until the first at or under the target, until its loss is no number any
/// more, or to the last step, and ends there.
void check_target_run(const std::optional<Target>& target, const Trial& trial, int ranks, const std::string& at,
                      Findings& found) {
  const auto broken = [&](const std::string& where, const std::string& what) {
    found.broken("target_run", where, what);
  };
  if (target.has_value() != trial.target_run.has_value())
    return broken(at, target ? "is missing although the record has a target"
                             : "is given although the record has no target");
  if (!target) return;
  const TargetRun& run = *trial.target_run;
  if (trial.first_step != 0) found.broken("steps_order", at, "does not begin with the first step");
  if (run.evaluation_s > trial.window_s * time_slack) broken(at + "/evaluation_s", "is longer than the window");
  double before = 0, stepped = 0;
  std::size_t counted = 0;
  for (std::size_t e = 0; e < run.evaluations.size(); ++e) {
    const Evaluation& evaluation = run.evaluations[e];
    const std::string place = at + "/evaluations/" + std::to_string(e);
    const bool last = e + 1 == run.evaluations.size();
    std::int64_t due = 0;
    if (__builtin_mul_overflow(static_cast<std::int64_t>(e + 1), target->evaluation_interval, &due) ||
        due > target->most_steps)
      due = target->most_steps;
    if (evaluation.step != due)
      broken(place + "/step",
             "is " + std::to_string(evaluation.step) + ", the interval makes it " + std::to_string(due));
    if (!(evaluation.time_s > before)) broken(place + "/time_s", "is not after the one before");
    before = evaluation.time_s;
    for (; counted < trial.step_time_s.size() && static_cast<std::int64_t>(counted) < evaluation.step; ++counted)
      stepped += trial.step_time_s[counted];
    if (stepped > most_step_seconds(trial, ranks, evaluation.time_s, static_cast<double>(counted)))
      broken(place + "/time_s", "is less than the steps before it took");
    if (evaluation.error.has_value() != (target->metric == TargetMetric::error))
      broken(place + "/error",
             evaluation.error ? "is given although the target's metric is not \"error\""
                              : "is null although the target's metric is \"error\"");
    const bool ends = !std::isfinite(metric_of(*target, evaluation)) || reaches(*target, evaluation) ||
                      evaluation.step == target->most_steps;
    if (ends != last)
      broken(place, last ? "is the last one, although it does not end the run" : "should have ended the run");
  }
  if (stepped > most_step_seconds(trial, ranks, std::max(0.0, trial.window_s - run.evaluation_s),
                                  static_cast<double>(counted)))
    broken(at + "/evaluation_s", "leaves less of the window than the steps took");
  if (before > trial.window_s * time_slack) broken(at + "/evaluations", "the last comes after the window's end");
  const auto steps = static_cast<std::int64_t>(trial.step_time_s.size());
  if (run.evaluations.empty() || run.evaluations.back().step != steps)
    broken(at + "/evaluations", "the last is not that of the last step");
}

/// One training, whose steps are counted through: a window that was left out would be a choice among windows.
void check_order(const Record& record, std::size_t place, Findings& found) {
  if (record.target) return;
  for (std::size_t t = 1; t < record.trials.size(); ++t) {
    const Trial &before = record.trials[t - 1], &trial = record.trials[t];
    const auto steps = static_cast<std::int64_t>(before.step_time_s.size());
    if (before.first_step > std::numeric_limits<std::int64_t>::max() - steps ||
        trial.first_step != before.first_step + steps)
      found.broken("steps_order", place_of(place, t) + "/first_step",
                   "is " + std::to_string(trial.first_step) + ", and the trial before had " + std::to_string(steps) +
                       " steps from " + std::to_string(before.first_step) + " on");
  }
}

}  // namespace

void check_trials(const Record& record, std::size_t place, Findings& found) {
  for (std::size_t t = 0; t < record.trials.size(); ++t) {
    check_trial(record.trials[t], record.workload, place_of(place, t), found);
    check_target_run(record.target, record.trials[t], record.workload.ranks, place_of(place, t) + "/target_run", found);
  }
  check_order(record, place, found);
  check_warm_up(record, place, found);
  for (const auto& [first, copy] : copied_trials(record))
    found.broken("trial_copied", place_of(place, copy),
                 "repeats trial " + std::to_string(first) +
                     " (by its steps, phases, losses or gradient norms): one measurement counts once");
}

void check_copies(const std::vector<Record>& records, Findings& found) {
  constexpr std::size_t most_prints = 64;  // the comparison of all pairs of more would take too long
  struct Print {
    std::size_t place;
    std::string digest;
    Fingerprint fingerprint;
  };
  std::vector<Print> prints;
  for (std::size_t i = 0; i < records.size(); ++i) {
    if (!has_run(records[i])) continue;
    Print one{i, digest_of(records[i]), Fingerprint(records[i])};
    for (const Print& other : prints) {
      const std::string why = one.digest == other.digest ? "their trials are the same to the last bit"
                                                         : one.fingerprint.same_as(other.fingerprint);
      if (why.empty()) continue;
      found.broken("record_copied", place_of(i) + "/trials",
                   "are those of " + place_of(other.place) + ": " + why + ": one measurement is one point");
      break;
    }
    prints.push_back(std::move(one));
    if (prints.size() > most_prints) prints.erase(prints.begin());
  }
}

void check_losses(const Report& report, Findings& found) {
  std::map<std::tuple<std::string, std::string, std::uint64_t, std::int64_t, std::int64_t>, std::size_t> first_of;
  for (std::size_t i = 0; i < report.records.size(); ++i) {
    const Record& record = report.records[i];
    bool is_set = false;  // what a set point does to losses is the flag "unstable"
    for (const auto& [name, setting] : record.setting) is_set = is_set || setting.requested;
    if (record.trials.empty() || record.target || is_set || !is_valid(record)) continue;
    const Workload& w = record.workload;
    const auto [first, is_new] =
        first_of.try_emplace({w.hash, w.precision, w.seed, w.global_batch, w.seq_len ? 0 : w.micro_batch}, i);
    if (is_new) continue;
    const auto pair = furthest_first_losses(report.records[first->second], record);
    if (pair && losses_differ(*pair))
      found.broken("losses_differ", place_of(i) + "/trials/0/loss",
                   "step " + std::to_string(pair->step) + " has the loss " + text::significant(pair->b) + ", and " +
                       text::significant(pair->a) + " in " + place_of(first->second) + ", which trains the same");
  }
}

}  // namespace tw::results
