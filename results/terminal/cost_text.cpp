#include "results/terminal/tables.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "results/compare/comparison_words.hpp"
#include "results/cost/cost_words.hpp"
#include "results/record/text.hpp"
#include "results/terminal/lines.hpp"

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
    out += "  " + pad_right(one.name, width) + "  " + beside(one.value() + from, style.width, width + 4) + "\n";
  }
  return out;
}

std::string cost_text(const CostReport& report, const TableStyle& style) {
  const Paint paint(style.color);
  std::string out = paint.bold("Inputs") + "\n" + price_inputs(report, style);
  const std::size_t label_width = columns(words::per(CostPer::million_samples));  // the longest
  const auto line = [&](const std::string& label, const std::string& text, bool is_doubtful = false) {
    const std::string wrapped = beside(text, style.width, label_width + 4);
    out += "  " + pad_right(label, label_width) + "  " + (is_doubtful ? paint.yellow(wrapped) : wrapped) + "\n";
  };
  for (const RecordCost& r : report.records) {
    out += "\n" + paint.bold(r.id) + "\n";
    if (!r.reason.empty()) {
      out += "  " + paint.red(wrap("no cost: " + r.reason, style.width, 4)) + "\n";
      continue;
    }
    line("nodes", std::to_string(r.nodes));
    if (r.it_power_w) {
      std::string power = with_interval(*r.it_power_w) + " W by the scope " + r.scope;
      if (r.facility_power_w) power += ", " + significant(*r.facility_power_w) + " W of the facility";
      line("power", power);
    }
    const bool bound = r.basis != CostBasis::complete;
    if (bound) line("basis", r.basis_note, true);
    if (!bound && !r.energy_note.empty()) line("energy", r.energy_note, true);  // the basis says the same
    if (!r.target_note.empty()) line("target", r.target_note, true);
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
    const std::string head = fmt::format(
        "cost {} if one input is {:.3g} % lower or higher, with the change; largest effect first:", words::per(*r.of),
        100 * report.sensitivity_share);
    out += "  " + paint.dim(wrap(head, style.width, 2)) + "\n";
    std::size_t names = 0;
    for (const Sensitivity& s : r.sensitivity) names = std::max(names, columns(words::turned_input(s.input)));
    for (const Sensitivity& s : r.sensitivity) {
      const std::string name = words::turned_input(s.input);
      const std::string input = fmt::format("{}, {} ({} to {})", words::change_at_less(s), words::change_at_more(s),
                                            significant(s.low), significant(s.high));
      const std::string low = significant(s.cost_low), high = significant(s.cost_high);
      const std::string row = "    " + pad_right(name, names) + "  " + pad_left(low, 8) + " to " + pad_left(high, 8) +
                              " " + report.currency;
      const std::size_t used = columns(row);
      if (used + 2 + columns(input) <= style.width)
        out += row + "  " + input + "\n";
      else if (used <= style.width)
        out += row + "\n      " + wrap(input, style.width, 6) + "\n";
      else
        out += "    " + name + "\n      " +
               wrap(low + " to " + high + " " + report.currency + " " + input, style.width, 6) + "\n";
    }
  }
  return style.unicode ? out : ascii(out);
}

}  // namespace tw::results
