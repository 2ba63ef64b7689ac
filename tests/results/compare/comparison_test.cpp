// What is claimed of reports that are held against each other, and what is not.
#include "results/compare/comparison.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "results/analysis/run_rules.hpp"
#include "results/analysis/verdict.hpp"
#include "results/compare/baseline.hpp"
#include "results/compare/comparison_words.hpp"
#include "results/export/export.hpp"
#include "results/html/page.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"
#include "results/terminal/tables.hpp"
#include "tests/results/compare/compared.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

TEST(Comparison, ADifferenceThatIsThereIsShownWithItsInterval) {
  const Comparison c = of(made_record(id, slow), made_record(id, fast));
  const Ratio& r = ratio(c);
  EXPECT_EQ(r.verdict, Claim::better);
  EXPECT_NEAR(*r.value, 1.1, 1e-3);
  EXPECT_LT(*r.low, *r.value);
  EXPECT_GT(*r.low, 1.08);
  EXPECT_LT(*r.high, 1.12);
  EXPECT_FALSE(r.is_range);
  EXPECT_FALSE(r.needed) << "nothing is left to decide";
  EXPECT_TRUE(c.compared);
  EXPECT_EQ(ratio(c, 0).verdict, Claim::reference);
  EXPECT_EQ(figure(c).ranking[0].system, 1u);
  EXPECT_TRUE(c.decided() && c.names_one());
  // The other way round the ratio and its interval are the inverse.
  const Comparison back = of(made_record(id, fast), made_record(id, slow));
  EXPECT_EQ(ratio(back).verdict, Claim::worse);
  EXPECT_NEAR(*ratio(back).low, 1 / *r.high, 1e-12);
}

TEST(Comparison, NoDifferenceShownSaysWhatWouldHaveBeen) {
  const std::vector<double> shares = {1, 1.01, 0.99, 1.005, 0.995};
  const Comparison c = compare({runs_at("A", shares), runs_at("B", times(shares, 1.001))}, {});
  const Ratio& r = ratio(c);
  EXPECT_EQ(r.verdict, Claim::no_difference);
  EXPECT_TRUE(c.decided());
  EXPECT_FALSE(c.names_one());
  ASSERT_TRUE(r.detectable);
  EXPECT_GT(*r.detectable, 0.01);
  EXPECT_LT(*r.detectable, 0.03);
  ASSERT_TRUE(r.needed);
  EXPECT_GT(*r.needed, 100);
}

