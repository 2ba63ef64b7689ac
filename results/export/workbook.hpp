// A workbook of sheets whose first row is headed, filtered and frozen; internal to results/.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "results/export/point_table.hpp"
#include "results/record/record.hpp"
#include "results/record/temporary_folder.hpp"

struct lxw_workbook;
struct lxw_worksheet;
struct lxw_format;

namespace tw::results {

/// How a column is headed and shown.
struct Heading {
  std::string title, unit;
  double width = 14;
  bool is_fine = false;  ///< of figures that may be far below 1, whatever their unit
};
struct XlsxCell {
  Cell value;
  std::string comment = {};  ///< why it is empty
};

/// Throws std::runtime_error if the library fails or the file cannot be read back.
class Workbook {
 public:
  static constexpr std::size_t longest_text = 32'767;  ///< characters of a cell, by the format

  Workbook();
  ~Workbook();

  void properties(const Report& report);
  /// A sheet with its head; rows come until the next one.
  void begin(const char* name, const std::vector<Heading>& headings);
  /// Numbers are numbers, texts are texts whatever they look like. `muted`: figures that do not count.
  void row(const std::vector<XlsxCell>& cells, bool muted = false);
  void end();
  /// The file; nothing can be added behind it. The same calls give the same bytes.
  std::string bytes();

 private:
  void text(std::size_t column, const std::string& raw, lxw_format* shown);
  void whole_number(std::size_t column, std::int64_t value, lxw_format* shown);
  lxw_format* format(const Heading& heading, bool muted);

  TemporaryFolder folder_;  // the library writes to a path only
  lxw_workbook* book_ = nullptr;
  lxw_worksheet* sheet_ = nullptr;
  lxw_format* head_ = nullptr;
  std::map<std::pair<std::string, bool>, lxw_format*> formats_;
  std::vector<Heading> headings_;
  std::uint32_t row_ = 0;
};

}  // namespace tw::results
