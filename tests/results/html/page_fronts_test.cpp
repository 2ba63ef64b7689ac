// What the page holds against each other: energy that tells, costs of one basis, caveats of systems, projected ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <variant>

#include "results/compare/comparison_words.hpp"
#include "results/html/html.hpp"
#include "results/html/page.hpp"
#include "results/selection/pareto.hpp"
#include "results/terminal/choice.hpp"
#include "tests/results/compare/compared.hpp"
#include "tests/results/html/page_parts.hpp"
#include "tests/results/made_reports.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;
namespace said_of = tw::results::words;

TEST(PageFronts, NoPointIsTheCheapestOrAloneWithinItsNoise) {
  const auto charts_of = [](double spread) {
    const auto speeds = [&](double speed) {
      return std::vector<double>{(1 - spread) * speed, speed, (1 + spread) * speed, speed, speed};
    };
    return blocks<page::Chart>(section(
        page::build({priced("A", {made_record("a", speeds(92.4), 300), made_record("b", speeds(91.1), 310),
                                  made_record("c", speeds(80), 200)}, 1)}, nullptr), "pareto"));
  };
  for (const page::Chart& chart : charts_of(0.4)) {
    EXPECT_NE(chart.note.find("The intervals of "), std::string::npos) << chart.note;
    EXPECT_EQ(chart.table.rows.at(1).back().text, "not distinguishable");
    EXPECT_EQ(marked(chart, "cheapest"), nullptr) << chart.title;
  }
  for (const page::Chart& chart : charts_of(0.0001)) {
    EXPECT_EQ(chart.note.find("Intervals overlap"), std::string::npos) << chart.note;
    EXPECT_EQ(chart.table.rows.at(1).back().text, "no");
  }
}

TEST(PageFronts, CostsHaveAFrontWithItsKneeAndTheCheapest) {
  // At 100 an hour the electricity is nothing to speak of unless the watts are absurd: these are, so that slow is
  // cheap.
  const page::Page page = page::build({priced("A",
                                              {made_record("a", around(100), 4e6), made_record("b", around(90), 1.5e6),
                                               made_record("c", around(60), 0.8e6), made_record("d", around(50), 2e6)},
                                              1)},
                                      nullptr);
  std::vector<page::Chart> charts = blocks<page::Chart>(section(page, "pareto"));
  ASSERT_EQ(charts.size(), 2u) << "energy, and cost";
  const page::Chart& cost = charts[1];
  EXPECT_NE(cost.title.find("speed against cost"), std::string::npos);
  EXPECT_EQ(cost.title.find("lower bound"), std::string::npos);
  EXPECT_EQ(cost.y_title, "EUR per million samples");
  ASSERT_EQ(cost.sets.size(), 2u);
  EXPECT_EQ(cost.sets[0].data.size(), 3u) << "d is beaten in both";
  EXPECT_EQ(cost.sets[1].data.size(), 4u);
  ASSERT_NE(marked(cost, "knee"), nullptr);
  EXPECT_NE(marked(cost, "knee")->text.find("b:"), std::string::npos);
  ASSERT_NE(marked(cost, "cheapest"), nullptr);
  EXPECT_NE(marked(cost, "cheapest")->text.find("c:"), std::string::npos);
}

TEST(PageFronts, ARecommendedSettingIsMarkedInCosts) {
  HtmlSystem system = priced("A", {made_record("a", around(100), 500), made_record("b", around(90), 400)}, 1);
  SearchOutcome outcome;
  outcome.workload = outcome.found = "a", outcome.best = "b/again", outcome.merit = SearchMerit::cost,
  outcome.scope = Scope::node;
  system.report.search = {outcome};
  const auto charts = blocks<page::Chart>(section(page::build({system}, nullptr), "pareto"));
  ASSERT_EQ(charts.size(), 2u);
  for (const page::Chart& chart : charts) {
    ASSERT_NE(marked(chart, "recommended"), nullptr) << chart.title;
    EXPECT_NE(marked(chart, "recommended")->text.find("b:"), std::string::npos);
  }
}

