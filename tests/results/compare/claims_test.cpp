// What a comparison does not claim, whatever its reports state.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <tuple>

#include "results/analysis/verdict.hpp"
#include "results/compare/comparison_words.hpp"
#include "results/export/export.hpp"
#include "results/html/html.hpp"
#include "tests/results/compare/compared.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

TEST(Claims, ARunCountsOnce) {
  std::vector<SystemInput> systems = {made_system("A", {made_record(id, slow)}),
                                      made_system("B", {made_record(id, fast)})};
  for (SystemInput& system : systems) {
    system.runs[0].context.launch = system.name;
    system.runs.assign(5, system.runs[0]);
  }
  const Comparison c = compare(systems, {});
  ASSERT_NE(difference(c, "samples"), nullptr);
  EXPECT_EQ(ratio(c).verdict, Claim::not_comparable);
}

/// Whatever their reports say of who measured them: by names, times and order alone nothing becomes a second one.
TEST(Claims, AMeasurementCountsOnce) {
  const auto renamed = [](Report report, int number) {
    report.context.launch = "launch-" + std::to_string(number);
    report.context.started_at = "2026-03-0" + std::to_string(number) + "T10:00:00Z";
    report.context.finished_at = "2026-03-0" + std::to_string(number) + "T10:10:00Z";
    for (Record& record : report.records) std::ranges::rotate(record.trials, record.trials.begin() + number % 5);
    return report;
  };
  // Five runs out of one.
  std::vector<SystemInput> systems = {made_system("A", {made_record(id, slow)}),
                                      made_system("B", {made_record(id, fast)})};
  for (SystemInput& system : systems) {
    const Report only = system.runs[0];
    for (int run = 1; run < 5; ++run) system.runs.push_back(renamed(only, run + 1));
  }
  Comparison c = compare(systems, {});
  const Difference* samples = difference(c, "samples");
  ASSERT_NE(samples, nullptr);
  EXPECT_TRUE(samples->blocking);
  EXPECT_EQ(samples->system_value, "runs 1 and 2 are the same");
  EXPECT_EQ(ratio(c).verdict, Claim::not_comparable);
  EXPECT_FALSE(c.compared);
  // One system's run as the other's.
  SystemInput copy = made_system("B", {});
  copy.runs = {renamed(systems[0].runs[0], 7)};
  SystemInput a = made_system("A", {made_record(id, slow)}), third = made_system("C", {made_record(id, fast)});
  c = compare({a, copy, third}, {});
  EXPECT_EQ(difference(c, "samples")->system_value, "A and B are the same");
  EXPECT_EQ(ratio(c, 1).verdict, Claim::not_comparable);
  EXPECT_EQ(ratio(c, 2).verdict, Claim::single_run) << "C is one of its own";
  // Two that are not the reference: nobody knows whose it is.
  c = compare({third, a, copy}, {});
  EXPECT_EQ(ratio(c, 1).verdict, Claim::not_comparable);
  EXPECT_EQ(ratio(c, 2).verdict, Claim::not_comparable);
  // Of one point alone.
  const auto two = [&](Record first, Record second) {
    second.id = "two", second.workload.precision = "float32";
    return std::vector<Record>{std::move(first), std::move(second)};
  };
  c = compare({made_system("A", two(made_record(id, slow), made_record(id, slow))),
               made_system("B", two(made_record(id, fast), made_record(id, slow)))},
              {});
  EXPECT_EQ(ratio(c, 1).verdict, Claim::single_run);
  EXPECT_EQ(ratio(c, 1, "throughput", 1).verdict, Claim::not_comparable);
}

