#include "results/compare/figures.hpp"

#include <algorithm>
#include <cmath>

#include "results/analysis/statistics.hpp"
#include "results/analysis/to_target.hpp"
#include "results/analysis/trials.hpp"

namespace tw::results {
namespace {

using Scopes = std::map<Scope, std::optional<Estimate>>;

bool has(const Scopes& scopes, Scope scope) {
  const auto found = scopes.find(scope);
  return found != scopes.end() && found->second;
}

/// Mean of the meters' own half widths, as shares.
double sensor_share(const std::vector<const Trial*>& trials, Scope scope) {
  double sum = 0;
  for (const Trial* trial : trials)
    sum += uncertainty_of(*trial, scope) / joules_of(*trial, scope) / static_cast<double>(trials.size());
  return sum;
}

FigureValues of_target(const Record& record, FigureKind figure, Scope scope, const std::vector<const Trial*>& trials) {
  FigureValues result;
  const auto& reached = record.summary.to_target;
  if (!record.target || !reached || !reached->steps) {
    result.reason = reached ? reached->reason : "not trained to a target";
    return result;
  }
  const bool joules = figure == FigureKind::energy_to_target;
  if (joules && !has(reached->energy_j, scope)) {
    result.reason =
        record.summary.energy_reason.empty() ? "no joules of the scope " + scope : record.summary.energy_reason;
    return result;
  }
  for (const Trial* trial : trials) {
    const Evaluation* first = passage_of(record, *trial);
    if (first == nullptr) return {{}, 0, "a trial did not reach the target"};
    result.values.push_back(joules                       ? joules_of(*trial, scope)
                            : figure == FigureKind::time_to_target ? first->time_s
                                                         : static_cast<double>(first->step));
  }
  result.common =
      std::hypot(joules ? sensor_share(trials, scope) : 0, passage_uncertainty(*record.target, reached->steps->value));
  return result;
}

FigureValues of_joules(const Record& record, bool flops, Scope scope, const std::vector<const Trial*>& trials) {
  FigureValues result;
  const Summary& s = record.summary;
  if (!has(flops ? s.flops_per_w : s.samples_per_j, scope)) {
    result.reason = !s.energy_reason.empty()               ? s.energy_reason
                    : flops && has(s.samples_per_j, scope) ? "its FLOPs are not known"
                                                           : "no joules of the scope " + scope;
    return result;
  }
  for (const Trial* trial : trials)
    result.values.push_back((flops ? s.model_flops_per_sample : 1) * samples_of(record, *trial) /
                            joules_of(*trial, scope));
  result.common = sensor_share(trials, scope);
  return result;
}

}  // namespace

const std::vector<ComparedFigure>& compared_figures() {
  static const std::vector<ComparedFigure> all = [] {
    std::vector<ComparedFigure> figures;
    for (const char* name : name_list<FigureKind>) {
      ComparedFigure& figure = figures.emplace_back(ComparedFigure{*named<FigureKind>(name), name, "", false, false});
      if (const Merit* merit = figure.is_cost() ? nullptr : find_merit(name))
        figure.unit = merit->what, figure.more_is_better = merit->more_is_better, figure.by_scope = merit->by_scope;
      if (figure.kind == FigureKind::time_to_target) figure.unit = "s to target";
      if (figure.is_cost()) figure.unit = figure.kind == FigureKind::cost ? "per million samples" : "per model";
    }
    return figures;
  }();
  return all;
}

FigureValues values_of(const Record& record, FigureKind figure, Scope scope, const PriceRow* price, int nodes) {
  const std::vector<const Trial*> trials = valid_trials(record);
  FigureValues result;
  if (trials.empty()) {
    result.reason = "no valid trial";
  } else if (figure == FigureKind::cost || figure == FigureKind::cost_to_target) {
    const bool to_target = figure == FigureKind::cost_to_target;
    if (price == nullptr || to_target != record.target.has_value()) {
      result.reason = price == nullptr ? "no price"
                      : to_target      ? "not trained to a target"
                                       : "trained to a target: see cost-to-target";
      return result;
    }
    TrialCosts costs = trial_costs(record, *price, nodes);
    result.values = std::move(costs.values), result.common = costs.common, result.estimate = costs.estimate,
    result.reason = std::move(costs.reason);
  } else if (figure == FigureKind::time_to_target || figure == FigureKind::energy_to_target ||
             figure == FigureKind::steps_to_target) {
    result = of_target(record, figure, scope, trials);
  } else if (figure == FigureKind::throughput) {
    for (const Trial* trial : trials) result.values.push_back(throughput_of(record, *trial));
  } else {
    result = of_joules(record, figure == FigureKind::efficiency, scope, trials);
  }
  if (!std::ranges::all_of(result.values, [](double v) { return std::isfinite(v) && v > 0; })) {
    result.values.clear();
    result.reason = figure == FigureKind::throughput && is_command(record) ? "the command did not say what it trained"
                                                                 : "not a positive number in some trial";
  }
  return result;
}

double weight_of(const std::string& id, const std::map<std::string, double>& weights) {
  if (weights.empty()) return 1;
  const std::string* best = nullptr;
  for (const auto& [text, weight] : weights)
    if (id.find(text) != std::string::npos && (best == nullptr || text.size() > best->size())) best = &text;
  return best == nullptr ? 0 : weights.at(*best);
}

void check_weights(const std::map<std::string, double>& weights, const std::vector<ComparedWorkload>& workloads) {
  for (const auto& [text, weight] : weights) {
    if (!(weight >= 0) || !std::isfinite(weight))
      throw OptionError("bad-value", "--weights: the weight of " + text + " must be a number, at least 0");
    if (std::ranges::none_of(workloads,
                             [&](const ComparedWorkload& w) { return w.id.find(text) != std::string::npos; }))
      throw OptionError("no-match", "--weights: no point that is compared has the text \"" + text + "\" in its id");
  }
}

Estimate estimate_of(const FigureValues& values) {
  if (values.estimate) return *values.estimate;
  Estimate e = estimate(values.values);
  widen(e, values.common);
  return of_positive(e);
}

}  // namespace tw::results
