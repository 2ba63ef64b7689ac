#include "results/terminal/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <span>

#include "results/compare/baseline.hpp"
#include "results/compare/comparison_words.hpp"
#include "results/cost/cost_words.hpp"
#include "results/record/text.hpp"
#include "results/terminal/lines.hpp"

namespace tw::results {
namespace {

using namespace text;

class Writer {
 public:
  Writer(const Comparison& comparison, const std::vector<RuleCheck>& checks, const TableStyle& style)
      : c_(comparison), checks_(checks), style_(style), paint_(style.color) {}

  std::string write() {
    heading("Answer");
    for (const std::string& line : c_.answer) item(line, 4);
    item(paint_.cyan(wrapped(c_.next_step.text, 4)), 0);
    for (const std::string& line : c_.rests_on) item(line, 4);
    item(words::workloads(c_), 4);
    for (const words::KeptRules& rules : words::run_rules(c_)) item(rules.text, 4);
    if (c_.compared)
      item(paint_.dim(wrapped(sentence(c_.replicates_note) + " One such interval in 20 misses the true value.", 2)), 0);
    heading(fmt::format("{} systems, compared with {}", c_.systems.size(), reference()));
    systems();
    rules();
    const std::string other = c_.systems.size() == 2 ? name(1 - c_.reference) : "the other";
    heading("Differences: " + words::comparability(c_) +
            (c_.differences.empty() ? "" : " (" + reference() + " | " + other + ")"));
    differences();
    for (const FigureComparison& figure : c_.figures) write(figure);
    costs();
    return style_.unicode ? std::move(out_) : ascii(out_);
  }

 private:
  const std::string& reference() const { return c_.systems[c_.reference].name; }
  const std::string& name(std::size_t system) const { return c_.systems[system].name; }
  std::string wrapped(const std::string& text, std::size_t indent) const { return wrap(text, style_.width, indent); }
  void heading(const std::string& text) { out_ += (out_.empty() ? "" : "\n") + paint_.bold(wrapped(text, 0)) + "\n"; }
  /// A line of two spaces; what follows is indented.
  void item(const std::string& text, std::size_t indent) {
    out_ += "  " + (indent == 0 ? text : wrapped(text, indent)) + "\n";
  }
  std::size_t name_width() const {
    std::size_t width = 0;
    for (const ComparedSystem& system : c_.systems) width = std::max(width, columns(system.name));
    return width;
  }

  void systems() {
    const std::size_t width = name_width();
    for (const ComparedSystem& s : c_.systems) {
      const auto line = [&](const std::string& label, const std::string& text) {
        out_ += "  " + label + "  " + wrapped(text, width + 4) + "\n";
      };
      line(paint_.cyan(pad_right(s.name, width)), join(s.paths, ", "));
      const std::string started = s.started_at.empty() ? "" : s.started_at.front();
      line(pad_right("", width),
           (s.hosts.empty() ? "hosts unknown" : s.hosts) + (s.devices.empty() ? "" : "; ranks: " + s.devices));
      line(pad_right("", width),
           fmt::format("{}; suite {}; {} of {} points valid; started {}{}", s.program, s.suite, s.valid, s.records,
                       started.empty() ? "" : text::date(started), words::more_times(s.started_at.size())));
    }
  }

  void rules() {
    if (checks_.empty()) return;
    const auto having = [&](RuleState status) { return std::ranges::count(checks_, status, &RuleCheck::status); };
    heading(fmt::format("Rules: {} violated, {} undecided, {} not checked, {} kept", having(RuleState::violated),
                        having(RuleState::undecided), having(RuleState::not_checked), having(RuleState::kept)));
    for (const RuleState status : {RuleState::violated, RuleState::undecided, RuleState::not_checked, RuleState::kept})
      for (const RuleCheck& check : checks_) {
        if (check.status != status) continue;
        const std::string word = pad_right(to_string(status), 11);
        out_ += "  " +
                (status == RuleState::violated ? paint_.red(word)
                 : status == RuleState::kept   ? paint_.green(word)
                                               : paint_.yellow(word)) +
                "  " +
                wrapped(check.rule + (c_.systems.size() > 2 ? ", " + name(check.system) : "") +
                            (check.point.empty() ? "" : ", " + check.point) + ": " + check.text,
                        15) +
                "\n";
      }
  }

