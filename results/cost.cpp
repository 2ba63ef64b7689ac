#include "results/cost.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "results/scopes.hpp"
#include "results/statistics.hpp"
#include "results/text.hpp"
#include "results/to_target.hpp"
#include "results/trials.hpp"

namespace tw {
namespace {

constexpr double hours_per_year = 8760, hours_per_month = hours_per_year / 12, joules_per_kwh = 3.6e6;
constexpr double usual_life_years = 5;  // of switches and storage beside rented nodes
constexpr double samples_per_million = 1e6, flops_per_eflop = 1e18;

/// What one unit takes of all nodes: a sample, a model, a second.
struct Use {
  double seconds = 0;
  std::optional<double> joules;
  double sensor = 0;  ///< half width of the joules, 95 %, as a share
};

double electricity_share(const PriceRow& price) { return price.electricity_included ? 0 : price.electricity_per_kwh; }

double kwh_of(const Use& use, const PriceRow& price, int nodes) {
  return (use.joules.value_or(0) + price.network_storage_power_w * nodes * use.seconds) * price.pue / joules_per_kwh;
}
double hours_cost(const Use& use, const PriceRow& price, int nodes) {
  return hour_price(price, nodes) * use.seconds / 3600;
}
double electricity_cost(const Use& use, const PriceRow& price, int nodes) {
  return use.joules ? kwh_of(use, price, nodes) * electricity_share(price) : 0;
}
double cost(const Use& use, const PriceRow& price, int nodes) {
  return hours_cost(use, price, nodes) + electricity_cost(use, price, nodes);
}

enum class Unit { second, sample, model };

/// Of each valid trial. Empty where a trial does not have it.
std::vector<Use> uses_of(const Record& record, Unit unit) {
  const std::string scope = cost_scope(record);
  std::vector<Use> uses;
  for (const Trial* trial : valid_trials(record)) {
    Use use;
    if (!scope.empty()) {
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
    if (!std::isfinite(use.seconds) || (use.joules && !std::isfinite(*use.joules))) return {};
    uses.push_back(use);
  }
  return uses;
}

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

/// All values of runs to a target count; of others the rule of DESIGN §8.2.
Estimate estimated(const Record& record, const std::vector<double>& values, double common) {
  Estimate e = record.target ? estimate_of_all(values) : estimate(values);
  widen(e, common);
  if (e.low) e.low = std::max(0.0, *e.low);
  return e;
}

/// Share of a cost that is not known better than to this half width: the sensor's by the share of joules in it, and of
/// a model when its target was reached.
double common_share(const Record& record, const Use& mean, const PriceRow& price, int nodes) {
  const double total = cost(mean, price, nodes);
  const double of_joules =
      mean.joules && total > 0 ? *mean.joules * price.pue / joules_per_kwh * electricity_share(price) / total : 0;
  const double passage = record.target && record.summary.to_target && record.summary.to_target->steps
                             ? passage_uncertainty(*record.target, record.summary.to_target->steps->value)
                             : 0;
  return std::hypot(of_joules * mean.sensor, passage);
}

CostFigure figure_of(const Record& record, const std::string& per, const std::vector<Use>& uses, double scale,
                     const PriceRow& price, int nodes) {
  CostFigure figure;
  figure.per = per;
  if (uses.empty()) {
    figure.reason = per == "model" && record.summary.to_target ? record.summary.to_target->reason : "not measured";
    return figure;
  }
  std::vector<double> values;
  for (const Use& use : uses) values.push_back(scale * cost(use, price, nodes));
  const Use mean = mean_of(uses);
  const double common =
      per == "hour" ? common_share(record, mean, price, nodes) : trial_costs(record, price, nodes).common;
  figure.total = estimated(record, values, common);
  const double hours = hours_cost(mean, price, nodes), all = cost(mean, price, nodes);
  figure.hours_part = all > 0 ? figure.total->value * hours / all : 0;
  figure.electricity_part = figure.total->value - figure.hours_part;
  if (mean.joules) {
    figure.kwh = scale * kwh_of(mean, price, nodes);
    if (price.carbon_g_per_kwh) figure.co2_kg = *figure.kwh * *price.carbon_g_per_kwh / 1000;
  }
  return figure;
}

/// An input that may be turned by itself.
struct Turn {
  std::string input;
  double base;
  double least, most;  // within what is possible
  void (*apply)(PriceRow& price, Use& use, double value, double base);
};

std::vector<Turn> turns_of(const PriceRow& price, const Use& use, bool to_target, double power_w) {
  constexpr double any = 1e300;
  std::vector<Turn> all = {
      {"rent_per_month", price.rent_per_month.value_or(0), 0, any,
       [](PriceRow& p, Use&, double v, double) { p.rent_per_month = v; }},
      {"capex", price.capex.value_or(0), 0, any, [](PriceRow& p, Use&, double v, double) { p.capex = v; }},
      {"life_years", price.life_years.value_or(0), 0, any,
       [](PriceRow& p, Use&, double v, double) { p.life_years = v; }},
      {"maintenance_per_year", price.maintenance_per_year, 0, any,
       [](PriceRow& p, Use&, double v, double) { p.maintenance_per_year = v; }},
      {"fixed_opex_per_year", price.fixed_opex_per_year, 0, any,
       [](PriceRow& p, Use&, double v, double) { p.fixed_opex_per_year = v; }},
      {"network_storage_capex", price.network_storage_capex, 0, any,
       [](PriceRow& p, Use&, double v, double) { p.network_storage_capex = v; }},
      {"utilisation", price.utilisation, 0, 1, [](PriceRow& p, Use&, double v, double) { p.utilisation = v; }},
      to_target ? Turn{"time_to_target_s", use.seconds, 0, any,
                       [](PriceRow&, Use& u, double v, double base) {
                         u.seconds *= v / base;
                         if (u.joules) *u.joules *= v / base;
                       }}
                : Turn{"samples_per_s", 1 / use.seconds, 0, any,
                       [](PriceRow&, Use& u, double v, double base) {
                         u.seconds *= base / v;
                         if (u.joules) *u.joules *= base / v;
                       }},
  };
  if (use.joules && !price.electricity_included) {
    all.push_back({"electricity_per_kwh", price.electricity_per_kwh, 0, any,
                   [](PriceRow& p, Use&, double v, double) { p.electricity_per_kwh = v; }});
    all.push_back({"pue", price.pue, 1, any, [](PriceRow& p, Use&, double v, double) { p.pue = v; }});
    all.push_back({"network_storage_power_w", price.network_storage_power_w, 0, any,
                   [](PriceRow& p, Use&, double v, double) { p.network_storage_power_w = v; }});
    all.push_back(
        {"it_power_w", power_w, 0, any, [](PriceRow&, Use& u, double v, double base) { *u.joules *= v / base; }});
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
      turn.apply(turned, use, value, turn.base);
      return scale * cost(use, turned, nodes);
    };
    Sensitivity one{turn.input, turn.base, std::clamp(turn.base * (1 - share), turn.least, turn.most),
                    std::clamp(turn.base * (1 + share), turn.least, turn.most)};
    one.cost_low = cost_at(one.low), one.cost_high = cost_at(one.high);
    all.push_back(std::move(one));
  }
  std::ranges::stable_sort(all, std::ranges::greater(),
                           [](const Sensitivity& s) { return std::abs(s.cost_high - s.cost_low); });
  return all;
}

std::string basis_note(CostBasis basis, const std::string& scope) {
  if (basis == CostBasis::lower_bound)
    return "a lower bound: the joules are those of the scope " + scope + ", the rest of the node draws more";
  if (basis == CostBasis::hours_only) return "a lower bound: no joules were measured, so that electricity is left out";
  return {};
}

std::string energy_note(const std::string& scope) {
  if (scope.empty() || scope == "node") return {};
  return "kWh and CO2 are lower bounds: the joules are those of the scope " + scope +
         ", the rest of the node draws more";
}

/// Of a line a + b x through two others.
struct Line {
  double at_zero, slope;
};
/// Where two cross above 0, and which is lower before.
std::optional<double> crossing(const Line& a, const Line& b) {
  const double slope = b.slope - a.slope, gap = a.at_zero - b.at_zero;
  const double at = gap / slope;
  constexpr double rounding = 1e-9;  // of lines that are parallel
  const bool parallel = std::abs(slope) <= rounding * std::max(std::abs(a.slope), std::abs(b.slope));
  return !parallel && std::isfinite(at) && at > 0 ? std::optional(at) : std::nullopt;
}

std::string said(const BreakEven& one, const std::string& unit, const std::string& what) {
  const std::string of = one.whose.empty() ? "" : " of " + one.whose;
  if (!one.at)
    return one.below.empty() ? "the two cost the same at any " + what + of
                             : fmt::format("{} is cheaper at any {}{}", one.below, what, of);
  const std::string at = text::significant(*one.at) + " " + unit;
  if (one.whose.empty()) return fmt::format("{} is cheaper below {}, {} above", one.below, at, one.above);
  return fmt::format("{} is cheaper where {} costs less than {}, {} above", one.below, one.whose, at, one.above);
}

}  // namespace

const char* to_string(CostBasis basis) {
  static constexpr const char* names[] = {"complete", "lower_bound", "hours_only"};
  return names[static_cast<std::size_t>(basis)];
}

int nodes_of(const Report& report, const Record& record) {
  const Context* context = &report.context;
  for (const RunPart& part : report.parts.value_or(std::vector<RunPart>()))
    if (part.context && std::ranges::find(part.points, record.id) != part.points.end()) context = &*part.context;
  std::set<std::string> hosts;
  for (const DeviceEntry& device : context->devices)
    if (device.rank < record.workload.ranks) hosts.insert(device.host);
  if (hosts.empty())
    for (const HostInfo& host : context->hosts) hosts.insert(host.name);
  return std::max<int>(1, static_cast<int>(hosts.size()));
}

double hour_price(const PriceRow& price, int nodes) {
  const double life = price.life_years.value_or(usual_life_years);
  const double yearly = price.capex.value_or(0) / life + price.network_storage_capex / life +
                        price.maintenance_per_year + price.fixed_opex_per_year;
  return nodes * (price.rent_per_month.value_or(0) / hours_per_month + yearly / hours_per_year) / price.utilisation;
}

std::string cost_scope(const Record& record) {
  std::vector<std::string> scopes = {"node"};
  for (const std::string& scope : telling_scopes(record)) scopes.push_back(scope);
  scopes.insert(scopes.end(), {"device", "package"});  // a lower bound, whatever else was set
  for (const std::string& scope : scopes)
    if (const auto joules = record.summary.energy_j.find(scope);
        joules != record.summary.energy_j.end() && joules->second)
      return scope;
  return {};
}

CostBasis cost_basis(const Record& record, const PriceRow& price) {
  const std::string scope = cost_scope(record);
  if (price.electricity_included || scope == "node") return CostBasis::complete;
  return scope.empty() ? CostBasis::hours_only : CostBasis::lower_bound;
}

TrialCosts trial_costs(const Record& record, const PriceRow& price, int nodes) {
  TrialCosts costs;
  const std::vector<Use> uses = uses_of(record, record.target ? Unit::model : Unit::sample);
  if (uses.empty()) {
    costs.reason = record.summary.to_target ? record.summary.to_target->reason : "not measured";
    return costs;
  }
  for (const Use& use : uses)
    costs.values.push_back((record.target ? 1 : samples_per_million) * cost(use, price, nodes));
  costs.common = common_share(record, mean_of(uses), price, nodes);
  return costs;
}

CostReport cost_of(const Report& report, const std::string& currency, const PriceRow& price, double sensitivity_share) {
  CostReport result{currency, price, sensitivity_share, {}};
  for (const Record& record : report.records) {
    RecordCost& one = result.records.emplace_back();
    one.id = text::printable(record.id);
    one.nodes = nodes_of(report, record);
    if (record.verdict.status != "valid") {
      one.reason = record.verdict.status +
                   (record.verdict.reasons.empty() ? "" : ": " + text::printable(record.verdict.reasons.front()));
      continue;
    }
    one.scope = cost_scope(record), one.basis = cost_basis(record, price);
    one.basis_note = basis_note(one.basis, one.scope);
    one.energy_is_whole = one.scope == "node", one.energy_note = energy_note(one.scope);
    const std::vector<Use> seconds = uses_of(record, Unit::second);
    if (seconds.empty()) {
      one.reason = "its trials have no seconds or no joules that a cost can be had of";
      continue;
    }
    double power_w = 0;
    if (!one.scope.empty()) {
      std::vector<double> watts;
      double sensor = 0;
      for (const Use& use : seconds) {
        watts.push_back(*use.joules);
        sensor += use.sensor / static_cast<double>(seconds.size());
      }
      one.it_power_w = estimated(record, watts, sensor);
      power_w = one.it_power_w->value;
      if (one.scope == "node") one.facility_power_w = (power_w + price.network_storage_power_w * one.nodes) * price.pue;
    }
    one.figures.push_back(figure_of(record, "hour", seconds, 3600, price, one.nodes));
    const std::vector<Use> units = uses_of(record, record.target ? Unit::model : Unit::sample);
    const double scale = record.target ? 1 : samples_per_million;
    if (record.target) {
      one.figures.push_back(figure_of(record, "model", units, 1, price, one.nodes));
    } else {
      if (const double flops = record.summary.model_flops_per_sample; flops > 0)
        one.figures.push_back(figure_of(record, "eflop", units, flops_per_eflop / flops, price, one.nodes));
      one.figures.push_back(figure_of(record, "million_samples", units, scale, price, one.nodes));
    }
    if (units.empty()) continue;
    one.of = record.target ? "model" : "million_samples";
    one.sensitivity = sensitivities(record, price, one.nodes, sensitivity_share, scale, mean_of(units), power_w);
  }
  return result;
}

std::vector<BreakEven> break_evens(const CostSubject& a, const CostSubject& b, const std::string& currency) {
  const Unit unit = a.record->target ? Unit::model : Unit::sample;
  const std::vector<Use> of_a = uses_of(*a.record, unit), of_b = uses_of(*b.record, unit);
  if (of_a.empty() || of_b.empty() || cost_basis(*a.record, *a.price) != cost_basis(*b.record, *b.price)) return {};
  if (cost_basis(*a.record, *a.price) == CostBasis::lower_bound && cost_scope(*a.record) != cost_scope(*b.record))
    return {};
  const Use use_a = mean_of(of_a), use_b = mean_of(of_b);
  std::vector<BreakEven> all;
  const auto add = [&](const std::string& input, const std::string& whose, const std::string& unit_of,
                       const std::string& what, double most, const Line& line_a, const Line& line_b) {
    BreakEven one{input, whose, crossing(line_a, line_b), "", "", ""};
    if (one.at && *one.at > most) one.at.reset();
    if (one.at) {
      const bool a_first = line_a.at_zero < line_b.at_zero;
      one.below = a_first ? a.name : b.name, one.above = a_first ? b.name : a.name;
    } else {
      const double middle = std::min(1.0, most), cost_a = line_a.at_zero + line_a.slope * middle,
                   cost_b = line_b.at_zero + line_b.slope * middle;
      one.below = one.above = cost_a == cost_b ? "" : cost_a < cost_b ? a.name : b.name;
    }
    one.text = said(one, unit_of, what);
    all.push_back(std::move(one));
  };
  const auto line_of = [](const CostSubject& s, const Use& use, auto set) {
    PriceRow zero = *s.price, one = *s.price;
    set(zero, 0), set(one, 1);
    const double at_zero = cost(use, zero, s.nodes);
    return Line{at_zero, cost(use, one, s.nodes) - at_zero};
  };
  constexpr double any = 1e300;
  const auto electricity = [](PriceRow& p, double v) { p.electricity_per_kwh = v; };
  if (use_a.joules && use_b.joules && !(a.price->electricity_included && b.price->electricity_included))
    add("electricity_per_kwh", "", currency + "/kWh", "price of electricity", any, line_of(a, use_a, electricity),
        line_of(b, use_b, electricity));
  // Hours cost their price ÷ utilisation: a line in 1 ÷ utilisation, of which 1 and more are possible.
  const auto by_inverse = [](const CostSubject& s, const Use& use) {
    PriceRow full = *s.price;
    full.utilisation = 1;
    return Line{electricity_cost(use, full, s.nodes), hours_cost(use, full, s.nodes)};
  };
  const Line inverse_a = by_inverse(a, use_a), inverse_b = by_inverse(b, use_b);
  if (const auto inverse = crossing(inverse_a, inverse_b); inverse && *inverse > 1) {
    // At low utilisation hours weigh most: the one with the cheaper hours is cheaper there.
    const bool a_first = inverse_a.slope < inverse_b.slope;
    BreakEven one{"utilisation", "", 1 / *inverse, a_first ? a.name : b.name, a_first ? b.name : a.name, ""};
    one.text = said(one, "utilisation of both", "utilisation");
    all.push_back(std::move(one));
  }
  const auto own_price = [&](const CostSubject& s, const CostSubject& other, const Use& use, const Use& of_other) {
    const bool rented = s.price->rent_per_month.has_value();
    const auto set = [rented](PriceRow& p, double v) { (rented ? p.rent_per_month : p.capex) = v; };
    const Line line = line_of(s, use, set), fixed{cost(of_other, *other.price, other.nodes), 0};
    const bool is_a = &s == &a;
    add(rented ? "rent_per_month" : "capex", s.name, currency + (rented ? " a node and month" : " a node"),
        rented ? "rent" : "price", any, is_a ? line : fixed, is_a ? fixed : line);
  };
  own_price(b, a, use_b, use_a);
  own_price(a, b, use_a, use_b);
  return all;
}

}  // namespace tw