TEST(PageFronts, WhatIsRecommendedAndByWhichRuleIsSaid) {
  HtmlSystem system = priced("A", {made_record("a", around(100), 500), made_record("b", around(90), 400)}, 1);
  const auto said = [&] {
    return joined(blocks<page::Words>(section(page::build({system}, nullptr), "pareto")));
  };
  EXPECT_EQ(said().find("--search"), std::string::npos) << "nothing can be set on this machine: " << said();
  system.report.records[0].setting["gpu_clock_mhz"].accepted = 900;
  EXPECT_NE(said().find("Nothing is recommended. Only a search (trainwatt-train --search)"), std::string::npos)
      << said();
  SearchOutcome outcome;
  outcome.workload = outcome.found = "a", outcome.best = "b/again", outcome.merit = SearchMerit::energy,
  outcome.scope = Scope::node;
  outcome.max_slowdown = 0.05;
  system.report.search = {outcome};
  EXPECT_NE(
      said().find("Recommended: b. Rule of the search: the least node energy per sample among the settings at most "
                  "5.00 % slower than the found settings, confirmed by measuring both again."),
      std::string::npos)
      << said();
  EXPECT_EQ(said().find("Nothing"), std::string::npos);
  system.report.search->at(0).reason = "it is slower than asked for";
  EXPECT_EQ(said(), "Nothing is recommended for a: It is slower than asked for.\n");
}

TEST(PageFronts, CostsOfDifferentPartsStandInChartsOfTheirOwn) {
  Record of_gpu = made_record("x", around(90), 200, Scope::device);
  of_gpu.workload.device = "cuda";
  const page::Page page =
      page::build({priced("A", {made_record("x", around(100), 300, Scope::package)}, 1), priced("B", {of_gpu}, 1),
                   priced("C", {made_record("x", around(80), 500)}, 1), priced("D", {made_record("x", around(70))}, 1)},
                  nullptr);
  std::vector<std::string> bases;
  for (const page::Chart& chart : blocks<page::Chart>(section(page, "pareto"))) {
    if (chart.title.find("cost") == std::string::npos) continue;
    ASSERT_EQ(chart.sets.size(), 1u) << chart.title;
    EXPECT_EQ(chart.sets[0].data.size(), 1u) << chart.title;
    bases.push_back(chart.sets[0].label + chart.title.substr(chart.title.find(" against ")) + "|" + chart.y_title);
  }
  std::ranges::sort(bases);
  EXPECT_EQ(bases, (std::vector<std::string>{
                       "A against cost, lower bounds: package joules only|EUR per million samples, at least",
                       "B against cost, lower bounds: device joules only|EUR per million samples, at least",
                       "C against cost|EUR per million samples",
                       "D against cost, lower bounds: hours only|EUR per million samples, at least"}));
}

TEST(PageFronts, PrecisionsAreTakenTogetherAndNamed) {
  std::vector<Record> records = {made_record("a", around(100), 500), made_record("b", around(90), 300)};
  EXPECT_EQ(joined(page::build({{"A", made_report(records)}}, nullptr).answer).find("may not train alike"),
            std::string::npos);
  records[0].workload.precision = "float32";
  records.push_back(made_record("c", around(80), 400));
  records[2].workload.global_batch = 128;
  const page::Page page = page::build({priced("A", records, 1)}, nullptr);
  const char* together =
      "; the points are of bf16 and float32, in batches of 64 and 128, which may not train alike.";
  ASSERT_EQ(page.answer.size(), 2u);
  for (const page::Words& one : page.answer) EXPECT_TRUE(one.text.ends_with(together)) << one.text;
  const auto charts = blocks<page::Chart>(section(page, "pareto"));
  ASSERT_EQ(charts.size(), 3u) << "energy, and costs of each batch";
  for (const page::Chart& chart : {charts[0], charts[1]}) {
    EXPECT_NE(chart.note.find("The points are of bf16 and float32, which may not train alike."), std::string::npos)
        << chart.note;
    ASSERT_GE(chart.sets.size(), 2u) << chart.title;
    const page::DataSet &one = *std::prev(chart.sets.end(), 2), &other = chart.sets.back();
    EXPECT_EQ(one.label + other.label, "bf16float32");
    EXPECT_NE(one.shape, other.shape);
  }
  // Those that have lost to all of another precision are named, too.
  Report report = made_report({made_record("a", around(100), 500), made_record("b", around(120), 300)});
  report.records[0].workload.precision = "float32";
  EXPECT_NE(front_text(report, {false, 100}).find("of bf16 and float32, which may not train alike"),
            std::string::npos);
}

