// What the points cost, what is in it, and what moves it.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "results/cost/cost_words.hpp"
#include "results/html/page.hpp"
#include "results/record/text.hpp"

namespace tw::results::page {
namespace {

using text::sentence;
using text::si;
using text::significant;

/// "0.637 [0.613, 0.661]"
std::string amount(const Estimate& e) {
  const std::string words = significant(e.value);
  if (!e.low || !e.high) return words;
  const std::string low = significant(*e.low), high = significant(*e.high);
  return low == high ? words : fmt::format("{} [{}, {}]", words, low, high);
}

struct Tables {
  Table costs, power;
};

/// What each input does alone to one cost, most effect first: a bar to both sides of the cost as given.
Chart tornado(const RecordCost& record, const Words& name, const std::string& currency, double share) {
  const std::string percent = fmt::format("{:.3g} %", 100 * share);
  Chart chart;
  chart.kind = "tornado", chart.line = 0, chart.line_label = "as given";
  chart.title = fmt::format("Sensitivity of the cost {}, {}", words::per(*record.of), name.text);
  chart.note = fmt::format("Each input is varied alone by {}. Largest effect first.", percent);
  chart.x_title = "change of the cost, %";
  chart.sets = {{"input " + percent + " less", 0}, {"input " + percent + " more", 1}};
  chart.table = {chart.title,
                 {"Input", "Range", "Cost at the low end, " + currency, "Cost at the high end", "Change at the low end",
                  "Change at the high end"},
                 true};
  std::vector<Sensitivity> inputs = record.sensitivity;
  std::ranges::stable_sort(inputs, std::greater(), &Sensitivity::effect);
  for (const Sensitivity& one : inputs) {
    const std::string input = words::turned_input(one.input);
    const std::string less = words::change_at_less(one), more = words::change_at_more(one);
    const auto add = [&](DataSet& set, double value, double cost, const std::string& change) {
      set.data.emplace_back(
          one.cost_base > 0 ? 100 * (cost / one.cost_base - 1) : 0, 0,
          fmt::format("{} {}: {} {}, {}", input, significant(value), significant(cost), currency, change));
    };
    chart.categories.push_back(input);
    add(chart.sets[0], one.low, one.cost_low, less), add(chart.sets[1], one.high, one.cost_high, more);
    chart.table.rows.push_back({input,
                                number(significant(one.low) + " to " + significant(one.high)),
                                number(significant(one.cost_low)),
                                number(significant(one.cost_high)),
                                {less, one.low == one.base ? Look::quiet : Look::number},
                                {more, one.high == one.base ? Look::quiet : Look::number}});
  }
  return chart;
}

/// The cost that sensitivity is about; of records without one the last.
double cost_as_given(const RecordCost& record) {
  return record.sensitivity.empty() ? HUGE_VAL : record.sensitivity.front().cost_base;
}

void add_record(Tables& tables, const RecordCost& record, const Words& name) {
  const auto row = [&](Table& table, std::vector<Words> cells) {
    cells.insert(cells.begin(), name);
    table.rows.push_back(std::move(cells));
  };
  if (!record.reason.empty())
    return row(tables.costs, {"", {"no cost: " + record.reason, Look::quiet}, "", "", "", "", ""});
  const bool complete = record.basis == CostBasis::complete;
  const auto energy = [&](const std::optional<double>& value) {
    return number(value ? (record.energy_is_whole ? "" : "at least ") + significant(*value) : "");
  };
  for (const CostFigure& figure : record.figures)
    row(tables.costs, {words::per(figure.per),
                       figure.total ? number((complete ? "" : "at least ") + amount(*figure.total))
                                    : Words{"absent: " + figure.reason, Look::quiet},
                       figure.total ? number(significant(figure.hours_part)) : Words{""},
                       !figure.total                           ? Words{""}
                       : record.basis == CostBasis::hours_only ? Words{"left out", Look::quiet}
                                                               : number(significant(figure.electricity_part)),
                       energy(figure.kwh), energy(figure.co2_kg),
                       complete && !record.energy_note.empty()
                           ? Words{"cost complete; kWh: " + record.scope + " joules only", Look::note}
                       : complete ? Words{"complete", Look::good}
                                  : Words{record.scope == Scope::none ? "lower bound: hours only"
                                                                      : "lower bound: " + record.scope + " joules",
                                          Look::note}});
  row(tables.power, {number(std::to_string(record.nodes)),
                     record.it_power_w ? number(si(*record.it_power_w, "W")) : Words{"absent", Look::quiet},
                     record.scope == Scope::none ? Words{"no joules", Look::quiet} : Words{to_string(record.scope)},
                     record.facility_power_w ? number(si(*record.facility_power_w, "W"))
                                             : Words{"absent: needs joules of the node", Look::quiet}});
}

}  // namespace

Section cost_section(const std::vector<HtmlSystem>& systems, const Comparison* comparison) {
  Section section{"cost", "Cost", ""};
  const auto priced = std::ranges::find_if(systems, [](const HtmlSystem& one) { return one.cost.has_value(); });
  if (priced == systems.end()) {
    section.say_if_empty("No prices were given (--prices).");
    return section;
  }
  const std::string& currency = priced->cost->currency;
  const bool several = systems.size() > 1;
  Tables tables;
  tables.costs = {"Cost in " + currency,
                  {"Point", "Per", "Cost", "For hours", "For electricity", "kWh", "kg CO2e", "Includes"}};
  tables.power = {
      "Billed power", {"Point", "Nodes", "Mean power of the IT", "Energy scope", "Mean power of the facility"}, true};
  Table inputs("Prices, as given", {"What", "Value", "Source"});
  if (several) inputs.head.insert(inputs.head.begin(), "System");
  const std::vector<std::vector<Words>> names = point_names(systems);
  std::vector<std::pair<const RecordCost*, Words>> turned;
  std::vector<std::string> notes;
  const auto note = [&](const std::string& words) {
    if (std::ranges::find(notes, words) == notes.end()) notes.push_back(words);
  };
  for (const HtmlSystem& system : systems) {
    if (!system.cost) continue;
    const std::string of = whose(systems, system);
    for (const CostInput& one : words::inputs_of(*system.cost)) {
      inputs.rows.push_back({one.name, one.value(), one.source});
      if (several) inputs.rows.back().insert(inputs.rows.back().begin(), Words(system.name));
    }
    const std::vector<Words>& own = names[static_cast<std::size_t>(&system - systems.data())];
    for (std::size_t r = 0; r < system.cost->records.size(); ++r) {
      const RecordCost& record = system.cost->records[r];
      const Words name = r < own.size() ? own[r] : Words(of + record.id);
      add_record(tables, record, name);
      if (!record.sensitivity.empty()) turned.emplace_back(&record, name);
      if (!record.basis_note.empty()) note(of + sentence(record.basis_note));
      if (!record.target_note.empty()) note(of + sentence(record.id + ": " + record.target_note));
      if (record.basis == CostBasis::complete && !record.energy_note.empty()) note(of + sentence(record.energy_note));
    }
    if (!system.cost->price.carbon_g_per_kwh) note(of + "The prices have no carbon intensity, so CO2 is absent.");
  }
  tables.costs.folded = tables.costs.rows.size() > 9;
  section.lead =
      "kWh are the facility's, (node, network and storage) × PUE, if the whole node was metered. Otherwise they are "
      "the metered part × PUE, a lower bound.";
  for (const std::string& one : notes) section.say(one, Look::note);
  section.blocks.emplace_back(std::move(tables.costs));
  section.add(std::move(tables.power));
  std::ranges::stable_sort(turned, {},
                           [](const auto& one) { return cost_as_given(*one.first); });  // the cheapest first
  Choice choice{"Sensitivity of the cost of", {}};
  constexpr std::size_t most_options = 200;
  for (std::size_t i = 0; i < std::min(turned.size(), most_options); ++i)
    choice.options.emplace_back(turned[i].second.text, std::vector{tornado(*turned[i].first, turned[i].second, currency,
                                                                           priced->cost->sensitivity_share)});
  if (turned.size() > most_options)
    section.say(fmt::format("The {} cheapest of {} points can be chosen.", most_options, turned.size()), Look::note);
  if (choice.options.size() == 1)
    section.blocks.emplace_back(std::move(choice.options.front().second.front()));
  else if (!choice.options.empty())
    section.blocks.emplace_back(std::move(choice));
  Table turning("Break-even: where the cheaper system changes", {"Workload", "Changes"});
  if (comparison != nullptr)
    for (const WorkloadBreakEven& one : comparison->break_even) {
      const std::string& workload = comparison->workloads[one.workload].id;
      for (const BreakEven& input : one.inputs) turning.rows.push_back({workload, input.text});
      if (!one.reason.empty()) turning.rows.push_back({workload, {one.reason, Look::quiet}});
    }
  section.add(std::move(turning));
  section.blocks.emplace_back(std::move(inputs));
  return section;
}

}  // namespace tw::results::page
