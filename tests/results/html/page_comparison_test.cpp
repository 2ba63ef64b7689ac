// What the page says of a comparison, and of scaling.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "results/compare/comparison_words.hpp"
#include "results/export/export.hpp"
#include "results/html/html.hpp"
#include "results/html/page.hpp"
#include "results/selection/pareto.hpp"
#include "results/terminal/choice.hpp"
#include "results/terminal/tables.hpp"
#include "tests/results/compare/compared.hpp"
#include "tests/results/html/page_parts.hpp"
#include "tests/results/made_reports.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;
namespace said_of = tw::results::words;

/// Two workloads of which one is better, the other worse by as much.
Comparison split() {
  const std::vector<SystemInput> systems = {
      made_system("A", {made_record("m1", around(100)), made_record("m2", around(100))}),
      made_system("B", {made_record("m1", around(200)), made_record("m2", around(50))})};
  std::vector<SystemInput> told_apart = systems;
  for (SystemInput& system : told_apart)
    for (Record& record : system.runs[0].records) record.workload.hash = record.workload.model = record.id;
  return compare(told_apart, {});
}

TEST(PageComparison, OneRunOfEachHasNoWinnerNoRingAndNoTick) {
  std::vector<SystemInput> systems = {made_system("A", {made_record("x", around(100), 3000)}),
                                      made_system("B", {made_record("x", around(200), 3000)})};
  for (const bool single : {true, false}) {
    if (!single)
      for (SystemInput& system : systems) repeat(system, 5);
    const Comparison c = compare(systems, {});
    EXPECT_EQ(c.names_one(), !single);
    const page::Page page = page::build({{"A", systems[0].runs[0]}, {"B", systems[1].runs[0]}}, &c);
    int ticks = 0, rings = 0;
    const auto look_at = [&](const page::Words& one) { ticks += one.look == page::Look::good; };
    for (const page::Words& one : page.answer) look_at(one);
    for (const page::Words& one : page.caveats) look_at(one);
    for (const page::Section& one : page.sections)
      for (const page::Block& block : one.blocks) {
        if (const page::Table* table = std::get_if<page::Table>(&block))
          for (const auto& row : table->rows) std::ranges::for_each(row, look_at);
        if (const page::Chart* chart = std::get_if<page::Chart>(&block))
          for (const auto& row : chart->table.rows) {
            std::ranges::for_each(row, look_at);
            rings += one.id == "pareto" && row.at(3).text.starts_with("yes");
          }
      }
    EXPECT_EQ(ticks > 0, !single);
    EXPECT_EQ(rings > 0, !single);
  }
}

TEST(PageComparison, AllSystemsAreInOneTableTheBestFirst) {
  std::vector<SystemInput> systems;
  std::vector<HtmlSystem> pages;
  for (const double factor : {1.0, 0.9, 1.4, 1.1, 1.2, 1.3}) {
    std::vector<double> speeds = {100, 101, 99, 100.5, 99.5};
    for (double& speed : speeds) speed *= factor;
    systems.push_back(several("S" + std::to_string(systems.size()), {made_record("m", speeds)}));
    pages.push_back({systems.back().name, systems.back().runs[0]});
  }
  const Comparison c = compare(systems, {});
  const page::Page page = page::build(pages, &c);
  EXPECT_TRUE(page.cards.empty()) << "the table says it";
  ASSERT_TRUE(page.overview);
  std::string order;
  for (const auto& row : page.overview->rows) order += row.at(0).text;
  EXPECT_EQ(order, "S2S5S4S3S0S1");
  EXPECT_EQ(page.overview->rows[0].at(1).look, page::Look::good);
  EXPECT_EQ(page.overview->rows[4].at(1).look, page::Look::plain) << "the reference";
  EXPECT_EQ(page.overview->rows[5].at(1).look, page::Look::bad);
}

/// Three systems in five runs each, at these speeds.
Comparison three(const std::vector<double>& speeds, double spread, int runs = 5) {
  std::vector<SystemInput> systems;
  for (std::size_t s = 0; s < speeds.size(); ++s) {
    std::vector<double> of_runs;
    for (int run = 0; run < runs; ++run)
      of_runs.push_back(speeds[s] * (1 + spread * ((3 * run + 2 * static_cast<int>(s)) % 5 - 2)));
    systems.push_back(runs_at(std::string(1, static_cast<char>('A' + s)), of_runs));
  }
  return compare(systems, {});
}

