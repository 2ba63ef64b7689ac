// Points against each other in two figures: speed against energy, speed against cost; of runs to a target their time.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "results/export_parts.hpp"
#include "results/page.hpp"
#include "results/pareto.hpp"
#include "results/search.hpp"
#include "results/text.hpp"

namespace tw::page {
namespace {

using text::si;
using text::significant;

/// Ids that a search has shown to be better than the found settings.
std::set<std::string> recommended(const Report& report) {
  std::set<std::string> ids;
  if (report.search)
    for (const SearchOutcome& outcome : *report.search)
      if (outcome.reason.empty() && !outcome.best.empty()) {
        std::string id = outcome.best;
        if (id.ends_with(again_suffix)) id.resize(id.size() - std::string_view(again_suffix).size());
        ids.insert(id);
      }
  return ids;
}

/// A point of a chart, and what it has along both axes.
struct Dot {
  std::size_t system = 0;
  const Record* record = nullptr;
  std::string name;
  Estimate across, up;
};
/// samples/s, or to a target the seconds.
std::optional<Estimate> speed_of(const Record& record) {
  if (!record.target) return record.summary.samples_per_s;
  return record.summary.to_target ? record.summary.to_target->time_s : std::nullopt;
}
std::string speed_words(const Record& record, const Estimate& e) {
  return record.target ? figure_in_seconds(e) : figure(e, "samples/s");
}
bool is_repeat(const Record& record) { return record.id.ends_with(again_suffix); }

struct Axes {
  std::string title, note, unit, up_title;
  bool to_target = false, is_cost = false;
};

/// `front`: places among the dots, the fastest first.
Chart front_chart(const std::vector<HtmlSystem>& systems, const std::vector<Dot>& dots,
                  const std::vector<std::size_t>& front, std::optional<std::size_t> knee, const Axes& axes) {
  Chart chart;
  chart.kind = "scatter", chart.from_zero = false;
  chart.title = axes.title;
  chart.note = fmt::format("{} is faster, lower {}.{}{}", axes.to_target ? "To the left" : "To the right",
                           axes.is_cost ? "is cheaper" : "takes less energy",
                           front.size() > 1 ? " The line joins the points whose means none beats in both." : "",
                           axes.note.empty() ? "" : " " + axes.note);
  chart.x_title = axes.to_target ? "s to the target" : "samples/s", chart.y_title = axes.up_title;
  chart.table = {chart.title, {"Point", chart.x_title, axes.up_title, "On the front"}, {}, true};
  DataSet line{"Pareto front", 7, "line", {}};
  for (const std::size_t i : front) line.data.push_back({dots[i].across.value, dots[i].up.value, {}, {}, "", "", true});
  std::vector<DataSet> sets;
  for (std::size_t s = 0; s < systems.size(); ++s)
    sets.push_back({systems.size() > 1 ? systems[s].name : "points", static_cast<int>(s), "", {}});
  for (std::size_t i = 0; i < dots.size(); ++i) {
    const Dot& dot = dots[i];
    const Record& record = *dot.record;
    const auto on = std::ranges::find(front, i);
    std::vector<std::string> marks;
    if (on != front.end() && knee == static_cast<std::size_t>(on - front.begin())) marks.emplace_back("knee");
    if (dots.size() > 1 && front.size() == 1 && i == front.front()) marks.emplace_back("alone on the front");
    if (axes.is_cost && front.size() > 1 && i == front.back()) marks.emplace_back("cheapest");
    if (recommended(systems[dot.system].report).contains(record.id)) marks.emplace_back("recommended");
    Datum datum{dot.across.value,
                dot.up.value,
                dot.up.low,
                dot.up.high,
                "",
                fmt::format("{}", fmt::join(marks, ", ")),
                record.verdict.status == "valid"};
    datum.text = fmt::format("{}: {}, {}{}", dot.name, speed_words(record, dot.across), figure(dot.up, axes.unit),
                             datum.counts ? "" : ", does not count: " + record.verdict.status);
    std::string role = on == front.end() ? "no" : "yes";
    if (!datum.mark.empty()) role += ": " + datum.mark;
    chart.table.rows.push_back({dot.name,
                                {axes.to_target ? significant(datum.x) : si(datum.x), "number"},
                                {figure(dot.up, ""), "number"},
                                role});
    sets[dot.system].data.push_back(std::move(datum));
  }
  if (line.data.size() > 1) chart.sets.push_back(std::move(line));
  for (DataSet& set : sets)
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
  for (std::size_t s = 0; s < systems.size(); ++s) {
    const std::vector<std::string> ids = unique_ids(systems[s].report.records);
    for (std::size_t r = 0; r < systems[s].report.records.size(); ++r) {
      all.report.records.push_back(systems[s].report.records[r]);
      all.places.push_back(
          {s, &systems[s].report.records[r], systems.size() > 1 ? systems[s].name + ": " + ids[r] : ids[r], {}});
    }
  }
  return all;
}

Chart energy_chart(const std::vector<HtmlSystem>& systems, const Merged& all, const Front& front) {
  const Workload& w = all.report.records[front.records.front()].workload;
  std::vector<Dot> dots;
  std::map<std::size_t, std::size_t> place;  // among the dots, of a record
  for (std::size_t i = 0; i < all.report.records.size(); ++i) {
    const Record& record = *all.places[i].record;
    if (record.workload.hash != front.hash || record.workload.global_batch != w.global_batch ||
        record.target.has_value() != front.to_target || is_repeat(record))
      continue;
    const std::optional<Estimate> speed = speed_of(record), joules = front.to_target
                                                                         ? target_joules(record, front.scope)
                                                                         : sample_joules(record, front.scope);
    if (!speed || !joules) continue;
    place[i] = dots.size();
    dots.push_back({all.places[i].system, &record, all.places[i].name, *speed, *joules});
  }
  std::vector<std::size_t> on;
  for (const std::size_t i : front.records) on.push_back(place.at(i));
  const char* unit = front.to_target ? "J" : "J/sample";
  return front_chart(systems, dots, on, front.knee,
                     {fmt::format("{} in batches of {}: {} against {} energy", w.model, w.global_batch,
                                  front.to_target ? "time to the target" : "speed", front.scope),
                      front.without == 0 ? ""
                                         : fmt::format("Without {} joules, and so left out, are {} of its points.",
                                                       front.scope, front.without),
                      unit, fmt::format("{} ({})", front.to_target ? "J to the target" : "J/sample", front.scope),
                      front.to_target, false});
}

std::string basis_words(const RecordCost& cost) {
  if (cost.basis == CostBasis::complete) return "complete";
  return cost.scope.empty() ? "lower bounds, of hours alone" : "lower bounds, with " + cost.scope + " joules alone";
}

/// One chart for each workload, batch and basis: costs that hold different things are not held against each other.
void add_cost_charts(Section& section, const std::vector<HtmlSystem>& systems) {
  for (const Group& group : workloads(systems)) {
    std::map<std::tuple<bool, std::int64_t, std::string>, std::vector<Dot>> charts;
    std::string currency;
    for (const Place& place : group.places) {
      const Record& record = *place.record;
      const HtmlSystem& system = systems[place.system];
      if (!system.cost || record.verdict.status != "valid" || is_repeat(record)) continue;
      currency = system.cost->currency;
      const auto r = static_cast<std::size_t>(&record - system.report.records.data());
      if (r >= system.cost->records.size()) continue;
      const RecordCost& cost = system.cost->records[r];
      const auto price = std::ranges::find(cost.figures, record.target ? "model" : "million_samples", &CostFigure::per);
      const std::optional<Estimate> speed = speed_of(record);
      if (price == cost.figures.end() || !price->total || !speed) continue;
      charts[{record.target.has_value(), record.workload.global_batch, basis_words(cost)}].push_back(
          {place.system, &record, place.name, *speed, *price->total});
    }
    for (const auto& [key, dots] : charts) {
      const auto& [to_target, batch, basis] = key;
      std::vector<TwoFigures> figures;
      for (const Dot& dot : dots)
        figures.push_back(to_target ? TwoFigures{-dot.across.value, -dot.up.value}
                                    : TwoFigures{dot.across.value, dot.up.value > 0 ? 1 / dot.up.value : 0});
      const TradeOff found = trade_off(figures);
      const bool is_bound = basis != "complete";
      section.blocks.emplace_back(front_chart(
          systems, dots, found.front, found.knee,
          {fmt::format("{} in batches of {}: {} against cost{}", group.name, batch,
                       to_target ? "time to the target" : "speed", is_bound ? ", " + basis : ""),
           is_bound ? "Training costs at least as much. Costs that hold other parts stand in a chart of their own."
                    : "",
           currency,
           currency + (to_target ? " a trained model" : " a million samples") + (is_bound ? ", at least" : ""),
           to_target, true}));
    }
  }
}

}  // namespace

Section pareto_section(const std::vector<HtmlSystem>& systems) {
  const bool priced = std::ranges::any_of(systems, [](const HtmlSystem& one) { return one.cost.has_value(); });
  Section section{"pareto", priced ? "Speed against energy and cost" : "Speed against energy", "", {}};
  const Merged all = merged(systems);
  for (const Front& front : pareto_fronts(all.report)) section.blocks.emplace_back(energy_chart(systems, all, front));
  if (section.blocks.empty()) {
    std::vector<std::string> reasons;
    for (const Group& group : workloads(systems))
      if (!scope_with_joules(group, {"node", "device", "package"}).empty())
        reasons.push_back(scope_with_joules(group, scopes_that_tell(group)).empty()
                              ? group.name + ": " + why_none_tells(group)
                              : group.name + ": no two valid points train the same batch with joules of one scope");
    section.blocks.emplace_back(
        Words(reasons.empty()
                  ? "No point has joules: " + why_no_joules(systems) + "."
                  : fmt::format("No points can be held against each other by energy. {}.", fmt::join(reasons, "; ")),
              "note"));
  }
  const std::size_t before = section.blocks.size();
  add_cost_charts(section, systems);
  if (priced && section.blocks.size() == before)
    section.blocks.emplace_back(Words("No valid point has a cost to draw; the reasons are under Cost.", "note"));
  return section;
}

}  // namespace tw::page
