// What a report says along time: phases of a step, losses and targets, power and clocks.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "results/analysis/to_target.hpp"
#include "results/analysis/trials.hpp"
#include "results/html/page.hpp"
#include "results/record/text.hpp"

namespace tw::results::page {

using text::duration;
using text::significant;

namespace {

constexpr std::size_t most_dots = 240;  // of a line: more than its pixels on a phone
constexpr std::size_t most_lines = 8;   // of a chart: as many as the palette has colours
constexpr std::size_t most_options = 200;

/// Between two trials nothing was measured: no line leads from one to the other.
const Datum gap{NAN, NAN};
bool is_gap(const Datum& datum) { return !std::isfinite(datum.y); }

/// The least and the greatest of every stretch in their order, so that no peak is lost; each part by itself.
std::vector<Datum> thinned(const std::vector<Datum>& data) {
  if (data.size() <= most_dots) return data;
  std::vector<Datum> kept;
  for (auto begin = data.begin(); begin != data.end();) {
    const auto end = std::find_if(begin, data.end(), is_gap);
    const auto size = static_cast<std::size_t>(end - begin);
    const std::size_t stretches = std::max<std::size_t>(1, most_dots * size / data.size() / 2);
    for (std::size_t i = 0; i < stretches && size > 0; ++i) {
      const auto at = [&](std::size_t stretch) {
        return begin + static_cast<std::ptrdiff_t>(stretch * size / stretches);
      };
      const auto [least, greatest] =
          std::minmax_element(at(i), at(i + 1), [](const Datum& one, const Datum& other) { return one.y < other.y; });
      kept.push_back(*std::min(least, greatest));
      if (least != greatest) kept.push_back(*std::max(least, greatest));
    }
    begin = end;
    if (begin != data.end()) kept.push_back(*begin++);
  }
  return kept;
}

/// The table of a line chart: its lines from end to end, before they are thinned.
const std::vector<std::string> ends_head = {"Line", "Points", "First", "Last", "Least", "Greatest"};
void add_ends(Table& table, const DataSet& set) {
  std::vector<double> values;
  for (const Datum& datum : set.data)
    if (!is_gap(datum)) values.push_back(datum.y);
  if (values.empty()) return;
  const auto [least, greatest] = std::ranges::minmax(values);
  std::vector<Words> row = {set.label, number(std::to_string(values.size()))};
  for (const double value : {values.front(), values.back(), least, greatest})
    row.push_back(number(significant(value, 4)));
  table.rows.push_back(std::move(row));
}

/// Those that take most of any point's step have a colour of their own, the table has all.
constexpr std::size_t most_operators = 6;

Chart operators_chart(const Group& group) {
  Chart chart;
  chart.kind = "stack", chart.title = group.name + ": operators", chart.x_title = "% of a profiled step",
  chart.end = 100;
  chart.note =
      "From one step, profiled separately from the trials because timing each operator slows it down. Outside "
      "operators: data, communication, and gaps between operators. " +
      group.note;
  chart.table = {chart.title, {"Point", "Operator", "Share of the profiled step"}, true};
  std::map<std::string, double> most;
  for (const Place& place : group.places)
    for (const auto& [name, share] : place.record->summary.op_share) most[name] = std::max(most[name], share);
  std::vector<std::pair<std::string, double>> order(most.begin(), most.end());
  std::ranges::stable_sort(order, std::greater(), &std::pair<std::string, double>::second);
  const std::size_t own = order.size() > most_operators + 1 ? most_operators : order.size();
  for (std::size_t i = 0; i < own; ++i) chart.sets.push_back({order[i].first, static_cast<int>(i)});
  if (own < order.size()) chart.sets.push_back({fmt::format("{} other operators", order.size() - own), most_operators});
  chart.sets.push_back({"outside operators", most_operators + 1});
  for (const Place& place : group.places) {
    const std::map<std::string, double>& shares = place.record->summary.op_share;
    if (shares.empty()) continue;
    chart.categories.push_back(place.name);
    double rest = 1, others = 0;
    for (const auto& [name, share] : shares) rest -= share, others += share;
    const auto add = [&](DataSet& set, double share) {
      const std::string percent = significant(100 * share);
      set.data.emplace_back(100 * share, 0,
                            fmt::format("{}: {} {} % of the profiled step", place.id, set.label, percent),
                            is_valid(*place.record));
    };
    const auto row = [&](const std::string& name, double share) {
      chart.table.rows.push_back({place.words(), name, number(significant(100 * share) + " %")});
    };
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto found = shares.find(order[i].first);
      const double share = found == shares.end() ? 0 : found->second;
      if (i < own) add(chart.sets[i], share), others -= share;
      if (found != shares.end()) row(order[i].first, share);
    }
    if (own < order.size()) add(chart.sets[own], std::max(0.0, others));
    add(chart.sets.back(), std::max(0.0, rest));
    row("outside operators", std::max(0.0, rest));
  }
  return chart;
}

Chart target_chart(const Group& group) {
  Chart chart;
  const Target& target = *group.places.front().record->target;
  chart.kind = "lines", chart.from_zero = false;
  chart.title = fmt::format("{}: progress to the target", group.name);
  chart.note = "Each line is a run with its own seed, evaluated on held-out samples. " + group.note;
  chart.x_title = "s since the first step's data";
  chart.y_title = target.metric == TargetMetric::error                     ? "share of samples wrong"
                  : group.places.front().record->workload.data == "series" ? "squared error above the floor"
                                                                           : "nats per token above the floor";
  chart.line = target.value, chart.line_label = "target " + significant(target.value, 3);
  chart.table = {chart.title, {"Point", "Seed", "Reached after", "Steps", "Last value"}, true};
  std::size_t lines = 0;
  for (std::size_t p = 0; p < group.places.size(); ++p) {
    const Place& place = group.places[p];
    for (const Trial& trial : place.record->trials) {
      if (!trial.target_run || !place.record->target) continue;
      DataSet set{fmt::format("{}, seed {}", place.name, trial.target_run->seed), static_cast<int>(p)};
      for (const Evaluation& evaluation : trial.target_run->evaluations) {
        const double metric = metric_of(*place.record->target, evaluation);
        if (!std::isfinite(metric)) continue;
        set.data.emplace_back(evaluation.time_s, metric,
                              fmt::format("{}: {} after {} and {} steps", set.label, significant(metric, 4),
                                          duration(evaluation.time_s), evaluation.step));
      }
      const auto passage = first_passage(*place.record->target, *trial.target_run);
      const Evaluation* reached = passage ? &trial.target_run->evaluations[*passage] : nullptr;
      chart.table.rows.push_back({place.words(), number(std::to_string(trial.target_run->seed)),
                                  reached ? number(duration(reached->time_s)) : Words{"never", Look::bad},
                                  number(reached ? std::to_string(reached->step) : ""),
                                  number(set.data.empty() ? "none" : significant(set.data.back().y, 4))});
      if (!set.data.empty() && lines++ < 3 * most_lines)
        chart.sets.push_back({set.label, set.color, "", thinned(set.data)});
    }
  }
  if (lines > chart.sets.size())
    chart.note += fmt::format(" {} of {} runs are drawn; the table has all.", chart.sets.size(), lines);
  return chart;
}

Chart loss_chart(const Group& group) {
  Chart chart;
  chart.kind = "lines", chart.from_zero = false;
  chart.title = group.name + ": training loss";
  chart.note = "Over all trials, one after the other. " + group.note;
  chart.x_title = "optimizer step", chart.y_title = "loss";
  chart.table = {chart.title, ends_head, true};
  std::size_t all = 0;
  for (const Place& place : group.places) {
    DataSet set{place.name, static_cast<int>(chart.sets.size())};
    for (const Trial& trial : place.record->trials)
      for (std::size_t i = 0; i < trial.loss.size(); ++i)
        if (std::isfinite(trial.loss[i])) {
          const auto step = static_cast<double>(trial.first_step) + static_cast<double>(i + 1);
          set.data.emplace_back(step, trial.loss[i],
                                fmt::format("{}: {} at step {:.0f}", place.id, significant(trial.loss[i], 4), step));
        }
    if (set.data.empty()) continue;
    add_ends(chart.table, set);
    set.data = thinned(set.data);
    ++all;
    if (chart.sets.size() < most_lines) chart.sets.push_back(std::move(set));
  }
  if (all > chart.sets.size())
    chart.note += fmt::format(" The first {} of {} points are drawn.", chart.sets.size(), all);
  return chart;
}

/// Channels of power/telemetry, by the end of their names.
struct Quantity {
  std::vector<std::string_view> endings;
  const char *title, *unit;
  double scale = 1;  ///< from the channel's unit to the chart's
  bool is_of(const std::string& name) const {
    return std::ranges::any_of(endings, [&](std::string_view ending) { return name.ends_with(ending); });
  }
};
const std::vector<Quantity>& quantities() {
  static const std::vector<Quantity> all = {{{"power_w"}, "Power", "W"},
                                            {{"_mhz"}, "Clocks", "MHz"},
                                            {{"temperature_c"}, "Temperature", "°C"},
                                            {{"utilisation", "sm_active"}, "Utilisation", "%", 100},
                                            {{"memory_used_bytes"}, "Memory in use", "GiB", 1.0 / (1 << 30)}};
  return all;
}

/// Of one point: a chart for each kind of quantity, its trials one after the other.
std::vector<Chart> telemetry_of(const Record& record, const std::string& name_of_point) {
  std::vector<Chart> charts;
  for (const Quantity& quantity : quantities()) {
    Chart chart;
    chart.kind = "lines", chart.from_zero = false;
    chart.title = fmt::format("{}, {}", quantity.title,
                              name_of_point);  // said here too: paper and a screen reader have no selection
    chart.x_title = "s over all trials", chart.y_title = quantity.unit;
    std::map<std::string, DataSet> lines;
    chart.table = {chart.title, ends_head, true};
    double start = 0;
    for (const Trial& trial : record.trials) {
      for (auto& [name, set] : lines) set.data.push_back(gap);
      for (const SeriesRow& row : trial.series) {
        if (!quantity.is_of(row.quantity)) continue;
        const std::string name = fmt::format("{} {} {}", row.host, row.domain, row.quantity);
        DataSet& set = lines.try_emplace(name, DataSet{name}).first->second;
        const std::size_t count =
            std::min({row.time_s.size(), row.mean.size(), row.minimum.size(), row.maximum.size()});
        for (std::size_t i = 0; i < count; ++i) {
          if (!std::isfinite(row.mean[i]) || !std::isfinite(row.time_s[i])) continue;
          const double at = start + row.time_s[i];
          set.data.emplace_back(
              at, quantity.scale * row.mean[i],
              fmt::format("{}: {} {} ({} to {}) at {}", name, significant(quantity.scale * row.mean[i], 4),
                          quantity.unit, significant(quantity.scale * row.minimum[i], 4),
                          significant(quantity.scale * row.maximum[i], 4), duration(at)));
        }
      }
      if (std::isfinite(trial.window_s)) start += trial.window_s;
    }
    for (auto& [name, set] : lines) {
      if (set.data.empty()) continue;
      if (chart.sets.size() == most_lines) {
        chart.note = fmt::format("The first {} of {} sensors are drawn.", most_lines, lines.size());
        break;
      }
      set.color = static_cast<int>(chart.sets.size());
      add_ends(chart.table, set);
      set.data = thinned(set.data);
      chart.sets.push_back(std::move(set));
    }
    if (!chart.sets.empty()) charts.push_back(std::move(chart));
  }
  return charts;
}

}  // namespace

