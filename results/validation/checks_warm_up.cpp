// What the warm-up of a point, the steps before its first trial, must say of itself and of the plan.
#include <algorithm>
#include <cmath>

#include "results/analysis/statistics.hpp"
#include "results/record/text.hpp"
#include "results/validation/checks.hpp"

namespace tw::results {
namespace {

/// How many times the seconds that pass the slowest rank's step times may add up to. A rank begins a step while another
/// still ends the one before, but is never two steps ahead, because all wait for the gradients of all.
double overlap(const Record& record) { return record.workload.ranks > 1 ? 2 : 1; }

/// Seconds of the steps, without the last `tail` of them.
double sum_of(const std::vector<double>& steps, std::size_t tail) {
  double sum = 0;
  for (std::size_t i = 0; i + tail < steps.size(); ++i) sum += steps[i];
  return sum;
}

bool take_time(const std::vector<double>& steps) {
  return std::ranges::all_of(steps, [](double step) { return step > 0 && std::isfinite(step); });
}

/// Steps that a device still had before it when the host saw that the time was over: at most a tenth of all.
std::size_t in_flight(const std::vector<double>& steps) { return 1 + steps.size() / 10; }

/// Of an older report the trials' pace is all that is known, and a busy machine may have slowed them down.
void note_many_steps(const Record& record, double window_s, const std::string& at, Findings& found) {
  constexpr double faster = 1.5, steps_more = 10;
  const std::int64_t first = record.trials[0].first_step;
  double fastest = HUGE_VAL;
  for (const Trial& trial : record.trials)
    for (const double step : trial.step_time_s)
      if (step > 0) fastest = std::min(fastest, step);
  if (static_cast<double>(first) > faster * window_s / fastest + steps_more)
    found.note("warm_up_unknown", at,
               "is " + std::to_string(first) +
                   ", more steps than a window has: trials may have been left out, or slowed down. The report does not "
                   "say how long its warm-up took");
}

}  // namespace

void check_warm_up(const Record& record, std::size_t place, Findings& found) {
  if (!record.warm_up) return;
  const WarmUp& warm_up = *record.warm_up;
  const std::string at = place_of(place) + "/warm_up";
  if (record.target || is_command(record) || record.trials.empty())
    return found.broken("warm_up", at, "is given although no trial was warmed up for");
  if (const Trial& first = record.trials[0]; first.first_step != std::ssize(warm_up.step_time_s))
    found.broken("steps_order", place_of(place, 0) + "/first_step",
                 "is " + std::to_string(first.first_step) + ", and the warm-up had " +
                     std::to_string(warm_up.step_time_s.size()) + " steps");
  if (!take_time(warm_up.step_time_s))
    return found.broken("warm_up", at + "/step_time_s", "has a step that took no time, or not a finite one");
  if (sum_of(warm_up.step_time_s, 0) > overlap(record) * warm_up.window_s * time_slack)
    found.broken("warm_up", at + "/window_s", "is shorter than the steps of the warm-up took");
  if (const std::size_t kept = std::min(warm_up.step_time_s.size(), warm_up_losses);
      !warm_up.loss.empty() && warm_up.loss.size() != kept)
    found.broken("warm_up", at + "/loss",
                 "has " + std::to_string(warm_up.loss.size()) + " losses, and the first " + std::to_string(kept) +
                     " steps have one each");
}

void check_planned_warm_up(const Record& record, std::size_t place, std::int64_t planned, double window_s,
                           Findings& found) {
  const std::int64_t first = record.trials[0].first_step;
  const std::string at = place_of(place, 0) + "/first_step";
  const bool is_exact = window_s <= 0;
  if (is_exact ? planned != first : first < planned)
    return found.broken("steps_order", at,
                        "is " + std::to_string(first) + ", the plan warms up for " + text::count(planned, "step"));
  if (is_exact) return;
  if (!record.warm_up) return note_many_steps(record, window_s, at, found);
  const std::vector<double>& steps = record.warm_up->step_time_s;
  // Each rank judges its own steps, and the record has only the slowest rank's: with several ranks the flag cannot be
  // recomputed.
  if (record.workload.ranks == 1 && !has_flag(record, Flag::not_steady) && !is_steady(steps, window_s))
    found.left_out_flag(place, Flag::not_steady, "the warm-up gives");
  if (first == planned || !take_time(steps)) return;
  // Time outside of the steps does not count: a job that was suspended is no fault of the report.
  if (const double most = window_s * time_slack; sum_of(steps, in_flight(steps)) > overlap(record) * most)
    found.broken("warm_up", place_of(place) + "/warm_up/step_time_s",
                 "add up to " + text::duration(sum_of(steps, 0)) + ", and a warm-up ends after a window, which is " +
                     text::duration(window_s));
}

}  // namespace tw::results
