#include "results/terminal/cost_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "results/compare/comparison_words.hpp"
#include "results/cost/cost.hpp"
#include "results/record/text.hpp"
#include "results/terminal/ascii.hpp"
#include "results/cost/cost_words.hpp"
#include "results/terminal/lines.hpp"
#include "results/terminal/paint.hpp"

namespace tw::results {

using namespace text;

namespace {

std::string with_interval(const Estimate& e) {
  std::string text = significant(e.value);
  if (e.low && e.high && *e.low != *e.high) text += " [" + significant(*e.low) + ", " + significant(*e.high) + "]";
  return text;
}

}  // namespace

std::string price_inputs(const CostReport& report, const TableStyle& style) {
  std::string out;
  std::size_t width = 0;
  const auto inputs = words::inputs_of(report);
  for (const CostInput& one : inputs) width = std::max(width, columns(one.name));
  for (const CostInput& one : inputs) {
    const std::string from = one.is_default      ? " (not given)"
                             : one.name == "PUE" ? " (" + printable(report.price.pue_source) + ")"
                                                 : "";
    out += "  " + pad_right(one.name, width) + "  " +
           beside(one.value() + from, static_cast<std::size_t>(style.width), width + 4) + "\n";
  }
  return out;
}

std::string cost_text(const CostReport& report, const TableStyle& style) {
  const Paint paint(style.color);
  std::string out = paint.bold("Inputs") + "\n" + price_inputs(report, style);
  const auto line = [&](const std::string& label, const std::string& text) {
    out += "  " + pad_right(label, 19) + beside(text, static_cast<std::size_t>(style.width), 21) + "\n";
  };
  for (const RecordCost& r : report.records) {
    out += "\n" + paint.bold(r.id) + "\n";
    if (!r.reason.empty()) {
      out += "  " + paint.red(wrap("no cost: " + r.reason, static_cast<std::size_t>(style.width), 4)) + "\n";
      continue;
    }
    line("nodes", std::to_string(r.nodes));
    if (r.it_power_w) {
      std::string power = with_interval(*r.it_power_w) + " W by the scope " + r.scope;
      if (r.facility_power_w) power += ", " + significant(*r.facility_power_w) + " W of the facility";
      line("power", power);
    }
    const bool bound = r.basis != CostBasis::complete;
    if (bound)
      out += "  " + pad_right("basis", 19) +
             paint.yellow(beside(r.basis_note, static_cast<std::size_t>(style.width), 21)) + "\n";
    if (!bound && !r.energy_note.empty())  // which else says the same
      out += "  " + pad_right("energy", 19) +
             paint.yellow(beside(r.energy_note, static_cast<std::size_t>(style.width), 21)) + "\n";
    const std::string least = r.energy_is_whole ? ", " : ", at least ";
    for (const CostFigure& f : r.figures) {
      if (!f.total) {
        line(words::per(f.per), "absent: " + f.reason);
        continue;
      }
      std::string text = (bound ? "at least " : "") + with_interval(*f.total) + " " + report.currency;
      text += fmt::format(" (hours {}, electricity {})", significant(f.hours_part),
                          r.basis == CostBasis::hours_only ? "left out" : significant(f.electricity_part));
      if (f.kwh) text += least + significant(*f.kwh) + " kWh";
      if (f.co2_kg) text += least + significant(*f.co2_kg) + " kg CO2e";
      line(words::per(f.per), text);
    }
    if (r.sensitivity.empty()) continue;
    out += "  " +
           paint.dim(wrap(fmt::format("cost of {} if one input is {:.3g} % lower or higher, with the change; largest effect first:",
                                      words::per(r.of), 100 * report.sensitivity_share),
                          static_cast<std::size_t>(style.width), 2)) +
           "\n";
    std::size_t names = 0;
    for (const Sensitivity& s : r.sensitivity) names = std::max(names, columns(words::turned_input(s.input)));
    for (const Sensitivity& s : r.sensitivity) {
      const std::string name = words::turned_input(s.input);
      const std::string input = fmt::format("{}, {} ({} to {})", words::change_at_less(s), words::change_at_more(s),
                                            significant(s.low), significant(s.high));
      const std::string row = fmt::format("    {}  {} to {} {}", pad_right(name, names),
                                           pad_left(significant(s.cost_low), 8), pad_left(significant(s.cost_high), 8),
                                           report.currency);
      const auto width = static_cast<std::size_t>(style.width);
      if (columns(row) <= width)
        out += row + (columns(row) + 2 + columns(input) <= width ? "  " + input : "\n      " + wrap(input, width, 6)) + "\n";
      else
        out += "    " + name + "\n      " +
               wrap(fmt::format("{} to {} {} {}", significant(s.cost_low), significant(s.cost_high), report.currency, input),
                    width, 6) +
               "\n";
    }
  }
  return style.unicode ? out : ascii(out);
}

}  // namespace tw::results