Section phases_section(const std::vector<HtmlSystem>& systems) {
  Section section{"phases", "Where a step's time goes",
                  "Mean over steps and ranks. Rest: the slowest rank's step time less the sum of the phases."};
  for (const Group& group : workloads(systems)) {
    Chart chart;
    chart.kind = "stack", chart.title = group.name, chart.x_title = "ms per step", chart.note = group.note;
    chart.table = {group.name, {"Point", "Phase", "Time per step", "Share"}, true};
    std::vector<std::string> names;
    std::vector<std::pair<Place, std::vector<std::pair<std::string, double>>>> all;
    for (const Place& place : group.places)
      if (auto phases = mean_phases(*place.record); !phases.empty()) {
        for (const auto& [name, seconds] : phases)
          if (std::ranges::find(names, name) == names.end()) names.push_back(name);
        all.emplace_back(place, std::move(phases));
      }
    if (all.empty()) continue;
    if (const auto rest = std::ranges::find(names, "rest"); rest != names.end())
      std::rotate(rest, rest + 1, names.end());
    for (std::size_t i = 0; i < names.size(); ++i) chart.sets.push_back({names[i], static_cast<int>(i)});
    for (const auto& [place, phases] : all) {
      chart.categories.push_back(place.name);
      double step = 0;
      for (const auto& [name, seconds] : phases) step += seconds;
      for (DataSet& set : chart.sets) {
        const auto found = std::ranges::find(phases, set.label, &std::pair<std::string, double>::first);
        const double seconds = found == phases.end() ? 0 : found->second;
        const std::string share = significant(step > 0 ? 100 * seconds / step : 0) + " %";
        set.data.emplace_back(1e3 * seconds, 0,
                              fmt::format("{}: {} {}, {}", place.id, set.label, duration(seconds), share),
                              is_valid(*place.record));
        chart.table.rows.push_back({place.words(), set.label, number(duration(seconds)), number(share)});
      }
    }
    section.blocks.emplace_back(std::move(chart));
    if (Chart operators = operators_chart(group); !operators.categories.empty())
      section.blocks.emplace_back(std::move(operators));
    else
      section.say(group.name + ": no step was profiled by operators.", Look::quiet);
  }
  section.say_if_empty("No phases were timed: nothing ran, or this is a metered command.");
  return section;
}

