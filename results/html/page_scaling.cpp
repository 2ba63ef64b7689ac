// What more ranks bring: measured, against the ideal, projected; and what communication takes.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "results/analysis/trials.hpp"
#include "results/html/page.hpp"
#include "results/record/text.hpp"

namespace tw::results::page {
namespace {

using text::duration;
using text::si;
using text::significant;

/// Points that differ in their ranks alone.
struct Family {
  std::string name;
  std::vector<Place> places;  ///< by rising ranks, of two numbers of ranks at least
};

/// Strong: the global batch stays; weak: that of a rank does.
std::vector<Family> families_of(const std::vector<HtmlSystem>& systems, const Group& group, bool strong) {
  std::map<std::string, std::vector<Place>> all;
  for (const Place& place : group.places) {
    const Workload& w = place.record->workload;
    if (!is_valid(*place.record) || !place.record->summary.samples_per_s) continue;
    if (std::ranges::any_of(place.record->setting, [](const auto& one) { return one.second.requested.has_value(); }))
      continue;
    const std::string key =
        fmt::format("{}{}, {}", systems.size() > 1 ? systems[place.system].name + ", " : "", w.precision,
                    strong ? fmt::format("{} samples in all", w.global_batch)
                           : fmt::format("{} x {} samples per rank", w.micro_batch, w.accumulate));
    all[key].push_back(place);
  }
  std::vector<Family> families;
  for (auto& [name, places] : all) {
    std::ranges::stable_sort(places, {}, [](const Place& p) { return p.record->workload.ranks; });
    if (places.front().record->workload.ranks != places.back().record->workload.ranks)
      families.push_back({name, std::move(places)});
  }
  return families;
}

double ranks_of(const Place& place) { return place.record->workload.ranks; }
double speed_of(const Place& place) { return place.record->summary.samples_per_s->value; }

/// Seconds a sample = fixed_s + shared_s / ranks (Amdahl 1967), by least squares of relative errors.
struct Fit {
  double fixed_s = 0, shared_s = 0;
  double farthest = 0;     ///< of a point off the fit, as a share
  std::size_t counts = 0;  ///< different numbers of ranks
  std::string reason;      ///< why there is none; empty otherwise
  double speed(double ranks) const { return 1 / (fixed_s + shared_s / ranks); }
};
Fit fit_of(const Family& family) {
  Fit fit;
  double uu = 0, uv = 0, vv = 0, u1 = 0, v1 = 0;
  std::set<double> counts;
  for (const Place& place : family.places) {
    const double u = speed_of(place), v = u / ranks_of(place);
    if (!(u > 0)) return fit.reason = "a point has no speed", fit;
    uu += u * u, uv += u * v, vv += v * v, u1 += u, v1 += v;
    counts.insert(ranks_of(place));
  }
  fit.counts = counts.size();
  const double determinant = uu * vv - uv * uv;
  fit.fixed_s = (u1 * vv - v1 * uv) / determinant, fit.shared_s = (v1 * uu - u1 * uv) / determinant;
  if (fit.fixed_s < 0)
    fit.reason = "scaling is better than linear, which the model (fixed part + shared part / ranks) cannot describe";
  else if (!(fit.shared_s > 0))
    fit.reason = "more ranks are not faster, so no part of the time is shared among them";
  else
    for (const Place& place : family.places)
      fit.farthest = std::max(fit.farthest, std::abs(fit.speed(ranks_of(place)) / speed_of(place) - 1));
  return fit;
}

/// The dashed line on to twice the largest number of ranks, its row, and its formula in words.
std::string add_projection(Chart& chart, const Family& family, int color) {
  const Fit fit = fit_of(family);
  if (!fit.reason.empty()) return fmt::format("{}: no projection: {}.", family.name, fit.reason);
  constexpr int pieces = 8;
  const double largest = ranks_of(family.places.back());
  DataSet line{family.name + ", projected, not measured", color, "projected"};
  for (int i = 0; i <= pieces; ++i) {
    const double ranks = largest * (1 + static_cast<double>(i) / pieces);
    line.data.emplace_back(ranks, fit.speed(ranks));
  }
  const double end = fit.speed(2 * largest);
  Datum& last = line.data.back();
  last.mark = "projected, not measured";
  last.text =
      fmt::format("{}: projected to {} at {:.0f} ranks, not measured", family.name, si(end, "samples/s"), 2 * largest);
  chart.sets.push_back(std::move(line));
  const double ideal = speed_of(family.places.front()) * 2 * largest / ranks_of(family.places.front());
  chart.table.rows.push_back({family.name,
                              number(fmt::format("{:.0f}", 2 * largest)),
                              number(si(end)),
                              number(significant(100 * end / ideal) + " %"),
                              {"projected, not measured", Look::note}});
  return fmt::format("{}: projected, not measured, by time per sample = {} + {} / ranks, {}; it has no interval.",
                     family.name, duration(fit.fixed_s), duration(fit.shared_s),
                     fit.counts < 3 ? "fitted to two numbers of ranks, so the fit cannot be checked"
                                    : fmt::format("which differs from the measurements by up to {} %",
                                                  significant(100 * fit.farthest, 2)));
}

void add_speed(Section& section, const Group& group, const std::vector<Family>& families, bool strong) {
  Chart chart, efficiency;
  chart.kind = efficiency.kind = "lines";
  chart.title = fmt::format("{}: {} scaling", group.name, strong ? "strong" : "weak");
  chart.note = fmt::format("The same {} on more ranks. Dotted: linear scaling. Dashed: projected.",
                           strong ? "global batch" : "batch per rank");
  chart.x_title = efficiency.x_title = "ranks", chart.y_title = "samples/s";
  chart.table = {chart.title, {"Series", "Ranks", "samples/s", "Scaling efficiency", "From"}, true};
  efficiency.title = chart.title + " efficiency", efficiency.y_title = "% of ideal";
  efficiency.note = "Speed as a share of linear scaling from the fewest ranks.";
  efficiency.line = 100, efficiency.line_label = "ideal";
  efficiency.table = {efficiency.title, {"Series", "Ranks", "Scaling efficiency"}, true};
  std::vector<std::string> formulas;
  int color = 0;
  for (const Family& family : families) {
    const Place& base = family.places.front();
    DataSet measured{family.name, color}, ideal{family.name + ", ideal", color, "dashed"}, share = measured;
    for (const Place& place : family.places) {
      const Estimate& e = *place.record->summary.samples_per_s;
      const double ranks = ranks_of(place), expected = speed_of(base) * ranks / ranks_of(base);
      const double percent = 100 * e.value / expected;
      const std::string of_ideal = significant(percent) + " %";
      measured.data.emplace_back(ranks, e, fmt::format("{}: {}, {} of ideal", place.id, si(e, "samples/s"), of_ideal));
      ideal.data.emplace_back(ranks, expected);
      share.data.emplace_back(ranks, percent, fmt::format("{}: {} of ideal", place.id, of_ideal));
      const Words count = number(fmt::format("{:.0f}", ranks));
      chart.table.rows.push_back({family.name, count, number(si(e)), number(of_ideal), "measured"});
      efficiency.table.rows.push_back({family.name, count, number(of_ideal)});
    }
    chart.sets.push_back(std::move(measured)), chart.sets.push_back(std::move(ideal));
    efficiency.sets.push_back(std::move(share));
    formulas.push_back(add_projection(chart, family, color++));
  }
  section.blocks.emplace_back(std::move(chart));
  for (const std::string& formula : formulas) section.say(formula, Look::note);
  section.blocks.emplace_back(std::move(efficiency));
}

void add_communication(Section& section, const Group& group, const std::vector<Family>& families, bool strong) {
  Chart chart, shares;
  chart.kind = shares.kind = "lines";
  chart.title = fmt::format("{}: exposed communication, {} scaling", group.name, strong ? "strong" : "weak");
  chart.note =
      "Time that a step waits for other ranks after its own backward pass: mean over steps and ranks. Communication "
      "that overlaps with computation is not included. Reports contain no bytes, bandwidth or ceiling of collectives.";
  chart.x_title = shares.x_title = "ranks", chart.y_title = "ms per step", shares.y_title = "% of the step";
  chart.table = {chart.title, {"Series", "Ranks", "Exposed per step", "Share of the step", "Route"}, true};
  shares.title = chart.title + ", share of the step", shares.note = "The same as a share of the step time.";
  shares.table = {shares.title, {"Series", "Ranks", "Share of the step"}, true};
  int color = 0;
  for (const Family& family : families) {
    DataSet set{family.name, color++}, part = set;
    for (const Place& place : family.places) {
      double step = 0;
      std::optional<double> seconds;
      for (const auto& [phase, mean] : mean_phases(*place.record)) {
        step += mean;
        if (phase == "communication") seconds = mean;
      }
      if (!seconds) continue;
      const double percent = step > 0 ? 100 * *seconds / step : 0;
      const std::string share = significant(percent) + " %";
      const std::optional<Execution>& how = place.record->execution;
      std::string way = how ? how->communicator + (how->route.empty() ? "" : ", " + how->route) : "not recorded";
      if (how && how->reduce_precision.value_or("float32") != "float32") way += ", in " + *how->reduce_precision;
      const Words ranks = number(fmt::format("{:.0f}", ranks_of(place)));
      set.data.emplace_back(ranks_of(place), 1e3 * *seconds,
                            fmt::format("{}: {} per step, {} of it, by {}", place.id, duration(*seconds), share, way));
      part.data.emplace_back(ranks_of(place), percent, fmt::format("{}: {}", place.id, share));
      chart.table.rows.push_back({family.name, ranks, number(duration(*seconds)), number(share), way});
      shares.table.rows.push_back({family.name, ranks, number(share)});
    }
    if (!set.data.empty()) chart.sets.push_back(std::move(set)), shares.sets.push_back(std::move(part));
  }
  if (chart.sets.empty())
    section.say(group.name + ": communication was not timed, so there is no curve.", Look::quiet);
  else
    section.blocks.emplace_back(std::move(chart)), section.blocks.emplace_back(std::move(shares));
}

}  // namespace

Section scaling_section(const std::vector<HtmlSystem>& systems) {
  Section section{"scaling", "Scaling and communication over ranks", ""};
  for (const Group& group : workloads(systems))
    for (const bool strong : {true, false})
      if (const std::vector<Family> families = families_of(systems, group, strong); !families.empty()) {
        add_speed(section, group, families, strong);
        add_communication(section, group, families, strong);
      }
  section.say_if_empty(
      "No system measured a workload on several numbers of ranks with everything else equal, so there are no curves of "
      "scaling or communication, and no projection.");
  return section;
}

}  // namespace tw::results::page
