// Which micro-batch a search takes, and that a report cannot state another.
#include "results/selection/search.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "results/analysis/verdict.hpp"
#include "results/record/report_io.hpp"
#include "results/terminal/columns.hpp"
#include "results/terminal/tables.hpp"
#include "results/validation/validate.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

std::vector<MicroBatchTrial> trials_of(const std::vector<double>& speeds) {
  std::vector<MicroBatchTrial> trials;
  for (const double speed : speeds) {
    MicroBatchTrial& trial = trials.emplace_back();
    trial.micro_batch = std::int64_t{1} << (trials.size() - 1);
    if (speed > 0)
      trial.samples_per_s = speed;
    else
      trial.reason = "does not fit";
  }
  return trials;
}

TEST(ChosenMicroBatch, IsTheSmallestWhoseDoublingGainsLittle) {
  EXPECT_EQ(chosen_micro_batch(trials_of({100, 150, 160, 163})), 4);
  EXPECT_EQ(chosen_micro_batch(trials_of({100, 102, 102})), 2) << "2 % is a gain, less is none";
  EXPECT_EQ(chosen_micro_batch(trials_of({100, 101.9, 200})), 1) << "no size behind the first that is enough";
  EXPECT_EQ(chosen_micro_batch(trials_of({100, 150, 0})), 2);
  EXPECT_EQ(chosen_micro_batch(trials_of({100, 150})), 2);
  EXPECT_EQ(chosen_micro_batch(trials_of({100})), 1);
  EXPECT_EQ(chosen_micro_batch(trials_of({0})), std::nullopt);
  EXPECT_EQ(chosen_micro_batch({}), std::nullopt);
}

TEST(DoublingGain, IsDecidedWhereTwoPerCentAreOutsideOfItsInterval) {
  const auto judged = [](std::vector<double> ratios) { return judge_doubling(std::move(ratios)); };
  EXPECT_FALSE(judged({1.5}).is_decided) << "too few blocks";
  EXPECT_TRUE(judged({1.5, 1.5}).is_decided);
  EXPECT_TRUE(judged({0.9, 0.9}).is_decided);
  EXPECT_FALSE(judged({1.12, 1.12}).is_decided) << "too few blocks for a gain this near 2 %";
  EXPECT_FALSE(judged({0.93, 0.93}).is_decided);
  EXPECT_FALSE(judged({1.5, 1.2}).is_decided) << "too far from each other";
  const DoublingGain quiet = judged({1.5, 1.5, 1.5});
  EXPECT_TRUE(quiet.is_decided);
  EXPECT_EQ(quiet.median, 1.5);
  EXPECT_EQ(quiet.low, 1.5);
  EXPECT_EQ(quiet.high, 1.5);
  EXPECT_TRUE(judged({1.02, 1.02, 1.02}).is_decided) << "2 % is a gain";
  EXPECT_TRUE(judged({1.0099, 1.0101, 1.01}).is_decided);
  EXPECT_TRUE(judged({1.0299, 1.0301, 1.03}).is_decided);
  // Of fewer than 5 the least and the greatest, moved outwards by their distance.
  const DoublingGain few = judged({1.06, 1.04, 1.05});
  EXPECT_NEAR(few.low, 1.02, 1e-12);
  EXPECT_NEAR(few.high, 1.08, 1e-12);
  EXPECT_FALSE(judged({1.061, 1.039, 1.05}).is_decided);
  // From 5 on order statistics: by the binomial distribution the first and last value are left out from 8 on, two of
  // each end from 11 on.
  for (const auto& [count, out] : {std::pair(5, 0), {7, 0}, {8, 1}, {10, 1}, {11, 2}, {12, 2}}) {
    std::vector<double> ratios;
    for (int i = count; i > 0; --i) ratios.push_back(i);
    const DoublingGain gain = judged(ratios);
    EXPECT_EQ(gain.low, 1 + out) << count;
    EXPECT_EQ(gain.high, count - out) << count;
    EXPECT_EQ(gain.median, 0.5 * (count + 1)) << count;
    EXPECT_EQ(gain.ratios, ratios) << "in the order of the blocks";
  }
  EXPECT_TRUE(judged({1.1, 1.1, 0.7, 1.1, 1.1, 1.1, 1.1, 1.1}).is_decided) << "one disturbed block of eight";
  EXPECT_FALSE(judged({1.1, 0.9, 1.1, 0.9, 1.1, 0.9, 1.1, 0.9, 1.1, 0.9, 1.1, 0.9}).is_decided);
}