/// The first sentence names who is better than all others, with figures, and what none is shown to be better in; no
/// sign needs a legend.
TEST(PageComparison, TheFirstSentenceSaysWhoIsBestOrThatItIsNotDecided) {
  struct Case {
    Comparison comparison;
    std::string begins;
    bool names_one;
  };
  for (const Case& one :
       {Case{three({1, 1.3, 0.9}, 0.003), "B is better than A and C in speed (", true},
        Case{three({1, 1.01, 0.99}, 0.05), "Not decided: ", false},
        Case{three({1, 1.3, 0.9}, 0.003, 1),
             "Not decided: in this one run of each, which decides nothing, B was best in speed (", false}}) {
    const Comparison& c = one.comparison;
    EXPECT_EQ(c.first_of_systems, 1u);
    ASSERT_EQ(c.answer.size(), 3u) << "the conclusion, B and C";
    EXPECT_TRUE(c.answer[0].starts_with(one.begins)) << c.answer[0];
    const auto& ranking = figure(c).ranking;
    EXPECT_EQ(c.systems[ranking[0].system].name, "B");
    EXPECT_EQ(ranking[0].beats, one.names_one ? 2u : 0u);
    EXPECT_EQ(ranking[2].beats, 0u);
    page::Page page;
    page::add_comparison(page, c);
    ASSERT_EQ(page.answer.size(), 1u);
    EXPECT_EQ(page.answer[0].text, c.answer[0]);
    EXPECT_NE(joined(page.grounds).find(c.answer[1]), std::string::npos);
    ASSERT_TRUE(page.overview);
    EXPECT_EQ(page.overview->rows.at(0).at(0).text, "B");
    EXPECT_EQ(page.overview->rows.at(0).at(1).look, one.names_one ? page::Look::good : page::Look::plain);
    for (const std::string& text : {comparison_text(c, {}, {false, 400}), comparison_markdown(c)}) {
      EXPECT_NE(text.find(c.answer[0].substr(0, 30)), std::string::npos) << text;
      EXPECT_EQ(text.find(" = A"), std::string::npos) << text;
      EXPECT_EQ(text.find("not decided between ") != std::string::npos, !one.names_one) << text;
    }
  }
}

/// Who is not better than one of two others is not the best, and the order says between whom it is not decided.
TEST(PageComparison, APartlyDecidedOrderNamesThoseBetweenWhomItIsNot) {
  const Comparison c = three({1, 1.01, 0.5}, 0.03);
  ASSERT_EQ(c.first_of_systems, 2u);
  EXPECT_TRUE(c.answer[0].starts_with("Not decided: ")) << c.answer[0];
  EXPECT_TRUE(c.answer[1].starts_with("By throughput: 1. not decided between ")) << c.answer[1];
  EXPECT_NE(c.answer[1].find("; 3. C ("), std::string::npos) << c.answer[1];
  EXPECT_EQ(figure(c).ranking[0].beats, 1u);
}

TEST(PageComparison, WhatEachReportSaysOfItselfIsFolded) {
  const Comparison c = three({1, 1.3, 0.9}, 0.003);
  const page::Page of_three = page::build({{"A", sample_report()}, {"B", sample_report()}, {"C", sample_report()}}, &c);
  const page::Page of_one = page::build({{"A", sample_report()}}, nullptr);
  for (const char* id : {"points", "verdicts", "rules", "provenance"}) {
    EXPECT_TRUE(section(of_three, id).folded) << id;
    EXPECT_FALSE(section(of_one, id).folded) << id;
  }
  for (const char* id : {"ratios", "speed"}) EXPECT_FALSE(section(of_three, id).folded) << id;
  EXPECT_FALSE(of_one.overview);
}

TEST(PageComparison, TheFirstScreenSaysWhatToKeepInMind) {
  Comparison c = split();
  const std::string in_workloads = said_of::split(figure(c), 1);
  EXPECT_FALSE(in_workloads.empty());
  EXPECT_NE(c.rests_on.back().find(in_workloads), std::string::npos) << c.rests_on.back();
  c.systems[0].broken_rules = {"window", "trials"}, c.systems[1].broken_rules.clear();
  page::Page page;
  page::add_comparison(page, c);
  const std::string caveats = joined(page.caveats);
  for (const char* said : {"A: Run rules broken: windows are short, set in steps, or not the sum of their steps; points have fewer "
                           "than 3 trials. Good for a look, not for publication.",
                           "B: No broken run rule was found in its report.", "Each system was run once: "})
    EXPECT_NE(caveats.find(said), std::string::npos) << said << " in\n" << caveats;
  for (const char* said : {"Workloads: m1, m2.", "A started 1 Mar 2026", "B started 1 Mar 2026"})
    EXPECT_NE(page.subtitle.find(said), std::string::npos) << said << " in " << page.subtitle;
  EXPECT_NE(caveats.find(in_workloads), std::string::npos);
  EXPECT_EQ(joined(page.answer).find(in_workloads), std::string::npos);
  const std::string text = comparison_text(c, {}, {}), markdown = comparison_markdown(c);
  for (const char* said : {"workloads: m1, m2", "A: Run rules broken: windows are short", "ach system was run once"}) {
    EXPECT_NE(text.find(said), std::string::npos) << said;
    EXPECT_NE(markdown.find(said), std::string::npos) << said;
  }
}