/// Of two systems; the page of their comparison.
page::Page compared(const std::vector<Record>& a, const std::vector<Record>& b, std::vector<std::string> faults = {}) {
  std::vector<SystemInput> systems = {several("A", a), several("B", b)};
  systems[1].faults = faults;
  for (SystemInput& system : systems) system.price = rented(1);
  const Comparison comparison = compare(systems, {});
  std::vector<HtmlSystem> shown = {{"A", systems[0].runs[0]}, {"B", systems[1].runs[0], faults}};
  for (std::size_t s = 0; s < shown.size(); ++s) shown[s].cost = comparison.systems[s].cost;
  return page::build(shown, &comparison);
}

TEST(PageFronts, WhatAComparisonBlocksIsDrawnAndNamedButOnNoFront) {
  const std::vector<Record> a = {made_record("x", around(100), 3000, Scope::package)},
                            better = {made_record("x", around(200), 3000, Scope::package)};
  const auto charts = [](const page::Page& page) { return blocks<page::Chart>(section(page, "pareto")); };
  const auto names_on_front = [](const page::Chart& chart) {
    std::string names;
    for (const auto& row : chart.table.rows)
      if (row[3].text.starts_with("yes")) names += row[0].text + " ";
    return names;
  };
  for (const page::Chart& chart : charts(compared(a, better))) {
    EXPECT_EQ(names_on_front(chart), "B ") << chart.title;
    EXPECT_EQ(chart.note.find("left out"), std::string::npos) << chart.note;
  }
  std::vector<Record> other = better, unstable = better;
  other[0].workload.precision = "float32";
  unstable[0].verdict.flags.emplace_back(Flag::unstable);
  for (const auto& [page, why] : {std::pair{compared(a, better, {"/records/0: is odd"}), "validation"},
                                  {compared(a, other), "precision"},
                                  {compared(a, unstable), "flag unstable"}}) {
    const std::vector<page::Chart> all = charts(page);
    ASSERT_EQ(all.size(), 2u) << why;
    for (const page::Chart& chart : all) {
      EXPECT_EQ(names_on_front(chart), "") << chart.title << why << ": the page names no winner, and rings none";
      EXPECT_NE(chart.note.find(std::string("B (") + why + ")"), std::string::npos) << chart.note;
      EXPECT_EQ(marked(chart, "alone"), nullptr) << "it has no rival";
      ASSERT_EQ(chart.sets.size(), 2u);
      for (const page::DataSet& set : chart.sets) EXPECT_FALSE(set.data[0].counts);
    }
  }
}