  void differences() {
    if (c_.differences.empty()) return;
    std::size_t width = 0;
    constexpr std::size_t longest_label = 28;
    for (const Difference& d : c_.differences) width = std::max(width, std::min(longest_label, columns(d.what)));
    for (std::size_t i = 0; i < c_.differences.size(); ++i) {
      const Difference& d = c_.differences[i];
      const auto same = [&](const Difference& other) {
        return other.blocking == d.blocking && other.what == d.what && other.why == d.why &&
               other.reference_value == d.reference_value && other.system_value == d.system_value &&
               other.workloads == d.workloads && other.figures == d.figures &&
               (other.system == c_.reference) == (d.system == c_.reference);
      };
      const std::span<const Difference> before(c_.differences.data(), i);
      if (std::ranges::any_of(before, same)) continue;  // said with the first
      std::vector<std::size_t> systems;
      for (const Difference& one : c_.differences)
        if (same(one)) systems.push_back(one.system);
      std::string text =
          d.reference_value == d.system_value ? "both " + d.system_value : d.reference_value + " | " + d.system_value;
      if (d.reference_value.empty()) text = d.system_value;
      if (c_.systems.size() > 2 || d.system == c_.reference) text = words::names(c_, systems) + ": " + text;
      if (const std::string place = words::place(d, c_); !place.empty()) text += ", " + place;
      if (!d.why.empty()) text += ": " + d.why;
      const std::string label = pad_right(d.what, width);
      out_ += "  " + (d.blocking ? paint_.red("blocks") : paint_.dim("noted ")) + "  " +
              (d.blocking ? paint_.bold(label) : label) + "  " + beside(text, style_.width, 12 + width) + "\n";
    }
  }

  std::string verdict(const Ratio& ratio) const {
    const Claim v = ratio.verdict;
    const std::string said = words::verdict(ratio);
    return v == Claim::better                                ? paint_.green(said)
           : v == Claim::worse || v == Claim::not_comparable ? paint_.red(said)
           : v == Claim::reference                           ? paint_.dim(said)
                                                             : paint_.yellow(said);
  }

  std::string figure(const std::optional<Estimate>& e) const {
    if (!e) return "-";
    std::string text = si(e->value);
    if (e->low && e->high && e->value != 0)
      text +=
          (style_.unicode ? " ±" : " +-") + significant(100 * (*e->high - *e->low) / 2 / std::abs(e->value), 2) + " %";
    return text;
  }

  struct Line {
    std::size_t system;
    std::string figure, change, interval;
    const Ratio* ratio;
  };
  void lines(const std::string& title, const std::vector<Line>& all) {
    if (!title.empty()) out_ += "  " + title + "\n";
    const std::size_t names = name_width(), width = style_.width;
    std::size_t longest = 0;  // verdict
    for (const Line& line : all)
      longest = std::max(longest, columns(words::verdict(*line.ratio)) + (notes_.empty() ? 0 : 4));
    const std::size_t beside_figures = 4 + names + 2 + figure_width_ + 2 + change_width_ + 2 + interval_width_ + 2;
    const bool narrow = beside_figures + longest > width;  // figures go below the name, the verdict below them
    for (const Line& line : all) {
      std::string text = "    " + pad_right(name(line.system), names) + "  " + pad_left(line.figure, figure_width_) +
                         "  " + pad_left(line.change, change_width_) + "  " +
                         pad_right(line.interval, interval_width_) + "  ";
      if (narrow) {
        const std::string figures = join_said({line.figure, line.change, line.interval}, "  ");
        text = "    " + name(line.system) + "\n      ";
        if (!figures.empty()) text += wrap(figures, width, 6) + "\n      ";
      }
      const std::size_t indent = narrow ? 6 : beside_figures;
      const std::string open = words::open_points(*line.ratio, c_.replicates);
      text += verdict(*line.ratio);
      if (const auto note = notes_.find(open); note != notes_.end()) {
        text += fmt::format(" [{}]", note->second.number);
      } else if (!open.empty()) {
        // Beside the verdict where half of it finds room, else under the figures.
        const std::size_t used = indent + columns(words::verdict(*line.ratio)) + 2;
        if (used + columns(open) <= width)
          text += ": " + open;
        else
          text += "\n        " + paint_.dim(wrap(open, width, 8));
      }
      out_ += text + "\n";
    }
  }

  /// What is said of several lines of a figure is printed once, below them, with a number.
  void number_notes(const std::vector<std::vector<Line>>& rows) {
    std::map<std::string, int> times;
    for (const auto& row : rows)
      for (const Line& line : row) ++times[words::open_points(*line.ratio, c_.replicates)];
    notes_.clear();
    for (const auto& row : rows)
      for (const Line& line : row)
        if (const std::string open = words::open_points(*line.ratio, c_.replicates); !open.empty() && times[open] > 1) {
          Note& note = notes_.try_emplace(open, Note{notes_.size() + 1, {}}).first->second;
          if (std::ranges::find(note.systems, line.system) == note.systems.end()) note.systems.push_back(line.system);
        }
  }
  void notes() {
    std::vector<std::pair<std::size_t, std::string>> lines;
    for (const auto& [text, note] : notes_)
      lines.emplace_back(note.number,
                         fmt::format("[{}] {}{}", note.number,
                                     c_.systems.size() > 2 ? words::names(c_, note.systems) + ": " : "", text));
    std::ranges::sort(lines);
    for (const auto& [number, line] : lines) item(paint_.dim(wrapped(line, 6)), 0);
  }