Section learning_section(const std::vector<HtmlSystem>& systems) {
  Section section{"learning", "Learning", ""};
  for (const Group& group : workloads(systems)) {
    Chart chart = group.places.front().record->target ? target_chart(group) : loss_chart(group);
    if (!chart.sets.empty()) section.blocks.emplace_back(std::move(chart));
  }
  section.say_if_empty("The report has no losses: nothing ran, or this is a metered command.");
  return section;
}

Section telemetry_section(const std::vector<HtmlSystem>& systems) {
  Section section{"telemetry", "Power, clocks, temperature, utilisation",
                  "Means of consecutive samples over the trials."};
  Choice choice{"Point", {}};
  std::size_t all = 0;
  const std::vector<std::vector<Words>> names = point_names(systems);
  for (const Group& group : workloads(systems))
    for (const Place& place : group.places) {
      const std::vector<Record>& records = systems[place.system].report.records;
      const std::string& name = names[place.system][static_cast<std::size_t>(place.record - records.data())].text;
      if (auto charts = telemetry_of(*place.record, name); !charts.empty() && ++all <= most_options)
        choice.options.emplace_back(name, std::move(charts));
    }
  if (all > most_options)
    section.say(fmt::format("The first {} of {} points can be chosen.", most_options, all), Look::note);
  if (choice.options.empty()) {
    section.lead.clear(), section.absent = true;
    section.blocks.emplace_back(all_lack_energy(systems)
                                    ? no_joules(systems)
                                    : Words("No meter or sensor recorded a time series.", Look::quiet));
  } else {
    section.blocks.emplace_back(std::move(choice));
  }
  return section;
}

}  // namespace tw::results::page