TEST(ChosenMicroBatch, IsTheSmallerWhereBlocksDoNotDecide) {
  std::vector<MicroBatchTrial> trials = trials_of({100, 200, 300});
  trials[1].over_half = judge_doubling({2, 2, 2});
  trials[2].over_half = judge_doubling({0.9, 1.5, 1.5});
  EXPECT_EQ(chosen_micro_batch(trials), 2) << "whatever the speeds";
  EXPECT_EQ(end_of_search(trials).text(),
            "whether doubling 2 gains 2 % is undecided after 3 blocks; the smaller size is taken");
  trials[2].over_half = judge_doubling({1.01, 1.01, 1.01});
  EXPECT_EQ(chosen_micro_batch(trials), 2);
  EXPECT_EQ(end_of_search(trials).text(), "doubling 2 gains less than 2 %");
  trials[2].over_half = judge_doubling({1.03, 1.03, 1.03});
  EXPECT_EQ(chosen_micro_batch(trials), 4);
}

/// The first point's plan leaves the size to the run, which found 8.
Report automatic_report() {
  Report report = sample_report();
  Record& record = report.records[0];
  record.micro_batch_search = MicroBatchSearch{trials_of({10, 18, 30, 40, 40.2}), 8, "doubling 8 gains less than 2 %"};
  std::string& plan = report.plan.canonical_json;
  const std::string size = R"("micro_batch":8)";
  plan.replace(plan.find(size), size.size(), R"("micro_batch":"auto")");
  summarise(report);
  return report;
}
std::vector<std::string> codes_of(const Report& report) {
  std::vector<std::string> codes;
  for (const Fault& fault : validate_report(to_json(report)).violations) codes.push_back(fault.code);
  return codes;
}

TEST(MicroBatchSearch, IsWrittenReadAndShown) {
  const Report report = automatic_report();
  EXPECT_EQ(codes_of(report), std::vector<std::string>());
  const Report again = report_from_json(to_json(report));
  EXPECT_EQ(to_json(again), to_json(report));
  EXPECT_EQ(again.records[0].micro_batch_search->trials.size(), 5u);
  const std::string shown = show_report(report, {.width = 200});
  EXPECT_NE(shown.find("micro-batch 8 found; doubling 8 gains less than 2 %; 1: 10.0 samples/s"), std::string::npos)
      << shown;
}

/// The same, of sizes that were compared in blocks.
Report report_of_blocks() {
  Report report = automatic_report();
  std::vector<MicroBatchTrial>& trials = report.records[0].micro_batch_search->trials;
  trials[1].over_half = judge_doubling({1.8, 1.81, 1.79});
  trials[2].over_half = judge_doubling({1.66, 1.67, 1.65});
  trials[3].over_half = judge_doubling({1.33, 1.34, 1.32});
  trials[4].over_half = judge_doubling({1.004, 1.006, 1.005});
  return report;
}

