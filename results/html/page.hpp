// What the HTML page shows, as plain data: words, tables and charts that are already chosen and worded, so that the
// page's own script only draws. Built from reports by page_*.cpp, written by html.cpp and
// html_static.cpp; internal to results/.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "results/compare/comparison.hpp"
#include "results/html/html.hpp"
#include "results/record/record.hpp"

namespace tw::results {

// The page's own parts, compiled in.
std::string html_template();       ///< results/html/page.html
std::string html_style();          ///< results/html/page.css
std::string html_script();         ///< results/html/charts.js, then page.js
std::string html_chart_library();  ///< Chart.js; empty if the build had none

}  // namespace tw::results

namespace tw::results::page {

/// How words are drawn: good, bad, note and quiet have a sign as well as a colour. build() folds all small caveats into
/// one.
enum class Look { plain, number, good, bad, note, quiet, small };
/// As page.js and page.css have it: "", "number", "good", …
const char* name_of(Look look);

/// A sentence or a cell.
struct Words {
  Words(std::string words = {}, Look how = Look::plain, std::string whole = {})
      : text(std::move(words)), look(how), tip(std::move(whole)) {}
  Words(const char* words, Look how = Look::plain) : text(words), look(how) {}
  std::string text;
  Look look = Look::plain;
  std::string tip;                ///< shown where the pointer rests: the whole id of a short name
  std::vector<std::string> more;  ///< behind the sentence until asked for, a line each
};
struct Table {
  Table(std::string title = {}, std::vector<std::string> columns = {}, bool is_folded = false)
      : caption(std::move(title)), head(std::move(columns)), folded(is_folded) {}
  std::string caption;
  std::vector<std::string> head;         ///< the first column names its row
  std::vector<std::vector<Words>> rows;  ///< as many cells as `head`
  bool folded = false;                   ///< behind its caption until asked for; printed all the same
};
/// One thing that is drawn: a bar, a dot, a piece of a line.
struct Datum {
  Datum(double at, double up, std::string words = {}, bool is_counted = true)
      : x(at), y(up), text(std::move(words)), counts(is_counted) {}
  Datum(double at, const Estimate& e, std::string words) : x(at), y(e.value), low(e.low), high(e.high), text(words) {}
  double x = 0, y = 0;              ///< of bars x is the length and y counts for nothing
  std::optional<double> low, high;  ///< of the interval: along x of bars, along y of all else
  std::string text;                 ///< what a tooltip and a screen reader say
  std::string mark;                 ///< written beside it: "knee", "unsupported"
  bool counts = true;               ///< false: drawn as what does not count
};
struct DataSet {
  std::string label;
  int color = 0;                 ///< place in the page's palette
  std::string style = {};        ///< "" as the chart's kind has it; "line", "dashed", "projected": led to, not measured
  std::vector<Datum> data = {};  ///< of bars and stacks one for each category
  std::optional<int> shape = {};  ///< of its dots, place among the page's; absent: as the colour
};
struct Chart {
  /// Lying "bars", "stack" and "tornado" (two sets over each other, to both sides of `line`); "scatter", "lines"
  std::string kind;
  std::string title, note;              ///< note: how to read it
  std::string x_title, y_title;         ///< with units; of bars x is the length
  std::vector<std::string> categories;  ///< of bars, stacks and tornados
  std::optional<double> line;           ///< across the chart: a target, parity
  std::string line_label;
  bool from_zero = true;  ///< whether the axis of figures begins at 0; no axis goes below it where no figure does
  std::optional<double> end = {};  ///< of the axis of stacks, where nothing reaches beyond it
  bool logarithmic = false;        ///< the axis of bars: of ratios, which lie as far above 1 as their inverse below
  std::vector<DataSet> sets;
  Table table;  ///< the same figures to read
};
/// Charts of which one group is shown at a time.
struct Choice {
  std::string label;  ///< of the selection
  std::vector<std::pair<std::string, std::vector<Chart>>> options;
};
using Block = std::variant<Words, Table, Chart, Choice>;
struct Section {
  std::string id, title, lead;     ///< id: of the HTML element
  std::vector<Block> blocks = {};  ///< never empty: what is absent is a sentence with its reason
  bool absent = false;             ///< the report has nothing for it: its sentence is listed behind all other sections
  bool folded = false;             ///< behind its title until asked for; printed all the same
  void say(const std::string& words, Look look) { blocks.emplace_back(Words(words, look)); }
  /// Unless it is empty.
  void add(Table table) {
    if (!table.rows.empty()) blocks.emplace_back(std::move(table));
  }
  /// Absent, and why, where it has nothing.
  void say_if_empty(const std::string& words) {
    absent = blocks.empty();
    if (absent) say(words, Look::quiet);
  }
};
struct Card {
  std::string label, value, detail;
};
struct Page {
  std::string kind, title, subtitle;  ///< "report" or "comparison"
  std::vector<std::string> machines;  ///< "1 node (AMD EPYC 7502P), 2 processes"; of a comparison "A: 1 …"
  std::vector<Words> answer, caveats;
  std::optional<Table> overview;  ///< of a comparison, behind the answer: what the answer says, for each system
  std::vector<Words> grounds;     ///< of a comparison, behind the overview: each system in words, runs and prices
  std::vector<Card> cards;        ///< of a report
  std::vector<Section> sections;
  /// What a reader without scripts has, beside the answer: the tables that the charts are of, charts' own among them.
  std::vector<Table> main_tables;
  std::size_t records = 0;  ///< of all systems; as many are drawn under "speed"
  std::string next = {};    ///< "Next: …", what to do after the answer
};

/// A record, and whose it is.
struct Place {
  std::size_t system = 0;
  const Record* record = nullptr;
  std::string id;    ///< after the system's name where there are several
  std::string name;  ///< the same in short: what distinguishes it from the others of its group
  Words words() const { return {name, Look::plain, id}; }
};
/// Records that train the same, in the order of their first one.
struct Group {
  std::string name;  ///< "gpt2-tiny"
  std::string note;  ///< what the names leave out: "All: micro-batch 8, 128 tokens."; else empty
  std::vector<Place> places;
};
std::vector<Group> workloads(const std::vector<HtmlSystem>& systems);

/// What distinguishes points, and what they share, in words. An id is read as the plan writes it, parts joined by '/':
/// "gpt2-tiny/bf16/mb8/t128/acc4/np2/gpu_clock=810"; a part of another form stays as it is.
struct ShortNames {
  std::vector<std::string> names;  ///< one for each id: "bf16, accumulate 4"; different ids have different names
  std::string shared;              ///< "micro-batch 8, 128 tokens, 2 processes"; empty if nothing is left out
};
/// `keep_network`: the first part is said even where all share it.
ShortNames short_names(const std::vector<std::string>& ids, bool keep_network);

/// "A: " where there are several systems; empty of one.
std::string whose(const std::vector<HtmlSystem>& systems, const HtmlSystem& system);

/// For each system, for each record: the short name with the whole id (Words::tip), both after whose() they are.
std::vector<std::vector<Words>> point_names(const std::vector<HtmlSystem>& systems);

/// "2 nodes (AMD EPYC 7502P, 8 x NVIDIA H100), 8 processes"; empty if the report does not say.
std::string machine_words(const Report& report);

/// Whether something was run and no point has joules of any scope.
bool lacks_energy(const Report& report);
bool all_lack_energy(const std::vector<HtmlSystem>& systems);
/// That of these systems energy was not measured, and why in a sentence; the reason of each meter behind it
/// (Words::more). Systems with the same text share one entry; none if all have joules.
std::vector<Words> missing_energy(const std::vector<HtmlSystem>& systems);

/// Whether a search over settings could be run on the machine: some device accepted a set point.
bool has_knob(const Report& report);

/// samples/s, or to a target the seconds.
std::optional<Estimate> speed_of(const Record& record);
Words number(std::string words);           ///< a cell that holds a figure
Words status_words(const Record& record);  ///< "valid", or why not
/// Each distinct reason for which the records have no joules: "no_energy_meter: rapl: no_driver".
std::string why_no_joules(const std::vector<HtmlSystem>& systems);
/// In the place of a chart of joules: that there are none; why, unless no system has any (missing_energy() says it).
Words no_joules(const std::vector<HtmlSystem>& systems);

/// Which of these scopes has joules of any of the places; empty: none.
Scope scope_with_joules(const Group& group, std::span<const Scope> scopes);
/// Scopes whose joules are valid for all valid points of the group, the widest first (results/analysis/scopes.hpp).
std::vector<Scope> scopes_that_tell(const Group& group);
/// Why joules that are there hold none of the group's points against another.
std::string why_none_tells(const Group& group);

void add_answer(Page& page, const std::vector<HtmlSystem>& systems);
void add_comparison(Page& page, const Comparison& comparison);

Section points_section(const std::vector<HtmlSystem>& systems);
Section speed_section(const std::vector<HtmlSystem>& systems);
/// `comparison`: null of one report.
Section pareto_section(const std::vector<HtmlSystem>& systems, const Comparison* comparison);
Section cost_section(const std::vector<HtmlSystem>& systems, const Comparison* comparison);
Section energy_section(const std::vector<HtmlSystem>& systems);
Section scaling_section(const std::vector<HtmlSystem>& systems);
Section phases_section(const std::vector<HtmlSystem>& systems);
Section learning_section(const std::vector<HtmlSystem>& systems);
Section telemetry_section(const std::vector<HtmlSystem>& systems);
Section ledger_section(const std::vector<HtmlSystem>& systems);
Section verdicts_section(const std::vector<HtmlSystem>& systems);
Section rules_section(const std::vector<HtmlSystem>& systems);
Section provenance_section(const std::vector<HtmlSystem>& systems);

/// All of the above. `systems` are printable already.
Page build(const std::vector<HtmlSystem>& systems, const Comparison* comparison);

// ---- html_static.cpp: what needs no script (previews in mail) ----
/// Text valid between tags and in an attribute's value in double quotes.
std::string for_text(const std::string& raw);

/// Title, answer, cards, what to keep in mind and Page::main_tables as HTML. The page's script replaces it as a whole
/// (#page) by what it draws, so that nothing occurs twice. Every text passes for_text().
std::string static_html(const Page& page, const std::string& made_by);

}  // namespace tw::results::page
