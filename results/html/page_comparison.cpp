// The first screen and the sections of a comparison (results/compare/comparison.hpp), before those of its reports.
#include <fmt/format.h>

#include <algorithm>
#include <ranges>
#include <set>

#include "results/compare/comparison_words.hpp"
#include "results/html/page.hpp"
#include "results/record/text.hpp"

namespace tw::results::page {
namespace {

using text::sentence;
using text::si;
using text::significant;

/// "Precision: bf16 of A, float32 of B. Fewer bits are less work."
std::string blocking_words(const Difference& d, const std::vector<std::string>& names, std::size_t reference) {
  const bool is_of_reference = d.system == reference || d.reference_value.empty();
  const std::string of_reference = is_of_reference ? "" : d.reference_value + " of " + names[reference] + ", ";
  return sentence(d.what + ": " + of_reference + d.system_value + " of " + names[d.system]) + " " + sentence(d.why);
}
/// "+23.0 % (+20.1 to +26.2)"; without a ratio the verdict.
std::string ratio_words(const Ratio& ratio) {
  if (!ratio.value) return to_string(ratio.verdict == Claim::none ? Claim::absent : ratio.verdict);
  return ratio.verdict == Claim::reference ? "" : words::change(ratio);
}
Words verdict_words(const Ratio& ratio) {
  const Claim v = ratio.verdict;
  const Look look = v == Claim::better                                ? Look::good
                    : v == Claim::worse || v == Claim::not_comparable ? Look::bad
                    : !ratio.is_decided() && v != Claim::reference    ? Look::note
                                                                      : Look::quiet;
  const std::string why = words::why_open(ratio);
  return {words::verdict(ratio) + (why.empty() ? "" : ": " + why), look};
}
std::string needed_words(const Ratio& ratio) {
  if (!ratio.needed) return "";
  return fmt::format("{}{}", *ratio.needed, *ratio.needed >= most_replicates ? " or more" : "");
}
std::string title_of(const FigureComparison& figure) {
  std::string title = (figure.scope == Scope::none ? "" : figure.scope + " ") + figure.figure.name;
  if (title[0] >= 'a' && title[0] <= 'z') title[0] = static_cast<char>(title[0] - 'a' + 'A');
  return title;
}

/// The id of a system's own point of a workload; the reference's where it has none.
const std::string& own_id(const ComparedWorkload& workload, std::size_t system) {
  const bool has_own = system < workload.records.size() && !workload.records[system].empty();
  return has_own ? workload.records[system] : workload.id;
}
/// Of each workload of the comparison, one for each system: what each ran, with any split of the batch.
struct WorkloadNames {
  std::vector<std::vector<std::string>> names;  // by workload and system
  std::string shared;
};
WorkloadNames workload_names(const Comparison& comparison) {
  std::vector<std::string> ids;
  std::set<std::string> networks;
  for (const ComparedWorkload& one : comparison.workloads)
    for (std::size_t s = 0; s < comparison.systems.size(); ++s)
      ids.push_back(own_id(one, s)), networks.insert(ids.back().substr(0, ids.back().find('/')));
  if (ids.empty()) return {};
  const ShortNames found = short_names(ids, networks.size() > 1);
  WorkloadNames all{{}, found.shared};
  for (std::size_t w = 0, at = 0; w < comparison.workloads.size(); ++w) {
    all.names.emplace_back();
    for (std::size_t s = 0; s < comparison.systems.size(); ++s) all.names.back().push_back(found.names[at++]);
  }
  return all;
}
/// "bf16, accumulate 1"; "A: accumulate 4, 2 processes / B: accumulate 2, 4 processes" where they differ.
std::string of_all_systems(const std::vector<std::string>& names, const Comparison& comparison) {
  if (std::ranges::all_of(names, [&](const std::string& name) { return name == names.front(); })) return names.front();
  std::vector<std::string> parts;
  for (std::size_t s = 0; s < names.size(); ++s) parts.push_back(comparison.systems[s].name + ": " + names[s]);
  return text::join(parts, " / ");
}
/// "Workloads: bf16, accumulate 1; bf16, accumulate 4 (all: 2 processes)."
std::string workloads_compared(const Comparison& comparison) {
  constexpr std::size_t most = 6;
  const WorkloadNames found = workload_names(comparison);
  std::vector<std::string> names;
  for (const std::vector<std::string>& one : found.names) names.push_back(of_all_systems(one, comparison));
  if (names.empty()) return "No workloads.";
  const bool has_parts = std::ranges::any_of(
      names | std::views::take(most), [](const std::string& name) { return name.find(", ") != name.npos; });
  return fmt::format("Workload{}: {}{}.", names.size() == 1 ? "" : "s",
                     words::first_of(names, most, has_parts ? "; " : ", ", " and {} more"),
                     found.shared.empty() ? "" : " (all: " + found.shared + ")");
}

/// " over runs", " over the trials of one run": what the 95 % intervals are over.
std::string intervals_over(const Comparison& comparison) {
  bool has_single = false, has_other = false;
  for (const FigureComparison& figure : comparison.figures)
    for (const Ratio& r : figure.overall)
      (r.verdict == Claim::single_run ? has_single : has_other) |= r.low && r.verdict != Claim::reference;
  if (has_single)
    return has_other ? " over runs, or over the trials of a system with one run" : " over the trials of one run";
  return comparison.replicates != Replicates::trials || !comparison.learned.empty() ? " over runs" : "";
}

Chart ratio_chart(const Comparison& comparison, const FigureComparison& figure) {
  const std::string& reference = comparison.systems[comparison.reference].name;
  Chart chart;
  chart.kind = "bars", chart.from_zero = false, chart.logarithmic = true;
  chart.title = title_of(figure) + ": ratio to " + reference;
  chart.note = std::string(figure.figure.more_is_better ? "Above 1 is better. " : "Below 1 is better. ") +
               "The whisker is the 95 % interval" + intervals_over(comparison) +
               "; where no interval can be given, the range from the worst to the best case. The scale is logarithmic.";
  chart.x_title = "ratio", chart.line = 1, chart.line_label = reference;
  chart.table = {
      chart.title,
      {"Workload", "System", figure.figure.unit, "Change", "Verdict", "Smallest detectable difference", "Runs needed"}};
  DataSet set{"ratio"};
  const WorkloadNames names = workload_names(comparison);
  struct Bar {
    std::string category;
    Datum datum;
  };
  std::vector<Bar> bars;
  const auto add = [&](const Words& workload, std::size_t s, const std::string& value, const Ratio& ratio) {
    const std::string& system = comparison.systems[s].name;
    chart.table.rows.push_back({workload, system, number(value), number(ratio_words(ratio)), verdict_words(ratio),
                                number(ratio.detectable ? significant(100 * *ratio.detectable, 2) + " %" : ""),
                                number(needed_words(ratio))});
    if (s == comparison.reference) return;
    Datum datum(ratio.value.value_or(1), static_cast<double>(s),
                fmt::format("{}, {}: {}, {}", workload.tip, system, ratio_words(ratio), words::verdict(ratio)),
                ratio.is_decided());
    datum.low = ratio.low, datum.high = ratio.high, datum.mark = words::verdict(ratio);
    bars.push_back({(comparison.systems.size() > 2 ? system + ": " : "") + workload.text, std::move(datum)});
  };
  for (const ComparedRow& row : figure.rows)
    for (std::size_t s = 0; s < row.systems.size(); ++s)
      add({names.names[row.workload][s], Look::plain, own_id(comparison.workloads[row.workload], s)}, s,
          row.systems[s].figure ? si(row.systems[s].figure->value) : "", row.systems[s].ratio);
  // The best first, and of all workloads together behind those of each.
  const auto sort = [&](std::size_t from) {
    std::ranges::stable_sort(bars.begin() + static_cast<std::ptrdiff_t>(from), bars.end(), {},
                             [&](const Bar& bar) { return figure.figure.more_is_better ? -bar.datum.x : bar.datum.x; });
  };
  sort(0);
  const std::size_t own = bars.size();
  if (figure.overall_reason.empty() && figure.rows.size() > 1)
    for (std::size_t s = 0; s < figure.overall.size(); ++s)
      add({"overall", Look::plain, "overall"}, s, "", figure.overall[s]);
  sort(own);
  for (Bar& bar : bars) chart.categories.push_back(std::move(bar.category)), set.data.push_back(std::move(bar.datum));
  chart.sets.push_back(std::move(set));
  return chart;
}

Section comparability(const Comparison& comparison) {
  Section section{"comparability", "What differs",
                  fmt::format("Differences from {}: {}.", comparison.systems[comparison.reference].name,
                              words::comparability(comparison))};
  Table table("Differences", {"What", "Weight", "Where", "Reference", "System", "Value", "Why"});
  for (const Difference& d : comparison.differences)
    table.rows.push_back({d.what, d.blocking ? Words{"blocking", Look::bad} : Words{"noted", Look::note},
                          d.workloads.empty() ? "everywhere" : words::place(d, comparison), d.reference_value,
                          comparison.systems[d.system].name, d.system_value, d.why});
  if (table.rows.empty()) section.say("No relevant difference was found between the runs.", Look::good);
  section.add(std::move(table));
  return section;
}

/// "350, better: +31.0 % (+29.7 to +32.3)", "350, not decided: looked +6.00 % (-1.00 to +13.0)": the figure over all
/// workloads, and its change against the reference.
Words overview_cell(const FigureComparison& figure, std::size_t s, std::size_t reference) {
  const Ratio& ratio = figure.overall_reason.empty() ? figure.overall[s] : figure.rows.front().systems[s].ratio;
  const std::optional<double> own = words::geometric_mean(figure, s);
  const std::string absolute = own ? si(*own) + ", " : "";
  if (s == reference) return absolute + "the reference";
  const std::string change =
      ratio.value ? (ratio.names_one() ? ": " : ": looked ") + words::change(ratio) : std::string();
  return {absolute + words::verdict(ratio) + change + (ratio.verdict == Claim::single_run ? " over trials" : ""),
          !ratio.names_one()               ? Look::plain
          : ratio.verdict == Claim::better ? Look::good
                                           : Look::bad};
}
/// A row for each system, the best by the first figure first. Only what is claimed is called good or bad.
Table overview(const Comparison& comparison) {
  const std::string sorted = comparison.systems.size() < 3 || comparison.figures.empty()
                                 ? ""
                                 : "; sorted by " + comparison.figures.front().figure.name;
  const std::string caption =
      fmt::format("Each system against {}, with 95 % intervals{}{}", comparison.systems[comparison.reference].name,
                  intervals_over(comparison), sorted);
  Table table(caption, {"System"});
  std::vector<std::size_t> order;
  for (const FigureComparison& figure : comparison.figures) {
    if (figure.rows.empty()) continue;
    table.head.push_back(
        fmt::format("{} ({}{})", title_of(figure), figure.figure.unit, figure.note.empty() ? "" : ", " + figure.note));
    for (const RankedSystem& one : figure.ranking)
      if (std::ranges::find(order, one.system) == order.end()) order.push_back(one.system);
  }
  for (std::size_t s = 0; s < comparison.systems.size(); ++s)
    if (std::ranges::find(order, s) == order.end()) order.push_back(s);
  for (const std::size_t s : order) {
    std::vector<Words> row = {comparison.systems[s].name};
    for (const FigureComparison& figure : comparison.figures)
      if (!figure.rows.empty()) row.push_back(overview_cell(figure, s, comparison.reference));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Section ratios(const Comparison& comparison) {
  const bool names_one = comparison.names_one();
  Section section{"ratios",
                  names_one ? "Which is better, and by how much" : "How they differ; none is shown to be better", ""};
  for (const FigureComparison& figure : comparison.figures) {
    if (figure.rows.empty()) continue;
    section.blocks.emplace_back(ratio_chart(comparison, figure));
    if (const std::string note = words::means(figure, comparison); !note.empty())
      section.say(sentence(note), Look::note);
    if (!figure.overall_reason.empty())
      section.say(sentence("No overall ratio: " + figure.overall_reason), Look::quiet);
    if (comparison.systems.size() > 2 && !figure.ranking.empty()) {
      Table ranking("Ranking by " + title_of(figure), {"Rank", "System", "Change from the reference"});
      for (const RankedSystem& one : figure.ranking) {
        const bool has_change = one.ratio && one.system != comparison.reference;
        ranking.rows.push_back({one.tied ? "not decided" : std::to_string(one.rank),
                                comparison.systems[one.system].name,
                                number(has_change ? words::change(figure.overall[one.system]) : "")});
      }
      section.add(std::move(ranking));
      if (const std::string note = words::ranking_note(figure); !note.empty()) section.say(sentence(note), Look::note);
    }
  }
  if (section.blocks.empty()) section.say("The reference and the other systems have no figure in common.", Look::note);
  return section;
}

}  // namespace

void add_comparison(Page& page, const Comparison& comparison) {
  std::vector<std::string> names;
  for (const ComparedSystem& system : comparison.systems) names.push_back(system.name);
  std::vector<std::string> others = names;
  others.erase(others.begin() + static_cast<std::ptrdiff_t>(comparison.reference));
  page.title = names.size() == 2 ? others.front() + " against " + names[comparison.reference]
                                 : words::listed(names) + " compared";
  page.subtitle = fmt::format("{} {}.", workloads_compared(comparison), words::dates(comparison));
  if (!comparison.compared) page.answer.emplace_back("Nothing could be compared.", Look::bad);
  for (std::size_t i = 0; i < comparison.answer.size(); ++i) {
    const bool is_bad = !comparison.compared || (i == 0 && !comparison.not_an_award.empty());
    auto& place = i < comparison.first_of_systems ? page.answer : page.grounds;
    place.emplace_back(comparison.answer[i], is_bad ? Look::bad : Look::plain);
  }
  page.next = comparison.next_step.text;
  for (std::size_t i = 0; i < comparison.rests_on.size(); ++i)
    if (i < comparison.first_detail)
      page.grounds.emplace_back(comparison.rests_on[i]);
    else
      page.caveats.emplace_back(comparison.rests_on[i], Look::small);
  for (const Difference& d : comparison.differences)
    if (d.blocking) page.caveats.emplace_back(blocking_words(d, names, comparison.reference), Look::bad);
  std::vector<std::string> left_out;  // the same of several figures once
  for (const FigureComparison& figure : comparison.figures)
    if (const std::string left = words::left_out(figure, comparison);
        !left.empty() && std::ranges::find(left_out, left) == left_out.end()) {
      left_out.push_back(left);
      page.caveats.emplace_back(fmt::format("Overall ratios are {}.", left), Look::bad);
    }
  for (const words::KeptRules& rules : words::run_rules(comparison))
    page.caveats.emplace_back(rules.text + ".", rules.kept ? Look::plain : Look::bad);
  if (!comparison.replicates_note.empty()) page.caveats.emplace_back(sentence(comparison.replicates_note), Look::small);
  for (const ComparedSystem& system : comparison.systems)
    if (system.valid < system.records)
      page.caveats.emplace_back(fmt::format("{} of {} points of {} do not count.", system.records - system.valid,
                                            system.records, system.name),
                                Look::note);
  if (Table table = overview(comparison); table.head.size() > 1) page.overview = std::move(table);
  page.sections.push_back(ratios(comparison));
  page.sections.push_back(comparability(comparison));
}

}  // namespace tw::results::page