/// Small notes are one line until asked for, figures stay beside their units, and dates are to be read.
TEST(PageComparison, TheFirstScreenIsShortAndReadable) {
  const Comparison c = split();
  const page::Page page = page::build({{"A", sample_report()}, {"B", sample_report()}}, &c);
  const auto folded = std::ranges::find_if(page.caveats, [](const page::Words& one) { return one.more.size() > 1; });
  ASSERT_NE(folded, page.caveats.end());
  const auto is_run_once = [](const std::string& one) { return one.find("ach system was run once: ") != one.npos; };
  EXPECT_TRUE(std::ranges::any_of(page.caveats, [&](const page::Words& one) {
    return is_run_once(one.text) || std::ranges::any_of(one.more, is_run_once);
  })) << joined(page.caveats);
  EXPECT_TRUE(std::ranges::none_of(page.caveats, [](const page::Words& one) { return one.look == page::Look::small; }));
  EXPECT_NE(page.subtitle.find("\u00a0UTC"), std::string::npos) << page.subtitle;
  ASSERT_TRUE(page.overview);
  const std::string& cell = page.overview->rows.at(1).at(1).text;
  EXPECT_NE(cell.find("\u00a0%"), std::string::npos) << cell;
}

/// Each system's own split of the batch is said, not the reference's for all.
TEST(PageComparison, EachSystemsOwnPointIsNamed) {
  Record a = made_record("gpt2-tiny/bf16/acc4/np2", around(100)),
         b = made_record("gpt2-tiny/bf16/acc2/np4", around(120));
  b.workload.ranks *= 2, b.workload.accumulate = std::max<std::int64_t>(1, b.workload.accumulate / 2);
  const Comparison c = compare({several("A", {a}), several("B", {b})}, {});
  ASSERT_EQ(c.workloads.at(0).records.at(1), b.id);
  page::Page page;
  page::add_comparison(page, c);
  EXPECT_NE(page.subtitle.find("A: accumulate 4, 2 processes / B: accumulate 2, 4 processes"), std::string::npos)
      << page.subtitle;
  const auto charts = blocks<page::Chart>(section(page, "ratios"));
  ASSERT_FALSE(charts.empty());
  for (const auto& row : charts[0].table.rows)
    EXPECT_EQ(row[0].text, row[1].text == "A" ? "accumulate 4, 2 processes" : "accumulate 2, 4 processes");
  for (const std::string& text : {comparison_text(c, {}, {false, 400}), comparison_markdown(c)})
    EXPECT_NE(text.find("gpt2-tiny/bf16/acc4/np2 (B: gpt2-tiny/bf16/acc2/np4)"), std::string::npos) << text;
}

TEST(PageComparison, WhatToKeepInMindIsInSentences) {
  Comparison c = split();
  c.differences.insert(c.differences.begin(),
                       {{"precision", 1, "bf16", "float32", true, "fewer bits are less work", {}, {}},
                        {"validation", 0, "", "/records/0: is odd", true, "it supports no claim", {}, {}}});
  page::Page page;
  page::add_comparison(page, c);
  for (const char* said : {"Precision: bf16 of A, float32 of B. Fewer bits are less work.",
                           "Validation: /records/0: is odd of A. It supports no claim."})
    EXPECT_EQ(std::ranges::count(page.caveats, said, &page::Words::text), 1) << said;
  for (const page::Words& one : page.caveats) {
    EXPECT_FALSE(one.text[0] >= 'a' && one.text[0] <= 'z') << one.text;
    EXPECT_TRUE(one.text.ends_with(".")) << one.text;
  }
}

TEST(PageComparison, RunRulesAreThoseOfItsReports) {
  const Comparison c = compare({{"A", {}, {sample_report()}, {}, {}}, {"B", {}, {sample_report()}, {}, {}}}, {});
  for (const ComparedSystem& one : c.systems)
    for (const char* rule : {"window", "trials"})
      EXPECT_NE(std::ranges::find(one.broken_rules, rule), one.broken_rules.end()) << rule;
}

TEST(PageComparison, RatiosLieOnALogarithmicAxisAndDifferencesSayWhere) {
  Comparison c = split();
  c.differences.push_back({"global batch", 1, "64", "32", true, "why", {1}, {}});
  page::Page page;
  page::add_comparison(page, c);
  const auto charts = blocks<page::Chart>(section(page, "ratios"));
  ASSERT_FALSE(charts.empty());
  for (const page::Chart& chart : charts) EXPECT_TRUE(chart.logarithmic) << chart.title;
  const page::Table table = blocks<page::Table>(section(page, "comparability")).at(0);
  const auto where = std::ranges::find(table.head, "Where") - table.head.begin();
  EXPECT_EQ(table.rows.back()[static_cast<std::size_t>(where)].text, "in m2");
}