/// What was seen is not said as if it were the result: every view says that it is not decided, and why.
TEST(Comparison, NoDifferenceShownIsNotSaidAsAResult) {
  std::vector<SystemInput> systems = {runs_at("A", spread), runs_at("B", times(spread, 1.02))};
  const Comparison c = compare(systems, {});
  const Ratio& r = ratio(c);
  ASSERT_EQ(r.verdict, Claim::no_difference);
  EXPECT_EQ(words::verdict(r), "not decided");
  EXPECT_EQ(words::why_open(r), "the interval includes 0");
  EXPECT_TRUE(words::open_points(r, c.replicates).starts_with(words::why_open(r))) << "in tables";
  ASSERT_EQ(c.answer.size(), 1u);
  const std::string seen = "Not decided: B looked 2.00 % faster " + words::interval(r) + ", but " + words::why_open(r);
  EXPECT_EQ(c.answer[0], seen + ".") << "the interval as everywhere";
  page::Page page;
  page::add_comparison(page, c);
  EXPECT_EQ(page.answer.at(0).text, c.answer[0]);
  ASSERT_TRUE(page.overview);
  const auto& rows = page.overview->rows;
  const auto row = std::ranges::find_if(rows, [](const auto& one) { return one.at(0).text == "B"; });
  ASSERT_NE(row, rows.end());
  EXPECT_NE(row->at(1).text.find(", not decided: looked +2.00 %"), std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(comparison_json(c, {}));
  EXPECT_EQ(json["figures"][0]["overall"][1]["verdict"], "no difference shown") << "programs read what they did";
  for (const std::string& text : {comparison_text(c, {}, {false, 400}), comparison_markdown(c)}) {
    EXPECT_NE(text.find(seen.substr(0, 30)), std::string::npos) << text;
    EXPECT_EQ(text.find("no difference shown"), std::string::npos) << text;
  }
  // From a factor of two on, the change that would be none is 1.
  const Comparison wide = compare({runs_at("A", {1, 4}), runs_at("B", {2, 11})}, {});
  ASSERT_EQ(ratio(wide).verdict, Claim::no_difference);
  EXPECT_EQ(words::why_open(ratio(wide)), "the interval includes 1");
}

TEST(Comparison, TheSameInAnotherOrderShowsNoDifference) {
  std::vector<double> again = times(spread, 1 + 1e-5);  // not to the last digits: that would be one measurement
  std::ranges::reverse(again);
  const Comparison c = compare({runs_at("A", spread, 200), runs_at("B", again, 200)}, {});
  EXPECT_EQ(ratio(c).verdict, Claim::no_difference);
  EXPECT_EQ(ratio(c, 1, "samples-per-joule").verdict, Claim::no_difference);
  EXPECT_EQ(figure(c).ranking[0].rank, 1);
  EXPECT_EQ(figure(c).ranking[1].rank, 1);
}

TEST(Comparison, OneRunOfEachGivesNoVerdictHoweverManyTrialsItHas) {
  for (const std::size_t count : {1u, 2u, 3u, 4u, 5u}) {
    const std::vector<double> few(fast.begin(), fast.begin() + static_cast<std::ptrdiff_t>(count));
    const Comparison c = of_single(made_record(id, slow), made_record(id, few));
    const Ratio& r = ratio(c);
    EXPECT_EQ(r.verdict, Claim::single_run) << count;
    EXPECT_EQ(r.code, "single_run");
    EXPECT_EQ(r.replicates, static_cast<int>(count));
    EXPECT_EQ(r.is_range, count < 3) << "from three trials on an interval over them";
    if (count < 3) {
      EXPECT_NEAR(*r.low, *std::ranges::min_element(few) / 101, 1e-12);
      EXPECT_NEAR(*r.high, *std::ranges::max_element(few) / 99, 1e-12);
    }
    EXPECT_FALSE(r.detectable || r.needed);
    EXPECT_TRUE(c.answer.at(0).starts_with("Not decided: in this one run of each, ")) << c.answer[0];
    EXPECT_EQ(figure(c).ranking[0].rank, figure(c).ranking[1].rank) << "no claim, no order";
  }
}

TEST(Comparison, SeveralRunsAreCountedInWords) {
  EXPECT_EQ(words::more_times(1), "");
  EXPECT_EQ(words::more_times(2), " and 1 more time");
  EXPECT_EQ(words::more_times(4), " and 3 more times");
  const Comparison c = compare({runs_at("A", {1, 1.01}), runs_at("B", spread)}, {});
  for (const std::string& text : {comparison_text(c, {}, {false, 400}), words::dates(c)}) {
    EXPECT_NE(text.find("UTC and 1 more time"), std::string::npos) << text;
    EXPECT_NE(text.find("UTC and 4 more times"), std::string::npos) << text;
    EXPECT_EQ(text.find("times more"), std::string::npos) << text;
  }
}

TEST(Comparison, TheRankingOfManyBeginsWithTheBest) {
  const Comparison c =
      compare({several("A", {made_record(id, slow)}), several("B", {made_record(id, times(slow, 0.8))}),
               several("C", {made_record(id, times(slow, 1.3))})},
              {});
  std::vector<std::size_t> order;
  for (const RankedSystem& one : figure(c).ranking) order.push_back(one.system);
  EXPECT_EQ(order, (std::vector<std::size_t>{2, 0, 1}));
  EXPECT_NE(c.answer.at(0).find("C"), std::string::npos);
}

/// What is left out of each may turn the order round.
TEST(Comparison, LowerBoundsOfCostsClaimNothing) {
  PriceRow price;
  price.rent_per_month = 100, price.electricity_per_kwh = 0.3;
  std::vector<SystemInput> systems = {several("A", {made_record(id, slow)}), several("B", {made_record(id, fast)})};
  for (SystemInput& system : systems) system.price = price;
  const auto cost = [&] {
    CompareOptions options;
    options.currency = "EUR";
    return ratio(compare(systems, options), 1, "cost");
  };
  EXPECT_EQ(cost().verdict, Claim::no_claim);
  EXPECT_EQ(cost().code, "lower_bound");
  for (SystemInput& system : systems) system.price->electricity_included = true;
  EXPECT_EQ(cost().verdict, Claim::better);
}

/// Only points that weigh something have a say in the overall ratio.
TEST(Comparison, ABusyPointThatWeighsNothingTakesNoClaimAway) {
  const auto records = [](double factor, bool busy) {
    Record counts = made_record("one", times(slow, factor)), other = made_record("two", times(slow, factor));
    other.workload.seq_len = 64, other.workload.hash = workload_hash(other.workload);
    if (busy) other.verdict.flags.emplace_back(Flag::busy_host);
    return std::vector{counts, other};
  };
  CompareOptions options;
  options.weights = {{"one", 1}};
  const Comparison c = compare({made_system("A", records(1, false)), made_system("B", records(1.1, true))}, options);
  EXPECT_EQ(figure(c).overall[1].code, "single_run") << figure(c).overall[1].reason;
  EXPECT_EQ(ratio(c, 1, "throughput", 1).code, "busy_host");
}

/// What else is at work lasts for longer than a run: its trials agree, and are all off.
TEST(Comparison, TrialsOfABusyMachineClaimNothing) {
  for (const char* flag : {"busy_host", "steal"})
    for (const std::size_t busy : {0u, 1u}) {
      std::vector<SystemInput> systems = {made_system("A", {made_record(id, slow)}),
                                          made_system("B", {made_record(id, fast)}),
                                          made_system("C", {made_record(id, times(fast, 1.1))})};
      systems[busy].runs[0].records[0].verdict.flags.emplace_back(flag);
      const Comparison c = compare(systems, {});
      const Ratio& r = ratio(c);
      EXPECT_EQ(r.verdict, Claim::no_claim);
      EXPECT_TRUE(r.is_range);
      EXPECT_NEAR(*r.low, 109 / 101.0, 1e-12);
      EXPECT_FALSE(r.needed) << "more of the same would decide nothing";
      EXPECT_EQ(r.code, flag);
      EXPECT_EQ(ratio(c, 2).verdict, busy == 0 ? Claim::no_claim : Claim::single_run) << "of two quiet ones it is their one run";
      EXPECT_EQ(figure(c).overall[1].verdict, Claim::no_claim);
      for (SystemInput& system : systems) repeat(system, 5);
      EXPECT_EQ(ratio(compare(systems, {})).verdict, Claim::better) << "runs differ by what was at work";
    }
}

TEST(Comparison, SeedsAndCommandsAreTrialsOfOneRun) {
  const std::vector<double> three(fast.begin(), fast.begin() + 3);
  const Record a = made_target_record(id, three), b = made_target_record(id, {slow.begin(), slow.begin() + 3});
  EXPECT_EQ(ratio(of_single(a, b), 1, "time-to-target").verdict, Claim::single_run);
  Record command = made_record("command", {100}), other = made_record("command", {110});
  for (Record* one : {&command, &other}) one->workload.device = "command", one->trials[0].samples = 640, summarise(*one);
  EXPECT_EQ(ratio(of_single(command, other)).verdict, Claim::single_run);
  EXPECT_EQ(ratio(of(command, other)).verdict, Claim::better) << "five runs of a command";
}

/// From reports to verdicts: systems that took turns over blocks that drift, 2,000 times at 5 and 10 blocks.
TEST(Comparison, PairedIntervalsCoverTheTruth) {
  std::mt19937_64 bits(42);
  const auto normal = [&] {  // by Box and Muller: alike with every standard library
    const auto uniform = [&] { return (static_cast<double>(bits() >> 11) + 0.5) / 9007199254740992.0; };
    return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform());
  };
  for (const int blocks : {5, 10}) {
    std::vector<SystemInput> systems = {made_system("A", {}), made_system("B", {})};
    for (SystemInput& system : systems) {
      system.runs.assign(static_cast<std::size_t>(blocks), made_report({made_record(id, {100, 101, 102, 101, 100})}));
      for (int block = 0; block < blocks; ++block) {  // A at the hour, B half an hour later
        const std::string hour = (block < 10 ? "0" : "") + std::to_string(block);
        const bool is_b = &system == &systems[1];
        system.runs[static_cast<std::size_t>(block)].context.started_at =
            "2026-03-01T" + hour + (is_b ? ":30:00Z" : ":00:00Z");
        system.runs[static_cast<std::size_t>(block)].context.finished_at =
            "2026-03-01T" + hour + (is_b ? ":50:00Z" : ":20:00Z");
      }
    }
    constexpr double truth = 1.05;
    constexpr int comparisons = 2000;
    int held = 0, wrong = 0;
    for (int i = 0; i < comparisons; ++i) {
      double drift = 0;
      for (std::size_t block = 0; block < static_cast<std::size_t>(blocks); ++block) {
        drift += 0.005 + 0.05 * normal();
        for (SystemInput& system : systems)
          for (Trial& trial : system.runs[block].records[0].trials)
            trial.window_s = 6.4 / std::exp(drift + 0.02 * normal()) / (&system == &systems[1] ? truth : 1);
      }
      CompareOptions options;
      options.figures = {"throughput"};
      const Comparison c = compare(systems, options);
      ASSERT_EQ(c.replicates, Replicates::paired_runs);
      const Ratio& r = ratio(c);
      held += *r.low <= truth && truth <= *r.high;
      wrong += r.verdict == Claim::worse;
    }
    EXPECT_GE(held, 0.93 * comparisons) << blocks;
    EXPECT_LE(held, 0.97 * comparisons) << blocks;
    EXPECT_LE(wrong, 0.005 * comparisons) << "the wrong one of the two";
  }
}

