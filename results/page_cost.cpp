// What the points cost, what is in it, and what moves it.
#include <fmt/format.h>

#include <algorithm>

#include "results/cost_words.hpp"
#include "results/page.hpp"
#include "results/text.hpp"

namespace tw::page {
namespace {

using text::si;
using text::sentence;
using text::significant;

/// "0.637 [0.613, 0.661]"
std::string amount(const Estimate& e) {
  const std::string words = significant(e.value);
  if (!e.low || !e.high) return words;
  const std::string low = significant(*e.low), high = significant(*e.high);
  return low == high ? words : fmt::format("{} [{}, {}]", words, low, high);
}

struct Tables {
  Table costs, power, sensitivity;
};

void add_record(Tables& tables, const RecordCost& record, const std::string& name) {
  const auto row = [&](Table& table, std::vector<Words> cells) {
    cells.insert(cells.begin(), Words(name));
    table.rows.push_back(std::move(cells));
  };
  if (!record.reason.empty())
    return row(tables.costs, {"", {"no cost: " + record.reason, "quiet"}, "", "", "", "", ""});
  const bool complete = record.basis == CostBasis::complete;
  const auto number = [](const std::optional<double>& value) {
    return Words(value ? significant(*value) : "", "number");
  };
  const auto energy = [&](const std::optional<double>& value) {
    return Words(value ? (record.energy_is_whole ? "" : "at least ") + significant(*value) : "", "number");
  };
  for (const CostFigure& figure : record.figures)
    row(tables.costs, {words::per(figure.per),
                       figure.total ? Words{(complete ? "" : "at least ") + amount(*figure.total), "number"}
                                    : Words{"absent: " + figure.reason, "quiet"},
                       figure.total ? number(figure.hours_part) : Words{""},
                       !figure.total                           ? Words{""}
                       : record.basis == CostBasis::hours_only ? Words{"left out", "quiet"}
                                                               : number(figure.electricity_part),
                       energy(figure.kwh), energy(figure.co2_kg),
                       complete && !record.energy_note.empty()
                           ? Words{"cost complete; kWh: " + record.scope + " joules alone", "note"}
                       : complete ? Words{"complete", "good"}
                                  : Words{record.scope.empty() ? "lower bound: hours alone"
                                                               : "lower bound: " + record.scope + " joules",
                                          "note"}});
  row(tables.power, {{std::to_string(record.nodes), "number"},
                     record.it_power_w ? Words{figure(*record.it_power_w, "W"), "number"} : Words{"absent", "quiet"},
                     record.scope.empty() ? Words{"no joules", "quiet"} : Words{record.scope},
                     record.facility_power_w ? Words{si(*record.facility_power_w, "W"), "number"}
                                             : Words{"absent: takes joules of the node", "quiet"}});
  for (const Sensitivity& one : record.sensitivity)
    row(tables.sensitivity,
        {words::per(record.of),
         words::turned_input(one.input),
         {fmt::format("{} to {}", significant(one.low), significant(one.high)), "number"},
         {significant(one.cost_low), "number"},
         {significant(one.cost_high), "number"},
         {words::change_at_less(one), one.low == one.base ? "quiet" : "number"},
         {words::change_at_more(one), one.high == one.base ? "quiet" : "number"}});
}

}  // namespace

Section cost_section(const std::vector<HtmlSystem>& systems, const Comparison* comparison) {
  Section section{"cost", "Cost", "", {}};
  const auto priced = std::ranges::find_if(systems, [](const HtmlSystem& one) { return one.cost.has_value(); });
  if (priced == systems.end()) {
    section.blocks.emplace_back(Words("No prices were given, so that nothing is said of cost.", "quiet"));
    return section;
  }
  const std::string& currency = priced->cost->currency;
  const bool several = systems.size() > 1;
  Tables tables;
  tables.costs = {"Cost in " + currency,
                  {"Point", "Per", "Cost", "Of it hours", "Of it electricity", "kWh", "kg CO2e", "What it holds"},
                  {},
                  false};
  tables.power = {"Power that is paid for",
                  {"Point", "Nodes", "Mean power of the IT", "By joules of", "Of the facility"},
                  {},
                  true};
  tables.sensitivity = {fmt::format("What one input does alone, turned by {:.3g} %, in {}; changes are of the cost as given, most effect first",
                                    100 * priced->cost->sensitivity_share, currency),
                        {"Point", "Per", "Input", "From … to", "Cost at the first", "Cost at the last", "Change at the first", "Change at the last"},
                        {},
                        false};
  Table inputs{"Prices, as given", {"What", "Value", "Source"}, {}, false};
  if (several) inputs.head.insert(inputs.head.begin(), "System");
  std::vector<std::string> notes;
  const auto note = [&](const std::string& words) {
    if (std::ranges::find(notes, words) == notes.end()) notes.push_back(words);
  };
  for (const HtmlSystem& system : systems) {
    if (!system.cost) continue;
    const std::string whose = several ? system.name + ": " : "";
    for (const CostInput& one : words::inputs_of(*system.cost)) {
      inputs.rows.push_back({one.name, one.value(), one.source});
      if (several) inputs.rows.back().insert(inputs.rows.back().begin(), Words(system.name));
    }
    for (const RecordCost& record : system.cost->records) {
      add_record(tables, record, whose + record.id);
      if (!record.basis_note.empty()) note(whose + sentence(record.basis_note));
      if (record.basis == CostBasis::complete && !record.energy_note.empty())
        note(whose + sentence(record.energy_note));
    }
    if (!system.cost->price.carbon_g_per_kwh)
      note(whose + "The prices have no carbon intensity, so that CO2 is absent.");
  }
  tables.sensitivity.folded = tables.sensitivity.rows.size() > 16;
  section.lead =
      "kWh are the facility's (node, network and storage × PUE) where the whole node was read, else of what was read × "
      "PUE: at least so many.";
  for (const std::string& one : notes) section.blocks.emplace_back(Words(one, "note"));
  section.blocks.emplace_back(std::move(tables.costs));
  if (!tables.power.rows.empty()) section.blocks.emplace_back(std::move(tables.power));
  if (!tables.sensitivity.rows.empty()) section.blocks.emplace_back(std::move(tables.sensitivity));
  Table turning{"Where the cheaper one changes, all else as it is", {"Workload", "Changes"}, {}, false};
  if (comparison != nullptr)
    for (const WorkloadBreakEven& one : comparison->break_even) {
      const std::string& workload = comparison->workloads[one.workload].id;
      for (const BreakEven& input : one.inputs) turning.rows.push_back({workload, input.text});
      if (!one.reason.empty()) turning.rows.push_back({workload, {one.reason, "quiet"}});
    }
  if (!turning.rows.empty()) section.blocks.emplace_back(std::move(turning));
  section.blocks.emplace_back(std::move(inputs));
  return section;
}

}  // namespace tw::page
