#include "results/cost/cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "results/analysis/scopes.hpp"
#include "results/analysis/statistics.hpp"
#include "results/analysis/to_target.hpp"
#include "results/analysis/trials.hpp"
#include "results/record/text.hpp"

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

namespace {

using namespace costs;

constexpr double samples_per_million = 1e6, flops_per_eflop = 1e18;
constexpr double largest_input = 1e300;  // that an input may be turned to at most

CostFigure figure_of(const Record& record, CostPer per, Unit unit, const std::vector<Use>& uses, double scale,
                     const PriceRow& price, int nodes) {
  CostFigure figure;
  figure.per = per;
  if (uses.empty()) {
    figure.reason =
        per == CostPer::model && record.summary.to_target ? record.summary.to_target->reason : "not measured";
    return figure;
  }
  const Use mean = counted_mean(uses, unit);
  figure.total = estimated_cost(record, uses, unit, scale, price, nodes);
  figure.hours_part = scale * hours_cost(mean, price, nodes);
  figure.electricity_part = scale * electricity_cost(mean, price, nodes);
  if (mean.joules) {
    figure.kwh = scale * kwh_of(mean, price, nodes);
    if (price.carbon_g_per_kwh) figure.co2_kg = *figure.kwh * *price.carbon_g_per_kwh / 1000;
  }
  return figure;
}

/// An input that may be turned by itself, within what is possible.
struct Turn {
  std::string input;
  double base, least, most;
  std::function<void(PriceRow& price, Use& use, double value)> apply;
};

void scale_use(Use& use, double by) {
  use.seconds *= by;
  if (use.joules) *use.joules *= by;
}

std::vector<Turn> turns_of(const PriceRow& price, const Use& use, bool to_target, double power_w) {
  std::vector<Turn> all;
  const auto add = [&](const char* input, auto PriceRow::*field, double least = 0, double most = largest_input) {
    const std::optional<double> base = price.*field;
    all.push_back({input, base.value_or(0), least, most, [field](PriceRow& p, Use&, double v) { p.*field = v; }});
  };
  add("rent_per_month", &PriceRow::rent_per_month);
  add("capex", &PriceRow::capex);
  add("life_years", &PriceRow::life_years);
  add("maintenance_per_year", &PriceRow::maintenance_per_year);
  add("fixed_opex_per_year", &PriceRow::fixed_opex_per_year);
  add("network_storage_capex", &PriceRow::network_storage_capex);
  add("utilisation", &PriceRow::utilisation, 0, 1);
  const double base = to_target ? use.seconds : 1 / use.seconds;
  all.push_back({to_target ? "time_to_target_s" : "samples_per_s", base, 0, largest_input,
                 [=](PriceRow&, Use& u, double v) { scale_use(u, to_target ? v / base : base / v); }});
  if (use.joules && !price.electricity_included) {
    add("electricity_per_kwh", &PriceRow::electricity_per_kwh);
    add("pue", &PriceRow::pue, 1);
    add("network_storage_power_w", &PriceRow::network_storage_power_w);
    all.push_back({"it_power_w", power_w, 0, largest_input,
                   [=](PriceRow&, Use& u, double v) { *u.joules *= v / power_w; }});
  }
  std::erase_if(all, [](const Turn& turn) { return !(turn.base > 0); });
  return all;
}

std::vector<Sensitivity> sensitivities(const Record& record, const PriceRow& price, int nodes, double share,
                                       double scale, const Use& mean, double power_w) {
  std::vector<Sensitivity> all;
  for (const Turn& turn : turns_of(price, mean, record.target.has_value(), power_w)) {
    const auto cost_at = [&](double value) {
      PriceRow turned = price;
      Use use = mean;
      turn.apply(turned, use, value);
      return scale * cost(use, turned, nodes);
    };
    Sensitivity one{turn.input, turn.base, std::clamp(turn.base * (1 - share), turn.least, turn.most),
                    std::clamp(turn.base * (1 + share), turn.least, turn.most)};
    one.cost_low = cost_at(one.low), one.cost_high = cost_at(one.high), one.cost_base = cost_at(one.base);
    all.push_back(std::move(one));
  }
  std::ranges::stable_sort(all, std::ranges::greater(), &Sensitivity::effect);
  return all;
}

std::string basis_note(CostBasis basis, Scope scope) {
  if (basis == CostBasis::lower_bound)
    return "a lower bound: the joules are those of the scope " + scope + ", the rest of the node draws more";
  if (basis == CostBasis::hours_only) return "a lower bound without electricity: no joules were measured";
  return {};
}

std::string energy_note(Scope scope) {
  if (scope == Scope::none || scope == Scope::node) return {};
  return "kWh and CO2 are lower bounds: the joules are those of the scope " + scope +
         ", the rest of the node draws more";
}

}  // namespace

double Sensitivity::effect() const {
  return std::max(std::abs(cost_low - cost_base), std::abs(cost_high - cost_base));
}

int nodes_of(const Report& report, const Record& record) {
  const Context* context = &report.context;
  if (report.parts)
    for (const RunPart& part : *report.parts)
      if (part.context && std::ranges::find(part.points, record.id) != part.points.end()) context = &*part.context;
  std::set<std::string> hosts;
  for (const DeviceEntry& device : context->devices)
    if (device.rank < record.workload.ranks) hosts.insert(device.host);
  if (hosts.empty())
    for (const HostInfo& host : context->hosts) hosts.insert(host.name);
  return std::max<int>(1, static_cast<int>(hosts.size()));
}

