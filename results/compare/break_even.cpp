#include "results/compare/break_even.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "results/compare/ratio.hpp"
#include "results/cost/cost.hpp"
#include "results/record/text.hpp"

namespace tw::results {
namespace {

using namespace costs;

/// One run, read once.
struct Run {
  const Record* record;
  std::vector<Use> uses;
  Unit unit;
  double passage;
  int nodes;
};
struct Side {
  std::string name;
  const PriceRow* price;
  std::vector<Run> runs;  // empty if one of them has no cost
  std::string machine{};
  std::vector<std::vector<Run>> earlier{};
};

/// Empty if one of them has no cost.
std::vector<Run> runs_of(const std::vector<CostRun>& of) {
  std::vector<Run> runs;
  for (const CostRun& run : of) {
    const Unit unit = run.record->target ? Unit::model : Unit::sample;
    std::vector<Use> uses = uses_of(*run.record, unit);
    if (uses.empty()) return {};
    runs.push_back({run.record, std::move(uses), unit, passage_share(*run.record, unit), run.nodes});
  }
  return runs;
}

Side side_of(const CostSubject& subject) {
  Side side{subject.name, subject.price, runs_of(subject.runs), subject.machine, {}};
  for (const std::vector<CostRun>& group : subject.earlier)
    if (std::vector<Run> runs = runs_of(group); !runs.empty()) side.earlier.push_back(std::move(runs));
  return side;
}

/// Of each trial, at a price; empty if one costs nothing.
std::vector<double> logs_of(const Run& run, const PriceRow& price) {
  std::vector<double> logs;
  for (const Use& use : run.uses) {
    logs.push_back(std::log(cost(use, price, run.nodes)));
    if (!std::isfinite(logs.back())) return {};
  }
  return logs;
}

/// Logarithms of costs at a price, as the comparison has them; empty if one costs nothing.
RunSample sample_of(const Side& side, const PriceRow& price) {
  RunSample all;
  LogSample& sample = all.runs;
  all.machine = side.machine;
  for (const std::vector<Run>& group : side.earlier) {
    RunSample earlier;
    for (const Run& run : group)
      if (const std::vector<double> logs = logs_of(run, price); !logs.empty()) add_run(earlier, logs, true);
    if (earlier.runs.logs.size() == group.size()) sample.earlier.push_back(std::move(earlier.runs.logs));
  }
  for (const Run& run : side.runs) {
    const std::vector<double> logs = logs_of(run, price);
    if (logs.empty()) return {};
    sample.drop_extremes = !run.record->target;
    sample.common =
        std::max(sample.common, common_share(counted_mean(run.uses, run.unit), run.passage, price, run.nodes));
    add_run(all, logs, side.runs.size() > 1);
  }
  return all;
}

/// Of a unit, at a price, by the means.
double mean_cost(const Side& side, const PriceRow& price) {
  double sum = 0;
  for (const Run& run : side.runs) sum += cost(counted_mean(run.uses, run.unit), price, run.nodes);
  return sum / static_cast<double>(side.runs.size());
}

bool pays_electricity(const Side& side) { return !side.price->electricity_included; }
bool has_joules(const Side& side) {
  return std::ranges::all_of(side.runs, [](const Run& run) { return run.uses[0].joules.has_value(); });
}

using Set = std::function<void(PriceRow& price, double value)>;  // null: does not have this input

/// An input, and the words for it.
struct Input {
  std::string name, whose;
  std::string unit, what;  // "EUR/kWh", "price of electricity"
  Set set_a, set_b;
  double least, most;         // looked at; least 0: from 0 on
  std::vector<double> given;  // of these two
};

constexpr double reach = 10;                // times the price that is given: what somebody might pay
constexpr double least_utilisation = 0.01;  // of the hours: nobody pays for a hundred to use one

class Pair {
 public:
  Pair(const CostSubject& a, const CostSubject& b, Replicates replicates)
      : a_(side_of(a)), b_(side_of(b)), replicates_(replicates) {
    for (const CostSubject* subject : {&a, &b}) {
      std::vector<const Record*> records;
      for (const CostRun& run : subject->runs) records.push_back(run.record);
      trials_.add(records);
    }
  }

