#include "results/tables.hpp"

#include <algorithm>
#include <numeric>
#include <set>
#include <vector>

#include "results/columns.hpp"
#include "results/flag_notes.hpp"
#include "results/paint.hpp"
#include "results/report_io.hpp"
#include "results/stability.hpp"
#include "results/text.hpp"

namespace tw {
namespace {

using namespace text;

/// Flags get letters in the order of appearance.
class Footnotes {
 public:
  explicit Footnotes(const std::vector<Record>& records) : flags_(flags_of(records)) {}
  std::string letters(const Verdict& verdict) const {
    std::string text;
    for (std::size_t i = 0; i < flags_.size(); ++i)
      if (std::find(verdict.flags.begin(), verdict.flags.end(), flags_[i]) != verdict.flags.end()) text += letter(i);
    return text;
  }
  std::string notes(const TableStyle& style, const Paint& paint) const {
    std::size_t name_width = 0;
    for (const std::string& flag : flags_) name_width = std::max(name_width, columns(flag));
    std::string text;
    for (std::size_t i = 0; i < flags_.size(); ++i) {
      const std::size_t indent = 5 + name_width + 2;
      text += "  " + paint.yellow(letter(i)) + "  " + paint.bold(pad_right(flags_[i], name_width)) + "  " +
              wrap(std::string(note_of(flags_[i])), static_cast<std::size_t>(style.width), indent) + "\n";
    }
    return text;
  }
  bool empty() const { return flags_.empty(); }

 private:
  static std::string letter(std::size_t i) {
    return std::string(1, static_cast<char>(i < 26 ? 'a' + i : 'A' + (i - 26) % 26));
  }
  std::vector<std::string> flags_;
};

std::size_t width_of(const Column& column) {
  std::size_t width = columns(column.title);
  for (const std::string& cell : column.cells) width = std::max(width, columns(cell));
  return width;
}

/// Those that find room beside `taken` columns, by importance, in their order; the most important one always does, and
/// an interval only with its figure.
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
    const std::string letters = footnotes.letters(r.verdict);
    verdicts.push_back(r.verdict.status + (letters.empty() ? "" : " " + letters));
    id_width = std::max(id_width, columns(r.id));
    if (has_run(r)) verdict_width = std::max(verdict_width, columns(verdicts.back()));
  }
  const std::vector<Column> numbers = that_fit(number_columns(report.records, Intervals::beside, style.order),
                                               2 + id_width + 2 + verdict_width, static_cast<std::size_t>(style.width));

  std::string out;
  if (style.order.merit != nullptr)
    out += "  " +
           paint.dim(wrap(printable(explain(style.order, report.records)),
                          static_cast<std::size_t>(style.width), 2)) +
           "\n";
  out += "  " + paint.bold(pad_right("point", id_width));
  std::size_t line = id_width;
  for (const Column& c : numbers) {
    out += "  " + paint.bold(pad_left(c.is_interval && style.unicode ? "±95 %" : c.title, width_of(c)));
    line += 2 + width_of(c);
  }
  out += "  " + paint.bold("verdict") + "\n  ";
  for (std::size_t i = 0; i < line + 2 + verdict_width; ++i) out += style.unicode ? "─" : "-";
  out += "\n";
  for (std::size_t i = 0; i < report.records.size(); ++i) {
    const Record& r = report.records[i];
    const std::string& status = r.verdict.status;
    out += "  " + (status == "unsupported" ? paint.dim(pad_right(r.id, id_width)) : pad_right(r.id, id_width));
    if (has_run(r)) {
      for (const Column& c : numbers) out += "  " + pad_left(c.cells[i], width_of(c));
      const std::string letters = verdicts[i].substr(status.size());
      out += "  " + paint.status(status, status) + paint.yellow(letters);
    } else {
      const std::string reason = r.verdict.reasons.empty() ? "" : ": " + r.verdict.reasons.front();
      out += "  " + paint.status(status, wrap(status + reason, static_cast<std::size_t>(style.width), id_width + 4));
    }
    out += "\n";
    if (has_run(r))
      for (const std::string& reason : r.verdict.reasons)
        out += "    " + paint.red(wrap(reason, static_cast<std::size_t>(style.width), 4)) + "\n";
  }
  if (!footnotes.empty()) out += "\n" + footnotes.notes(style, paint);
  if (!drifted.empty())
    out += "\n  " + paint.yellow("! ") + wrap(drifted, static_cast<std::size_t>(style.width), 4) + "\n";
  return out;
}

}  // namespace tw
