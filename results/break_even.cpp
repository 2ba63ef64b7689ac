#include "results/break_even.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "results/cost_parts.hpp"
#include "results/ratio.hpp"
#include "results/text.hpp"

namespace tw {
namespace {

using namespace costs;

/// One side, read once: the trials of each run, and what they have in common.
struct Side {
  std::string name;
  const PriceRow* price;
  struct Run {
    std::vector<Use> uses;
    Use mean;
    double passage;
    int nodes;
  };
  std::vector<Run> runs;
  Use mean{};  // over the runs
  bool drops_extremes = true;
};

/// Without runs where one of them has no cost.
Side side_of(const CostSubject& subject) {
  Side side{subject.name, subject.price, {}, {}, true};
  std::vector<Use> means;
  for (const CostRun& run : subject.runs) {
    const Unit unit = run.record->target ? Unit::model : Unit::sample;
    std::vector<Use> uses = uses_of(*run.record, unit);
    if (uses.empty()) return {subject.name, subject.price, {}, {}, true};
    means.push_back(counted_mean(*run.record, uses, *subject.price, run.nodes));
    side.runs.push_back({std::move(uses), means.back(), passage_share(*run.record, unit), run.nodes});
    side.drops_extremes = side.drops_extremes && !run.record->target;
  }
  side.mean = mean_of(means);
  return side;
}

/// Logarithms of costs at a price, as the comparison has them; empty where one costs nothing.
LogSample sample_of(const Side& side, const PriceRow& price, Replicates replicates) {
  LogSample sample;
  sample.drop_extremes = side.drops_extremes;
  for (const Side::Run& run : side.runs) {
    double sum = 0;
    for (const Use& use : run.uses) {
      const double log = std::log(cost(use, price, run.nodes));
      if (!std::isfinite(log)) return {};
      sum += log;
      if (replicates == Replicates::trials) sample.logs.push_back(log);
    }
    if (replicates != Replicates::trials) sample.logs.push_back(sum / static_cast<double>(run.uses.size()));
    const double total = cost(run.mean, price, run.nodes);
    const double joules =
        electricity_cost(run.mean, price, run.nodes) - electricity_cost({run.mean.seconds, 0.0, 0}, price, run.nodes);
    sample.common = std::max(sample.common, std::hypot(total > 0 ? joules / total * run.mean.sensor : 0, run.passage));
  }
  return sample;
}
double cost_of_mean(const Side& side, const PriceRow& price) { return cost(side.mean, price, side.runs[0].nodes); }

using Set = std::function<void(PriceRow& price, double value)>;  // null: does not have this input

class Pair {
 public:
  Pair(const CostSubject& a, const CostSubject& b, Replicates replicates)
      : a_(side_of(a)), b_(side_of(b)), replicates_(replicates) {
    for (const CostSubject* subject : {&a, &b})
      for (const CostRun& run : subject->runs) trials_.add(*run.record);
  }

  bool has_costs() const { return !a_.runs.empty() && !b_.runs.empty(); }
  /// Why there is no claim at the prices as they are; empty where there may be one.
  std::string why_no_claim() const {
    const LogSample a = sample_of(a_, *a_.price, replicates_), b = sample_of(b_, *b_.price, replicates_);
    if (a.logs.empty() || b.logs.empty()) return "a cost is zero";
    const Ratio ratio = judged(contrast_of(a, b, replicates_), false, replicates_, trials_);
    return ratio.verdict == "no claim" ? ratio.reason : "";
  }
  bool has_joules() const { return a_.mean.joules && b_.mean.joules; }

