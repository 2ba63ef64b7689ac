#include "results/cost/cost_parts.hpp"

#include <cmath>

#include "results/analysis/statistics.hpp"
#include "results/analysis/to_target.hpp"
#include "results/analysis/trials.hpp"

namespace tw::results {

namespace {
constexpr double hours_per_year = 8760, hours_per_month = hours_per_year / 12;
constexpr double usual_life_years = 5;  // of switches and storage beside rented nodes
}  // namespace

double hour_price(const PriceRow& price, int nodes) {
  const double life = price.life_years.value_or(usual_life_years);
  const double yearly = price.capex.value_or(0) / life + price.network_storage_capex / life +
                        price.maintenance_per_year + price.fixed_opex_per_year;
  return nodes * (price.rent_per_month.value_or(0) / hours_per_month + yearly / hours_per_year) / price.utilisation;
}

namespace costs {

bool pays_for_joules(const std::optional<PriceRow>& price) {
  return price && !price->electricity_included && price->electricity_per_kwh > 0;
}

std::vector<Use> uses_of(const Record& record, Unit unit) {
  const Scope scope = cost_scope(record);
  std::vector<Use> uses;
  for (const Trial* trial : valid_trials(record)) {
    Use use;
    if (scope != Scope::none) {
      use.joules = joules_of(*trial, scope);
      use.sensor = uncertainty_of(*trial, scope) / *use.joules;
    }
    if (unit == Unit::model) {
      const Evaluation* passage = passage_of(record, *trial);
      if (passage == nullptr) return {};
      use.seconds = passage->time_s;
    } else {
      const double units = unit == Unit::sample ? samples_of(record, *trial) : trial->window_s;
      if (use.joules) *use.joules /= units;
      use.seconds = unit == Unit::sample ? 1 / throughput_of(record, *trial) : 1;
    }
    if (!std::isfinite(use.seconds) || (use.joules && !(std::isfinite(*use.joules) && *use.joules > 0))) return {};
    uses.push_back(use);
  }
  return uses;
}

namespace {

Use mean_of(const std::vector<Use>& uses) {
  Use mean;
  const auto count = static_cast<double>(uses.size());
  for (const Use& use : uses) {
    mean.seconds += use.seconds / count;
    if (use.joules) mean.joules = mean.joules.value_or(0) + *use.joules / count;
    mean.sensor += use.sensor / count;
  }
  return mean;
}

/// Samples a second of each trial.
std::vector<double> speeds_of(const std::vector<Use>& uses) {
  std::vector<double> speeds;
  for (const Use& use : uses) speeds.push_back(1 / use.seconds);
  return speeds;
}
/// Samples a joule; empty without joules.
std::vector<double> yields_of(const std::vector<Use>& uses) {
  std::vector<double> yields;
  for (const Use& use : uses)
    if (use.joules) yields.push_back(1 / *use.joules);
  return yields;
}

}  // namespace

Use counted_mean(const std::vector<Use>& uses, Unit unit) {
  if (unit == Unit::sample) {
    Use use = mean_of(uses);  // for its sensor
    use.seconds = 1 / estimate(speeds_of(uses)).value;
    if (use.joules) use.joules = 1 / estimate(yields_of(uses)).value;
    return use;
  }
  return mean_of(uses);
}

Estimate estimated(const std::vector<double>& values, double common) {
  Estimate e = estimate(values);
  widen(e, common);
  return of_positive(e);
}

Estimate estimated_cost(const Record& record, const std::vector<Use>& uses, Unit unit, double scale,
                        const PriceRow& price, int nodes) {
  const double common = common_share(counted_mean(uses, unit), passage_share(record, unit), price, nodes);
  if (unit != Unit::sample) {
    std::vector<double> values;
    for (const Use& use : uses) values.push_back(scale * cost(use, price, nodes));
    return estimated(values, common);
  }
  const bool has_joules = uses[0].joules.has_value();
  const std::optional<double> none = has_joules ? std::optional(0.0) : std::nullopt;
  std::vector<Paid> paid = {{scale * cost({1, none}, price, nodes), speeds_of(uses)}};
  if (has_joules) paid.push_back({scale * cost({0, 1.0}, price, nodes), yields_of(uses)});
  return estimate_of_paid(paid, common);
}

double kwh_of(const Use& use, const PriceRow& price, int nodes) {
  return (use.joules.value_or(0) + price.network_storage_power_w * nodes * use.seconds) * price.pue / joules_per_kwh;
}

double hours_cost(const Use& use, const PriceRow& price, int nodes) {
  return hour_price(price, nodes) * use.seconds / 3600;
}

double electricity_cost(const Use& use, const PriceRow& price, int nodes) {
  return use.joules && !price.electricity_included ? kwh_of(use, price, nodes) * price.electricity_per_kwh : 0;
}

double cost(const Use& use, const PriceRow& price, int nodes) {
  return hours_cost(use, price, nodes) + electricity_cost(use, price, nodes);
}

double passage_share(const Record& record, Unit unit) {
  const auto& reached = record.summary.to_target;
  return unit == Unit::model && record.target && reached && reached->steps
             ? passage_uncertainty(*record.target, reached->steps->value)
             : 0;
}

double common_share(const Use& mean, double passage, const PriceRow& price, int nodes) {
  const double total = cost(mean, price, nodes);
  const double of_joules = mean.joules && total > 0 && !price.electricity_included
                               ? *mean.joules * price.pue / joules_per_kwh * price.electricity_per_kwh / total
                               : 0;
  return std::hypot(of_joules * mean.sensor, passage);
}

}  // namespace costs
}  // namespace tw::results