  bool has_costs() const { return !a_.runs.empty() && !b_.runs.empty(); }
  /// Why there is no claim at the prices as they are; empty if there may be one: then there may be at any.
  std::string why_no_claim() const {
    const RunSample a = sample_of(a_, *a_.price), b = sample_of(b_, *b_.price);
    if (a.runs.logs.empty() || b.runs.logs.empty()) return "a cost is zero";
    const Ratio ratio = judged(contrast_of(a, b, replicates_), false, replicates_, trials_);
    return ratio.is_decided() ? "" : ratio.reason;
  }

  std::optional<BreakEven> by_electricity(const std::string& currency) const {
    const bool a_pays = pays_electricity(a_), b_pays = pays_electricity(b_);
    if ((!a_pays && !b_pays) || (a_pays && !has_joules(a_)) || (b_pays && !has_joules(b_))) return std::nullopt;
    const Set set = [](PriceRow& p, double v) { p.electricity_per_kwh = v; };
    return along({"electricity_per_kwh",
                  "",
                  currency + "/kWh",
                  "price of electricity",
                  set,
                  set,
                  0,
                  0,
                  {a_.price->electricity_per_kwh, b_.price->electricity_per_kwh}});
  }
  /// Where nothing changes along it there is nothing to be said.
  std::optional<BreakEven> by_utilisation() const {
    const Set set = [](PriceRow& p, double v) { p.utilisation = v; };
    const double a = a_.price->utilisation, b = b_.price->utilisation;
    auto found =
        along({"utilisation", "", "", "utilisation of both", set, set, std::min({least_utilisation, a, b}), 1, {a, b}});
    return found && found->ranges.size() > 1 ? std::move(found) : std::nullopt;
  }
  std::optional<BreakEven> by_own_price(bool is_a, const std::string& currency) const {
    const Side& side = is_a ? a_ : b_;
    const bool rented = side.price->rent_per_month.has_value();
    const Set set = [rented](PriceRow& p, double v) { (rented ? p.rent_per_month : p.capex) = v; };
    return along({rented ? "rent_per_month" : "capex",
                  side.name,
                  currency + (rented ? " per node and month" : " per node"),
                  (rented ? "rent of " : "price of ") + side.name,
                  is_a ? set : Set(),
                  is_a ? Set() : set,
                  0,
                  0,
                  {(rented ? side.price->rent_per_month : side.price->capex).value_or(0)}});
  }

 private:
  /// What the comparison has at one value: the logarithm of b ÷ a, and half of its interval.
  struct Point {
    double at = 0, ratio = 0, half = 0;
    int cheaper() const { return ratio - half > 0 ? -1 : ratio + half < 0 ? 1 : 0; }  // as judged() has it: -1 is a
    double edge(int sign) const { return ratio + sign * half; }
  };
  static PriceRow priced(const Side& side, const Set& set, double value) {
    PriceRow row = *side.price;
    if (set) set(row, value);
    return row;
  }
  /// Nothing where a cost is 0, of which the comparison has no ratio.
  std::optional<Point> point(const Input& input, double value) const {
    const RunSample a = sample_of(a_, priced(a_, input.set_a, value)),
                    b = sample_of(b_, priced(b_, input.set_b, value));
    if (a.runs.logs.empty() || b.runs.logs.empty()) return std::nullopt;
    const Contrast contrast = contrast_of(a, b, replicates_);
    return Point{value, contrast.value, half_width(contrast)};
  }

