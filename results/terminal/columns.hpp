// The number columns of the tables for people; internal to results/.
#pragma once

#include <string>
#include <vector>

#include "results/record/record.hpp"
#include "results/selection/ranking.hpp"

namespace tw::results {

struct Column {
  std::string title;
  int importance = 0;              ///< the most important take their place first where the terminal is narrow
  bool is_interval = false;        ///< of the column before it, and nothing without that
  std::vector<std::string> cells;  ///< one a record; empty if the record did not run
};
enum class Intervals {
  beside,   ///< "2.7 %": half of the interval's width, in a column of its own
  in_cell,  ///< "41.9 [40.8, 43.0]"
};

/// Of all records: speed, joules by scope (never two in one column), what a target took. A column that would be empty
/// is left out. The one that the records are sorted by is the most important.
std::vector<Column> number_columns(const std::vector<Record>& records, Intervals intervals, const Order& order);

}  // namespace tw::results
