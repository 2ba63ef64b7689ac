// Points against each other in two figures: speed against energy, speed against cost; of runs to a target their time.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "results/analysis/scopes.hpp"
#include "results/analysis/statistics.hpp"
#include "results/html/page.hpp"
#include "results/record/names_format.hpp"
#include "results/record/text.hpp"
#include "results/selection/pareto.hpp"
#include "results/selection/search.hpp"
#include "results/terminal/choice.hpp"

namespace tw::results::page {
namespace {

using text::sentence;
using text::si;
using text::significant;

/// The setting that a search has shown to be better than the found ones; empty: none.
std::string recommended_by(const SearchOutcome& outcome) {
  if (!outcome.reason.empty()) return "";
  std::string id = outcome.best;
  if (id.ends_with(again_suffix)) id.resize(id.size() - std::string_view(again_suffix).size());
  return id;
}
std::set<std::string> recommended(const Report& report) {
  std::set<std::string> ids;
  for (const SearchOutcome& outcome : report.search.value_or(std::vector<SearchOutcome>()))
    if (const std::string id = recommended_by(outcome); !id.empty()) ids.insert(id);
  return ids;
}

/// What is recommended and by which rule, or why nothing is; and what a knee is, which is no recommendation.
void add_recommendations(Section& section, const std::vector<HtmlSystem>& systems) {
  std::vector<std::string> without;
  for (const HtmlSystem& system : systems) {
    const std::string of = whose(systems, system);
    if (!system.report.search && has_knob(system.report)) without.push_back(system.name);
    for (const SearchOutcome& outcome : system.report.search.value_or(std::vector<SearchOutcome>())) {
      const std::string id = recommended_by(outcome);
      if (id.empty())
        section.say(of + "Nothing is recommended for " + outcome.workload + ": " + sentence(outcome.reason),
                    Look::note);
      else
        section.say(
            fmt::format("{}Recommended: {}. Rule of the search: the least {} among the settings at most {} % slower "
                        "than the found settings, confirmed by measuring both again.",
                        of, id, merit_words(outcome), significant(100 * outcome.max_slowdown)),
            Look::good);
    }
  }
  if (!without.empty())
    section.say((systems.size() > 1 ? text::join(without, ", ") + ": " : "") +
                    "Nothing is recommended. Only a search (trainwatt-train --search) measures the best and the found "
                    "settings again before it recommends one.",
                Look::quiet);
}

/// A point of a chart, and what it has along both axes.
struct Dot {
  std::size_t system = 0;
  const Record* record = nullptr;
  Words name;
  Estimate across, up;
  std::string left_out;  ///< why it is compared with nothing; empty otherwise
};

/// What keeps points of a comparison off its fronts, by the name of the difference. What a chart keeps apart by itself
/// (workload, batch, scope, basis) keeps none off, and a point that does not count is on none anyway.
std::map<const Record*, std::string> left_out(const std::vector<HtmlSystem>& systems, const Comparison* comparison,
                                              const std::set<std::string>& figures) {
  static const std::set<std::string> kept_apart = {"workload", "workload hash",   "target",       "global batch",
                                                   "verdict",  "scope of energy", "basis of cost"};
  std::map<const Record*, std::string> all;
  if (comparison == nullptr) return all;
  for (const Difference& d : comparison->differences) {
    const auto concerns = [&](const std::string& figure) { return figures.contains(figure); };
    if (!d.blocking || kept_apart.contains(d.what) || !(d.figures.empty() || std::ranges::any_of(d.figures, concerns)))
      continue;
    const std::string flag = d.what.starts_with("flag ") ? d.what.substr(5) : "";
    for (std::size_t s = 0; s < systems.size(); ++s)
      for (const Record& record : systems[s].report.records) {
        const auto is_compared = [&](std::size_t w) { return comparison->workloads[w].records.at(s) == record.id; };
        const bool is_meant =
            flag.empty() ? s == d.system && (d.workloads.empty() || std::ranges::any_of(d.workloads, is_compared))
                         : std::ranges::find(record.verdict.flags, flag, &FlagName::name) != record.verdict.flags.end();
        if (is_meant) all.try_emplace(&record, d.what);
      }
  }
  // A system that no figure of the chart tells from the reference is on no front: its place there would be a claim. So
  // would any where it is not an award.
  const bool is_no_award = !comparison->not_an_award.empty();
  std::set<std::size_t> told;
  for (const FigureComparison& figure : is_no_award ? std::vector<FigureComparison>() : comparison->figures)
    for (std::size_t s = 0; s < figure.overall.size() && figures.contains(figure.figure.name); ++s)
      if (s != comparison->reference && figure.overall[s].names_one()) told.insert({s, comparison->reference});
  for (std::size_t s = 0; s < systems.size(); ++s)
    for (const Record& record : systems[s].report.records)
      if (!told.contains(s)) all.try_emplace(&record, is_no_award ? "not an award" : "no claim");
  return all;
}
/// Whether a system's point may be called the best by one of these figures: the verdicts of a comparison have to.
bool may_lead(const Comparison* comparison, std::size_t system, const std::set<std::string>& figures) {
  if (comparison == nullptr) return true;
  if (!comparison->not_an_award.empty()) return false;
  return std::ranges::any_of(comparison->figures, [&](const FigureComparison& figure) {
    if (!figures.contains(figure.figure.name)) return false;
    const auto found = std::ranges::find(figure.ranking, system, &RankedSystem::system);
    return found != figure.ranking.end() && found->rank == 1 && !found->tied;
  });
}
const std::set<std::string> speeds = {"throughput", "time-to-target"};
const std::set<std::string> energies = {"samples-per-joule", "energy-to-target"}, costs = {"cost", "cost-to-target"};
std::set<std::string> both(const std::set<std::string>& a, std::set<std::string> b) {
  b.insert(a.begin(), a.end());
  return b;
}
/// "Left out of the front: Offer 2 (validation)."
std::string left_out_words(const std::vector<HtmlSystem>& systems, const std::vector<Dot>& dots) {
  std::map<std::pair<std::size_t, std::string>, std::size_t> times;
  for (const Dot& dot : dots)
    if (!dot.left_out.empty()) ++times[{dot.system, dot.left_out}];
  std::vector<std::string> parts;
  for (const auto& [key, n] : times) {
    const bool is_all = static_cast<std::size_t>(std::ranges::count(dots, key.first, &Dot::system)) == n;
    parts.push_back((is_all ? "" : text::count(n, "point") + " of ") + systems[key.first].name + " (" + key.second +
                    ")");
  }
  return parts.empty() ? ""
                       : " Hollow points are not compared and not on the front: " + text::join(parts, ", ") +
                             "; \"What differs\" says why.";
}
/// Places of the dots that are compared: those that are not left out.
std::vector<std::size_t> held(const std::vector<Dot>& dots) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < dots.size(); ++i)
    if (dots[i].left_out.empty()) places.push_back(i);
  return places;
}
std::string speed_words(const Record& record, const Estimate& e) {
  return record.target ? text::duration(e) : si(e, "samples/s");
}
bool is_repeat(const Record& record) { return record.id.ends_with(again_suffix); }