/// Runs of a kit that break a rule: who is better in both is on no front, and nothing is ticked.
TEST(PageFronts, APageOfNoAwardMarksNobody) {
  for (const bool is_award : {true, false}) {
    std::vector<SystemInput> systems = {several("A", {made_record(id, around(100), 300)}),
                                        several("B", {made_record(id, around(110), 300)})};
    for (SystemInput& system : systems)
      for (Report& run : system.runs) {
        run.plan.kit = KitInfo{"Tender 7", "x"};
        run.records[0].verdict.flags.clear();
        if (!is_award) run.records[0].verdict.flags.emplace_back(Flag::short_window);
      }
    const Comparison c = compare(systems, {});
    ASSERT_TRUE(c.names_one());
    ASSERT_EQ(c.not_an_award.empty(), is_award) << c.answer[0];
    const page::Page page = page::build({{"A", systems[0].runs[0]}, {"B", systems[1].runs[0]}}, &c);
    EXPECT_EQ(page.answer[0].text.starts_with("Not an award: "), !is_award) << page.answer[0].text;
    const auto charts = blocks<page::Chart>(section(page, "pareto"));
    ASSERT_EQ(charts.size(), 1u);
    EXPECT_EQ(marked(charts[0], "alone") != nullptr, is_award);
    EXPECT_EQ(charts[0].table.rows.at(1).back().text.starts_with("yes"), is_award);
    EXPECT_EQ(charts[0].note.find("B (not an award)") == std::string::npos, is_award) << charts[0].note;
    const auto ticks = [](const std::vector<page::Table>& tables) {
      std::ptrdiff_t all = 0;
      for (const page::Table& table : tables)
        for (const std::vector<page::Words>& row : table.rows)
          all += std::ranges::count(row, page::Look::good, &page::Words::look);
      return all;
    };
    for (const page::Section& one : page.sections)
      EXPECT_EQ(is_award ? 0 : ticks(blocks<page::Table>(one)), 0) << one.id;
    ASSERT_TRUE(page.overview);
    EXPECT_EQ(ticks({*page.overview}) > 0, is_award);
  }
}

TEST(PageFronts, RunsToATargetStandByTimeAndCost) {
  const auto run = [](const std::string& id, double seconds, double watts) {
    return made_target_record(id, {seconds, 1.01 * seconds, 0.99 * seconds, seconds, seconds}, watts);
  };
  const page::Page page =
      page::build({priced("A", {run("fast", 100, 9e6), run("lean", 150, 1e6), run("bad", 200, 9e6)}, 1)}, nullptr);
  const auto charts = blocks<page::Chart>(section(page, "pareto"));
  ASSERT_EQ(charts.size(), 2u);
  EXPECT_EQ(charts[0].y_title, "J to the target (node)");
  EXPECT_EQ(charts[1].y_title, "EUR per trained model");
  for (const page::Chart& chart : charts) {
    EXPECT_EQ(chart.x_title, "s to the target");
    EXPECT_NE(chart.note.find("Points to the left are faster"), std::string::npos);
    ASSERT_EQ(chart.sets.size(), 2u);
    EXPECT_EQ(chart.sets[0].data.size(), 2u) << "bad is beaten";
    EXPECT_EQ(chart.sets[1].data.size(), 3u);
    EXPECT_NEAR(chart.sets[1].data[0].x, 100, 1e-6);
  }
}

TEST(PageFronts, MeansOfADisturbedMachineNameNoWinner) {
  Report report = made_report({made_record("a", around(100), 300), made_record("b", around(90), 200)});
  const auto screen = [&] {
    const page::Page page = page::build({{"A", report}}, nullptr);
    std::string all = joined(page.answer);
    for (const page::Card& card : page.cards) all += card.label + "\n";
    return all;
  };
  for (const char* said : {"trains fastest as a: ", "no other point's interval reaches it", "Fastest, ", "Least node energy"})
    EXPECT_NE(screen().find(said), std::string::npos) << screen();
  report.records[1].verdict.flags.emplace_back(Flag::busy_host);
  for (const char* said : {"trains fastest", "interval reaches", "Fastest", "Least"})
    EXPECT_EQ(screen().find(said), std::string::npos) << screen();
  for (const char* said : {"has its highest mean speed as a: ", "Lowest mean node energy per sample: b, ",
                           "1 of the 2 points were disturbed (busy_host), so none is shown to be the best",
                           "Highest mean speed, ", "Lowest mean node energy, "})
    EXPECT_NE(screen().find(said), std::string::npos) << said << " in " << screen();
  report.records.pop_back();
  EXPECT_NE(screen().find("was trained as a: "), std::string::npos);
  EXPECT_EQ(screen().find("astest"), std::string::npos) << "of one point nothing is the fastest";
}

