// Costs on a terminal.
#include <fmt/format.h>

#include <algorithm>

#include "results/comparison_words.hpp"
#include "results/cost.hpp"
#include "results/cost_words.hpp"
#include "results/paint.hpp"
#include "results/text.hpp"

namespace tw {
namespace words {

using namespace text;

std::vector<std::pair<std::string, std::string>> inputs_of(const CostReport& report) {
  const PriceRow& p = report.price;
  const std::string& currency = report.currency;
  const auto digits = [](double v) { return fmt::format("{:.6g}", v); };
  std::vector<std::pair<std::string, std::string>> all = {{"row", printable(p.name)}};
  const auto add = [&](const std::string& name, const std::string& value) { all.emplace_back(name, value); };
  if (!p.note.empty()) add("note", printable(p.note));
  if (!p.file_note.empty()) add("note of the prices", printable(p.file_note));
  if (p.rent_per_month)
    add("rent", digits(*p.rent_per_month) + " " + currency + " a node and month" +
                    (p.electricity_included ? ", electricity included" : ""));
  if (p.capex)
    add("capex", digits(*p.capex) + " " + currency + " a node over " + digits(p.life_years.value_or(0)) + " years");
  add("maintenance", digits(p.maintenance_per_year) + " " + currency + " a node and year");
  add("fixed opex", digits(p.fixed_opex_per_year) + " " + currency + " a node and year");
  add("network and storage", fmt::format("{} {} and {} W a node", digits(p.network_storage_capex), currency,
                                         digits(p.network_storage_power_w)));
  add("utilisation", digits(100 * p.utilisation) + " % of the hours paid for");
  add("electricity", digits(p.electricity_per_kwh) + " " + currency + "/kWh");
  add("PUE", digits(p.pue) + " (" + printable(p.pue_source) + ")");
  add("carbon intensity",
      p.carbon_g_per_kwh ? digits(*p.carbon_g_per_kwh) + " g CO2e/kWh" : "not given: CO2 is absent");
  return all;
}

std::string price_inputs(const CostReport& report, const TableStyle& style) {
  std::string out;
  std::size_t width = 0;
  const auto inputs = inputs_of(report);
  for (const auto& [name, value] : inputs) width = std::max(width, columns(name));
  for (const auto& [name, value] : inputs)
    out += "  " + pad_right(name, width) + "  " + wrap(value, static_cast<std::size_t>(style.width), width + 4) + "\n";
  return out;
}

}  // namespace words

namespace {

using namespace text;

const char* unit_of(const std::string& per) {
  return per == "hour"    ? "an hour"
         : per == "eflop" ? "an EFLOP"
         : per == "model" ? "a trained model"
                          : "a million samples";
}

std::string with_interval(const Estimate& e) {
  std::string text = significant(e.value);
  if (e.low && e.high && *e.low != *e.high) text += " [" + significant(*e.low) + ", " + significant(*e.high) + "]";
  return text;
}

}  // namespace

std::string cost_text(const CostReport& report, const TableStyle& style) {
  const Paint paint(style.color);
  std::string out = paint.bold("Inputs") + "\n" + words::price_inputs(report, style);
  const auto line = [&](const std::string& label, const std::string& text) {
    out += "  " + pad_right(label, 19) + wrap(text, static_cast<std::size_t>(style.width), 21) + "\n";
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
             paint.yellow(wrap(r.basis_note, static_cast<std::size_t>(style.width), 20)) + "\n";
    for (const CostFigure& f : r.figures) {
      if (!f.total) {
        line(unit_of(f.per), "absent: " + f.reason);
        continue;
      }
      std::string text = (bound ? "at least " : "") + with_interval(*f.total) + " " + report.currency;
      text += fmt::format(" (hours {}, electricity {})", significant(f.hours_part),
                          r.basis == CostBasis::hours_only ? "left out" : significant(f.electricity_part));
      if (f.kwh) text += ", " + significant(*f.kwh) + " kWh";
      if (f.co2_kg) text += ", " + significant(*f.co2_kg) + " kg CO2e";
      line(unit_of(f.per), text);
    }
    if (r.sensitivity.empty()) continue;
    out += "  " +
           paint.dim(wrap(fmt::format("what {} costs where one input is {:.3g} % less or more, most effect first:",
                                      unit_of(r.of), 100 * report.sensitivity_share),
                          static_cast<std::size_t>(style.width), 2)) +
           "\n";
    std::size_t names = 0;
    for (const Sensitivity& s : r.sensitivity) names = std::max(names, columns(s.input));
    for (const Sensitivity& s : r.sensitivity)
      out += fmt::format("    {}  {} to {} {}  ({} to {})\n", pad_right(s.input, names),
                         pad_left(significant(s.cost_low), 8), pad_left(significant(s.cost_high), 8), report.currency,
                         significant(s.low), significant(s.high));
  }
  return out;
}

}  // namespace tw
