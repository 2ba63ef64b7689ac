#include "results/export/workbook.hpp"

#include <xlsxwriter.h>

#include <cmath>
#include <stdexcept>
#include <variant>

#include "results/export/export_parts.hpp"
#include "results/record/text.hpp"

namespace tw::results {
namespace {

constexpr const char* file_name = "report.xlsx";
constexpr std::size_t most_property = 255;  // the library refuses longer ones
constexpr std::size_t most_rows = 1'048'576;
constexpr double exact_integers = 9'007'199'254'740'992;  // a cell's number is a double

/// Two code points that no XML may hold (XML 1.0, 2.2) become the one for what cannot be shown.
std::string for_xml(std::string text) {
  for (std::size_t at = 0; (at = text.find("\xef\xbf", at)) != std::string::npos; ++at)
    if (at + 2 < text.size() && (text[at + 2] == '\xbe' || text[at + 2] == '\xbf')) text[at + 2] = '\xbd';
  return text;
}

const char* number_format(const Heading& heading) {
  const std::string& unit = heading.unit;
  if (unit == "share") return "0.0%";
  if (unit == "FLOP/s" || unit == "FLOP/J" || unit == "FLOP/sample") return "0.000E+00";
  if (heading.is_fine || unit == "s" || unit == "1/step" || unit == "J/sample")
    return "[<0.001]0.000E+00;[<1]0.000000;#,##0.000";
  if (unit == "°C") return "0.0";
  if (unit == "bytes" || unit == "MHz" || unit == "samples" || unit == "tokens") return "#,##0";
  return unit.empty() ? "General" : "#,##0.00";
}

lxw_col_t place(std::size_t column) { return static_cast<lxw_col_t>(column); }

[[noreturn]] void fail(const lxw_error error) { throw std::runtime_error(std::string("xlsx: ") + lxw_strerror(error)); }

}  // namespace

Workbook::Workbook() {
  // Not in memory row by row: a report of many trials has many rows, and the order of ours is by row anyway.
  book_ = workbook_new(folder_.file(file_name).c_str());
  if (book_ == nullptr) throw std::runtime_error("xlsx: no memory for a workbook");
  head_ = workbook_add_format(book_);
  format_set_bold(head_);
  format_set_text_wrap(head_);
  format_set_align(head_, LXW_ALIGN_VERTICAL_TOP);
  format_set_bottom(head_, LXW_BORDER_THIN);
  format_set_bg_color(head_, 0xE8EEF4);
}

Workbook::~Workbook() {
  if (book_ != nullptr)
    workbook_close(book_);  // an exception is under way; frees it, and its file goes with the folder
}

void Workbook::properties(const Report& report) {
  std::string title = for_xml("trainwatt: " + report.plan.suite).substr(0, most_property);
  std::string comment =
      for_xml("report of " + report.program.name + " " + report.program.version).substr(0, most_property);
  lxw_doc_properties properties{};
  properties.title = title.data(), properties.comments = comment.data();
  // The report's own time, so that the same report gives the same file.
  properties.created = static_cast<time_t>(unix_seconds(report.context.started_at).value_or(0));
  workbook_set_properties(book_, &properties);
}

void Workbook::begin(const char* name, const std::vector<Heading>& headings) {
  sheet_ = workbook_add_worksheet(book_, name);
  if (sheet_ == nullptr) throw std::runtime_error(std::string("xlsx: no sheet ") + name);
  headings_ = headings;
  row_ = 0;
  for (std::size_t i = 0; i < headings.size(); ++i) {
    const Heading& heading = headings[i];
    text(i, heading.title + (heading.unit.empty() ? "" : "\n[" + heading.unit + "]"), head_);
    worksheet_set_column(sheet_, place(i), place(i), heading.width, nullptr);
  }
  worksheet_set_row(sheet_, 0, 48, nullptr);
  worksheet_freeze_panes(sheet_, 1, 1);
  row_ = 1;
}

void Workbook::row(const std::vector<XlsxCell>& cells, bool muted) {
  if (row_ + 1 >= most_rows) {
    if (row_ + 1 == most_rows) text(0, "more rows than a sheet can have: see report.json", format({}, true)), ++row_;
    return;
  }
  for (std::size_t i = 0; i < cells.size() && i < headings_.size(); ++i) {
    const XlsxCell& cell = cells[i];
    lxw_format* shown = format(headings_[i], muted);
    if (const auto* number = std::get_if<double>(&cell.value))
      worksheet_write_number(sheet_, row_, place(i), *number, shown);
    else if (const auto* whole = std::get_if<std::int64_t>(&cell.value))
      whole_number(i, *whole, shown);
    else if (const auto* words = std::get_if<std::string>(&cell.value))
      text(i, text::printable(*words), shown);
    else if (!cell.comment.empty())
      worksheet_write_comment(sheet_, row_, place(i), for_xml(text::printable(cell.comment)).c_str());
  }
  ++row_;
}

void Workbook::end() {
  if (row_ > 1) worksheet_autofilter(sheet_, 0, 0, row_ - 1, place(headings_.size() - 1));
}

std::string Workbook::bytes() {
  lxw_workbook* book = std::exchange(book_, nullptr);
  if (const lxw_error error = workbook_close(book); error != LXW_NO_ERROR) fail(error);
  std::string all = folder_.read(file_name);
  if (all.empty()) throw std::runtime_error("xlsx: cannot read back " + folder_.file(file_name));
  return all;
}

/// Always as a string: what looks like a formula or an address stays text.
void Workbook::text(std::size_t column, const std::string& raw, lxw_format* shown) {
  const std::string words = for_xml(raw);
  std::string part = words.substr(0, longest_text);
  while (!part.empty() && part.size() < words.size() && (words[part.size()] & 0xc0) == 0x80) part.pop_back();
  const lxw_error error = worksheet_write_string(sheet_, row_, place(column), part.c_str(), shown);
  if (error != LXW_NO_ERROR) fail(error);
}

void Workbook::whole_number(std::size_t column, std::int64_t value, lxw_format* shown) {
  if (std::abs(static_cast<double>(value)) > exact_integers)
    text(column, std::to_string(value), shown);
  else
    worksheet_write_number(sheet_, row_, place(column), static_cast<double>(value), shown);
}

lxw_format* Workbook::format(const Heading& heading, bool muted) {
  lxw_format*& found = formats_[{number_format(heading), muted}];
  if (found == nullptr) {
    found = workbook_add_format(book_);
    format_set_num_format(found, number_format(heading));
    format_set_align(found, LXW_ALIGN_VERTICAL_TOP);
    if (muted) format_set_italic(found), format_set_font_color(found, 0x6B6B6B);
  }
  return found;
}

}  // namespace tw::results