struct Axes {
  std::string title, note, unit, up_title;
  bool to_target = false, is_cost = false;
};

/// Its cost lies below that of every other dot that it is compared with, beyond their intervals.
bool is_shown_cheapest(const std::vector<Dot>& dots, std::size_t cheapest) {
  return std::ranges::all_of(held(dots), [&](std::size_t i) {
    return i == cheapest || (dots[cheapest].up.value < dots[i].up.value && told_apart(dots[cheapest].up, dots[i].up));
  });
}

/// `found`: places among the dots.
Chart front_chart(const std::vector<HtmlSystem>& systems, const Comparison* comparison, const std::vector<Dot>& dots,
                  const TradeOff& found, const Axes& axes) {
  const std::vector<std::size_t>& front = found.front;
  Chart chart;
  chart.kind = "scatter", chart.from_zero = false;
  chart.title = axes.title;
  std::set<std::string> precisions;
  for (const Dot& dot : dots) precisions.insert(dot.record->workload.precision);
  const bool by_precision = precisions.size() > 1;
  const std::string unlike = axes.to_target ? "" : unlike_precisions(precisions);
  chart.note = fmt::format(
      "Points to the {} are faster, lower points {}.{}{}{}{}{}", axes.to_target ? "left" : "right",
      axes.is_cost ? "are cheaper" : "take less energy",
      front.size() > 1 ? " The line joins the points that no other point beats in both means." : "",
      found.alike.empty() ? "" : fmt::format(" The intervals of {} more overlap the front.", found.alike.size()),
      (unlike.empty() ? "" : fmt::format(" The points are {}.", unlike)) +
          (found.knee ? " The knee, the point farthest from the line between the front's ends, is where "
                        "more speed begins to cost more than before; it is not a recommendation."
                      : ""),
      axes.note.empty() ? "" : " " + axes.note, left_out_words(systems, dots));
  chart.x_title = axes.to_target ? "s to the target" : "samples/s", chart.y_title = axes.up_title;
  chart.table = {chart.title, {"Point", chart.x_title, axes.up_title, "On the front"}, true};
  const auto rivals =
      std::ranges::count_if(dots, [](const Dot& dot) { return is_valid(*dot.record) && dot.left_out.empty(); });
  DataSet line{"Pareto front", 7, "line"};
  for (const std::size_t i : front) line.data.emplace_back(dots[i].across.value, dots[i].up.value);
  std::map<std::pair<std::size_t, std::string>, DataSet> sets;  // colour separates systems, the shape precisions
  for (std::size_t s = 0; s < systems.size(); ++s) {
    int p = 0;
    for (const std::string& precision : precisions) {
      DataSet& set = sets[{s, precision}];
      set.label = systems.size() == 1 ? (by_precision ? precision : "points")
                                      : systems[s].name + (by_precision ? ", " + precision : "");
      set.color = systems.size() == 1 ? p : static_cast<int>(s);
      if (by_precision) set.shape = p;
      ++p;
    }
  }
  for (std::size_t i = 0; i < dots.size(); ++i) {
    const Dot& dot = dots[i];
    const Record& record = *dot.record;
    const auto on = std::ranges::find(front, i);
    std::vector<std::string> marks;
    if (on != front.end() && found.knee == static_cast<std::size_t>(on - front.begin())) marks.emplace_back("knee");
    const bool leads_up = may_lead(comparison, dot.system, axes.is_cost ? costs : energies);
    if (rivals > 1 && front.size() == 1 && found.alike.empty() && i == front.front() && leads_up &&
        may_lead(comparison, dot.system, speeds))
      marks.emplace_back("alone on the front");
    if (axes.is_cost && front.size() > 1 && i == front.back() && is_shown_cheapest(dots, i) && leads_up)
      marks.emplace_back("cheapest");
    if (recommended(systems[dot.system].report).contains(record.id)) marks.emplace_back("recommended");
    const std::string why = !is_valid(record)       ? std::string("does not count: ") + to_string(record.verdict.status)
                            : !dot.left_out.empty() ? "left out: " + dot.left_out
                                                    : "";
    Datum datum(dot.across.value, dot.up,
                fmt::format("{}: {}, {}{}{}", dot.name.tip, speed_words(record, dot.across), si(dot.up, axes.unit),
                            why.empty() ? "" : ", ", why));
    datum.mark = text::join(marks, ", "), datum.counts = why.empty();
    std::string role = on != front.end()                        ? "yes"
                       : std::ranges::count(found.alike, i) > 0 ? "not distinguishable"
                                                                : "no";
    if (!datum.mark.empty() || !why.empty()) role += ": " + datum.mark + why;
    chart.table.rows.push_back(
        {dot.name, number(axes.to_target ? significant(datum.x) : si(datum.x)), number(si(dot.up)), role});
    sets[{dot.system, record.workload.precision}].data.push_back(std::move(datum));
  }
  if (line.data.size() > 1) chart.sets.push_back(std::move(line));
  for (auto& [key, set] : sets)
    if (!set.data.empty()) chart.sets.push_back(std::move(set));
  return chart;
}