TEST(Comparison, RunsThatDidNotTakeTurnsAreIndependent) {
  std::vector<SystemInput> systems = {made_system("A", {made_record(id, slow)}),
                                      made_system("B", {made_record(id, fast)})};
  for (SystemInput& system : systems) repeat(system, 5);
  Comparison c = compare(systems, {});
  EXPECT_EQ(c.replicates, Replicates::runs);
  EXPECT_EQ(ratio(c).replicates, 5);
  systems[1].runs.pop_back();
  c = compare(systems, {});
  EXPECT_EQ(ratio(c).verdict, Claim::better);
  EXPECT_EQ(ratio(c).replicates, 4);
}

TEST(Overall, IsTheWeightedGeometricMean) {
  const auto records = [](double first, double second) {
    Record a = made_record("one", times(slow, first)), b = made_record("two", times(slow, second));
    b.workload.seq_len = 64, b.workload.hash = workload_hash(b.workload);
    return std::vector<Record>{a, b};
  };
  const std::vector<SystemInput> systems = {several("A", records(1, 1)), several("B", records(2, 0.5))};
  const Comparison even = compare(systems, {});
  EXPECT_NEAR(*figure(even).overall[1].value, 1, 1e-12);
  EXPECT_EQ(figure(even).overall[1].verdict, Claim::no_difference);
  CompareOptions options;
  options.weights = {{"one", 3}, {"two", 1}};
  const Comparison weighted = compare(systems, options);
  EXPECT_NEAR(*figure(weighted).overall[1].value, std::pow(2, 0.75) * std::pow(0.5, 0.25), 1e-12);
  EXPECT_EQ(figure(weighted).overall[1].verdict, Claim::better);
  EXPECT_DOUBLE_EQ(figure(weighted).rows[0].weight, 0.75);
  options.weights = {{"one", 1}};
  EXPECT_NEAR(*figure(compare(systems, options)).overall[1].value, 2, 1e-12) << "the others weigh nothing";
  options.weights = {{"three", 1}};
  EXPECT_THROW(compare(systems, options), std::invalid_argument) << "a weight of nothing is a mistake";
  options.weights = {{"one", -1}};
  EXPECT_THROW(compare(systems, options), std::invalid_argument);
}

