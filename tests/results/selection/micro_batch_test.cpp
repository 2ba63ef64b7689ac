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

TEST(ChosenMicroBatch, EndsTheSearchAlsoBeforeTheLastSize) {
  const auto end_of = [](const std::vector<double>& speeds) { return end_of_search(trials_of(speeds)).text(); };
  EXPECT_EQ(end_of({100, 150, 151}), "doubling 2 gains less than 2 %");
  EXPECT_EQ(end_of({100, 101, 200, 300}), "doubling 1 gains less than 2 %") << "4 and 8 were timed before";
  EXPECT_EQ(end_of({100, 150, 0}), "micro-batch 4: does not fit");
  EXPECT_EQ(end_of({100, 150, 0, 200}), "micro-batch 4: does not fit");
  EXPECT_EQ(end_of({0}), "micro-batch 1: does not fit");
  EXPECT_EQ(end_of({100, 150}), "micro-batch 4: ") << "a size that the point cannot have";
  EXPECT_TRUE(is_search_open({}));
  EXPECT_TRUE(is_search_open(trials_of({100, 150})));
  EXPECT_FALSE(is_search_open(trials_of({100, 150, 151})));
  EXPECT_FALSE(is_search_open(trials_of({100, 150, 0})));
  EXPECT_FALSE(is_search_open(trials_of({0})));
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

/// 40 samples/s at the chosen size, and 44.7 in the fastest step of the trials.
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
  for (const double good : {1.0, 2.0, 0.6}) EXPECT_EQ(found(good), (std::pair<Codes, Codes>())) << good;
  for (const double far : {2.4, 10.0, 0.5, 0.12}) {
    EXPECT_EQ(found(far), std::pair(Codes{}, Codes{"search_speed_far"})) << far;
    EXPECT_EQ(found(far, true), (std::pair<Codes, Codes>())) << "a set point slows the trials alone";
  }
  for (const double forged : {12.0, 1e6, 0.1, 1e-6})
    for (const bool is_set : {false, true})
      EXPECT_EQ(found(forged, is_set), std::pair(Codes{place}, Codes{})) << forged;
}

/// A mean of few steps of a starved machine says little: the fastest step counts.
TEST(MicroBatchSearch, SlowStepsOfTheTrialsAreNoFault) {
  Report report = automatic_report();
  for (Trial& trial : report.records[0].trials)
    for (std::size_t i = 1; i < trial.step_time_s.size(); ++i) trial.step_time_s[i] *= 50;
  summarise(report);
  for (const Fault& fault : validate_report(to_json(report)).violations)
    EXPECT_FALSE(fault.code.starts_with("search_speed")) << fault.where;
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
