// A comparison as Markdown and CSV.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "results/compare/comparison.hpp"
#include "results/compare/comparison_words.hpp"
#include "results/cost/cost_words.hpp"
#include "results/export/cells.hpp"
#include "results/export/export.hpp"
#include "results/record/names_format.hpp"
#include "results/record/text.hpp"

namespace tw::results {
namespace {

using cells::line_of;

std::string figure_table(const FigureComparison& f, const Comparison& c) {
  std::string out = fmt::format("\n## {} ({}, {}{} is better)\n\n", f.figure.name, cells::markdown(words::unit(f)),
                                f.note.empty() ? "" : f.note + ", ", f.figure.more_is_better ? "more" : "less");
  if (f.rows.empty()) return out + cells::markdown(f.overall_reason) + ".\n";
  out += line_of({"workload", "weight", "system", "figure", "÷ " + cells::markdown(c.systems[c.reference].name),
                  "95 % interval, or range", "verdict"});
  out += line_of({"---", "---:", "---", "---:", "---:", "---", "---"});
  const auto row = [&](const std::string& workload, const std::string& weight, std::size_t s, const std::string& figure,
                       const Ratio& r) {
    const std::string open = words::open_points(r, c.replicates);
    out += line_of({workload, weight, cells::markdown(c.systems[s].name), figure,
                    r.value && s != c.reference ? cells::markdown(words::change(*r.value)) : "",
                    s == c.reference ? "" : cells::markdown(words::interval(r)),
                    words::verdict(r) + (open.empty() ? "" : ": " + cells::markdown(open))});
  };
  for (const ComparedRow& one : f.rows)
    for (std::size_t s = 0; s < one.systems.size(); ++s) {
      const auto& figure = one.systems[s].figure;
      const std::string& own = one.systems[s].record;
      row(cells::markdown(own.empty() ? c.workloads[one.workload].id : own), text::significant(one.weight), s,
          figure ? cells::markdown(text::si(*figure)) : "-", one.systems[s].ratio);
    }
  if (f.rows.size() > 1)
    for (std::size_t s = 0; s < f.overall.size(); ++s) row("**overall** (geometric mean)", "1", s, "", f.overall[s]);
  for (const std::string& note : {words::means(f, c), words::left_out(f, c)})
    if (!note.empty()) out += "\n" + cells::markdown(note) + ".\n";
  if (f.ranking.size() > 2 || (f.ranking.size() == 2 && std::ranges::any_of(f.overall, &Ratio::is_decided))) {
    const std::string note = words::ranking_note(f);
    out += fmt::format("\nRanking: {}.{}\n", cells::markdown(words::ranking(f, c)),
                       note.empty() ? "" : " " + cells::markdown(text::sentence(note)));
  }
  return out;
}

}  // namespace

std::string comparison_markdown(const Comparison& c) {
  std::string out = fmt::format("# Comparison against {}\n\n", cells::markdown(c.systems[c.reference].name));
  for (const std::string& line : c.answer) out += "**" + cells::markdown(line) + "**\n\n";
  out += cells::markdown(c.next_step.text) + "\n\n";
  for (const std::string& line : c.rests_on) out += "- " + cells::markdown(line) + "\n";
  out += "\n" + cells::markdown(words::workloads(c)) + ".\n\n";
  for (const words::KeptRules& rules : words::run_rules(c)) out += "- " + cells::markdown(rules.text) + ".\n";
  out += "\n" + cells::markdown(c.replicates_note) + ".\n\n";
  out += line_of({"system", "files", "hosts", "ranks", "program", "points valid"}) +
         line_of({"---", "---", "---", "---", "---", "---:"});
  for (const ComparedSystem& s : c.systems)
    out += line_of({cells::markdown(s.name), cells::markdown(fmt::format("{}", fmt::join(s.paths, ", "))),
                    cells::markdown(s.hosts), cells::markdown(s.devices), cells::markdown(s.program),
                    fmt::format("{} of {}", s.valid, s.records)});
  out += "\n## Differences\n\n" + cells::markdown(text::sentence(words::comparability(c))) + "\n";
  if (!c.differences.empty()) {
    out +=
        "\n" + line_of({"", "what", "system", cells::markdown(c.systems[c.reference].name), "there", "where", "why"});
    out += line_of({"---", "---", "---", "---", "---", "---", "---"});
    for (const Difference& d : c.differences)
      out += line_of({d.blocking ? "**blocks**" : "noted", cells::markdown(d.what),
                      cells::markdown(c.systems[d.system].name), cells::markdown(d.reference_value),
                      cells::markdown(d.system_value), cells::markdown(words::place(d, c)), cells::markdown(d.why)});
  }
  for (const FigureComparison& f : c.figures) out += figure_table(f, c);
  for (const ComparedSystem& s : c.systems)
    if (s.cost) {
      out += fmt::format("\n## Prices of {}\n\n", cells::markdown(s.name)) + line_of({"input", "value", "source"}) +
             line_of({"---", "---", "---"});
      for (const CostInput& one : words::inputs_of(*s.cost))
        out += line_of({one.name, cells::markdown(one.value()), cells::markdown(one.source)});
    }
  if (!c.break_even.empty()) out += "\n## Break-even: where the cheaper system changes\n\n";
  for (const WorkloadBreakEven& one : c.break_even) {
    const auto line = [&](const std::string& text) {
      out += fmt::format("- {}: {}\n", cells::markdown(c.workloads[one.workload].id), cells::markdown(text));
    };
    for (const BreakEven& input : one.inputs) line(input.text);
    if (!one.reason.empty()) line(one.reason);
  }
  return out;
}

std::string comparison_csv(const Comparison& c) {
  std::string out =
      "figure,unit,scope,more_is_better,workload,weight,system,record,figure_value,figure_low,figure_high,reference,"
      "ratio,ratio_low,"
      "ratio_high,is_interval,replicates,detectable_share,replicates_needed,verdict,code,reason,rank\r\n";
  for (const FigureComparison& f : c.figures) {
    const auto row = [&](const std::string& workload, double weight, std::size_t s, const std::string& record,
                         const std::optional<Estimate>& e, const Ratio& r, const std::string& rank) {
      const auto of = [&](auto member) { return e ? cells::number((*e).*member) : ""; };
      out += fmt::format(
          "{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\r\n", f.figure.name,
          cells::text(f.figure.unit), f.scope, f.figure.more_is_better, cells::text(workload), cells::number(weight),
          cells::text(c.systems[s].name), cells::text(record), of(&Estimate::value), of(&Estimate::low),
          of(&Estimate::high), cells::text(c.systems[c.reference].name), cells::number(r.value), cells::number(r.low),
          cells::number(r.high), r.low.has_value() && !r.is_range, r.replicates, cells::number(r.detectable),
          cells::number(r.needed), to_string(r.verdict), r.code, cells::text(r.reason), rank);
    };
    for (const ComparedRow& one : f.rows)
      for (std::size_t s = 0; s < one.systems.size(); ++s)
        row(c.workloads[one.workload].id, one.weight, s, one.systems[s].record, one.systems[s].figure,
            one.systems[s].ratio, "");
    for (std::size_t s = 0; s < f.overall.size(); ++s) {
      std::string rank;
      for (const RankedSystem& one : f.ranking)
        if (one.system == s) rank = std::to_string(one.rank);
      row("overall", 1, s, "", std::nullopt, f.overall[s], rank);
    }
  }
  return out;
}

}  // namespace tw::results
