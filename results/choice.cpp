#include "results/choice.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "results/pareto.hpp"
#include "results/paint.hpp"
#include "results/search.hpp"
#include "results/text.hpp"

namespace tw {
namespace {

using namespace text;

/// "-22.1 % (-24.0 to -20.2)": what a ratio leaves or adds.
std::string change(const Estimate& ratio) {
  const auto percent = [](double value) { return fmt::format("{:+.1f}", 100 * (value - 1)); };
  std::string out = percent(ratio.value) + " %";
  if (ratio.low && ratio.high) out += " (" + percent(*ratio.low) + " to " + percent(*ratio.high) + ")";
  return out;
}

std::string name_of(const std::string& merit, const std::string& scope) {
  if (merit == "energy") return scope + " energy a sample";
  return merit == "edp" ? scope + " energy x time of a sample" : "cost of a sample (" + scope + " joules)";
}

}  // namespace

std::string front_text(const Report& report, const TableStyle& style) {
  const Paint paint(style.color);
  std::string out;
  for (const Front& front : pareto_fronts(report)) {
    out += fmt::format("  {}: speed against {} joules, the fastest first{}\n",
                       report.records[front.records.front()].workload.model, front.scope,
                       front.others == 0 ? "" : fmt::format("; {} more points are beaten in both", front.others));
    std::size_t id_width = 0;
    for (const std::size_t i : front.records) id_width = std::max(id_width, columns(report.records[i].id));
    for (std::size_t place = 0; place < front.records.size(); ++place) {
      const Record& record = report.records[front.records[place]];
      const double joules = 1 / record.summary.samples_per_j.at(front.scope)->value;
      out += fmt::format("    {}  {:>14}  {:>10}{}\n", pad_right(record.id, id_width),
                         si(record.summary.samples_per_s->value) + " samples/s", significant(joules) + " J/sample",
                         front.knee == place ? "  " + paint.bold("knee") : "");
    }
  }
  return out;
}

std::string search_text(const Report& report, const TableStyle& style) {
  if (!report.search) return {};
  const Paint paint(style.color);
  std::string out;
  for (const SearchOutcome& outcome : *report.search) {
    const std::string merit = name_of(outcome.merit, outcome.scope.empty() ? "no" : outcome.scope);
    std::string line;
    if (outcome.merit_ratio)
      line = fmt::format("{}: {} {}, {} speed", outcome.best.substr(0, outcome.best.size() - std::string(again_suffix).size()), merit,
                         change(*outcome.merit_ratio), change(*outcome.speed_ratio));
    else
      line = fmt::format("{}: {}", outcome.workload, outcome.reason);
    out += "  " + paint.bold(wrap(line, static_cast<std::size_t>(style.width), 4)) + "\n";
    line = fmt::format("{} of {} settings were measured, {} were not looked at: the best one is among them where there is one minimum "
                       "along each setting. Slower by at most {} % than the found settings, with which it was measured once more",
                       outcome.measured, outcome.points, outcome.points - outcome.measured, significant(100 * outcome.max_slowdown));
    out += "    " + wrap(line, static_cast<std::size_t>(style.width), 4) + "\n";
  }
  return out;
}

}  // namespace tw
