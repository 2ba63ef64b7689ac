// Tables for people: terminal text, 80–120 columns, NO_COLOR honoured by the caller. Whatever a report holds, nothing in it
// reaches the terminal as a control character (`printable`).
#pragma once

#include <string>

#include "results/record.hpp"

namespace tw {

struct TableStyle {
  bool color = false;
  int width = 100;                  ///< columns of the terminal; columns of the table are left out below what all need
  bool unicode = true;              ///< false: blocks and bars become ASCII
};

/// One row a record: id, samples/s (tokens/s), step time, GFLOP/s, of_ceiling, joules, verdict and flags; then notes that
/// explain each flag that occurs, once.
std::string summary_table(const Report& report, const TableStyle& style);
/// The whole report, whatever is missing in it: context, meters with reasons, warnings, table, phases, loss.
std::string show_report(const Report& report, const TableStyle& style);
/// The table and the points alone: of a run that has no report yet.
std::string show_records(const std::vector<Record>& records, const TableStyle& style);

}  // namespace tw