  /// Along a price from 0 on.
  BreakEven along(const std::string& input, const std::string& whose, const std::string& unit, const std::string& what,
                  const Set& set_a, const Set& set_b) const {
    const auto price = [](const Side& side, const Set& set, double value) {
      PriceRow row = *side.price;
      if (set) set(row, value);
      return row;
    };
    const auto costs_at = [&](double value) {
      return std::pair(cost_of_mean(a_, price(a_, set_a, value)), cost_of_mean(b_, price(b_, set_b, value)));
    };
    const auto [a_zero, b_zero] = costs_at(0);
    const auto [a_one, b_one] = costs_at(1);
    BreakEven found{input, whose, crossing(a_zero, a_one - a_zero, b_zero, b_one - b_zero)};
    const double scale = found.at.value_or(1);
    // From 0 to 1 all prices; at half of it is the one at which they meet.
    const auto value = [scale](double share) { return scale * share / (1 - share + least_share); };
    const auto who = [&](double share) {
      return cheaper(price(a_, set_a, value(share)), price(b_, set_b, value(share)));
    };
    search(found, 0, who, value);
    found.text = said(found, unit, what);
    return found;
  }

  /// Along the utilisation of both, in (0, 1]; where nothing changes along it there is nothing to be said.
  std::optional<BreakEven> along_utilisation() const {
    const auto at = [](const Side& side, double value) {
      PriceRow row = *side.price;
      row.utilisation = value;
      return row;
    };
    // Hours cost their price ÷ utilisation: a line in 1 ÷ utilisation.
    const auto line = [&](const Side& side) {
      const PriceRow full = at(side, 1);
      const int nodes = side.runs[0].nodes;
      return std::pair(electricity_cost(side.mean, full, nodes), hours_cost(side.mean, full, nodes));
    };
    const auto [a_electricity, a_hours] = line(a_);
    const auto [b_electricity, b_hours] = line(b_);
    BreakEven found{"utilisation", "", std::nullopt};
    if (const auto inverse = crossing(a_electricity, a_hours, b_electricity, b_hours); inverse && *inverse > 1)
      found.at = 1 / *inverse;
    const auto value = [](double share) { return std::max(share, least_share); };
    const auto who = [&](double share) { return cheaper(at(a_, value(share)), at(b_, value(share))); };
    search(found, least_share, who, value);
    if (found.below == found.above) return std::nullopt;
    found.text = said(found, "utilisation of both", "utilisation");
    return found;
  }

 private:
  static constexpr double least_share = 1e-9;

  /// Where two lines cross above 0.
  static std::optional<double> crossing(double a_zero, double a_slope, double b_zero, double b_slope) {
    const double slope = b_slope - a_slope, at = (a_zero - b_zero) / slope;
    constexpr double rounding = 1e-9;  // of lines that are parallel
    const bool parallel = std::abs(slope) <= rounding * std::max(std::abs(a_slope), std::abs(b_slope));
    return !parallel && std::isfinite(at) && at > 0 ? std::optional(at) : std::nullopt;
  }

  /// Who is shown to be: empty where nobody is.
  std::string cheaper(const PriceRow& price_a, const PriceRow& price_b) const {
    const LogSample a = sample_of(a_, price_a, replicates_), b = sample_of(b_, price_b, replicates_);
    if (a.logs.empty() || b.logs.empty()) {  // what costs nothing is cheaper than all else
      const double mean_a = cost_of_mean(a_, price_a), mean_b = cost_of_mean(b_, price_b);
      return mean_a == 0 && mean_b > 0 ? a_.name : mean_b == 0 && mean_a > 0 ? b_.name : "";
    }
    const std::string verdict = judged(contrast_of(a, b, replicates_), false, replicates_, trials_).verdict;
    return verdict == "better" ? b_.name : verdict == "worse" ? a_.name : "";
  }