/// Points of all systems as one report, so that one front is drawn of them.
struct Merged {
  Report report;
  std::vector<Place> places;  ///< as report.records
};
Merged merged(const std::vector<HtmlSystem>& systems) {
  Merged all;
  const std::vector<std::vector<Words>> names = point_names(systems);
  for (std::size_t s = 0; s < systems.size(); ++s)
    for (std::size_t r = 0; r < systems[s].report.records.size(); ++r) {
      all.report.records.push_back(systems[s].report.records[r]);
      all.places.push_back({s, &systems[s].report.records[r], names[s][r].tip, names[s][r].text});
    }
  return all;
}

Chart energy_chart(const std::vector<HtmlSystem>& systems, const Comparison* comparison, const Merged& all,
                   const Front& front, const std::string& workload, const std::map<std::size_t, std::string>& off) {
  std::vector<Dot> dots;
  std::map<std::size_t, std::size_t> place;  // among the dots, of a record
  for (std::size_t i = 0; i < all.report.records.size(); ++i) {
    const Record& record = *all.places[i].record;
    if (record.workload.hash != front.hash || record.workload.global_batch != front.global_batch ||
        record.target.has_value() != front.to_target || is_repeat(record))
      continue;
    const std::optional<Estimate> speed = speed_of(record), joules = front.to_target
                                                                         ? target_joules(record, front.scope)
                                                                         : sample_joules(record, front.scope);
    if (!speed || !joules) continue;
    place[i] = dots.size();
    const auto why = off.find(i);
    dots.push_back({all.places[i].system, &record, all.places[i].words(), *speed, *joules,
                    why == off.end() ? std::string() : why->second});
  }
  TradeOff found;
  for (const std::size_t i : front.records) found.front.push_back(place.at(i));
  for (const std::size_t i : front.alike) found.alike.push_back(place.at(i));
  found.knee = front.knee;
  const char* unit = front.to_target ? "J" : "J/sample";
  return front_chart(systems, comparison, dots, found,
                     {fmt::format("{} in batches of {}: {} against {} energy", workload, front.global_batch,
                                  front.to_target ? "time to the target" : "speed", front.scope),
                      front.without == 0 ? ""
                                         : fmt::format("Left out: {} of its points, which have no {} joules.",
                                                       front.without, front.scope),
                      unit, fmt::format("{} ({})", front.to_target ? "J to the target" : "J/sample", front.scope),
                      front.to_target, false});
}