TEST(PageFronts, JoulesThatDoNotTellNameNoWinner) {
  Report report = made_report(
      {made_record("a", around(100), 300, Scope::device), made_record("b", around(90), 200, Scope::device)});
  for (Record& record : report.records) record.workload.device = "cpu";
  report.records[1].setting["gpu_clock_mhz"].requested = 990;
  const page::Page page = page::build({{"A", report}}, nullptr);
  const std::string answer = joined(page.answer);
  EXPECT_EQ(answer.find("Least"), std::string::npos) << answer;
  EXPECT_NE(
      answer.find(
          "no answer on energy: trained on cpu with gpu_clock_mhz set: joules of device leave out a part; "
          "joules of node are needed."),
      std::string::npos)
      << answer;
  for (const page::Card& card : page.cards) EXPECT_EQ(card.label.find("energy"), std::string::npos) << card.label;
  EXPECT_NE(joined(blocks<page::Words>(section(page, "pareto"))).find("leave out a part"), std::string::npos);
  for (const page::Chart& chart : blocks<page::Chart>(section(page, "energy")))
    EXPECT_TRUE(chart.note.starts_with("These joules do not include everything")) << chart.note;
  // Of the GPU that trains they do.
  for (Record& record : report.records) record.workload.device = "cuda";
  EXPECT_NE(joined(page::build({{"A", report}}, nullptr).answer).find("Least device energy per sample: b"),
            std::string::npos);
  Report target = made_report({made_target_record("t", {100, 101, 102}, 300)});
  target.records[0].workload.device = "cpu";
  auto& joules = target.records[0].summary.to_target->energy_j;
  joules[Scope::device] = joules[Scope::node], joules.erase(Scope::node);
  EXPECT_EQ(joined(page::build({{"A", target}}, nullptr).answer).find("Least"), std::string::npos);
}

TEST(PageCost, HasEnergyCarbonTheFacilityAndWhatOneInputDoes) {
  const page::Page page = page::build({priced("A", {made_record("a", around(100), 1000)}, 1)}, nullptr);
  const std::vector<page::Table> tables = blocks<page::Table>(section(page, "cost"));
  ASSERT_EQ(tables.size(), 3u);
  const page::Table& cost = tables[0];
  EXPECT_EQ(cost.head, (std::vector<std::string>{"Point", "Per", "Cost", "For hours", "For electricity", "kWh",
                                                 "kg CO2e", "Includes"}));
  const auto hour = std::ranges::find_if(cost.rows, [](const auto& row) { return row[1].text == "per hour"; });
  ASSERT_NE(hour, cost.rows.end());
  EXPECT_TRUE((*hour)[2].text.starts_with("1.30")) << (*hour)[2].text;
  EXPECT_EQ((*hour)[5].text, "1.20") << "1 kW of IT with a PUE of 1.2";
  EXPECT_EQ((*hour)[6].text, "0.480");
  EXPECT_EQ((*hour)[7].text, "complete");
  EXPECT_EQ(tables[1].rows.at(0)[4].text, "1.20 kW");
  EXPECT_EQ(tables[2].caption, "Prices, as given");
  // What one input does alone: a bar to each side of the cost as given, the longest first.
  const std::vector<page::Chart> charts = blocks<page::Chart>(section(page, "cost"));
  ASSERT_EQ(charts.size(), 1u);
  const page::Chart& tornado = charts[0];
  EXPECT_EQ(tornado.kind, "tornado");
  EXPECT_EQ(tornado.line, 0.0);
  EXPECT_NE(std::ranges::find(tornado.categories, "electricity per kWh"), tornado.categories.end());
  ASSERT_EQ(tornado.sets.size(), 2u);
  ASSERT_EQ(tornado.table.rows.size(), tornado.categories.size());
  double before = HUGE_VAL;
  for (std::size_t i = 0; i < tornado.categories.size(); ++i) {
    const double less = tornado.sets[0].data.at(i).x, more = tornado.sets[1].data.at(i).x;
    const double effect = std::max(std::abs(less), std::abs(more));
    EXPECT_LE(effect, before) << tornado.categories[i];
    EXPECT_GT(effect, 0) << tornado.categories[i];
    before = effect;
  }
  const page::Page two = page::build(
      {priced("A", {made_record("a", around(100), 1000), made_record("b", around(120), 1000)}, 1)}, nullptr);
  const std::vector<page::Choice> choices = blocks<page::Choice>(section(two, "cost"));
  ASSERT_EQ(choices.size(), 1u);
  ASSERT_EQ(choices[0].options.size(), 2u);
  EXPECT_EQ(choices[0].options[0].first, "b") << "the cheapest first";
  Record failed = made_record("f", around(100), 1000);
  failed.verdict.status = Status::failed;
  const page::Page without = page::build({priced("A", {failed}, 1)}, nullptr);
  EXPECT_TRUE(blocks<page::Table>(section(without, "cost"))[0].rows.at(0)[2].text.starts_with("no cost: "));
}