TEST(Overall, APointThatFailsTakesTheMeanAwayAndOneThatIsUnsupportedDoesNot) {
  const auto second = [](Record r) {
    r.id = "two", r.workload.precision = "fp8";
    return r;
  };
  Record failed = second(made_record(id, {}));
  failed.verdict = {Status::failed, {}, {"out of memory"}};
  const SystemInput a = several("A", {made_record(id, slow), second(made_record(id, slow))});
  const Comparison gone = compare({a, several("B", {made_record(id, fast), failed})}, {});
  EXPECT_EQ(ratio(gone).verdict, Claim::better);
  EXPECT_FALSE(figure(gone).overall[1].value) << "a failed run counts as infinite: no mean leaves it out";
  EXPECT_NE(figure(gone).overall[1].reason.find("out of memory"), std::string::npos);
  failed.verdict = {Status::unsupported, {}, {"fp8: this CPU has none"}};
  const Comparison without = compare({a, several("B", {made_record(id, fast), failed})}, {});
  EXPECT_NEAR(*figure(without).overall[1].value, 1.1, 1e-3);
  EXPECT_EQ(figure(without).rows[1].weight, 0) << "of all systems";
  const Comparison missing = compare({a, several("B", {made_record(id, fast)})}, {});
  EXPECT_FALSE(figure(missing).overall[1].value) << "and so for one that was left out";
  const std::string reason = figure(missing).overall[1].reason;
  EXPECT_EQ(reason.find("B has no point of two"), 0u) << reason;
  EXPECT_EQ(reason.find("this workload"), std::string::npos) << reason;
  const auto says_means = [](const Comparison& c) {
    return words::grounds(c).at(0).find("2 workloads; figures are their geometric means") != std::string::npos;
  };
  EXPECT_TRUE(says_means(without));
  EXPECT_FALSE(says_means(missing)) << "none follows";
  EXPECT_NE(words::grounds(missing).at(0).find("2 workloads."), std::string::npos);
}