  /// `at(share)` says who is cheaper there, and `value(share)` which price that is, for shares from `first` to 1. The
  /// ratio of two lines goes one way along a price, so that the ends say who is cheaper on the way to each.
  template <class At, class Value>
  static void search(BreakEven& found, double first, At at, Value value) {
    found.below = at(first), found.above = at(1.0);
    if (found.below == found.above) {
      found.at.reset();
      return;
    }
    const auto edge = [&](const std::string& name, bool from_below) {
      double inside = from_below ? first : 1, outside = from_below ? 1 : first;
      for (int i = 0; i < 30; ++i) {
        const double middle = (inside + outside) / 2;
        (at(middle) == name ? inside : outside) = middle;
      }
      return value(inside);
    };
    if (!found.below.empty()) found.low = edge(found.below, true);
    if (!found.above.empty()) found.high = edge(found.above, false);
    if (found.at && found.low) found.low = std::min(*found.low, *found.at);
    if (found.at && found.high) found.high = std::max(*found.high, *found.at);
  }

  std::string said(const BreakEven& one, const std::string& unit, const std::string& what) const {
    const std::string of = one.whose.empty() ? "" : " of " + one.whose;
    if (one.below == one.above)
      return one.below.empty() ? fmt::format("no difference is shown at any {}{}", what, of)
                               : fmt::format("{} is cheaper at any {}{}", one.below, what, of);
    const auto number = [](const std::optional<double>& value) { return text::significant(*value); };
    const std::string under =
                          one.whose.empty() ? "is cheaper below" : "is cheaper where " + one.whose + " costs less than",
                      over =
                          one.whose.empty() ? "is cheaper above" : "is cheaper where " + one.whose + " costs more than";
    if (one.above.empty())
      return fmt::format("{} {} {} {}; above no difference is shown", one.below, under, number(one.low), unit);
    if (one.below.empty())
      return fmt::format("{} {} {} {}; below no difference is shown", one.above, over, number(one.high), unit);
    if (number(one.low) == number(one.high))
      return fmt::format("{} {} {} {}, {} above", one.below, under, number(one.low), unit, one.above);
    return fmt::format("{} {} {} {}, {} above {}; between them{} no difference is shown", one.below, under,
                       number(one.low), unit, one.above, number(one.high),
                       one.at ? " (" + number(one.at) + " by the means)" : "");
  }

  const Side a_, b_;
  const Replicates replicates_;
  words::Trials trials_;
};

}  // namespace

BreakEvens break_evens(const CostSubject& a, const CostSubject& b, Replicates replicates, const std::string& currency) {
  const auto ground_of = [](const CostSubject& subject) {
    std::vector<const Record*> runs;
    for (const CostRun& run : subject.runs) runs.push_back(run.record);
    return cost_ground(runs, *subject.price);
  };
  const CostGround ground = ground_of(a), of_b = ground_of(b);
  const Pair pair(a, b, replicates);
  if (!pair.has_costs() || ground.is_mixed || of_b.is_mixed || ground.text != of_b.text) return {};
  if (ground.basis != CostBasis::complete) {
    return {{},
            "no price is named at which the cheaper one changes: both costs are lower bounds, and what they leave out "
            "may turn the order round"};
  }
  if (const std::string reason = pair.why_no_claim(); !reason.empty())
    return {{}, "no price is named at which the cheaper one changes: " + reason};
  BreakEvens found;
  const Set electricity = [](PriceRow& p, double v) { p.electricity_per_kwh = v; };
  if (pair.has_joules() && !(a.price->electricity_included && b.price->electricity_included))
    found.inputs.push_back(
        pair.along("electricity_per_kwh", "", currency + "/kWh", "price of electricity", electricity, electricity));
  if (auto utilisation = pair.along_utilisation()) found.inputs.push_back(std::move(*utilisation));
  const auto own_price = [&](const CostSubject& subject, bool is_a) {
    const bool rented = subject.price->rent_per_month.has_value();
    const Set set = [rented](PriceRow& p, double v) { (rented ? p.rent_per_month : p.capex) = v; };
    found.inputs.push_back(pair.along(rented ? "rent_per_month" : "capex", subject.name,
                                      currency + (rented ? " a node and month" : " a node"), rented ? "rent" : "price",
                                      is_a ? set : Set(), is_a ? Set() : set));
  };
  own_price(b, false);
  own_price(a, true);
  return found;
}

}  // namespace tw