TEST(Claims, AStatedSummaryIsBelievedInNothing) {
  const std::vector<double> seconds = {100, 101, 102, 99, 98};
  const Record good = made_target_record(id, seconds, 200);
  const auto of_changed = [&](void (*change)(Record&)) {
    Record forged = good;  // its summary says that the target was reached
    change(forged);
    SystemInput b = made_system("B", {forged});
    b.price = PriceRow{};
    b.price->rent_per_month = 730, b.price->electricity_per_kwh = 0.3;
    EXPECT_NO_THROW(cost_of(b.runs[0], "EUR", *b.price));
    SystemInput a = made_system("A", {made_target_record(id, times(seconds, 2), 200)});
    a.price = b.price;
    const Comparison c = compare({a, b}, {});
    for (const FigureComparison& f : c.figures) {
      if (f.figure.name == "throughput") continue;  // which has no target in it
      for (const ComparedRow& row : f.rows) EXPECT_FALSE(row.systems[1].ratio.value) << f.figure.name;
    }
  };
  of_changed([](Record& r) { r.target->value /= 1000; });
  of_changed([](Record& r) { r.target->floor = 0; });
  of_changed([](Record& r) { r.target.reset(); });
  of_changed([](Record& r) { r.trials[0].target_run.reset(); });
  of_changed([](Record& r) { r.trials.clear(); });
}

/// A meter that is missing in any run of either side leaves that side without a mean of its costs.
TEST(Claims, CostsOfRunsOfTwoKindsHaveNoMean) {
  const auto priced = [](const char* name, double factor) {
    SystemInput system = made_system(name, {made_record(id, times(slow, factor), 1000)});
    repeat(system, 5);
    for (Report& run : system.runs)
      for (Record& record : run.records) {
        for (Trial& trial : record.trials)
          for (EnergyRow& row : trial.energy) row.window_s = trial.window_s;
        summarise(record);
      }
    system.price = PriceRow{};
    system.price->rent_per_month = 43, system.price->electricity_per_kwh = 0.3;
    return system;
  };
  CompareOptions options;
  options.currency = "EUR";
  const SystemInput a = priced("A", 1), b = priced("B", 1.01);
  const auto cost = [](const Comparison& c) { return ratio(c, 1, "cost"); };
  const Comparison whole = compare({a, b}, options);
  EXPECT_EQ(cost(whole).verdict, Claim::better);
  EXPECT_EQ(difference(whole, "basis of cost"), nullptr);
  EXPECT_FALSE(whole.break_even.empty());
  EXPECT_EQ(figure(whole, "cost").note, "");
  for (const std::size_t side : {0, 1})
    for (std::size_t missing = 0; missing < 5; ++missing) {
      std::vector<SystemInput> systems = {a, b};
      Record& record = systems[side].runs[missing].records[0];
      for (Trial& trial : record.trials) trial.energy.clear();
      summarise(record);
      const Comparison c = compare(systems, options);
      const Difference* basis = difference(c, "basis of cost");
      ASSERT_NE(basis, nullptr) << side << ", run " << missing;
      EXPECT_TRUE(basis->blocking);
      EXPECT_EQ(basis->system, side);
      const std::string said = "run " + std::to_string(missing + 1) + ": hours only, no joules";
      EXPECT_NE(basis->system_value.find(said), std::string::npos) << basis->system_value;
      EXPECT_EQ(cost(c).verdict, Claim::not_comparable);
      EXPECT_TRUE(c.break_even.empty());
      EXPECT_EQ(figure(c, "cost").note, "lower bounds, which lack part of the electricity");
      const Difference* scope = difference(c, "scope of energy");
      ASSERT_NE(scope, nullptr);
      EXPECT_TRUE(scope->blocking);
      systems[side].price->electricity_included = true;  // then the hours are all that is paid
      EXPECT_TRUE(cost_ground({&record}, *systems[side].price).basis == CostBasis::complete);
      EXPECT_EQ(difference(compare(systems, options), "basis of cost"), nullptr);
    }
}