std::string basis_words(const RecordCost& cost) {
  if (cost.basis == CostBasis::complete) return "complete";
  return cost.scope == Scope::none ? "lower bounds: hours only" : "lower bounds: " + cost.scope + " joules only";
}

/// One chart for each workload, batch and basis: costs that hold different things are not compared with each other.
void add_cost_charts(Section& section, const std::vector<HtmlSystem>& systems, const Comparison* comparison) {
  const auto off = left_out(systems, comparison, both(speeds, costs));
  for (const Group& group : workloads(systems)) {
    std::map<std::tuple<bool, std::int64_t, std::string>, std::vector<Dot>> charts;
    std::string currency;
    for (const Place& place : group.places) {
      const Record& record = *place.record;
      const HtmlSystem& system = systems[place.system];
      if (!system.cost || !is_valid(record) || is_repeat(record)) continue;
      currency = system.cost->currency;
      const auto r = static_cast<std::size_t>(&record - system.report.records.data());
      if (r >= system.cost->records.size()) continue;
      const RecordCost& cost = system.cost->records[r];
      const auto price =
          std::ranges::find(cost.figures, record.target ? CostPer::model : CostPer::million_samples, &CostFigure::per);
      const std::optional<Estimate> speed = speed_of(record);
      if (price == cost.figures.end() || !price->total || !speed) continue;
      charts[{record.target.has_value(), record.workload.global_batch, basis_words(cost)}].push_back(
          {place.system, &record, place.words(), *speed, *price->total,
           off.contains(&record) ? off.at(&record) : std::string()});
    }
    for (const auto& [key, dots] : charts) {
      const auto& [to_target, batch, basis] = key;
      const std::vector<std::size_t> places = held(dots);
      std::vector<TwoFigures> figures;
      for (const std::size_t i : places) {
        const Estimate &across = dots[i].across, &up = dots[i].up;
        figures.push_back(to_target ? TwoFigures{negated(across), negated(up)}
                                    : TwoFigures{across, up.value > 0 ? inverse(up) : Estimate{}});
      }
      TradeOff found = trade_off(figures);
      for (std::vector<std::size_t>* of : {&found.front, &found.alike})
        for (std::size_t& i : *of) i = places[i];
      const bool is_bound = basis != to_string(CostBasis::complete);
      section.blocks.emplace_back(front_chart(
          systems, comparison, dots, found,
          {fmt::format("{} in batches of {}: {} against cost{}", group.name, batch,
                       to_target ? "time to the target" : "speed", is_bound ? ", " + basis : ""),
           is_bound ? "These costs are lower bounds. Costs that include other parts are in a separate chart." : "",
           currency,
           currency + (to_target ? " per trained model" : " per million samples") + (is_bound ? ", at least" : ""),
           to_target, true}));
    }
  }
}

}  // namespace