  void write(const FigureComparison& f) {
    heading(fmt::format("{}: {} ({}{} is better)", f.figure.name, words::unit(f), f.note.empty() ? "" : f.note + "; ",
                        f.figure.more_is_better ? "more" : "less"));
    if (f.rows.empty()) {
      item(f.overall_reason, 2);
      return;
    }
    const auto line_of = [&](std::size_t s, const Ratio& ratio, const std::string& figure) {
      return Line{s, figure, ratio.value && s != c_.reference ? words::change(*ratio.value) : "",
                  s == c_.reference ? "" : words::interval(ratio), &ratio};
    };
    std::vector<std::vector<Line>> rows;
    for (const ComparedRow& row : f.rows) {
      std::vector<Line>& all = rows.emplace_back();
      for (std::size_t s = 0; s < row.systems.size(); ++s)
        all.push_back(line_of(s, row.systems[s].ratio, figure(row.systems[s].figure)));
    }
    const bool has_overall = f.rows.size() > 1 || !f.overall_reason.empty();
    std::vector<Line> overall;
    for (std::size_t s = 0; s < f.overall.size(); ++s) overall.push_back(line_of(s, f.overall[s], ""));
    if (has_overall) rows.push_back(overall);
    number_notes(rows);
    figure_width_ = change_width_ = interval_width_ = 0;
    for (const auto& row : rows)
      for (const Line& line : row) {
        figure_width_ = std::max(figure_width_, columns(line.figure));
        change_width_ = std::max(change_width_, columns(line.change));
        interval_width_ = std::max(interval_width_, columns(line.interval));
      }
    const bool weighted =
        std::ranges::any_of(f.rows, [&](const ComparedRow& row) { return row.weight != f.rows[0].weight; });
    for (std::size_t i = 0; i < f.rows.size(); ++i)
      lines(words::workload(c_.workloads[f.rows[i].workload], c_) +
                (weighted ? paint_.dim(
                                fmt::format("  weight {}", f.rows[i].weight > 0 ? significant(f.rows[i].weight) : "0"))
                          : ""),
            rows[i]);
    if (has_overall) {
      lines(paint_.bold(weighted ? "overall, weighted geometric mean" : "overall, geometric mean"), overall);
      if (!f.overall_reason.empty()) item("no overall mean: " + f.overall_reason, 4);
    }
    notes();
    if (const std::string note = words::means(f, c_); !note.empty()) item(paint_.dim(wrapped(note, 4)), 0);
    if (const std::string left = words::left_out(f, c_); !left.empty()) item(paint_.yellow(wrapped(left, 4)), 0);
    ranking(f);
  }

  void ranking(const FigureComparison& f) {
    if (f.ranking.size() < 2 || (f.ranking.size() == 2 && std::ranges::none_of(f.overall, &Ratio::is_decided))) return;
    item("ranking: " + words::ranking(f, c_), 11);
    if (const std::string note = words::ranking_note(f); !note.empty()) item(paint_.dim(wrapped(note, 4)), 0);
  }

  void costs() {
    for (std::size_t s = 0; s < c_.systems.size(); ++s)
      if (c_.systems[s].cost) {
        heading("Prices of " + name(s));
        out_ += price_inputs(*c_.systems[s].cost, style_);
      }
    if (c_.break_even.empty()) return;
    heading("Break-even: where the cheaper system changes");
    for (const WorkloadBreakEven& one : c_.break_even) {
      out_ += "  " + c_.workloads[one.workload].id + "\n";
      for (const BreakEven& input : one.inputs) out_ += "    " + wrapped(input.text, 6) + "\n";
      if (!one.reason.empty()) out_ += "    " + wrapped(one.reason, 6) + "\n";
    }
  }

  const Comparison& c_;
  const std::vector<RuleCheck>& checks_;
  const TableStyle& style_;
  const Paint paint_;
  std::string out_;
  struct Note {
    std::size_t number;
    std::vector<std::size_t> systems;
  };
  std::map<std::string, Note> notes_;  // by their text, of the figure that is being written
  std::size_t figure_width_ = 0, change_width_ = 0, interval_width_ = 0;
};

}  // namespace

std::string comparison_text(const Comparison& comparison, const std::vector<RuleCheck>& checks,
                            const TableStyle& style) {
  return Writer(comparison, checks, style).write();
}

}  // namespace tw::results
