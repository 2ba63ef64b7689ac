#include "results/tables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include "results/paint.hpp"
#include "results/report_io.hpp"
#include "results/text.hpp"

namespace tw {
namespace {

using namespace text;

struct FlagNote {
  std::string_view flag, text;
};
/// What a flag means, and what to do.
constexpr FlagNote flag_notes[] = {
    {"short",
     "a window is shorter than 60 s or than 100 update periods of its meter: good for a look, not for publication. "
     "Give "
     "--window 60 or more."},
    {"few_trials",
     "fewer than 3 trials: the figures have no interval and two reports cannot be told apart. Give --trials 3."},
    {"no_energy_meter",
     "no energy meter answered, so that joules are absent (never 0); the speed is not affected. `trainwatt "
     "show` says why for each meter."},
    {"implausible",
     "a meter gave more than 1.5 x the power its part can draw: all joules of its scope are absent; the speed is not "
     "affected."},
    {"wrapped",
     "a counter of energy started again at zero: its joules allow for it; or it was left unread for so long that it may "
     "have done so unseen: its joules are absent."},
    {"busy_host", "other programs used more than 5 % of the node's CPU time: repeat when it is quiet."},
    {"steal", "the hypervisor took more than 2 % of the CPU time. Repeat on a quiet host."},
    {"narrow_affinity",
     "a rank may use fewer CPUs than threads were asked for, or than its share of the node's cores. Launch with "
     "--bind-to none, or --map-by slot:PE=N."},
    {"oversubscribed", "there are more threads than CPUs: ranks wait for each other. Use fewer ranks or threads."},
    {"steps_given", "--steps fixed the number of steps in place of a timed window. Leave it out, or give --window."},
    {"not_steady",
     "the step time was still changing when the warm-up had taken as long as a trial, or too few steps fitted into it to "
     "tell. Give a longer --window, or look for what changes."},
    {"loss_not_falling", "the loss did not fall over 20 or more steps: is it learning at all?"},
    {"loss_not_finite", "a loss is not a number: the point does not count."},
    {"throttled", "heat or a power brake held a device back: `trainwatt show` says which and how long. Look at cooling."},
    {"power_capped", "a power limit held a clock back: expected where limits are swept."},
    {"device_errors", "an ECC or Xid counter moved along a window: look at the device before you trust it."},
    {"not_applied", "a set point did not take effect: the figures are of another state than the one asked for."},
    {"not_observed", "a set point was accepted, and nothing here can show whether it held under load."},
    {"unstable", "the losses leave those of the same workload at the found setting by more than 2 %."},
    {"target_missed", "a run did not reach the target, which counts as infinite: no mean of time, steps or joules exists."},
    {"off_reference",
     "the runs needed more steps than the same task does in float32 in another framework, or unreasonably few: a speed at "
     "which training does not work as it should is none."},
    {"no_reference", "no independent framework has trained this task in this batch: whether the steps are as many as they should be is not known."},
    {"gpu_unused", "a GPU is visible, but the cuda device cannot train yet: these are figures of the CPU."},
    {"ceiling_once",
     "the network's own products could be timed before the trials only: of_ceiling rests on one timing instead of the "
     "better of two."},
    {"steps_disagree",
     "the step times add up to more than 5 % more or less than their window: ranks take turns to be slow, or time "
     "passes between steps. Throughput is that of the window."},
    {"above_ceiling", "faster than its own products timed alone: that ceiling was disturbed. Repeat."}};

std::string_view note_of(const std::string& flag) {
  for (const FlagNote& note : flag_notes)
    if (note.flag == flag) return note.text;
  return "set by the program; this version has no explanation for it.";
}

/// Flags get letters in the order of appearance.
class Footnotes {
 public:
  explicit Footnotes(const Report& report) {
    for (const Record& r : report.records)
      for (const std::string& flag : r.verdict.flags)
        if (std::find(flags_.begin(), flags_.end(), flag) == flags_.end()) flags_.push_back(flag);
  }
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

std::string half_width(const Estimate& e) {
  if (!e.low || !e.high || e.value == 0) return "-";
  return significant(100 * (*e.high - *e.low) / 2 / std::abs(e.value), 2) + " %";
}

struct Column {
  std::string title;
  int importance = 0;              ///< the most important take their place first where the terminal is narrow
  std::vector<std::string> cells;  ///< one a record; empty where the record did not run
};

/// Number columns of all records; a column that would be empty is left out.
std::vector<Column> number_columns(const Report& report) {
  std::vector<Column> all;
  const auto add = [&](const std::string& title, int importance, auto cell) {
    Column column{title, importance, {}};
    bool any = false;
    for (const Record& r : report.records) {
      column.cells.push_back(r.summary.samples_per_s ? cell(r.summary) : "");
      any = any || (column.cells.back() != "" && column.cells.back() != "-");
    }
    if (any) all.push_back(std::move(column));
  };
  const auto figure = [](const std::optional<Estimate>& e) { return e ? si(e->value) : std::string("-"); };
  const auto to_target = [](const Summary& s, auto cell) {
    return !s.to_target ? std::string("-") : !s.to_target->steps ? std::string("never") : cell(*s.to_target);
  };
  add("to target", 12, [&](const Summary& s) {
    return to_target(s, [](const ToTarget& t) { return duration(t.time_s->value); });
  });
  add("+-95 %", 9, [&](const Summary& s) { return to_target(s, [](const ToTarget& t) { return half_width(*t.time_s); }); });
  add("steps", 9, [&](const Summary& s) { return to_target(s, [](const ToTarget& t) { return si(t.steps->value); }); });
  add("samples/s", 11, [&](const Summary& s) { return figure(s.samples_per_s); });
  add("+-95 %", 10, [&](const Summary& s) { return half_width(*s.samples_per_s); });
  add("tokens/s", 2, [&](const Summary& s) { return figure(s.tokens_per_s); });
  add("step time", 7, [&](const Summary& s) { return s.step_time_s ? duration(s.step_time_s->value) : "-"; });
  add("FLOP/s", 4, [&](const Summary& s) { return figure(s.flops_per_s); });
  add("of ceiling", 8, [&](const Summary& s) { return s.of_ceiling ? significant(*s.of_ceiling, 2) : "-"; });
  std::set<std::string> scopes;
  for (const Record& r : report.records)
    for (const auto& [scope, joules] : r.summary.energy_j) scopes.insert(scope);
  for (const std::string& scope : scopes) {  // never two scopes in one column
    const auto of = [&](const auto& map) {
      const auto found = map.find(scope);
      return found == map.end() ? std::string("-") : figure(found->second);
    };
    add(scope + " J", 3, [&](const Summary& s) { return of(s.energy_j); });
    add(scope + " FLOP/J", 9, [&](const Summary& s) { return of(s.flops_per_w); });
  }
  return all;
}

std::size_t width_of(const Column& column) {
  std::size_t width = columns(column.title);
  for (const std::string& cell : column.cells) width = std::max(width, columns(cell));
  return width;
}

/// Those that find room beside `taken` columns, by importance, in their order; the most important one always does.
std::vector<Column> that_fit(const std::vector<Column>& all, std::size_t taken, std::size_t width) {
  std::vector<const Column*> ranked;
  for (const Column& c : all) ranked.push_back(&c);
  std::stable_sort(ranked.begin(), ranked.end(),
                   [](const Column* a, const Column* b) { return a->importance > b->importance; });
  std::set<const Column*> kept;
  for (const Column* c : ranked)
    if (kept.empty() || taken + 2 + width_of(*c) <= width) {
      taken += 2 + width_of(*c);
      kept.insert(c);
    }
  std::vector<Column> fitting;
  for (const Column& c : all)
    if (kept.contains(&c)) fitting.push_back(c);
  return fitting;
}

}  // namespace

std::string summary_table(const Report& raw, const TableStyle& style) {
  const Report report = printable(raw);
  const Paint paint(style.color);
  const Footnotes footnotes(report);
  if (report.records.empty()) return "No points were run.\n";

  std::vector<std::string> verdicts;
  std::size_t id_width = columns("point"), verdict_width = columns("verdict");
  for (const Record& r : report.records) {
    const std::string letters = footnotes.letters(r.verdict);
    verdicts.push_back(r.verdict.status + (letters.empty() ? "" : " " + letters));
    id_width = std::max(id_width, columns(r.id));
    if (r.summary.samples_per_s) verdict_width = std::max(verdict_width, columns(verdicts.back()));
  }
  const std::vector<Column> numbers = that_fit(number_columns(report), 2 + id_width + 2 + verdict_width,
                                               static_cast<std::size_t>(style.width));

  std::string out = "  " + paint.bold(pad_right("point", id_width));
  std::size_t line = id_width;
  for (const Column& c : numbers) {
    out += "  " + paint.bold(pad_left(c.title == "+-95 %" && style.unicode ? "±95 %" : c.title, width_of(c)));
    line += 2 + width_of(c);
  }
  out += "  " + paint.bold("verdict") + "\n  ";
  for (std::size_t i = 0; i < line + 2 + verdict_width; ++i) out += style.unicode ? "─" : "-";
  out += "\n";
  for (std::size_t i = 0; i < report.records.size(); ++i) {
    const Record& r = report.records[i];
    const std::string& status = r.verdict.status;
    out += "  " + (status == "unsupported" ? paint.dim(pad_right(r.id, id_width)) : pad_right(r.id, id_width));
    if (r.summary.samples_per_s) {
      for (const Column& c : numbers) out += "  " + pad_left(c.cells[i], width_of(c));
      const std::string letters = verdicts[i].substr(status.size());
      out += "  " + paint.status(status, status) + paint.yellow(letters);
    } else {
      const std::string reason = r.verdict.reasons.empty() ? "" : ": " + r.verdict.reasons.front();
      out += "  " + paint.status(status, wrap(status + reason, static_cast<std::size_t>(style.width), id_width + 4));
    }
    out += "\n";
    if (r.summary.samples_per_s)
      for (const std::string& reason : r.verdict.reasons)
        out += "    " + paint.red(wrap(reason, static_cast<std::size_t>(style.width), 4)) + "\n";
  }
  if (!footnotes.empty()) out += "\n" + footnotes.notes(style, paint);
  return out;
}

}  // namespace tw
