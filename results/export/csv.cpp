// `trainwatt export --to csv`.
// RFC 4180, one line a record: axes, settings, every figure of the summary with its interval, the verdict. Nothing is
// rounded; units stand in the header's names, which are those of the JSON ("package_flops_per_w" is flops_per_w of the
// scope package). An absent figure is an empty cell and has its reason in a column beside. A text that a spreadsheet
// would take for a formula begins with an apostrophe.
#include <variant>
#include <vector>

#include "results/export/cells.hpp"
#include "results/export/export.hpp"
#include "results/export/point_table.hpp"

namespace tw::results {
namespace {

struct CellText {
  std::string operator()(std::monostate) const { return ""; }
  std::string operator()(double value) const { return cells::number(value); }
  std::string operator()(std::int64_t value) const { return cells::number(value); }
  std::string operator()(const std::string& text) const { return cells::text(text); }
};

}  // namespace

std::string to_csv(const Report& report, const ExportOptions& options) {
  std::vector<Record> records = report.records;
  sort_records(records, options.order);
  const std::vector<PointColumn> columns = point_columns(records);
  std::string out;
  const auto line = [&](auto cell) {
    for (std::size_t i = 0; i < columns.size(); ++i) (out += i == 0 ? "" : ",") += cell(columns[i]);
    out += "\r\n";
  };
  line([](const PointColumn& column) { return cells::text(column.name); });
  for (const Record& record : records)
    line([&](const PointColumn& column) { return std::visit(CellText{}, column.cell(record)); });
  return out;
}

}  // namespace tw::results
