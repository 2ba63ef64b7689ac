#include "results/terminal/choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "results/compare/comparison_words.hpp"
#include "results/record/names_format.hpp"
#include "results/record/text.hpp"
#include "results/selection/pareto.hpp"
#include "results/selection/search.hpp"
#include "results/terminal/lines.hpp"

namespace tw::results {
namespace {

using namespace text;

/// "-22.1 % (-24.0 to -20.2)": what a ratio leaves or adds.
std::string change(const Estimate& ratio) {
  const auto percent = [](double value) { return fmt::format("{:+.1f}", 100 * (value - 1)); };
  std::string out = percent(ratio.value) + " %";
  if (ratio.low && ratio.high) out += " (" + percent(*ratio.low) + " to " + percent(*ratio.high) + ")";
  return out;
}

/// How much of the grid was looked at, and what that says of the rest.
std::string reach_of(const Report& report, const SearchOutcome& outcome) {
  std::string text = fmt::format("{} of {} settings were measured", outcome.measured, outcome.points);
  if (outcome.refused > 0) text += fmt::format(", {} were refused", outcome.refused);
  const int unseen = outcome.points - outcome.measured - outcome.refused;
  if (unseen == 0) return text;
  text += fmt::format(", {} were not", unseen);
  if (outcome.measured == 0) return text;
  return text + (searched_settings(report, outcome).size() == 1
                     ? ": if there is a single minimum along the setting, the best one is among those measured"
                     : ": no neighbour of the best one is better; settings farther away may be");
}

/// "a, b, c and 2 more"
std::string alike_ids(const Report& report, const Front& front) {
  auto ids = text::texts_of(front.alike, [&](std::size_t place) { return report.records[place].id; });
  return words::first_of(std::move(ids), 6, ", ", " and {} more");
}

}  // namespace

std::string merit_words(const SearchOutcome& outcome) {
  const std::string scope = outcome.scope == Scope::none ? "no" : to_string(outcome.scope);
  if (outcome.merit == SearchMerit::energy) return scope + " energy per sample";
  return outcome.merit == SearchMerit::edp ? scope + " energy x time per sample"
                                           : "cost per sample (" + scope + " joules)";
}

std::string front_text(const Report& report, const TableStyle& style) {
  const Paint paint(style.color);
  std::string out;
  for (const Front& front : pareto_fronts(report)) {
    const std::string unlike = front.to_target ? "" : unlike_precisions(front.precisions);
    const Record& first = report.records[front.records.front()];
    const std::string axes = front.to_target ? fmt::format("to {} {:.4g}, time against {} joules", first.target->metric,
                                                           first.target->value, front.scope)
                                             : fmt::format("speed against {} joules", front.scope);
    out += fmt::format("  {} in batches of {}: {}, fastest mean first{}{}{}\n", first.workload.model,
                       first.workload.global_batch, axes, unlike.empty() ? "" : "; " + unlike,
                       front.others == 0 ? ""
                                         : fmt::format("; {} more {} beaten in both", front.others,
                                                       front.others == 1 ? "point is" : "points are"),
                       front.without == 0 ? ""
                                          : fmt::format("; {} {} no {} joules and {} left out", front.without,
                                                        front.without == 1 ? "has" : "have", front.scope,
                                                        front.without == 1 ? "is" : "are"));
    std::size_t id_width = 0;
    for (const std::size_t i : front.records) id_width = std::max(id_width, columns(report.records[i].id));
    for (std::size_t place = 0; place < front.records.size(); ++place) {
      const Record& record = report.records[front.records[place]];
      const Summary& s = record.summary;
      const std::string speed =
          front.to_target ? duration(s.to_target->time_s->value) : si(s.samples_per_s->value) + " samples/s";
      const std::string joules = front.to_target
                                     ? si(s.to_target->energy_j.at(front.scope)->value, "J")
                                     : significant(1 / s.samples_per_j.at(front.scope)->value) + " J/sample";
      // Of single samples it would be all zeros.
      const std::string cost = front.costs.empty() ? ""
                               : front.to_target
                                   ? "  cost " + significant(front.costs[place])
                                   : "  cost " + significant(1e6 * front.costs[place]) + " per 1e6 samples";
      out += fmt::format("    {}  {:>14}  {:>10}{}{}{}\n", pad_right(record.id, id_width), speed, joules, cost,
                         front.knee == place ? "  " + paint.bold("knee") : "",
                         front.cheapest == place ? "  " + paint.bold("cheapest") : "");
    }
    if (!front.alike.empty())
      out += "    " +
             wrap("not distinguishable from these by their intervals: " + alike_ids(report, front), style.width, 4) +
             "\n";
  }
  return out;
}

std::string search_text(const Report& report, const TableStyle& style) {
  if (!report.search) return {};
  const Paint paint(style.color);
  std::string out;
  for (const SearchOutcome& outcome : *report.search) {
    const std::string merit = merit_words(outcome);
    const std::string best =
        outcome.best.substr(0, outcome.best.size() - std::min(outcome.best.size(), std::strlen(again_suffix)));
    const std::string changes =
        outcome.merit_ratio
            ? fmt::format("{} {}, {} speed", merit, change(*outcome.merit_ratio), change(*outcome.speed_ratio))
            : "";
    std::string line;
    if (outcome.reason.empty())
      line = fmt::format("{}: {}", best, changes);
    else if (outcome.best.empty())
      line = fmt::format("{}: {}", outcome.workload, outcome.reason);
    else
      line = fmt::format("{}: no better setting is shown. {} looked best, but {}{}", outcome.workload, best,
                         outcome.reason, changes.empty() ? "" : ": " + changes);
    out += "  " + paint.bold(wrap(line, style.width, 4)) + "\n";
    line = reach_of(report, outcome);
    if (!outcome.best.empty())
      line += ". The best and the found settings were measured again, one directly after the other";
    line += fmt::format(". Allowed slowdown against the found settings: {} %", significant(100 * outcome.max_slowdown));
    out += "    " + wrap(line, style.width, 4) + "\n";
  }
  return out;
}

}  // namespace tw::results