  /// How far somebody might go: from what is given, or where nothing is from where it alone is what the more expensive
  /// one costs.
  double most_of(const Input& input) const {
    if (const double given = std::ranges::max(input.given); given > 0) return reach * given;
    const auto costs = [&](double value) {
      return std::pair(mean_cost(a_, priced(a_, input.set_a, value)), mean_cost(b_, priced(b_, input.set_b, value)));
    };
    const auto [a_zero, b_zero] = costs(0);
    const auto [a_one, b_one] = costs(1);
    const double slope = std::max(a_one - a_zero, b_one - b_zero);
    return slope > 0 ? reach * std::max(a_zero, b_zero) / slope : 0;
  }

  /// The ratio goes one way along a price, but its interval gets wider and narrower: who is shown to be cheaper may
  /// change more than twice. All of the input is looked at, in steps, and between two steps wherever either end of the
  /// interval turns round; each change is then sought by halves, in logarithms.
  std::optional<BreakEven> along(Input input) const {
    if (input.most == 0) input.most = most_of(input);
    if (!(input.most > 0) || !std::isfinite(input.most)) return std::nullopt;
    constexpr double steps_from = 1e-5, nearly_zero = 1e-6;  // shares of the most
    constexpr int steps = 80;
    const double first = input.least > 0 ? input.least : steps_from * input.most;
    std::vector<double> values = input.given;
    if (input.least == 0) values.insert(values.end(), {0, nearly_zero * first});
    for (int i = 0; i < steps; ++i) values.push_back(first * std::pow(input.most / first, i / double(steps)));
    values.push_back(input.most);
    std::ranges::sort(values);
    const auto repeated = std::ranges::unique(values);
    values.erase(repeated.begin(), repeated.end());
    std::vector<Point> points;
    for (const double value : values)
      if (const auto one = point(input, value)) points.push_back(*one);
    if (points.empty()) return std::nullopt;
    add_turns(points, input);
    BreakEven found{input.name, input.whose};
    add_meeting(found, points, input);
    const double start = input.least, end = input.most;
    found.ranges.push_back({name_of(points[0]), start, end});
    for (std::size_t i = 1; i < points.size(); ++i) {
      if (points[i].cheaper() == points[i - 1].cheaper()) continue;
      const int before = points[i - 1].cheaper();
      const double edge =
          sought(input, points[i - 1], points[i], 1e-6, [&](const Point& p) { return p.cheaper() == before; });
      found.ranges.back().to = edge;
      found.ranges.push_back({name_of(points[i]), edge, end});
    }
    found.text = said(found, input);
    return found;
  }

  /// Where `holds` ends, as a share `exact` of it: it does at `from`, and not at `to`.
  template <class Holds>
  double sought(const Input& input, const Point& from, const Point& to, double exact, Holds holds) const {
    double inside = from.at, outside = to.at;
    constexpr double nothing = 1e-20;
    while (outside - inside > exact * outside) {
      const double middle = inside > 0 ? std::sqrt(inside * outside) : outside / 2;
      if (!(middle > inside && middle < outside) || outside < nothing * input.most) break;
      const auto one = point(input, middle);
      (one && holds(*one) ? inside : outside) = middle;
    }
    return outside;
  }

  /// Where an end of the interval comes near to 1 and turns round between two steps, the point at which it is nearest.
  void add_turns(std::vector<Point>& points, const Input& input) const {
    std::vector<Point> turns;
    for (std::size_t i = 1; i + 1 < points.size(); ++i)
      for (const int sign : {-1, 1}) {
        const double way = points[i].edge(sign) > 0 ? 1 : -1;  // is it nearer to 0 than both beside it?
        const auto off = [&](const Point& p) { return way * p.edge(sign); };
        const double before = off(points[i - 1]), here = off(points[i]), after = off(points[i + 1]);
        if (here > before || here > after || here > std::max(before, after) - here || !(points[i - 1].at > 0)) continue;
        double low = points[i - 1].at, high = points[i + 1].at;
        for (int step = 0; step < 12; ++step) {  // by thirds
          const double third = std::cbrt(high / low);
          const auto left = point(input, low * third), right = point(input, high / third);
          if (!left || !right) break;
          const bool is_left = off(*left) < off(*right);
          const Point& nearest = is_left ? *left : *right;
          if (nearest.cheaper() != points[i].cheaper()) {
            turns.push_back(nearest);
            break;
          }
          (is_left ? high : low) = is_left ? right->at : left->at;
        }
      }
    points.insert(points.end(), turns.begin(), turns.end());
    std::ranges::sort(points, {}, &Point::at);
  }