TEST(Ranking, SystemsThatNoIntervalTellsApartShareARank) {
  const std::vector<SystemInput> systems = {runs_at("A", spread), runs_at("B", times(spread, 1.101)),
                                            runs_at("C", times(spread, 1.1)), runs_at("D", times(spread, 0.5))};
  const Comparison c = compare(systems, {});
  const std::vector<RankedSystem>& ranking = figure(c).ranking;
  ASSERT_EQ(ranking.size(), 4u);
  EXPECT_EQ(ranking[0].system, 1u);
  EXPECT_EQ(ranking[1].system, 2u);
  EXPECT_EQ(ranking[0].rank, 1);
  EXPECT_EQ(ranking[1].rank, 1);
  EXPECT_TRUE(ranking[0].tied && ranking[1].tied);
  EXPECT_EQ(ranking[2].system, 0u);
  EXPECT_EQ(ranking[2].rank, 3);
  EXPECT_EQ(ranking[3].rank, 4);
  EXPECT_FALSE(ranking[3].tied);
}

TEST(Comparison, WrongOptionsAreNamed) {
  const std::vector<SystemInput> systems = {made_system("A", {made_record(id, slow)}),
                                            made_system("B", {made_record(id, slow)})};
  CompareOptions options;
  options.figures = {"speed"};
  EXPECT_THROW(compare(systems, options), std::invalid_argument);
  options = {}, options.reference = 2;
  EXPECT_THROW(compare(systems, options), std::invalid_argument);
  options = {}, options.only = "resnet";
  EXPECT_THROW(compare(systems, options), std::invalid_argument);
  EXPECT_THROW(compare({systems[0]}, {}), std::invalid_argument);
}

int times_said(const std::string& text, const std::string& words) {
  int times = 0;
  for (std::size_t at = 0; (at = text.find(words, at)) != std::string::npos; ++at) ++times;
  return times;
}

TEST(Views, WhatIsSaidOfManyIsSaidOnceWithTheirNames) {
  const auto system = [](const char* name, double factor) {
    Record two = made_record(id, times({100, 101, 99}, factor * 1.001));
    two.id = "two", two.workload.precision = "float32";
    two.workload.hash = workload_hash(two.workload);
    SystemInput made = made_system(name, {made_record(id, times({100, 101, 99}, factor)), two});
    if (factor > 1) made.runs[0].context.hosts[0].kernel = "6.9", made.runs[0].context.hosts[0].cpu = "Another CPU";
    return made;
  };
  const Comparison c = compare({system("A", 1), system("B", 1.1), system("C", 1.2), system("D", 1.3)}, {});
  TableStyle style;
  style.width = 300;
  const std::string text = comparison_text(c, {}, style);
  const std::string note = figure(c).overall.at(1).reason;
  EXPECT_EQ(times_said(text, "[1] B, C, D: " + note), 1) << "under the figure:\n" << text;
  EXPECT_EQ(times_said(text, "not decided [1]"), 3 * 3) << "two workloads and over all:\n" << text;
  EXPECT_EQ(times_said(text, "B, C, D: A CPU"), 1) << text;
  EXPECT_EQ(times_said(text, "Run rules broken: "), 1) << text;
  EXPECT_NE(text.find("A, B, C, D: Run rules broken: "), std::string::npos) << text;
  // One line of one pair has its own behind it.
  const std::string pair =
      comparison_text(of_single(made_record(id, {100, 101, 99}), made_record(id, {110, 111, 109})), {}, style);
  EXPECT_NE(pair.find(note), std::string::npos) << pair;
  EXPECT_EQ(pair.find("[1]"), std::string::npos);
}

