// Points of a report: the table, bars with intervals.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>

#include "results/analysis/scopes.hpp"
#include "results/export/export_parts.hpp"
#include "results/html/page.hpp"
#include "results/record/names_format.hpp"
#include "results/record/text.hpp"
#include "results/selection/ranking.hpp"
#include "results/terminal/columns.hpp"

namespace tw::results::page {

using text::si;
using text::significant;

namespace {

/// Names begin as ids. What they have in common is said once.
void shorten(const std::vector<HtmlSystem>& systems, Group& group) {
  std::vector<std::string> ids;
  for (const Place& place : group.places) ids.push_back(place.name);
  const ShortNames found = short_names(ids, false);
  const bool all_same = std::ranges::all_of(ids, [&](const std::string& id) { return id == ids.front(); });
  for (std::size_t i = 0; i < ids.size(); ++i) {
    Place& place = group.places[i];
    place.name = systems.size() == 1 ? found.names[i]
                 : all_same          ? systems[place.system].name
                                     : systems[place.system].name + ": " + found.names[i];
  }
  const std::string shared = systems.size() > 1 && all_same ? short_names({ids.front()}, false).names.front() +
                                                                  (found.shared.empty() ? "" : ", " + found.shared)
                                                            : found.shared;
  if (!shared.empty()) group.note = fmt::format("{}: {}.", group.places.size() > 1 ? "All" : "The point", shared);
}

}  // namespace

std::vector<Group> workloads(const std::vector<HtmlSystem>& systems) {
  std::vector<Group> groups;
  std::vector<std::string> hashes;
  for (std::size_t s = 0; s < systems.size(); ++s) {
    const std::vector<std::string> ids = unique_ids(systems[s].report.records);
    for (std::size_t r = 0; r < systems[s].report.records.size(); ++r) {
      const Record& record = systems[s].report.records[r];
      auto found = std::ranges::find(hashes, record.workload.hash);
      if (found == hashes.end()) {
        hashes.push_back(record.workload.hash);
        const Workload& w = record.workload;
        groups.push_back(
            {w.model + (w.layers ? " cut to " + text::count(*w.layers, "layer") : "") +
                 (w.table_rows_at_most ? fmt::format(", tables of at most {} rows", *w.table_rows_at_most) : "") +
                 (w.seq_len ? fmt::format(", {} {}", *w.seq_len, w.positions()) : "") +
                 (record.target ? ", to the target of " + record.target->task : ""),
             {},
             {}});
        found = hashes.end() - 1;
      }
      groups[static_cast<std::size_t>(found - hashes.begin())].places.push_back(
          {s, &record, systems.size() > 1 ? systems[s].name + ": " + ids[r] : ids[r], ids[r]});
    }
  }
  for (Group& group : groups) shorten(systems, group);
  return groups;
}

std::optional<Estimate> speed_of(const Record& record) {
  if (!record.target) return record.summary.samples_per_s;
  return record.summary.to_target ? record.summary.to_target->time_s : std::nullopt;
}

Words number(std::string words) { return {std::move(words), Look::number}; }

Words status_words(const Record& record) {
  const char* status = to_string(record.verdict.status);
  if (is_valid(record)) return {status, record.verdict.flags.empty() ? Look::good : Look::note};
  return {status, record.verdict.status == Status::unsupported ? Look::quiet : Look::bad};
}

std::string why_no_joules(const std::vector<HtmlSystem>& systems) {
  std::vector<std::string> reasons;
  for (const HtmlSystem& system : systems)
    for (const Record& record : system.report.records)
      if (const std::string& why = record.summary.energy_reason;
          has_run(record) && !why.empty() && std::ranges::find(reasons, why) == reasons.end())
        reasons.push_back(why);
  return reasons.empty() ? "no point has joules" : text::join(reasons, "; ");
}

Words no_joules(const std::vector<HtmlSystem>& systems) {
  return {all_lack_energy(systems) ? "Energy was not measured; the top of the page says why."
                                   : "Absent: " + why_no_joules(systems) + ".",
          Look::quiet};
}

namespace {

std::string interval_words(const std::optional<double>& low, const std::optional<double>& high,
                           const std::string& unit) {
  return low && high ? si(*low) + " to " + si(*high, unit) : "none";
}

/// A lying bar for each record, the best one that counts first; where it has no figure, its status in the bar's place.
Chart bars(const std::vector<HtmlSystem>& systems, const Group& group, const std::string& title,
           const std::string& unit, bool more_is_better,
           const std::function<std::optional<Estimate>(const Record&)>& of) {
  Chart chart;
  chart.kind = "bars", chart.title = title, chart.x_title = unit, chart.note = group.note;
  chart.table = {title, {"Point", unit, "95 % interval", "Verdict"}, true};
  chart.sets.push_back({systems.size() > 1 ? "" : unit});
  std::vector<Place> places = group.places;
  const auto order = [&](const Place& place) {
    const std::optional<Estimate> e = of(*place.record);
    const bool is_drawn = e && std::isfinite(e->value);
    const int last = !is_drawn ? 2 : is_valid(*place.record) ? 0 : 1;
    return std::pair(last, is_drawn ? (more_is_better ? -e->value : e->value) : 0.0);
  };
  std::ranges::stable_sort(places, {}, order);
  for (const Place& place : places) {
    const Record& record = *place.record;
    const std::optional<Estimate> e = of(record);
    const std::string status = to_string(record.verdict.status);
    std::string said = has_run(record) ? "no figure" : status;
    Datum datum(0, static_cast<double>(place.system), "", is_valid(record));
    if (e) {
      datum.x = e->value, datum.low = e->low, datum.high = e->high;
      said = si(*e, unit) + (datum.counts ? "" : ", does not count: " + status);
      if (!datum.counts) datum.mark = status;
    } else {
      datum.mark = said, datum.counts = false;
    }
    datum.text = place.id + ": " + said;
    chart.categories.push_back(place.name);
    chart.table.rows.push_back({place.words(), e ? number(si(e->value, unit)) : Words{said, Look::quiet},
                                e ? number(interval_words(e->low, e->high, unit)) : Words{""}, status_words(record)});
    chart.sets[0].data.push_back(std::move(datum));
  }
  return chart;
}

}  // namespace

Scope scope_with_joules(const Group& group, std::span<const Scope> scopes) {
  for (Scope scope : scopes)
    for (const Place& place : group.places)
      if (is_valid(*place.record) && (sample_joules(*place.record, scope) || target_joules(*place.record, scope)))
        return scope;
  return Scope::none;
}

std::vector<Scope> scopes_that_tell(const Group& group) {
  std::vector<const Record*> valid;
  for (const Place& place : group.places)
    if (is_valid(*place.record)) valid.push_back(place.record);
  return telling_scopes(valid);
}

std::string why_none_tells(const Group& group) {
  std::set<std::string> devices, set;
  for (const Place& place : group.places) {
    if (!is_valid(*place.record)) continue;
    devices.insert(place.record->workload.device);
    for (const auto& [name, setting] : place.record->setting)
      if (setting.requested) set.insert(name);
  }
  return fmt::format("trained on {}{}: joules of {} leave out a part; joules of {} are needed",
                     text::join(devices, " and "), set.empty() ? "" : " with " + text::join(set, ", ") + " set",
                     scope_with_joules(group, training_scopes), text::join(scopes_that_tell(group), " or "));
}

Section points_section(const std::vector<HtmlSystem>& systems) {
  Section section{"points", "Points", "In brackets: 95 % intervals over trials; below 3 trials there are none."};
  const std::vector<std::vector<Words>> names = point_names(systems);
  for (const HtmlSystem& system : systems) {
    const std::vector<Record>& records = system.report.records;
    const std::vector<Words>& ids = names[static_cast<std::size_t>(&system - systems.data())];
    const std::vector<Column> columns = number_columns(records, Intervals::in_cell, {});
    Table table(systems.size() > 1 ? system.name : "All points", {"Point", "Verdict"}, systems.size() > 1);
    for (const Column& column : columns) table.head.push_back(column.title);
    table.head.emplace_back("Flags, and why a point does not count");
    for (std::size_t i = 0; i < records.size(); ++i) {
      std::vector<Words> row = {ids[i], status_words(records[i])};
      for (const Column& column : columns) row.push_back(number(column.cells[i]));
      std::vector<std::string> why = flag_names(records[i]);
      why.insert(why.end(), records[i].verdict.reasons.begin(), records[i].verdict.reasons.end());
      row.emplace_back(text::join(why, "; "));
      table.rows.push_back(std::move(row));
    }
    if (records.empty())
      section.say("No points were run" + (systems.size() > 1 ? " by " + system.name : "") + ".", Look::quiet);
    section.add(std::move(table));
  }
  return section;
}

namespace {

constexpr const char* whisker = "; the whisker is its 95 % interval over trials.";

/// Whether a speed has one: less than 3 trials give none.
bool has_interval(const std::vector<HtmlSystem>& systems) {
  return std::ranges::any_of(systems, [](const HtmlSystem& system) {
    return std::ranges::any_of(system.report.records, [](const Record& record) {
      return record.summary.samples_per_s && record.summary.samples_per_s->low;
    });
  });
}

}  // namespace

Section speed_section(const std::vector<HtmlSystem>& systems) {
  Section section{"speed", "Throughput",
                  std::string("A bar for each point, the fastest first") + (has_interval(systems) ? whisker : ".")};
  for (const Group& group : workloads(systems))
    section.blocks.emplace_back(
        bars(systems, group, group.name, "samples/s", true, [](const Record& r) { return r.summary.samples_per_s; }));
  section.say_if_empty("No points were run.");
  return section;
}

Section energy_section(const std::vector<HtmlSystem>& systems) {
  Section section{"energy", "Energy", "Each chart has joules of one scope. Lower is better; the lowest comes first."};
  for (const Group& group : workloads(systems)) {
    std::vector<Record> records;
    for (const Place& place : group.places) records.push_back(*place.record);
    for (Scope scope : scopes_of(records)) {
      const auto draw = [&](const char* what, const char* unit, auto of) {
        const auto bound = [&](const Record& r) { return of(r, scope); };
        if (std::ranges::none_of(records, [&](const Record& r) { return bound(r).has_value(); })) return;
        Chart chart =
            bars(systems, group, fmt::format("{}: {} energy {}", group.name, scope, what), unit, false, bound);
        if (const auto tell = scopes_that_tell(group); std::ranges::find(tell, scope) == tell.end())
          chart.note =
              "These joules do not include everything that the points draw, so they do not rank them. " + chart.note;
        section.blocks.emplace_back(std::move(chart));
      };
      draw("per sample", "J/sample", sample_joules);
      draw("to the target", "J", target_joules);
    }
  }
  if (section.blocks.empty()) section.absent = true, section.blocks.emplace_back(no_joules(systems));
  return section;
}

}  // namespace tw::results::page