Section pareto_section(const std::vector<HtmlSystem>& systems, const Comparison* comparison) {
  const bool priced = std::ranges::any_of(systems, [](const HtmlSystem& one) { return one.cost.has_value(); });
  Section section{"pareto", priced ? "Speed against energy and cost" : "Speed against energy", ""};
  const Merged all = merged(systems);
  const auto of_comparison = left_out(systems, comparison, both(speeds, energies));
  std::map<std::size_t, std::string> off;
  std::set<std::size_t> places;
  for (std::size_t i = 0; i < all.places.size(); ++i)
    if (const auto found = of_comparison.find(all.places[i].record); found != of_comparison.end())
      off[i] = found->second, places.insert(i);
  const std::vector<Group> groups = workloads(systems);
  for (const Front& front : pareto_fronts(all.report, places)) {
    const auto group = std::ranges::find(groups, front.hash,
                                         [](const Group& one) { return one.places.front().record->workload.hash; });
    section.blocks.emplace_back(energy_chart(systems, comparison, all, front, group->name, off));
  }
  if (section.blocks.empty()) {
    std::vector<std::string> reasons;
    for (const Group& group : workloads(systems))
      if (scope_with_joules(group, training_scopes) != Scope::none)
        reasons.push_back(scope_with_joules(group, scopes_that_tell(group)) == Scope::none
                              ? group.name + ": " + why_none_tells(group)
                              : group.name + ": no two valid points train the same batch with joules of one scope");
    section.blocks.emplace_back(
        reasons.empty() ? no_joules(systems)
                        : Words("No points can be compared by energy. " + text::join(reasons, "; ") + ".", Look::note));
  }
  const std::size_t before = section.blocks.size();
  add_cost_charts(section, systems, comparison);
  if (std::ranges::any_of(section.blocks, [](const Block& one) { return std::holds_alternative<Chart>(one); }))
    add_recommendations(section, systems);
  if (priced && section.blocks.size() == before)
    section.say("No valid point has a cost to draw; the reasons are under Cost.", Look::note);
  section.absent =
      std::ranges::all_of(section.blocks, [](const Block& one) { return std::holds_alternative<Words>(one); });
  return section;
}

}  // namespace tw::results::page
