// results/statistics against SciPy: fixtures/statistics.json, made by scripts/oracle/make-statistics.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "results/analysis/statistics.hpp"
#include "tests/results/golden.hpp"

namespace tw {

using namespace results;

namespace {

using Json = nlohmann::json;
using Values = std::vector<double>;

/// Both sides add and divide some ten to some hundred numbers in float64, each in an order of its own.
constexpr double rounding = 1e-12;
void expect_same(double ours, double theirs) { EXPECT_NEAR(ours, theirs, rounding * std::max(1.0, std::abs(theirs))); }

/// A 2.5 % quantile of B bootstrap means has the standard error √(0.025 · 0.975 / B) ÷ density, which for a normal
/// shape is 0.0584 ÷ its deviation there; theirs are of 20000, ours of 4000. Five of them: some shapes are less steep
/// than that.
double bootstrap_tolerance(double deviation) {
  return 5 * deviation * std::sqrt(0.025 * 0.975 * (1 / 4000.0 + 1 / 20000.0)) / 0.0584;
}

void check_estimate(const Values& values, const Json& said) {
  const Estimate e = estimate(values, IntervalRule::olympic_bootstrap);  // which is Student's below 10 values
  EXPECT_EQ(e.statistic, values.size() < 10 ? Statistic::mean : Statistic::olympic_mean);
  EXPECT_EQ(e.count, static_cast<int>(values.size()));
  expect_same(e.value, said["value"]);
  const double tolerance = said.contains("bootstrap_sd") ? bootstrap_tolerance(said["bootstrap_sd"]) : 1e-11;
  EXPECT_NEAR(*e.low, said["low"].get<double>(), tolerance);
  EXPECT_NEAR(*e.high, said["high"].get<double>(), tolerance);
}

void check_quantile(const Values& values, const Json& said) {
  for (std::size_t i = 0; i < said["q"].size(); ++i) expect_same(quantile(values, said["q"][i]), said["value"][i]);
}

void check_slope(const Values& values, const Json& said) {
  expect_same(slope(values), said["slope"]);
  expect_same(slope_error(values), said["error"]);
  expect_same(robust_slope(values), said["robust"]);
}

void check_trend(const Values& values, const Json& said) {
  expect_same(trend_probability(values), said["probability"]);
}

void check_tail(const Values& t, const Json& said) {
  for (std::size_t i = 0; i < t.size(); ++i) expect_same(student_t_tail(t[i], said["freedom"]), said["probability"][i]);
}

void check_outliers(const Values& values, const Json& said) {
  EXPECT_EQ(outliers(values), said["index"].get<std::vector<std::size_t>>());
}

void check_drift(const Values& values, const Json& said) {
  const std::optional<double> change = drift(values);
  ASSERT_EQ(change.has_value(), !said["change"].is_null());
  if (change) expect_same(*change, said["change"]);
}

void check_steady(const Values& values, const Json& said) {
  EXPECT_EQ(is_steady(values, said["window"]), said["steady"].get<bool>());
}

TEST(Oracle, StatisticsAreThoseOfSciPy) {
  const std::map<std::string, void (*)(const Values&, const Json&)> checks = {
      {"estimate", check_estimate}, {"quantile", check_quantile}, {"slope", check_slope}, {"trend", check_trend},
      {"tail", check_tail},         {"outliers", check_outliers}, {"drift", check_drift}, {"steady", check_steady}};
  const Json golden = Json::parse(testing::fixture("statistics.json"));
  std::map<std::string, int> checked;
  for (const Json& record : golden["records"]) {
    SCOPED_TRACE(record.dump().substr(0, 200));
    const std::string what = record["what"];
    ASSERT_TRUE(checks.contains(what));
    checks.at(what)(record["values"].get<Values>(), record);
    ++checked[what];
  }
  for (const auto& [what, check] : checks) EXPECT_GE(checked[what], 5) << what;
}

}  // namespace
}  // namespace tw