TEST(PageComparison, MeansThatTheRatioDoesNotFollowAreNamed) {
  const auto of = [](const std::vector<double>& a, const std::vector<double>& b) {
    return compare({made_system("A", {made_record("m1", a)}), made_system("B", {made_record("m1", b)})}, {});
  };
  const Comparison skew = of(around(100), {100, 100, 100, 100, 20});
  const std::string note = words::means(skew.figures.at(0), skew);
  EXPECT_NE(note.find("B in m1 -16.0 % by the means, -27.5 % by the ratio"), std::string::npos) << note;
  EXPECT_NE(comparison_text(skew, {}, {}).find("arithmetic means"), std::string::npos);
  page::Page page;
  page::add_comparison(page, skew);
  EXPECT_NE(joined(blocks<page::Words>(section(page, "ratios"))).find("-27.5 % by the ratio"), std::string::npos);
  EXPECT_EQ(words::means(of(around(100), around(120)).figures.at(0), skew), "");
}

/// Speeds by ranks, of one global batch.
page::Section scaling(const std::vector<std::pair<int, double>>& speeds) {
  std::vector<Record> records;
  for (const auto& [ranks, speed] : speeds) {
    Record record = made_record("m/np" + std::to_string(ranks), around(speed));
    record.workload.ranks = ranks, record.workload.micro_batch = 64 / ranks, record.workload.accumulate = 1;
    for (Trial& trial : record.trials) trial.phase_s = {{"forward", 0.1}, {"communication", 0.001 * ranks}};
    records.push_back(record);
  }
  return section(page::build({{"A", made_report(records)}}, nullptr), "scaling");
}

TEST(PageScaling, IsProjectedToTwiceTheRanksAndSaidNotToBeMeasured) {
  const auto speed = [](int n) { return 1 / (0.002 + 0.02 / n); };  // fixed and shared seconds a sample
  const page::Section found = scaling({{1, speed(1)}, {2, speed(2)}, {4, speed(4)}});
  const auto charts = blocks<page::Chart>(found);
  ASSERT_EQ(charts.size(), 4u);
  const page::Chart& chart = charts[0];
  ASSERT_EQ(chart.sets.size(), 3u);
  const page::DataSet& line = chart.sets[2];
  EXPECT_EQ(line.style, "projected");
  EXPECT_NE(line.label.find("projected, not measured"), std::string::npos);
  EXPECT_EQ(line.data.front().x, 4);
  EXPECT_EQ(line.data.back().x, 8);
  EXPECT_NEAR(line.data.back().y, speed(8), 1e-2 * speed(8));
  EXPECT_EQ(chart.table.rows.back()[4].text, "projected, not measured");
  const std::string formula = joined(blocks<page::Words>(found));
  EXPECT_NE(formula.find("time per sample = 2.00 ms + 20.0 ms / ranks"), std::string::npos) << formula;
  EXPECT_EQ(charts[1].y_title, "% of ideal");
  EXPECT_NEAR(charts[1].sets[0].data[2].y, 100 * speed(4) / (4 * speed(1)), 0.1);
  const page::Chart& communication = charts[2];
  EXPECT_EQ(communication.y_title, "ms per step");
  ASSERT_EQ(communication.sets.at(0).data.size(), 3u);
  EXPECT_NEAR(communication.sets[0].data[2].y, 4, 1e-9);
  EXPECT_EQ(communication.table.rows.size(), 3u);
  EXPECT_EQ(communication.table.rows[0].back().text, "not recorded") << "no execution in these records";
  const page::Chart& share = charts[3];
  EXPECT_EQ(share.y_title, "% of the step");
  ASSERT_EQ(share.sets.at(0).data.size(), 3u);
  EXPECT_EQ(share.table.rows.size(), 3u);
  const double step = 64 / speed(4);
  EXPECT_NEAR(share.sets[0].data[2].y, 100 * 0.004 / step, 0.05 * 100 * 0.004 / step);
}

TEST(PageScaling, SaysWhyNothingIsProjected) {
  EXPECT_NE(joined(blocks<page::Words>(scaling({{1, 100}, {2, 250}}))).find("scaling is better than linear"),
            std::string::npos);
  EXPECT_NE(joined(blocks<page::Words>(scaling({{1, 100}, {2, 80}}))).find("more ranks are not faster"),
            std::string::npos);
  EXPECT_NE(joined(blocks<page::Words>(scaling({{1, 100}, {2, 180}}))).find("the fit cannot be checked"),
            std::string::npos);
  EXPECT_NE(joined(blocks<page::Words>(scaling({{1, 100}}))).find("and no projection"), std::string::npos);
}

}  // namespace
}  // namespace tw