Scope cost_scope(const Record& record) {
  std::vector<Scope> scopes = {Scope::node};
  for (Scope scope : telling_scopes(record)) scopes.push_back(scope);
  scopes.insert(scopes.end(), training_scopes.begin(), training_scopes.end());  // a lower bound, whatever else was set
  for (Scope scope : scopes)
    if (const auto joules = record.summary.energy_j.find(scope);
        joules != record.summary.energy_j.end() && joules->second)
      return scope;
  return {};
}

CostBasis cost_basis(const Record& record, const PriceRow& price) {
  const Scope scope = cost_scope(record);
  if (price.electricity_included || scope == Scope::node) return CostBasis::complete;
  return scope == Scope::none ? CostBasis::hours_only : CostBasis::lower_bound;
}

CostGround cost_ground(const std::vector<const Record*>& runs, const PriceRow& price) {
  CostGround ground;
  std::vector<std::string> all;
  for (const Record* run : runs) {
    const CostBasis basis = cost_basis(*run, price);
    if (all.empty()) ground.basis = basis;
    all.push_back(basis == CostBasis::complete     ? "complete"
                  : basis == CostBasis::hours_only ? "hours only, no joules"
                                                   : "lower bound, " + cost_scope(*run) + " joules");
  }
  if (all.empty()) return ground;
  ground.is_mixed = std::ranges::any_of(all, [&](const std::string& one) { return one != all.front(); });
  ground.text = all.front();
  if (!ground.is_mixed) return ground;
  ground.text.clear();
  for (std::size_t run = 0; run < all.size(); ++run)
    ground.text += fmt::format("{}run {}: {}", run > 0 ? ", " : "", run + 1, all[run]);
  return ground;
}

TrialCosts trial_costs(const Record& record, const PriceRow& price, int nodes) {
  TrialCosts costs;
  const Unit unit = record.target ? Unit::model : Unit::sample;
  const std::vector<Use> uses = uses_of(record, unit);
  if (uses.empty()) {
    costs.reason = record.summary.to_target ? record.summary.to_target->reason : "not measured";
    return costs;
  }
  const double scale = record.target ? 1 : samples_per_million;
  for (const Use& use : uses) costs.values.push_back(scale * cost(use, price, nodes));
  costs.common = common_share(counted_mean(uses, unit), passage_share(record, unit), price, nodes);
  costs.estimate = estimated_cost(record, uses, unit, scale, price, nodes);
  return costs;
}

CostReport cost_of(const Report& report, const std::string& currency, const PriceRow& price, double sensitivity_share) {
  CostReport result{currency, price, sensitivity_share, {}};
  for (const Record& record : report.records) {
    RecordCost& one = result.records.emplace_back();
    one.id = text::printable(record.id);
    one.nodes = nodes_of(report, record);
    one.target_note = text::printable(extrapolation_words(record));
    if (!is_valid(record)) {
      one.reason = to_string(record.verdict.status) +
                   (record.verdict.reasons.empty() ? "" : ": " + text::printable(record.verdict.reasons.front()));
      continue;
    }
    one.scope = cost_scope(record), one.basis = cost_basis(record, price);
    one.basis_note = basis_note(one.basis, one.scope);
    one.energy_is_whole = one.scope == Scope::node, one.energy_note = energy_note(one.scope);
    const std::vector<Use> seconds = uses_of(record, Unit::second);
    if (seconds.empty()) {
      one.reason = "its trials lack the seconds or joules that a cost needs";
      continue;
    }
    double power_w = 0;
    if (one.scope != Scope::none) {
      std::vector<double> watts;
      double sensor = 0;
      for (const Use& use : seconds) {
        watts.push_back(*use.joules);
        sensor += use.sensor / static_cast<double>(seconds.size());
      }
      one.it_power_w = estimated(watts, sensor);
      power_w = one.it_power_w->value;
      if (one.scope == Scope::node)
        one.facility_power_w = (power_w + price.network_storage_power_w * one.nodes) * price.pue;
    }
    one.figures.push_back(figure_of(record, CostPer::hour, Unit::second, seconds, 3600, price, one.nodes));
    const Unit unit = record.target ? Unit::model : Unit::sample;
    const std::vector<Use> units = uses_of(record, unit);
    const double scale = record.target ? 1 : samples_per_million;
    if (record.target) {
      one.figures.push_back(figure_of(record, CostPer::model, unit, units, 1, price, one.nodes));
    } else {
      if (const double flops = record.summary.model_flops_per_sample; flops > 0)
        one.figures.push_back(
            figure_of(record, CostPer::eflop, unit, units, flops_per_eflop / flops, price, one.nodes));
      one.figures.push_back(figure_of(record, CostPer::million_samples, unit, units, scale, price, one.nodes));
    }
    if (units.empty()) continue;
    one.of = record.target ? CostPer::model : CostPer::million_samples;
    one.sensitivity =
        sensitivities(record, price, one.nodes, sensitivity_share, scale, counted_mean(units, unit), power_w);
  }
  return result;
}

}  // namespace tw::results
