// Simulated tenders: machines whose runs differ by 3 %, whose trials differ by 1 %. Who is named, and how often
// wrongly.
#include <gtest/gtest.h>

#include <cmath>

#include "results/analysis/verdict.hpp"
#include "results/compare/baseline.hpp"
#include "tests/results/compare/compared.hpp"
#include "tests/results/compare/noise.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

constexpr int tenders = 500, trials = 5;
constexpr double between_runs = 0.03, within_runs = 0.01;

struct Offer {
  double speed = 1;
  std::size_t runs = 1;
};

/// A run moves all its workloads together by `shared` of what moves it, and each by itself by the rest.
Report simulated_run(Noise& noise, double speed, int workloads, double shared, const std::string& launch) {
  const double run = noise.normal();
  std::vector<Record> records;
  for (int w = 0; w < workloads; ++w) {
    const double moved = between_runs * (std::sqrt(shared) * run + std::sqrt(1 - shared) * noise.normal());
    std::vector<double> speeds;
    for (int t = 0; t < trials; ++t)
      speeds.push_back(100 * speed * (1 + w) * std::exp(moved + within_runs * noise.normal()));
    Record record = made_record("workload-" + std::to_string(w), speeds);
    record.workload.seq_len = 64 << w, record.workload.hash = workload_hash(record.workload);
    record.launch = launch;
    record.verdict.flags.clear();  // windows of a few seconds are short, which is not what is looked at here
    records.push_back(std::move(record));
  }
  return made_report(std::move(records));
}

std::vector<SystemInput> tender(Noise& noise, const std::vector<Offer>& offers, int workloads, double shared) {
  std::vector<SystemInput> systems;
  for (std::size_t s = 0; s < offers.size(); ++s) {
    SystemInput& system = systems.emplace_back(made_system(std::string(1, static_cast<char>('A' + s)), {}));
    system.runs.clear();
    for (std::size_t run = 0; run < offers[s].runs; ++run)
      system.runs.push_back(
          simulated_run(noise, offers[s].speed, workloads, shared, system.name + std::to_string(run)));
  }
  return systems;
}

struct Named {
  int right = 0, wrong = 0;  ///< B is better; B is worse
  int in_a_workload = 0;     ///< tenders in which any single ratio names one
};
Named named(const std::vector<Offer>& offers, int workloads, double shared) {
  Noise noise(20261123 + static_cast<std::uint64_t>(workloads));
  CompareOptions options;
  options.figures = {"throughput"};
  Named count;
  for (int i = 0; i < tenders; ++i) {
    const Comparison c = compare(tender(noise, offers, workloads, shared), options);
    const Claim verdict = figure(c).overall.at(1).verdict;
    count.right += verdict == Claim::better, count.wrong += verdict == Claim::worse, count.in_a_workload += c.names_one();
  }
  return count;
}

TEST(Tender, OneRunOfEachNamesNobody) {
  for (const int workloads : {2, 4})
    for (const double speed : {1.0, 1.1, 1.5}) {
      const Named found = named({{1, 1}, {speed, 1}}, workloads, 0.5);
      EXPECT_EQ(found.right + found.wrong + found.in_a_workload, 0) << workloads << " workloads, " << speed;
    }
}

TEST(Tender, FiveRunsOfEqualsNameOneInFivePercentAtMost) {
  for (const int workloads : {2, 4})
    for (const double shared : {0.0, 1.0}) {
      const Named found = named({{1, 5}, {1, 5}}, workloads, shared);
      RecordProperty("wrong_of_500_at_" + std::to_string(workloads) + (shared > 0 ? "_shared" : ""),
                     found.right + found.wrong);
      EXPECT_LE(found.right + found.wrong, tenders * 5 / 100) << workloads << " workloads, " << shared;
    }
}

TEST(Tender, FiveRunsNameTheBetterOfTenPercent) {
  for (const int workloads : {2, 4})
    for (const double shared : {0.0, 1.0}) {
      const Named found = named({{1, 5}, {1.1, 5}}, workloads, shared);
      RecordProperty("right_of_500_at_" + std::to_string(workloads) + (shared > 0 ? "_shared" : ""), found.right);
      EXPECT_GE(found.right, tenders * 90 / 100) << workloads << " workloads, " << shared;
      EXPECT_EQ(found.wrong, 0);
    }
}

/// Pairs are not corrected for how many they are, but whoever has the first rank alone has beaten more than one.
TEST(Tender, OfFourEqualsOneWinsInFivePercentAtMost) {
  Noise noise(4);
  int wins = 0;
  for (int i = 0; i < tenders; ++i) {
    const Comparison c = compare(tender(noise, {{1, 5}, {1, 5}, {1, 5}, {1, 5}}, 2, 1), {});
    wins += !figure(c).ranking.at(0).tied;
  }
  EXPECT_LE(wins, tenders * 5 / 100);
}

/// A single run of each is judged by what earlier runs of the machine say: as seldom wrong as several runs are.
TEST(Tender, EarlierRunsLetSingleOnesBeJudged) {
  Noise noise(9);
  int wrong = 0, right = 0;
  for (int i = 0; i < tenders; ++i) {
    CompareOptions options;
    options.run_variance = tender(noise, {{0.9, 10}}, 2, 0.5);
    options.run_variance[0].name = "earlier";
    for (std::size_t run = 0; run < 10; ++run)
      for (Record& record : options.run_variance[0].runs[run].records) record.launch = "earlier" + std::to_string(run);
    const Comparison equal = compare(tender(noise, {{1, 1}, {1, 1}}, 2, 0.5), options);
    wrong += figure(equal).overall.at(1).names_one();
    ASSERT_EQ(equal.learned.size(), 1u);
    const Comparison faster = compare(tender(noise, {{1, 1}, {1.25, 1}}, 2, 0.5), options);
    right += figure(faster).overall.at(1).verdict == Claim::better;
  }
  EXPECT_LE(wrong, tenders * 7 / 100) << "5 % of 500, and two standard errors";
  EXPECT_GE(right, tenders * 90 / 100);
}

/// The daily check: with one run a day, of a machine whose runs differ by 3 %, no rule is violated or kept without a
/// spread.
TEST(Tender, ADailyCheckOfSingleRunsIsUndecidedWithoutASpread) {
  Noise noise(11);
  const BaselineRules rules = baseline_from_json(
      R"({"rules": [{"name": "speed", "kind": "variance", "figure": "throughput", "most_below": 0.05}]})");
  for (int day = 0; day < 50; ++day) {
    const std::vector<SystemInput> systems = tender(noise, {{1, 5}, {0.8, 1}}, 2, 0.5);
    std::vector<SystemInput> single = systems;
    single[0].runs.resize(1);
    for (const RuleCheck& check : check_baseline(rules, single, compare(single, {})))
      EXPECT_EQ(check.status, RuleState::undecided);
    // Against five runs of the same machine there is a spread: 20 % less is seen.
    for (const RuleCheck& check : check_baseline(rules, systems, compare(systems, {}))) EXPECT_NE(check.status, RuleState::kept);
  }
}

}  // namespace
}  // namespace tw