TEST(MicroBatchSearch, BlocksAreWrittenReadAndShown) {
  Report report = report_of_blocks();
  EXPECT_EQ(codes_of(report), std::vector<std::string>());
  EXPECT_EQ(to_json(report_from_json(to_json(report))), to_json(report));
  const std::string shown = show_report(report, {.width = 1000});
  EXPECT_NE(shown.find("8: 40.0 samples/s +33.0 % over half (+30.0 to +36.0 %, 3 blocks), 16: "), std::string::npos)
      << shown;
  // What is undecided is said.
  MicroBatchSearch& search = *report.records[0].micro_batch_search;
  search.trials[4].over_half = judge_doubling({0.9, 1.1, 1.0});
  EXPECT_EQ(codes_of(report), std::vector<std::string>{"micro_batch_differs"}) << "stopped_by says that it was decided";
  search.stopped_by = end_of_search(search.trials).text();
  EXPECT_EQ(codes_of(report), std::vector<std::string>());
  EXPECT_NE(show_report(report, {.width = 1000}).find("micro-batch 8 found; whether doubling 8 gains 2 % is undecided"),
            std::string::npos);
}

TEST(MicroBatchSearch, BlocksThatDoNotFitTogetherAreFound) {
  const auto found = [](auto change) {
    Report report = report_of_blocks();
    change(report.records[0].micro_batch_search->trials);
    std::vector<std::string> faults;
    for (const Fault& fault : validate_report(to_json(report)).violations)
      faults.push_back(fault.code + fault.where.substr(std::string("/records/0/micro_batch_search").size()));
    return faults;
  };
  using Trials = std::vector<MicroBatchTrial>;
  using Faults = std::vector<std::string>;
  const Faults last = {"micro_batch_differs/trials/4/over_half"};
  EXPECT_EQ(found([](Trials& t) { t[4].over_half->median = 1; }), last);
  EXPECT_EQ(found([](Trials& t) { t[4].over_half->low = 1; }), last);
  EXPECT_EQ(found([](Trials& t) { t[4].over_half->high = 1.01; }), last);
  EXPECT_EQ(found([](Trials& t) { t[1].over_half->ratios[0] = 1.7; }),
            Faults{"micro_batch_differs/trials/1/over_half"});
  EXPECT_EQ(found([](Trials& t) { t[3].over_half->is_decided = false; }).front(),
            "micro_batch_differs/trials/3/over_half");
  EXPECT_EQ(found([](Trials& t) { t[2].over_half.reset(); }), Faults{"micro_batch_differs/trials/2/over_half"});
  EXPECT_EQ(found([](Trials& t) { t[0].over_half = t[1].over_half; }),
            Faults{"micro_batch_differs/trials/0/over_half"});
  EXPECT_EQ(found([](Trials& t) {
              t[3].over_half = judge_doubling({1.3, 1.3});
            }).front(),
            "micro_batch_differs/trials/3/over_half/ratios");
  EXPECT_EQ(found([](Trials& t) { t[3].over_half = judge_doubling(std::vector<double>(13, 1.3)); }),
            Faults{"micro_batch_differs/trials/3/over_half/ratios"});
}

TEST(MicroBatchSearch, AnotherSizeThanItsTrialsGiveIsFound) {
  const auto found = [](auto change) {
    Report report = automatic_report();
    change(report.records[0]);
    return codes_of(report);
  };
  using Codes = std::vector<std::string>;
  EXPECT_EQ(found([](Record& r) { r.micro_batch_search->chosen = 4; }),
            (Codes{"micro_batch_differs", "micro_batch_differs"}));
  EXPECT_EQ(found([](Record& r) { r.micro_batch_search->trials[4].samples_per_s = 60; }),
            (Codes{"micro_batch_differs", "micro_batch_differs"}));
  EXPECT_EQ(found([](Record& r) { r.micro_batch_search->trials.pop_back(); }), Codes{"micro_batch_differs"});
  EXPECT_EQ(found([](Record& r) { r.micro_batch_search->stopped_by = "out of memory"; }), Codes{"micro_batch_differs"});
  EXPECT_EQ(found([](Record& r) { r.micro_batch_search->trials.erase(r.micro_batch_search->trials.begin()); }),
            Codes{"micro_batch_differs"});
  EXPECT_EQ(found([](Record& r) { r.micro_batch_search->trials[4].reason = "?"; }), Codes{"reason_missing"});
  EXPECT_EQ(found([](Record& r) { r.micro_batch_search.reset(); }), Codes{"plan_differs"});
  EXPECT_EQ(found([](Record& r) {
              r.micro_batch_search = MicroBatchSearch{{}, 8, "of course"};
            }),
            Codes{"micro_batch_differs"});
  Report planned = sample_report();
  planned.records[0].micro_batch_search = automatic_report().records[0].micro_batch_search;
  EXPECT_EQ(codes_of(planned), Codes{"plan_differs"});
}