TEST(Views, OfManyWidthsStayWithinThem) {
  SystemInput a = made_system("delivery", {made_record(id, slow, 200)}), b = made_system("today", {made_record(id, fast, 200)});
  a.price.emplace(), a.price->rent_per_month = 730, a.price->electricity_per_kwh = 0.25, b.price = a.price;
  b.runs[0].context.hosts[0].cpu = "Another CPU";
  CompareOptions options;
  options.currency = "EUR";
  const Comparison c = compare({a, b}, options);
  for (int width = 40; width <= 100; ++width) {
    TableStyle style;
    style.width = width;
    std::istringstream text(comparison_text(c, {}, style) + cost_text(*c.systems[0].cost, style) +
                            show_report(a.runs[0], style));
    for (std::string line; std::getline(text, line);)
      EXPECT_LE(text::columns(line), static_cast<std::size_t>(width)) << line;
  }
}

TEST(Views, InAsciiHoldNothingElse) {
  Record record = made_record("punkt/µ/größe", slow, 200);
  for (Trial& trial : record.trials)
    for (double& seconds : trial.step_time_s) seconds = 2e-5;  // µs
  summarise(record);
  record.verdict.flags = {Flag::short_window}, record.verdict.reasons = {"needs ≥ 2 GiB – or …"};
  SystemInput a = made_system("Süd", {record}), b = made_system("€ 3", {made_record("punkt/µ/größe", fast, 200)});
  a.runs[0].context.hosts[0].cpu = "Prozessor™ 3 GHz ×2", a.runs[0].context.hosts[0].name = "knoten-ä";
  a.runs[0].context.warnings = {"90 °C"};
  a.price.emplace(), a.price->rent_per_month = 730, a.price->note = "2×2 TB, für drei Jahre", b.price = a.price;
  CompareOptions options;
  options.currency = "€";
  const Comparison c = compare({a, b}, options);
  TableStyle style;
  style.unicode = false;
  for (const std::string& text : {comparison_text(c, {}, style), cost_text(*c.systems[0].cost, style),
                                  show_report(a.runs[0], style), summary_table(a.runs[0], style)}) {
    const auto odd = std::ranges::find_if(text, [](char ch) { return static_cast<unsigned char>(ch) >= 0x80; });
    EXPECT_TRUE(odd == text.end()) << text;
  }
  EXPECT_NE(show_report(a.runs[0], style).find("20.0 us"), std::string::npos) << show_report(a.runs[0], style);
  EXPECT_NE(cost_text(*c.systems[0].cost, style).find("2x2 TB, f\\u00fcr drei Jahre"), std::string::npos);
}

TEST(Views, SayTheSameAndNothingOfAReportIsMarkup) {
  SystemInput b = several("<b>|\x1b[31m", {made_record(id, fast, 200)});
  for (Report& run : b.runs) run.context.hosts[0].cpu = "=cmd|`x`\n";
  b.paths = {"b.json"};
  const Comparison c = compare({several("A", {made_record(id, slow, 210)}), b}, {});
  const nlohmann::json json = nlohmann::json::parse(comparison_json(c, {}));
  EXPECT_EQ(json["reference"], "A");
  EXPECT_EQ(json["figures"][0]["workloads"][0]["systems"][1]["verdict"], "better");
  EXPECT_NEAR(json["figures"][0]["overall"][1]["ratio"].get<double>(), 1.1, 1e-3);
  EXPECT_EQ(json["figures"][0]["ranking"][0]["rank"], 1);
  EXPECT_TRUE(json["figures"][0]["workloads"][0]["systems"][1]["is_interval"]);
  for (const int width : {80, 120})
    for (const bool unicode : {false, true}) {
      TableStyle style;
      style.width = width, style.unicode = unicode;
      const std::string text = comparison_text(c, {}, style);
      EXPECT_EQ(text.find('\x1b'), std::string::npos);
      EXPECT_NE(text.find("+10.0 %"), std::string::npos) << text;
      const bool is_ascii = std::ranges::all_of(text, [](char ch) { return static_cast<unsigned char>(ch) < 0x80; });
      EXPECT_TRUE(unicode || is_ascii) << text;
    }
  const std::string markdown = comparison_markdown(c);
  EXPECT_EQ(markdown.find("<b>"), std::string::npos);
  EXPECT_NE(markdown.find("\\<b\\>\\|"), std::string::npos) << markdown;
  const std::string csv = comparison_csv(c);
  EXPECT_NE(csv.find(",better,"), std::string::npos);
  const auto columns = [](const std::string& line) { return std::ranges::count(line, ','); };
  EXPECT_EQ(columns(csv.substr(0, csv.find('\n'))), 22);
}

}  // namespace
}  // namespace tw