TEST(Claims, TheAnswerSaysWhatWasLeftOutAndWhoLacksIt) {
  const auto second = [](Record r) {
    r.id = "two", r.workload.precision = "float32";
    return r;
  };
  const auto both = [&](const char* name, double factor) {
    return made_system(name, {made_record(id, times(fast, factor)), second(made_record(id, times(slow, factor)))});
  };
  SystemInput c_system = both("C", 0.7);
  c_system.runs[0].records[1].verdict = {Status::unsupported, {}, {"float32: none here"}};
  const Comparison c = compare({both("A", 1), both("B", 1.2), c_system}, {});
  const std::string words = "over 1 of 2 workloads; two is excluded from all means: C reports it as unsupported";
  EXPECT_NE(c.rests_on.back().find(words), std::string::npos) << c.rests_on.back();
  ASSERT_EQ(figure(c).left_out.size(), 1u);
  EXPECT_EQ(figure(c).left_out[0].systems, std::vector<std::size_t>{2});
  const nlohmann::json json = nlohmann::json::parse(comparison_json(c, {}));
  EXPECT_EQ(json["figures"][0]["left_out"][0]["unsupported_by"][0], "C");
  EXPECT_NE(comparison_markdown(c).find("C reports it as unsupported"), std::string::npos);
  const std::string page = to_html({{"A", made_report({})}, {"B", made_report({})}, {"C", made_report({})}}, &c);
  EXPECT_NE(page.find("C reports it as unsupported"), std::string::npos);
  EXPECT_EQ(compare({both("A", 1), both("B", 1.2)}, {}).rests_on.back().find("excluded"), std::string::npos);
  // The reference, too.
  EXPECT_NE(compare({c_system, both("B", 1.2)}, {}).rests_on.back().find(words), std::string::npos);
  // Three systems are three pairs.
  EXPECT_NE(json["figures"][0]["ranking_note"].get<std::string>().find("each of the 3 pairs"), std::string::npos);
}

/// The uncertainty beside a ratio covers its interval: rounded, it is not less.
TEST(Claims, TheAnswersUncertaintyIsNotRoundedDown) {
  int looked_at = 0;
  for (double by = 1.0; by < 1.5; by += 0.037) {
    const Comparison c = compare({runs_at("A", {1, 1.013, 0.99, 1.004}), runs_at("B", {by, 1.011 * by, 0.993 * by, 1.007 * by})}, {});
    const Ratio& r = figure(c).overall.at(1);
    const std::string& text = c.answer.at(0);
    const std::size_t at = text.find(" ± ");
    if (at == std::string::npos) continue;
    const double half = std::stod(text.substr(at + std::string(" ± ").size()));
    EXPECT_GE(half * (1 + 1e-9), (*r.high - *r.low) / 2) << text;
    EXPECT_LE(half, *r.high - *r.low) << text;
    ++looked_at;
  }
  EXPECT_GT(looked_at, 5);
}

/// Two systems whose runs hardly differ, with prices: one sentence, absolute before relative, in one workload or
/// several.
TEST(Claims, TheAnswerIsOneSentenceWithAbsoluteCosts) {
  const auto second = [](Record r) {
    r.id = "two", r.workload.precision = "float32";
    return r;
  };
  for (const bool has_two : {false, true}) {
    std::vector<SystemInput> systems;
    for (const auto& [name, factor, rent] : {std::tuple{"A", 1.0, 135.0}, std::tuple{"B", 1.25, 160.0}}) {
      std::vector<Record> records = {made_record(id, times(slow, factor))};
      if (has_two) records.push_back(second(made_record(id, times(fast, factor))));
      systems.push_back(several(name, std::move(records)));
      systems.back().price.emplace();
      systems.back().price->rent_per_month = rent, systems.back().price->electricity_included = true;
    }
    CompareOptions options;
    options.currency = "EUR";
    const Comparison c = compare(systems, options);
    ASSERT_EQ(c.answer.size(), 1u);
    const std::string number = "([0-9.]+)";
    const std::regex manner("B is better: it trains 1\\.25[0-9]* ± [0-9.]+ times as fast as A and costs " + number +
                            " instead of " + number + " EUR per million samples \\(" + number +
                            " % less, [0-9.]+ to [0-9.]+\\)\\.");
    std::smatch found;
    ASSERT_TRUE(std::regex_match(c.answer[0], found, manner)) << c.answer[0];
    EXPECT_NEAR(std::stod(found[1]) / std::stod(found[2]), 160 / 135.0 / 1.25, 2e-3) << "the figures have the ratio";
    EXPECT_NEAR(std::stod(found[3]), 100 * (1 - 160 / 135.0 / 1.25), 0.1);
    const double of_a = 135 / 730.0 / 3600 / (has_two ? std::sqrt(100.0 * 110) : 100) * 1e6;
    EXPECT_NEAR(std::stod(found[2]), of_a, 5e-3 * of_a);
    for (const char* line : {"Runs: 5 of each", "Prices: A at 0.185 EUR/h (rent, electricity included); B at 0.219 EUR/h",
                             "Busy: no run is flagged"})
      EXPECT_TRUE(std::ranges::any_of(c.rests_on, [&](const std::string& one) { return one.starts_with(line); }))
          << line << " in " << ::testing::PrintToString(c.rests_on);
    EXPECT_EQ(nlohmann::json::parse(comparison_json(c, {})).at("rests_on").size(), c.rests_on.size());
  }
}

