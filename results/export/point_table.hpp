// One row a record: axes, settings, every figure of the summary, the verdict. What CSV and workbook have in common;
// internal to results/.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "results/record/record.hpp"

namespace tw::results {

/// Empty if a figure is absent, which a column beside gives the reason of. Text is the report's own.
using Cell = std::variant<std::monostate, double, std::int64_t, std::string>;

struct PointColumn {
  std::string name;  ///< that of the JSON, units in it: "package_flops_per_w" is flops_per_w of the scope package
  std::string unit;  ///< "FLOP/J"; empty: a text or a plain number
  std::function<Cell(const Record&)> cell;
};
/// Nothing is rounded; a number that is not finite is absent. Settings and operators are those of any of the records,
/// all else is the same for all reports, so that tables of two machines can be put under each other.
std::vector<PointColumn> point_columns(const std::vector<Record>& records);

}  // namespace tw::results
