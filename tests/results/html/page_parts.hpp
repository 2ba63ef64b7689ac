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

inline const page::Section& section(const page::Page& page, const std::string& wanted) {
  return *std::ranges::find(page.sections, wanted, &page::Section::id);
}
template <class Kind>
std::vector<Kind> blocks(const page::Section& section) {
  std::vector<Kind> all;
  for (const page::Block& block : section.blocks)
    if (const auto* one = std::get_if<Kind>(&block)) all.push_back(*one);
  return all;
}
inline std::string joined(const std::vector<page::Words>& lines) {
  std::string all;
  for (const page::Words& one : lines) all += one.text + "\n";
  return all;
}
inline const page::Datum* marked(const page::Chart& chart, const std::string& mark) {
  for (const page::DataSet& set : chart.sets)
    for (const page::Datum& datum : set.data)
      if (datum.mark.find(mark) != std::string::npos) return &datum;
  return nullptr;
}

inline std::vector<double> around(double speed) { return {0.99 * speed, speed, 1.01 * speed, speed, speed}; }
inline PriceRow rented(double per_hour) {
  PriceRow row;
  row.name = "r", row.rent_per_month = 730 * per_hour, row.electricity_per_kwh = 0.25, row.carbon_g_per_kwh = 400;
  row.pue = 1.2;
  return row;
}
inline HtmlSystem priced(const std::string& name, std::vector<Record> records, double per_hour) {
  HtmlSystem system{name, made_report(std::move(records))};
  system.cost = cost_of(system.report, "EUR", rented(per_hour));
  return system;
}

}  // namespace tw::testing