/// What undecides it stands in the same sentence, and the range is not made narrower by rounding.
TEST(Claims, AnUndecidedAnswerSaysHowItLookedAndWhy) {
  Record b = made_record(id, {104.04, 194});
  b.verdict.flags.emplace_back(Flag::busy_host);
  const Comparison c = of_single(made_record(id, {100, 100.0001}), b);
  ASSERT_EQ(c.answer.size(), 1u);
  EXPECT_TRUE(c.answer[0].starts_with("Not decided: B looked 4 to 94 % faster, but ")) << c.answer[0];
  EXPECT_TRUE(std::ranges::any_of(c.rests_on, [](const std::string& one) {
    return one == "Busy: other programs were using the machine in 1 of 1 run of B.";
  })) << ::testing::PrintToString(c.rests_on);
  EXPECT_EQ(c.next_step.code, "repeat_runs");
}

/// Who is better, and in what where it is not in all; the one that is, not the one that the sentence is of.
TEST(Claims, TheAnswerNamesWhoIsBetter) {
  const auto answer_of = [](double speed, double watts, bool has_third) {
    std::vector<SystemInput> systems = {runs_at("A", spread, 200), runs_at("B", times(spread, speed), watts)};
    if (has_third) systems.push_back(runs_at("C", times(spread, 1.3), 200));
    const std::vector<std::string> answer = compare(systems, {}).answer;
    return answer.at(has_third ? answer.size() - 2 : 0);
  };
  const auto begins = [](const std::string& answer, const char* with) {
    EXPECT_TRUE(answer.starts_with(with)) << answer;
  };
  begins(answer_of(1.5, 200, false), "B is better: it trains 1.50 ± ");
  begins(answer_of(0.5, 200, false), "A is better: B trains 0.50");
  begins(answer_of(1.5, 600, false), "B is better in speed, A in samples per joule: B trains 1.50 ± ");
  begins(answer_of(1.5, 200, true), "B is better than A: it trains 1.50 ± ");
}

/// One run that was measured wrongly is enough, unlike with disturbances from outside.
TEST(Claims, StepsThatDisagreeWithTheirWindowsAreNoClaim) {
  const auto ratio_of = [](std::size_t affected) {
    SystemInput b = runs_at("B", times(spread, 1.5));
    for (std::size_t run = 0; run < affected; ++run)
      b.runs[run].records[0].verdict.flags.emplace_back(Flag::steps_disagree);
    return ratio(compare({runs_at("A", spread), b}, {}));
  };
  EXPECT_EQ(ratio_of(0).verdict, Claim::better);
  for (const std::size_t affected : {1, 5}) {
    EXPECT_EQ(ratio_of(affected).verdict, Claim::no_claim) << affected;
    EXPECT_EQ(ratio_of(affected).code, "steps_disagree") << affected;
  }
}