/// 40 samples/s at the chosen size, and 41.9 in the trials: the same steps.
TEST(MicroBatchSearch, ASpeedFarFromTheMeasuredOneIsFound) {
  using Codes = std::vector<std::string>;
  const auto found = [](double factor, bool is_set = false) {
    Report report = automatic_report();
    for (MicroBatchTrial& trial : report.records[0].micro_batch_search->trials) *trial.samples_per_s *= factor;
    if (is_set) report.records[0].setting["gpu_clock_mhz"].requested = SetPoint(600);
    const Validation all = validate_report(to_json(report));
    std::pair<Codes, Codes> codes;
    for (const Fault& fault : all.violations)
      if (fault.code.starts_with("search_speed")) codes.first.push_back(fault.code + " " + fault.where);
    for (const Fault& note : all.warnings)
      if (note.code.starts_with("search_speed")) codes.second.push_back(note.code);
    return codes;
  };
  const std::string place = "search_speed_differs /records/0/micro_batch_search/trials/3/samples_per_s";
  for (const double good : {1.0, 2.0, 0.55}) EXPECT_EQ(found(good), (std::pair<Codes, Codes>())) << good;
  for (const double far : {2.2, 10.0, 0.5, 0.12}) {
    EXPECT_EQ(found(far), std::pair(Codes{}, Codes{"search_speed_far"})) << far;
    EXPECT_EQ(found(far, true), (std::pair<Codes, Codes>())) << "a set point slows the trials alone";
  }
  for (const double forged : {11.0, 1e6, 0.1, 1e-6})
    for (const bool is_set : {false, true})
      EXPECT_EQ(found(forged, is_set), std::pair(Codes{place}, Codes{})) << forged;
}

TEST(MicroBatchSearch, ASizeThatNoLaunchDeclaresIsFound) {
  const auto found = [](std::vector<std::string> argv) {
    Report report = automatic_report();
    report.records[0].micro_batch_search = MicroBatchSearch{{}, 8, declared_by_option.text()};
    report.context.argv = std::move(argv);
    return codes_of(report);
  };
  using Codes = std::vector<std::string>;
  EXPECT_EQ(found({"trainwatt-train", "--config", "kit.json", "--micro-batch", "8"}), Codes());
  EXPECT_EQ(found({"trainwatt-train", "--config", "kit.json", "--micro-batch=8"}), Codes());
  EXPECT_EQ(found({"trainwatt-train", "--micro-batch", "auto"}), Codes{"micro_batch_differs"});
  EXPECT_EQ(found({"trainwatt-train", "--config", "kit.json"}), Codes{"micro_batch_differs"});
  EXPECT_EQ(found({"trainwatt-train", "--resume", "out/x"}), Codes()) << "the first launch may have left no record";
  EXPECT_EQ(found({"trainwatt-train", "--resume", "out/x", "--micro-batch", "4"}), Codes{"micro_batch_differs"});
}

TEST(MicroBatchSearch, TheTablesShowTheSize) {
  Report report = automatic_report();
  const auto shown = [](const Report& of) {
    for (const Column& column : number_columns(of.records, Intervals::beside, {}))
      if (column.title == "micro-batch") return column.cells.at(0);
    return std::string();
  };
  EXPECT_EQ(shown(report), "8 found");
  report.records[0].micro_batch_search = MicroBatchSearch{{}, 8, declared_by_option.text()};
  EXPECT_EQ(shown(report), "8 declared");
  EXPECT_EQ(shown(sample_report()), "");
}

}  // namespace
}  // namespace tw
