// The first screen of one report: what was measured, on what, the answer, and what to keep in mind.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <regex>
#include <set>

#include "results/analysis/completeness.hpp"
#include "results/analysis/conditions.hpp"
#include "results/analysis/run_rules.hpp"
#include "results/analysis/scopes.hpp"
#include "results/analysis/statistics.hpp"
#include "results/compare/comparison_words.hpp"
#include "results/html/page.hpp"
#include "results/record/known_texts.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"
#include "results/selection/search.hpp"
#include "results/terminal/choice.hpp"

namespace tw::results::page {
namespace {

using text::count;
using text::sentence;
using text::si;
using text::significant;

bool counts(const Place& place) { return is_valid(*place.record); }

/// The best valid record of a group by a figure, and how many others its interval does not separate from it.
struct Best {
  const Place* place = nullptr;
  Estimate figure;
  std::size_t alike = 0, held_against = 0, disturbed = 0;
  std::set<std::string> disturbed_by;  ///< flags of those that are compared with each other
  /// Anything but one point's figure: that it is the best of several.
  bool is_shown() const { return held_against < 2 || (alike == 0 && disturbed == 0); }
};
Best best_of(const Group& group, bool more_is_better, auto of) {
  Best best;
  for (const Place& place : group.places) {
    const std::optional<Estimate> e = counts(place) ? of(*place.record) : std::nullopt;
    if (!e || !std::isfinite(e->value)) continue;
    ++best.held_against;
    words::Trials alone;
    alone.add({place.record});
    best.disturbed += !alone.disturbed.empty();
    for (const FlagName& flag : alone.disturbed) best.disturbed_by.insert(flag.name);
    if (best.place == nullptr || (more_is_better ? e->value > best.figure.value : e->value < best.figure.value))
      best.place = &place, best.figure = *e;
  }
  for (const Place& place : group.places) {
    const std::optional<Estimate> e = counts(place) && &place != best.place ? of(*place.record) : std::nullopt;
    best.alike += e && !told_apart(*e, best.figure);
  }
  return best;
}
std::string alike_words(const Best& best) {
  if (best.held_against < 2) return "";
  if (best.disturbed > 0)
    return fmt::format("; {} of the {} points were disturbed ({}), so none is shown to be the best", best.disturbed,
                       best.held_against, text::join(best.disturbed_by, ", "));
  if (best.alike == 0) return "; no other point's interval reaches it";
  return fmt::format("; not distinguishable from {} of the other {}", best.alike, best.held_against - 1);
}

/// "Least node energy", of means that are not told apart "Lowest mean node energy", of a single point "Measured node
/// energy".
std::string least_energy(const Best& best, Scope scope) {
  return (best.held_against < 2 ? "Measured " : best.is_shown() ? "Least " : "Lowest mean ") + scope + " energy";
}

/// "; of bf16 and float32, which may not train alike": what the points that were compared with the best do not share.
/// Runs to a target have shown what they train to.
std::string unlike_words(const Group& group, auto of) {
  std::set<std::string> precisions;
  std::set<std::int64_t> batches;
  for (const Place& place : group.places) {
    if (!counts(place) || !of(*place.record)) continue;
    precisions.insert(place.record->workload.precision);
    batches.insert(place.record->workload.global_batch);
  }
  std::vector<std::string> parts;
  if (precisions.size() > 1) parts.push_back("of " + text::join(precisions, " and "));
  if (batches.size() > 1) parts.push_back(fmt::format("in batches of {}", fmt::join(batches, " and ")));
  return parts.empty() ? "" : "; the points are " + text::join(parts, ", ") + ", which may not train alike";
}

/// The widest scope whose joules tell of all valid points, and which any has. Where the joules that are there do not
/// tell, the page says so in the answer's place.
Scope energy_scope(Page& page, const Group& group) {
  const Scope scope = scope_with_joules(group, scopes_that_tell(group));
  if (scope == Scope::none && scope_with_joules(group, training_scopes) != Scope::none)
    page.answer.emplace_back(fmt::format("{}: no answer on energy: {}.", group.name, why_none_tells(group)),
                             Look::note);
  return scope;
}

void add_group(Page& page, const Group& group) {
  const bool to_target = group.places.front().record->target.has_value();
  const Best fastest = best_of(group, !to_target, speed_of);
  if (fastest.place == nullptr) return;
  if (to_target) {
    page.answer.emplace_back(fmt::format("{}: reached in {} by {}{}.", group.name, text::duration(fastest.figure),
                                         fastest.place->name, alike_words(fastest)));
    page.cards.push_back({"Time to target, " + group.name, text::duration(fastest.figure.value), fastest.place->name});
  } else {
    const bool is_alone = fastest.held_against < 2;
    page.answer.emplace_back(fmt::format("{} {} {}: {}{}{}.", group.name,
                                         is_alone             ? "was trained as"
                                         : fastest.is_shown() ? "trains fastest as"
                                                              : "has its highest mean speed as",
                                         fastest.place->name, si(fastest.figure, "samples/s"), alike_words(fastest),
                                         unlike_words(group, speed_of)));
    page.cards.push_back({(is_alone             ? "Speed, "
                           : fastest.is_shown() ? "Fastest, "
                                                : "Highest mean speed, ") +
                              group.name,
                          si(fastest.figure.value, "samples/s"), fastest.place->name});
  }
  constexpr const char* brackets =
      "Brackets show the 95 % interval over the trials of this run; another run may differ by more.";
  if (fastest.figure.low && page.grounds.empty()) page.grounds.emplace_back(brackets);
  const Scope scope = energy_scope(page, group);
  if (scope == Scope::none) return;
  const auto joules_of = [&](const Record& r) { return to_target ? target_joules(r, scope) : sample_joules(r, scope); };
  const Best least = best_of(group, false, joules_of);
  if (least.place == nullptr) return;
  const std::string label = least_energy(least, scope);
  page.answer.emplace_back(fmt::format("{} {}: {}, {}{}{}.", label, to_target ? "to the target" : "per sample",
                                       least.place->name, si(least.figure, to_target ? "J" : "J/sample"),
                                       alike_words(least), to_target ? "" : unlike_words(group, joules_of)));
  page.cards.push_back({label + (to_target ? " to the target, " : ", ") + group.name,
                        to_target ? si(least.figure.value, "J") : significant(least.figure.value) + " J/sample",
                        least.place->name});
}

void add_search(Page& page, const Report& report) {
  if (!report.search) return;
  // In the words of `trainwatt show`, a line each.
  TableStyle style;
  style.width = 100000;
  std::string all = search_text(report, style);
  for (std::size_t at = 0, end; at < all.size(); at = end + 1) {
    end = std::min(all.find('\n', at), all.size());
    std::string line = all.substr(at, end - at);
    line.erase(0, line.find_first_not_of(' '));
    if (!line.empty()) page.answer.emplace_back("Search: " + line + (line.ends_with('.') ? "" : "."));
  }
}

void add_caveats(Page& page, const HtmlSystem& system) {
  const Report& report = system.report;
  const auto caveat = [&](std::string words, Look look) { page.caveats.emplace_back(std::move(words), look); };
  if (!system.faults.empty())
    caveat(fmt::format("Do not rely on this report: trainwatt validate finds {} in it; the first is {}.",
                       count(system.faults.size(), "fault"), system.faults.front()),
           Look::bad);
  if (report.program.name.empty())
    caveat("Records of a run, without its report: context and plan are not in this file.", Look::bad);
  for (const std::string& warning : report.context.warnings)
    if (interrupted.begins(warning)) caveat(sentence(warning), Look::bad);
  for (const Status status : {Status::failed, Status::invalid, Status::unsupported}) {
    const auto is = [&](const Record& record) { return record.verdict.status == status; };
    const auto n = static_cast<std::size_t>(std::ranges::count_if(report.records, is));
    if (n > 0)
      caveat(fmt::format("{} {} {}.", count(n, "point"), n == 1 ? "is" : "are", to_string(status)),
             status == Status::unsupported ? Look::note : Look::bad);
  }
  if (const std::size_t missing = missing_points(report).size(); missing > 0)
    caveat(fmt::format("{} of the plan {} no record.", count(missing, "point"), missing == 1 ? "has" : "have"),
           Look::bad);
  if (const std::vector<std::string> broken = words::rules_broken_in(std::span(&report, 1)); !broken.empty())
    caveat(sentence(words::broken_rules(broken)), Look::bad);
  for (const std::string& more : {run_drift(report.records), words::no_verdict(report)})
    if (!more.empty()) caveat(sentence(more), Look::note);
}

/// The suite, or of options on the command line the networks: "gpt2-tiny, resnet-tiny".
std::string title_of(const Report& report) {
  if (report.plan.suite != "command-line") return report.plan.suite.empty() ? "Training report" : report.plan.suite;
  std::vector<std::string> networks;
  for (const Record& record : report.records)
    if (std::ranges::find(networks, record.workload.model) == networks.end()) networks.push_back(record.workload.model);
  return networks.empty() ? "Training report" : words::first_of(std::move(networks), 3, ", ", " and {} more");
}

/// The small ones become one, behind the others, which shows them when asked.
void fold_small(std::vector<Words>& caveats) {
  const auto is_small = [](const Words& one) { return one.look == Look::small; };
  std::vector<std::string> small;
  for (const Words& one : caveats)
    if (is_small(one)) small.push_back(one.text);
  std::erase_if(caveats, is_small);
  if (small.empty()) return;
  Words folded(small.size() == 1 ? small.front() : fmt::format("{} notes about these figures", small.size()));
  if (small.size() > 1) folded.more = std::move(small);
  caveats.push_back(std::move(folded));
}

/// Of the first screen: "2.74 EUR/h" and "1.25 ± 0.02" are never broken in two lines.
void keep_units_on_their_lines(Page& page) {
  static const std::regex between_figure_and_unit(
      "([0-9]) (?=(?:%|x|°C|[A-Z]{3}|(?:[kMGTPEmn]|µ)?(?:s|J|W|Wh|Hz|B|FLOP|samples|tokens)|"
      "[KMGT]iB|min|h)(?:[^A-Za-z0-9]|$))");
  static const std::regex about_sign(" ± ");
  const auto keep = [](std::string& text) {
    text = std::regex_replace(text, between_figure_and_unit, "$1\u00a0");
    text = std::regex_replace(text, about_sign, "\u00a0±\u00a0");
  };
  const auto keep_all = [&](std::vector<Words>& lines) {
    for (Words& line : lines) keep(line.text), std::ranges::for_each(line.more, keep);
  };
  keep_all(page.answer), keep_all(page.grounds), keep_all(page.caveats), keep(page.subtitle), keep(page.next);
  if (page.overview) std::ranges::for_each(page.overview->rows, keep_all);
  for (Card& card : page.cards) keep(card.label), keep(card.value), keep(card.detail);
}

/// Of a comparison, what each report says of itself is behind its title until asked for; speed is not.
void fold_details(Page& page) {
  static const std::set<std::string> details = {"energy", "scaling", "phases",   "learning", "telemetry",
                                                "points", "ledger",  "verdicts", "rules",    "provenance"};
  for (Section& section : page.sections) section.folded = section.folded || details.contains(section.id);
}

/// A page that names no winner, or is no award to the one it names, has no green tick: it would look like one.
void take_ticks_off(Page& page) {
  const auto plain = [](Words& words) {
    if (words.look == Look::good) words.look = Look::plain;
  };
  const auto of_table = [&](Table& table) {
    for (std::vector<Words>& row : table.rows) std::ranges::for_each(row, plain);
  };
  std::ranges::for_each(page.answer, plain);
  std::ranges::for_each(page.grounds, plain);
  if (page.overview) of_table(*page.overview);
  std::ranges::for_each(page.caveats, plain);
  for (Section& section : page.sections)
    for (Block& block : section.blocks) {
      if (Words* words = std::get_if<Words>(&block)) plain(*words);
      if (Table* table = std::get_if<Table>(&block)) of_table(*table);
      if (Chart* chart = std::get_if<Chart>(&block)) of_table(chart->table);
      if (Choice* choice = std::get_if<Choice>(&block))
        for (auto& [label, charts] : choice->options)
          for (Chart& chart : charts) of_table(chart.table);
    }
}

}  // namespace

void add_answer(Page& page, const std::vector<HtmlSystem>& systems) {
  const Report& report = systems.front().report;
  const std::size_t valid =
      static_cast<std::size_t>(std::ranges::count_if(report.records, [](const Record& r) { return is_valid(r); }));
  std::string hosts = report.context.hosts.empty() ? "" : report.context.hosts.front().name;
  if (report.context.hosts.size() > 1) hosts += fmt::format(" and {} more", report.context.hosts.size() - 1);
  page.title = title_of(report);
  if (!hosts.empty()) page.title += " on " + hosts;
  std::vector<std::string> facts;
  if (!report.context.started_at.empty()) facts.push_back("started " + text::date(report.context.started_at));
  if (!report.plan.canonical_json.empty())
    facts.push_back("plan " + sha256_hex(report.plan.canonical_json).substr(0, 12));
  page.subtitle = text::join(facts, "; ");
  page.cards.push_back({"Points that count", fmt::format("{} of {}", valid, report.records.size()),
                        valid == report.records.size() ? "all of them" : "see Verdicts"});
  const std::vector<RunRuleCheck> rules = check_run_rules(report);
  const auto number = [&](RunRuleState state) { return std::ranges::count(rules, state, &RunRuleCheck::state); };
  const std::vector<Group> groups = workloads(systems);
  constexpr std::size_t most_groups = 4;  // on the first screen; all are in the tables
  for (std::size_t g = 0; g < groups.size() && g < most_groups; ++g) add_group(page, groups[g]);
  if (groups.size() > most_groups)
    page.answer.emplace_back(fmt::format("And {} more, under Points.", count(groups.size() - most_groups, "workload")));
  add_search(page, report);
  if (report.records.empty())
    page.answer.emplace_back("No points were run.", Look::bad);
  else if (page.answer.empty())
    page.answer.emplace_back("No point of this report counts, so it has no valid figures.", Look::bad);
  page.cards.push_back({"Run rules",
                        fmt::format("{} kept, {} broken", number(RunRuleState::kept), number(RunRuleState::broken)),
                        fmt::format("{} not checkable, {} do not apply", number(RunRuleState::not_checkable),
                                    number(RunRuleState::not_applicable))});
  page.next = words::next_step(report).text;
  add_caveats(page, systems.front());
}

Page build(const std::vector<HtmlSystem>& systems, const Comparison* comparison) {
  Page page;
  page.kind = comparison == nullptr ? "report" : "comparison";
  for (const HtmlSystem& system : systems) page.records += system.report.records.size();
  if (comparison == nullptr)
    add_answer(page, systems);
  else
    add_comparison(page, *comparison);
  for (const HtmlSystem& system : systems)
    if (const std::string machine = machine_words(system.report); !machine.empty())
      page.machines.push_back(whose(systems, system) + machine);
  for (const HtmlSystem& system : systems)
    if (const std::size_t n = system.notes.size(); n > 0)
      page.caveats.emplace_back(
          fmt::format("{}trainwatt validate notes: {}{}.", whose(systems, system), system.notes.front(),
                      n > 1 ? fmt::format("; {} more under Provenance", n - 1) : ""),
          Look::note);
  std::vector<std::string> several;
  for (const HtmlSystem& system : systems)
    if (system.runs > 1) several.push_back(fmt::format("{} of {}", count(system.runs, "run"), system.name));
  if (!several.empty())
    page.caveats.emplace_back("Ratios are based on all runs (" + text::join(several, ", ") +
                                  "); charts and tables of points show the first run.",
                              Look::small);
  for (Words& words : missing_energy(systems)) page.caveats.push_back(std::move(words));
  fold_small(page.caveats);
  page.sections.push_back(pareto_section(systems, comparison));
  page.sections.push_back(cost_section(systems, comparison));
  for (const auto section :
       {speed_section, energy_section, scaling_section, phases_section, learning_section, telemetry_section,
        points_section, ledger_section, verdicts_section, rules_section, provenance_section})
    page.sections.push_back(section(systems));
  if (comparison != nullptr) fold_details(page);
  if (comparison != nullptr && (!comparison->names_one() || !comparison->not_an_award.empty())) take_ticks_off(page);
  keep_units_on_their_lines(page);
  const auto take = [&](const std::string& id) {
    const auto found = std::ranges::find(page.sections, id, &Section::id);
    for (const Block& block : found->blocks)
      if (const Table* table = std::get_if<Table>(&block))
        page.main_tables.push_back(*table), page.main_tables.back().folded = false;
      else if (const Chart* chart = std::get_if<Chart>(&block))
        page.main_tables.push_back(chart->table);
  };
  if (comparison != nullptr) take("ratios");
  take("points");
  for (std::size_t i = page.overview ? 0 : 1; i < page.main_tables.size(); ++i) page.main_tables[i].folded = true;
  return page;
}

}  // namespace tw::results::page
