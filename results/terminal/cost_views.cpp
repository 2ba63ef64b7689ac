// Costs on a terminal.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "results/compare/comparison_words.hpp"
#include "results/cost/cost.hpp"
#include "results/record/text.hpp"
#include "results/terminal/ascii.hpp"
#include "results/terminal/cost_words.hpp"
#include "results/terminal/lines.hpp"
#include "results/terminal/paint.hpp"

namespace tw {

using namespace text;

std::string CostInput::value() const {
  return number ? fmt::format("{:.6g}{}{}", *number, unit.empty() ? "" : " ", unit) : text;
}

namespace words {

const char* per(const std::string& name) {
  return name == "hour"    ? "an hour"
         : name == "eflop" ? "an EFLOP"
         : name == "model" ? "a trained model"
                           : "a million samples";
}

std::string turned_input(const std::string& name) {
  static const std::map<std::string, std::string> all = {
      {"rent_per_month", "rent a month"},
      {"life_years", "life"},
      {"maintenance_per_year", "maintenance a year"},
      {"fixed_opex_per_year", "fixed opex a year"},
      {"network_storage_capex", "network and storage, capex"},
      {"network_storage_power_w", "network and storage, power"},
      {"time_to_target_s", "time to the target"},
      {"samples_per_s", "samples/s"},
      {"electricity_per_kwh", "electricity a kWh"},
      {"pue", "PUE"},
      {"it_power_w", "power of the IT"},
  };
  const auto found = all.find(name);
  return found == all.end() ? name : found->second;
}

namespace {
std::string change_of(double cost, const Sensitivity& one) {
  return one.cost_base > 0 ? fmt::format("{:+.1f} %", 100 * (cost / one.cost_base - 1)) : "of nothing";
}
}  // namespace

std::string change_at_less(const Sensitivity& one) {
  return one.low == one.base ? "as given: it cannot be less" : change_of(one.cost_low, one);
}
std::string change_at_more(const Sensitivity& one) {
  return one.high == one.base ? "as given: it cannot be more" : change_of(one.cost_high, one);
}

std::vector<CostInput> inputs_of(const CostReport& report) {
  const PriceRow& p = report.price;
  const std::string& currency = report.currency;
  const std::string file = p.file.empty() ? "the prices" : printable(p.file), name = printable(p.name);
  std::vector<CostInput> all;
  const auto source = [&](const std::string& key) {
    return p.not_given.contains(key) ? "default, since none is given"
           : p.for_all.contains(key) ? file + ", for all systems"
           : p.name.empty()          ? file
                                     : file + ", row " + name;
  };
  const auto number = [&](const char* what, const char* key, double value, const std::string& unit) {
    all.push_back({what, value, unit, "", source(key), p.not_given.contains(key)});
  };
  const auto say = [&](const char* what, const std::string& value, const std::string& from) {
    all.push_back({what, std::nullopt, "", value, from});
  };
  say("row", name, file);
  if (!p.machine_note.empty()) say("machine", printable(p.machine_note), "the report");
  say("currency", currency, file);
  if (!p.note.empty()) say("note", printable(p.note), source("note"));
  if (!p.file_note.empty()) say("note of the prices", printable(p.file_note), file);
  if (p.rent_per_month)
    number("rent", "rent_per_month", *p.rent_per_month,
           currency + " a node and month" + (p.electricity_included ? ", electricity included" : ""));
  if (p.capex) {
    number("capex", "capex", *p.capex, currency + " a node");
    number("life", "life_years", p.life_years.value_or(0), "years");
  }
  number("maintenance", "maintenance_per_year", p.maintenance_per_year, currency + " a node and year");
  number("fixed opex", "fixed_opex_per_year", p.fixed_opex_per_year, currency + " a node and year");
  number("network and storage, capex", "network_storage_capex", p.network_storage_capex, currency + " a node");
  number("network and storage, power", "network_storage_power_w", p.network_storage_power_w, "W a node");
  number("utilisation", "utilisation", 100 * p.utilisation, "% of the hours paid for");
  number("electricity", "electricity_per_kwh", p.electricity_per_kwh, currency + "/kWh");
  number("PUE", "pue", p.pue, "");
  if (p.pue_source != PriceRow().pue_source) all.back().source = printable(p.pue_source);  // measured
  if (p.carbon_g_per_kwh)
    number("carbon intensity", "carbon_g_per_kwh", *p.carbon_g_per_kwh, "g CO2e/kWh");
  else
    say("carbon intensity", "not given: CO2 is absent", file);
  return all;
}

std::string price_inputs(const CostReport& report, const TableStyle& style) {
  std::string out;
  std::size_t width = 0;
  const auto inputs = inputs_of(report);
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

}  // namespace words

namespace {

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
           paint.dim(wrap(fmt::format("what {} costs where one input is {:.3g} % less or more, and what that changes of the cost as given, most effect first:",
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

}  // namespace tw
