// One page that says it all, and needs nothing else: no network, no file beside it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "results/compare/comparison.hpp"
#include "results/cost/cost.hpp"
#include "results/record/record.hpp"

namespace tw::results {

struct HtmlSystem {
  std::string name;  ///< "A"; unique
  Report report;
  std::vector<std::string> faults = {};  ///< what `trainwatt validate` says of it
  std::size_t runs = 1;                  ///< of the system; the report is the first of them
  std::optional<CostReport> cost = {};   ///< of the report; of a comparison its own is taken
  std::vector<std::string> notes = {};   ///< what `trainwatt validate` says besides, of good reports too
};

/// An HTML page of one report, or of a comparison of several (`comparison` is then of the same systems, in the same
/// order). What a report says is text there, never markup or script: it comes as JSON without `<`, and reaches the page
/// as text nodes. The page may run its own script only and load nothing (Content-Security-Policy). Its root element
/// says, for tests, what it has drawn: data-ready, data-records, data-drawn, data-charts, data-errors.
std::string to_html(const std::vector<HtmlSystem>& systems, const Comparison* comparison = nullptr);

}  // namespace tw::results
