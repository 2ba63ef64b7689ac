#include "results/terminal/tables.hpp"

#include <algorithm>
#include <numeric>
#include <set>

#include "results/analysis/conditions.hpp"
#include "results/analysis/flag_notes.hpp"
#include "results/compare/comparison_words.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"
#include "results/terminal/columns.hpp"
#include "results/terminal/lines.hpp"

namespace tw::results {
namespace {

using namespace text;

/// Flags get letters in the order of appearance.
class Footnotes {
 public:
  explicit Footnotes(const std::vector<Record>& records) : flags_(flags_of(records)) {
    for (const FlagName& flag : flags_) notes_.push_back(note_of(flag, records));
  }
  std::string letters(const Record& record) const {
    std::string text;
    for (std::size_t i = 0; i < flags_.size(); ++i)
      if (has_flag(record, flags_[i])) text += letter(i);
    return text;
  }
  std::string notes(const TableStyle& style, const Paint& paint) const {
    std::size_t name_width = 0;
    for (const FlagName& flag : flags_) name_width = std::max(name_width, columns(flag.name));
    std::string text;
    for (std::size_t i = 0; i < flags_.size(); ++i) {
      constexpr std::size_t least_room = 24;  // beside the names; in a narrower terminal the notes go below them
      const bool beside = 5 + name_width + 2 + least_room <= style.width;
      const std::size_t indent = beside ? 5 + name_width + 2 : 5;
      text +=
          "  " + paint.yellow(letter(i)) + "  " +
          (beside ? paint.bold(pad_right(flags_[i].name, name_width)) + "  " : paint.bold(flags_[i].name) + "\n     ") +
          wrap(notes_[i], style.width, indent) + "\n";
    }
    return text;
  }
  bool empty() const { return flags_.empty(); }

 private:
  static std::string letter(std::size_t i) {
    return std::string(1, static_cast<char>(i < 26 ? 'a' + i : 'A' + (i - 26) % 26));
  }
  std::vector<FlagName> flags_;
  std::vector<std::string> notes_;
};

/// A point's name in lines of `width` columns, broken behind its slashes; from the second on behind `indent` spaces.
std::string broken(const std::string& id, std::size_t width, std::size_t indent) {
  std::string out;
  std::size_t column = indent;
  for (std::size_t at = 0; at < id.size();) {
    const std::size_t end = std::min(id.find('/', at), id.size() - 1) + 1;
    const std::string part = id.substr(at, end - at);
    if (at > 0 && column + columns(part) > width) out += '\n' + std::string(indent, ' '), column = indent;
    out += part;
    column += columns(part);
    at = end;
  }
  return out;
}

std::size_t width_of(const Column& column) {
  std::size_t width = columns(column.title);
  for (const std::string& cell : column.cells) width = std::max(width, columns(cell));
  return width;
}

/// Those that find room beside `taken` columns, the most important always; an interval only with its figure.
std::vector<Column> that_fit(const std::vector<Column>& all, std::size_t taken, std::size_t width) {
  std::vector<std::size_t> ranked(all.size());
  std::iota(ranked.begin(), ranked.end(), std::size_t{0});
  std::ranges::stable_sort(ranked, [&](std::size_t a, std::size_t b) { return all[a].importance > all[b].importance; });
  std::set<std::size_t> kept;
  for (const std::size_t i : ranked) {
    if (all[i].is_interval && !kept.contains(i - 1)) continue;
    if (!kept.empty() && taken + 2 + width_of(all[i]) > width) continue;
    taken += 2 + width_of(all[i]);
    kept.insert(i);
  }
  std::vector<Column> fitting;
  for (const std::size_t i : kept) fitting.push_back(all[i]);
  return fitting;
}

}  // namespace

std::string summary_table(const Report& raw, const TableStyle& style) {
  Report report = printable(raw);
  const std::string drifted = run_drift(report.records);  // of the order of the run
  sort_records(report.records, style.order);
  const Paint paint(style.color);
  const Footnotes footnotes(report.records);
  if (report.records.empty()) return "No points were run.\n";

  std::vector<std::string> verdicts;
  std::size_t id_width = columns("point"), verdict_width = columns("verdict");
  for (const Record& r : report.records) {
    const std::string letters = footnotes.letters(r);
    verdicts.push_back(to_string(r.verdict.status) + (letters.empty() ? "" : " " + letters));
    id_width = std::max(id_width, columns(r.id));
    if (has_run(r)) verdict_width = std::max(verdict_width, columns(verdicts.back()));
  }
  const std::size_t width = style.width;
  const std::vector<Column> all = number_columns(report.records, Intervals::beside, style.order);
  const auto first = std::ranges::max_element(all, {}, &Column::importance);
  // Names that leave no room for a figure get lines of their own.
  const bool apart = 2 + id_width + 2 + verdict_width + (first == all.end() ? 0 : 2 + width_of(*first)) > width;
  const std::size_t label_width = apart ? 2 : id_width;
  const std::vector<Column> numbers = that_fit(all, 2 + label_width + 2 + verdict_width, width);
  const std::string under_name = "\n  " + std::string(label_width, ' ');

  std::string out;
  if (style.order.merit != nullptr)
    out += "  " + paint.dim(wrap(printable(explain(style.order, report.records)), width, 2)) + "\n";
  out += "  " + (apart ? paint.bold("point") + under_name : paint.bold(pad_right("point", id_width)));
  std::size_t line = label_width;
  for (const Column& c : numbers) {
    out += "  " + paint.bold(pad_left(c.is_interval && style.unicode ? "±95 %" : c.title, width_of(c)));
    line += 2 + width_of(c);
  }
  out += "  " + paint.bold("verdict") + "\n  ";
  for (std::size_t i = 0; i < line + 2 + verdict_width; ++i) out += style.unicode ? "─" : "-";
  out += "\n";
  for (std::size_t i = 0; i < report.records.size(); ++i) {
    const Record& r = report.records[i];
    const std::string status = to_string(r.verdict.status);
    const std::string id = apart ? broken(r.id, width, 2) : pad_right(r.id, id_width);
    out += "  " + (r.verdict.status == Status::unsupported ? paint.dim(id) : id);
    if (has_run(r)) {
      if (apart) out += under_name;
      for (const Column& c : numbers) out += "  " + pad_left(c.cells[i], width_of(c));
      const std::string letters = verdicts[i].substr(status.size());
      out += "  " + paint.status(r.verdict.status, status) + paint.yellow(letters);
    } else {
      const std::string reason = r.verdict.reasons.empty() ? "" : ": " + r.verdict.reasons.front();
      out += (apart ? "\n    " : "  ") +
             paint.status(r.verdict.status, wrap(status + reason, width, apart ? 4 : id_width + 4));
    }
    out += "\n";
    if (has_run(r))
      for (const std::string& reason : r.verdict.reasons) out += "    " + paint.red(wrap(reason, width, 4)) + "\n";
  }
  if (!footnotes.empty()) out += "\n" + footnotes.notes(style, paint);
  for (const std::string& more : {drifted, words::no_verdict(report)})
    if (!more.empty()) out += "\n  " + paint.yellow("! ") + wrap(more, width, 4) + "\n";
  return style.unicode ? out : ascii(out);
}

}  // namespace tw::results