  /// Where the means meet, which is among the points then. Of systems that cost the same but for a rounding: nowhere.
  void add_meeting(BreakEven& found, std::vector<Point>& points, const Input& input) const {
    constexpr double rounding = 1e-9;
    const auto sign = [](const Point& p) { return p.ratio > rounding ? 1 : p.ratio < -rounding ? -1 : 0; };
    std::vector<Point> meetings;
    const Point* last = nullptr;
    for (const Point& one : points) {
      if (sign(one) == 0) continue;
      if (last != nullptr && sign(*last) != sign(one)) {
        const bool above = last->ratio > 0;
        const double at = sought(input, *last, one, 1e-12, [&](const Point& p) { return (p.ratio > 0) == above; });
        if (const auto met = point(input, at)) meetings.push_back(*met);
      }
      last = &one;
    }
    if (meetings.size() == 1) found.at = meetings[0].at;
    points.insert(points.end(), meetings.begin(), meetings.end());
    std::ranges::sort(points, {}, &Point::at);
  }

  std::string name_of(const Point& point) const {
    return point.cheaper() == 0 ? "" : point.cheaper() > 0 ? b_.name : a_.name;
  }

  static std::string said(const BreakEven& one, const Input& input) {
    const auto number = [](double value) { return text::significant(value); };
    const std::string unit = input.unit.empty() ? "" : " " + input.unit,
                      end = input.name == "utilisation" ? "" : ", up to " + number(input.most);
    const auto who = [](const CheaperRange& range) {
      return range.cheaper.empty() ? std::string("no difference is shown") : range.cheaper + " is cheaper";
    };
    if (one.ranges.size() == 1)
      return fmt::format("{} at any {} up to {}{}", who(one.ranges[0]), input.what, number(input.most), unit);
    std::vector<std::string> parts;
    bool has_unit = false;
    for (std::size_t i = 0; i < one.ranges.size(); ++i) {
      const CheaperRange& range = one.ranges[i];
      const bool is_first = i == 0, is_last = i + 1 == one.ranges.size();
      if (!is_first && !is_last && number(range.from) == number(range.to)) continue;  // too narrow to be said
      const std::string place = is_first  ? "below " + number(range.to)
                                : is_last ? "above " + number(range.from)
                                          : fmt::format("from {} to {}", number(range.from), number(range.to));
      std::string part = fmt::format("{} {}{}", who(range), place, has_unit ? "" : unit);
      if (range.cheaper.empty() && one.at && range.from <= *one.at && *one.at <= range.to)
        part += fmt::format(" (the means meet at {})", number(*one.at));
      parts.push_back(std::move(part));
      has_unit = true;
    }
    return fmt::format("by the {}: {}{}", input.what, fmt::join(parts, ", "), end);
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
  if (ground.basis != CostBasis::complete)
    return {{},
            "no break-even price is given: both costs are lower bounds, and the missing part "
            "may reverse the order"};
  if (const std::string reason = pair.why_no_claim(); !reason.empty())
    return {{}, "no break-even price is given: " + reason};
  BreakEvens found;
  for (auto one : {pair.by_electricity(currency), pair.by_utilisation(), pair.by_own_price(false, currency),
                   pair.by_own_price(true, currency)})
    if (one) found.inputs.push_back(std::move(*one));
  return found;
}

}  // namespace tw::results
