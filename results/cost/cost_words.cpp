#include "results/cost/cost_words.hpp"

#include <fmt/format.h>

#include <map>

#include "results/record/text.hpp"

namespace tw::results {

using namespace text;

std::string CostInput::value() const {
  return number ? fmt::format("{:.6g}{}{}", *number, unit.empty() ? "" : " ", unit) : text;
}

namespace words {

const char* per(CostPer unit) {
  constexpr const char* units[] = {"per hour", "per EFLOP", "per million samples", "per trained model"};
  return units[static_cast<std::size_t>(unit)];
}

std::string turned_input(const std::string& name) {
  static const std::map<std::string, std::string> all = {{"rent_per_month", "rent per month"},
                                                         {"life_years", "life"},
                                                         {"maintenance_per_year", "maintenance per year"},
                                                         {"fixed_opex_per_year", "fixed opex per year"},
                                                         {"network_storage_capex", "network and storage, capex"},
                                                         {"network_storage_power_w", "network and storage, power"},
                                                         {"time_to_target_s", "time to the target"},
                                                         {"samples_per_s", "samples/s"},
                                                         {"electricity_per_kwh", "electricity per kWh"},
                                                         {"pue", "PUE"},
                                                         {"it_power_w", "power of the IT"}};
  const auto found = all.find(name);
  return found == all.end() ? name : found->second;
}

namespace {
std::string change_of(double cost, const Sensitivity& one) {
  return one.cost_base > 0 ? fmt::format("{:+.1f} %", 100 * (cost / one.cost_base - 1)) : "the cost is 0";
}
}  // namespace

std::string change_at_less(const Sensitivity& one) {
  return one.low == one.base ? "already at its minimum" : change_of(one.cost_low, one);
}
std::string change_at_more(const Sensitivity& one) {
  return one.high == one.base ? "already at its maximum" : change_of(one.cost_high, one);
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
  for (const PriceDoubt& doubt : p.doubts) say("doubtful price", doubt.key + ": " + doubt.text, source(doubt.key));
  say("currency", currency, file);
  if (!p.note.empty()) say("note", printable(p.note), source("note"));
  if (!p.file_note.empty()) say("note of the prices", printable(p.file_note), file);
  if (p.rent_per_month)
    number("rent", "rent_per_month", *p.rent_per_month,
           currency + " per node and month" + (p.electricity_included ? ", electricity included" : ""));
  if (p.capex) {
    number("capex", "capex", *p.capex, currency + " per node");
    number("life", "life_years", p.life_years.value_or(0), "years");
  }
  number("maintenance", "maintenance_per_year", p.maintenance_per_year, currency + " per node and year");
  number("fixed opex", "fixed_opex_per_year", p.fixed_opex_per_year, currency + " per node and year");
  number("network and storage, capex", "network_storage_capex", p.network_storage_capex, currency + " per node");
  number("network and storage, power", "network_storage_power_w", p.network_storage_power_w, "W per node");
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

}  // namespace words

}  // namespace tw::results