/// Beyond the tolerance the speed or its ceiling was measured wrongly. Of several runs most have to be above it.
TEST(Claims, ASpeedAboveItsCeilingIsNoClaim) {
  const auto answer_of = [](double of_ceiling, std::size_t runs, std::size_t above) {
    SystemInput b = runs_at("B", times({spread.begin(), spread.begin() + static_cast<std::ptrdiff_t>(runs)}, 1.5));
    for (std::size_t run = 0; run < above; ++run) {
      Record& record = b.runs[run].records[0];
      record.summary.of_ceiling = of_ceiling, record.verdict.flags.emplace_back(Flag::above_ceiling);
    }
    return compare({runs_at("A", spread), b}, {});
  };
  for (const std::size_t runs : {1, 5}) {
    const Comparison above = answer_of(1.06, runs, runs), within = answer_of(1.04, runs, runs);
    EXPECT_EQ(ratio(above).verdict, Claim::no_claim) << runs;
    EXPECT_EQ(ratio(above).code, "above_ceiling") << runs;
    ASSERT_EQ(above.answer.size(), 1u);
    EXPECT_NE(above.answer[0].find("a point trained faster than its own products run alone"), std::string::npos)
        << above.answer[0];
    EXPECT_EQ(above.next_step.code, runs == 1 ? "repeat_runs" : "repeat_quiet") << above.next_step.text;
    EXPECT_NE(ratio(within).verdict, Claim::no_claim) << runs;
  }
  EXPECT_EQ(ratio(answer_of(1.06, 5, 2)).verdict, Claim::better) << "the other runs show what these are worth";
}

/// The two figures of the answer have the ratio that stands beside them, also where runs differ by far.
TEST(Claims, TheFiguresOfTheAnswerHaveItsRatio) {
  const Comparison c = compare({runs_at("A", spread, 200), runs_at("B", {10, 40, 11, 38, 10.5}, 200)}, {});
  const auto figure = std::ranges::find(c.figures, FigureKind::samples_per_joule, [](const FigureComparison& one) {
    return one.figure.kind;
  });
  ASSERT_NE(figure, c.figures.end());
  std::smatch found;
  ASSERT_TRUE(std::regex_search(c.answer.at(0), found, std::regex("([0-9.]+) instead of ([0-9.]+)"))) << c.answer[0];
  EXPECT_NEAR(std::stod(found[1]) / std::stod(found[2]) / *figure->overall[1].value, 1, 0.01) << c.answer[0];
}

/// Energy that its own power samples do not bear out is not compared; the speed is.
TEST(Claims, DoubtfulEnergyIsNotCompared) {
  std::vector<SystemInput> systems = {runs_at("A", spread, 200), runs_at("B", times(spread, 1.5), 200)};
  const auto verdicts = [&] {
    std::map<std::string, Claim> all;
    for (const FigureComparison& figure : compare(systems, {}).figures)
      all[figure.figure.name] = figure.overall[1].verdict;
    return all;
  };
  EXPECT_EQ(verdicts().at("samples-per-joule"), Claim::better);
  systems[1].joule_doubts = {"note[energy_near_power]: /records/0: is 100 J"};
  EXPECT_EQ(verdicts().at("samples-per-joule"), Claim::not_comparable);
  EXPECT_EQ(verdicts().at("throughput"), Claim::better);
}

/// Nor is a cost that has such energy in it; one that has not is.
TEST(Claims, ACostOfDoubtfulEnergyIsNotCompared) {
  const auto verdict = [](double per_kwh, bool included) {
    std::vector<SystemInput> systems = {runs_at("A", spread, 200), runs_at("B", times(spread, 1.5), 200)};
    for (SystemInput& system : systems) {
      system.price = PriceRow{};
      system.price->rent_per_month = 730, system.price->electricity_per_kwh = per_kwh;
      system.price->electricity_included = included;
    }
    EXPECT_EQ(ratio(compare(systems, {}), 1, "cost").verdict, Claim::better);
    systems[0].joule_doubts = {"note[energy_near_power]: /records/0: is 100 J"};
    const Comparison c = compare(systems, {});
    EXPECT_EQ(ratio(c, 1, "cost").verdict == Claim::not_comparable, c.break_even.empty());
    return ratio(c, 1, "cost").verdict;
  };
  EXPECT_EQ(verdict(0.3, false), Claim::not_comparable);
  EXPECT_NE(verdict(0.3, true), Claim::not_comparable) << "the rent includes it";
  EXPECT_NE(verdict(0, false), Claim::not_comparable) << "it costs nothing";
}