/// Nothing on a page that names no winner looks like one: no ring, no tick.

/// A place on a front is a claim, and a mark is one of both figures: neither goes beyond the verdicts.
TEST(PageFronts, OfAComparisonNothingIsMarkedThatItsVerdictsDoNotName) {
  const auto pareto_of = [](const std::vector<SystemInput>& systems) {
    const Comparison c = compare(systems, {});
    std::vector<HtmlSystem> shown;
    for (const SystemInput& system : systems) shown.push_back({system.name, system.runs[0]});
    const auto charts = blocks<page::Chart>(section(page::build(shown, &c), "pareto"));
    EXPECT_EQ(charts.size(), 1u);
    return charts.at(0);
  };
  const auto role = [](const page::Chart& chart, std::size_t row) { return chart.table.rows.at(row).back().text; };
  // Faster by as much as it draws more: the joules a sample are alike.
  page::Chart chart = pareto_of({several("A", {made_record(id, around(100), 300)}),
                                 several("B", {made_record(id, around(110), 330)})});
  EXPECT_EQ(marked(chart, "alone"), nullptr);
  EXPECT_FALSE(role(chart, 1).starts_with("no:")) << "its speed is shown to be another";
  chart = pareto_of({several("A", {made_record(id, around(100), 300)}), several("B", {made_record(id, around(110), 300)})});
  EXPECT_NE(marked(chart, "alone"), nullptr) << "better in both";
  // A third one that was run once is told from nobody.
  SystemInput once = made_system("C", {made_record(id, around(150), 300)});
  once.runs[0].context.hosts[0].cpu = "Another CPU";
  chart = pareto_of({several("A", {made_record(id, around(100), 300)}), several("B", {made_record(id, around(110), 300)}), once});
  EXPECT_TRUE(role(chart, 1).starts_with("yes")) << role(chart, 1);
  EXPECT_TRUE(role(chart, 2).starts_with("no:")) << role(chart, 2);
  // No other system stays, so that the reference does not, either.
  chart = pareto_of({runs_at("A", {0.97, 1, 1.03}, 300), runs_at("B", {1.031, 0.972, 1.004}, 300)});
  for (const std::size_t row : {0, 1}) EXPECT_TRUE(role(chart, row).starts_with("no:")) << role(chart, row);
}

}  // namespace
}  // namespace tw
