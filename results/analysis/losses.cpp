#include "results/analysis/losses.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>

namespace tw::results {
namespace {

/// How the names of networks begin that a file describes (models/catalog: described_models).
constexpr std::string_view described_by_file = "custom-";

/// Whether rounding is amplified within a few steps: training with batch normalisation is chaotic. Older reports do not
/// say what their data are: without a sequence these may be images.
bool is_chaotic(const Workload& workload) {
  return (!workload.seq_len && workload.data != "clicks") || workload.model.starts_with(described_by_file);
}

/// Losses of tokens stay within 1.8e-7 (float32) and 1.0e-3 (bf16) over ranks and 200 steps.
std::int64_t last_step_compared(const Workload& workload) { return is_chaotic(workload) ? 2 : 200; }

/// Of the trials, from the first common step on.
constexpr int steps_compared = 10;

/// Those of the steps up to `last`.
std::map<std::int64_t, double> losses_until(const Record& record, std::int64_t last) {
  std::map<std::int64_t, double> losses;
  if (record.warm_up)
    for (const double loss : record.warm_up->loss)
      if (const std::int64_t step = std::ssize(losses); step <= last) losses.emplace(step, loss);
  for (const Trial& trial : record.trials)
    for (std::size_t i = 0; i < trial.loss.size(); ++i) {
      if (trial.first_step > last - static_cast<std::int64_t>(i)) break;
      losses.try_emplace(trial.first_step + static_cast<std::int64_t>(i), trial.loss[i]);
    }
  return losses;
}

/// As a share of the greater one.
double gap(const LossPair& pair) {
  if (std::isfinite(pair.a) != std::isfinite(pair.b)) return HUGE_VAL;
  if (!std::isfinite(pair.a) || pair.a == pair.b) return 0;
  return std::abs(pair.a - pair.b) / std::max(std::abs(pair.a), std::abs(pair.b));
}

}  // namespace

double loss_tolerance(const Workload& workload, std::int64_t step) {
  constexpr double apart = 2e-5, later = 1e-3;
  if (workload.precision != "float32" && workload.precision != "float64")
    return 0.02;  // storage or products of 8 to 16 bits
  return step < 100 ? apart : later;
}

std::optional<LossPair> furthest_first_losses(const Record& a, const Record& b) {
  const Workload &x = a.workload, &y = b.workload;
  if (a.target || b.target || a.trials.empty() || b.trials.empty() || is_command(a) || is_command(b))
    return std::nullopt;
  if (x.hash.empty() || x.hash != y.hash || x.seed != y.seed || x.precision != y.precision ||
      x.global_batch != y.global_batch)
    return std::nullopt;
  if (!x.seq_len && x.micro_batch != y.micro_batch) return std::nullopt;  // batch normalisation
  const std::map<std::int64_t, double> of_a = losses_until(a, last_step_compared(x)),
                                       of_b = losses_until(b, last_step_compared(x));
  const std::int64_t first_of_trials = std::max(a.trials.front().first_step, b.trials.front().first_step);
  std::optional<LossPair> furthest;
  int compared = 0;
  for (const auto& [step, loss] : of_a) {
    const auto other = of_b.find(step);
    if (other == of_b.end()) continue;
    if (step >= first_of_trials && ++compared > steps_compared) break;
    const LossPair pair{step, loss, other->second, std::max(loss_tolerance(x, step), loss_tolerance(y, step))};
    if (!furthest || gap(pair) / pair.tolerance > gap(*furthest) / furthest->tolerance) furthest = pair;
  }
  return furthest;
}

bool losses_differ(const LossPair& pair) { return gap(pair) > pair.tolerance; }

}  // namespace tw::results