/// scripts/repeat gives each run of a series an index of its own; older programs gave none.
TEST(Claims, RunsOfOneIndexAreNoSeries) {
  const auto verdict = [](const std::vector<std::optional<int>>& indices) {
    std::vector<SystemInput> systems = {runs_at("A", spread), runs_at("B", times(spread, 1.5))};
    for (std::size_t run = 0; run < indices.size(); ++run) systems[1].runs[run].context.run_index = indices[run];
    const Comparison c = compare(systems, {});
    const Difference* index = difference(c, "run index");
    EXPECT_EQ(index != nullptr, ratio(c).verdict == Claim::not_comparable);
    return index != nullptr && index->blocking;
  };
  EXPECT_TRUE(verdict({1, 1, 1, 1, 1}));
  EXPECT_TRUE(verdict({3, 3, 3, 3, 3}));
  EXPECT_FALSE(verdict({1, 2, 3, 4, 5}));
  EXPECT_FALSE(verdict({1, 2, 3, 1, 2})) << "of two series";
  EXPECT_FALSE(verdict({1, 1, 1, 1, {}}));
  EXPECT_FALSE(verdict({{}, {}, {}, {}, {}}));
}

/// What is not decided has a sentence of its own behind what is.
TEST(Claims, ADifferenceThatIsNotShownStandsBehindOneThatIs) {
  std::vector<SystemInput> systems = {runs_at("A", spread, 200), runs_at("B", times(spread, 1.5), 300.01)};
  const Comparison c = compare(systems, {});
  ASSERT_EQ(c.answer.size(), 2u);
  EXPECT_TRUE(c.answer[0].starts_with("B is better in speed: it trains 1.50 ± ")) << c.answer[0];
  EXPECT_TRUE(c.answer[1].starts_with("Not decided: B looked ")) << c.answer[1];
  EXPECT_NE(c.answer[1].find("samples per joule ("), std::string::npos) << c.answer[1];
  EXPECT_TRUE(std::ranges::any_of(c.rests_on, [](const std::string& one) {
    return one.starts_with("Samples per joule: ") && one.find("would have shown") != one.npos;
  })) << ::testing::PrintToString(c.rests_on);
}

/// Of one run each figure's interval is said to be over trials, or to be a range.
TEST(Claims, EachFigureOfOneRunSaysWhatItsIntervalIsOver) {
  for (const auto& [speeds, over] : {std::pair{fast, "over trials"}, std::pair{std::vector<double>{110, 111}, "worst to best"}}) {
    const Comparison c = of_single(made_record(id, slow, 300), made_record(id, speeds, 300));
    ASSERT_EQ(c.figures.size(), 2u);
    const std::string& text = c.answer.at(0);
    const std::size_t at = text.find(over);
    ASSERT_NE(at, std::string::npos) << text;
    EXPECT_NE(text.find(over, at + 1), std::string::npos) << text;
  }
}

TEST(Claims, OneRunOfEachIsSaidOnlyWhereEachHasOne) {
  SystemInput c_system = made_system("C", {made_record(id, times(slow, 1.3))});
  c_system.runs[0].context.hosts[0].cpu = "Another CPU";
  const std::string begins = "Not decided: in this one run of each";
  const Comparison mixed = compare({runs_at("A", spread), runs_at("B", times(spread, 1.5)), c_system}, {});
  EXPECT_EQ(figure(mixed).overall.at(2).verdict, Claim::single_run);
  for (const std::string& line : mixed.answer) EXPECT_FALSE(line.starts_with(begins)) << line;
  EXPECT_TRUE(mixed.answer.at(0).find("one run of C") != std::string::npos) << mixed.answer[0];
  EXPECT_TRUE(compare({runs_at("A", {1}), runs_at("B", {1.1}), c_system}, {}).answer.at(0).starts_with(begins));
}

TEST(Claims, OneOfSeveralRunsIsNotToldToBeRepeated) {
  Report report = made_report({made_record(id, slow)});
  report.records[0].verdict.flags.emplace_back(Flag::busy_host);
  EXPECT_NE(tw::results::words::no_verdict(report), "");
  report.context.run_index = 2;
  EXPECT_EQ(tw::results::words::no_verdict(report), "");
}

}  // namespace
}  // namespace tw
