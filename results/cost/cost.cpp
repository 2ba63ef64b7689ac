#include "results/cost/cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "results/analysis/scopes.hpp"
#include "results/analysis/statistics.hpp"
#include "results/analysis/to_target.hpp"
#include "results/analysis/trials.hpp"
#include "results/cost/cost_parts.hpp"
#include "results/record/text.hpp"

namespace tw::results {
namespace {

using namespace costs;

constexpr double samples_per_million = 1e6, flops_per_eflop = 1e18;
constexpr double any = 1e300;  // that an input may be turned to at most

CostFigure figure_of(const Record& record, const std::string& per, Unit unit, const std::vector<Use>& uses,
                     double scale, const PriceRow& price, int nodes) {
  CostFigure figure;
  figure.per = per;
  if (uses.empty()) {
    figure.reason = per == "model" && record.summary.to_target ? record.summary.to_target->reason : "not measured";
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
  const auto add = [&](const char* input, auto PriceRow::*field, double least = 0, double most = any) {
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
  all.push_back({to_target ? "time_to_target_s" : "samples_per_s", base, 0, any,
                 [=](PriceRow&, Use& u, double v) { scale_use(u, to_target ? v / base : base / v); }});
  if (use.joules && !price.electricity_included) {
    add("electricity_per_kwh", &PriceRow::electricity_per_kwh);
    add("pue", &PriceRow::pue, 1);
    add("network_storage_power_w", &PriceRow::network_storage_power_w);
    all.push_back({"it_power_w", power_w, 0, any, [=](PriceRow&, Use& u, double v) { *u.joules *= v / power_w; }});
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
  scopes.insert(scopes.end(), {Scope::device, Scope::package});  // a lower bound, whatever else was set
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
    one.figures.push_back(figure_of(record, "hour", Unit::second, seconds, 3600, price, one.nodes));
    const Unit unit = record.target ? Unit::model : Unit::sample;
    const std::vector<Use> units = uses_of(record, unit);
    const double scale = record.target ? 1 : samples_per_million;
    if (record.target) {
      one.figures.push_back(figure_of(record, "model", unit, units, 1, price, one.nodes));
    } else {
      if (const double flops = record.summary.model_flops_per_sample; flops > 0)
        one.figures.push_back(figure_of(record, "eflop", unit, units, flops_per_eflop / flops, price, one.nodes));
      one.figures.push_back(figure_of(record, "million_samples", unit, units, scale, price, one.nodes));
    }
    if (units.empty()) continue;
    one.of = record.target ? "model" : "million_samples";
    one.sensitivity =
        sensitivities(record, price, one.nodes, sensitivity_share, scale, counted_mean(units, unit), power_w);
  }
  return result;
}

}  // namespace tw::results
