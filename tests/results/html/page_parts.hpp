// Finds the parts of a page, and makes systems with prices.
#pragma once

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "results/html/html.hpp"
#include "results/html/page.hpp"
#include "tests/results/compare/compared.hpp"
#include "tests/results/made_reports.hpp"
#include "tests/results/samples.hpp"

namespace tw::testing {

inline const results::page::Section& section(const results::page::Page& page, const std::string& wanted) {
  return *std::ranges::find(page.sections, wanted, &results::page::Section::id);
}
template <class Kind>
std::vector<Kind> blocks(const results::page::Section& section) {
  std::vector<Kind> all;
  for (const results::page::Block& block : section.blocks)
    if (const auto* one = std::get_if<Kind>(&block)) all.push_back(*one);
  return all;
}
inline std::string joined(const std::vector<results::page::Words>& lines) {
  std::string all;
  for (const results::page::Words& one : lines) all += one.text + "\n";
  return all;
}
inline const results::page::Datum* marked(const results::page::Chart& chart, const std::string& mark) {
  for (const results::page::DataSet& set : chart.sets)
    for (const results::page::Datum& datum : set.data)
      if (datum.mark.find(mark) != std::string::npos) return &datum;
  return nullptr;
}

inline std::vector<double> around(double speed) { return {0.99 * speed, speed, 1.01 * speed, speed, speed}; }
inline results::PriceRow rented(double per_hour) {
  results::PriceRow row;
  row.name = "r", row.rent_per_month = 730 * per_hour, row.electricity_per_kwh = 0.25, row.carbon_g_per_kwh = 400;
  row.pue = 1.2;
  return row;
}
inline results::HtmlSystem priced(const std::string& name, std::vector<results::Record> records, double per_hour) {
  results::HtmlSystem system{name, made_report(std::move(records))};
  system.cost = results::cost_of(system.report, "EUR", rented(per_hour));
  return system;
}

}  // namespace tw::testing
