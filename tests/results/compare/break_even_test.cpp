// Where the cheaper one changes, against arithmetic by hand and against the comparison at each price.
#include "results/compare/break_even.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <random>

#include "results/analysis/verdict.hpp"
#include "results/compare/comparison.hpp"
#include "results/export/export.hpp"
#include "results/terminal/tables.hpp"
#include "tests/results/made_reports.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

constexpr const char* id = "gpt2-tiny/bf16/acc4/np2";
const std::vector<double> hundred(5, 100.0), two_hundred(5, 200.0);

PriceRow rented(double per_hour, double electricity) {
  PriceRow p;
  p.rent_per_month = 730 * per_hour, p.electricity_per_kwh = electricity;
  return p;
}
const BreakEven* find(const std::vector<BreakEven>& all, const std::string& input, const std::string& whose = "") {
  const auto found =
      std::ranges::find_if(all, [&](const BreakEven& b) { return b.input == input && b.whose == whose; });
  return found == all.end() ? nullptr : &*found;
}

/// Each trial of a record as a run of its own, of a window that differs in the last digits: one measurement counts
/// once.
std::vector<Record> runs_of(const Record& record) {
  std::vector<Record> runs;
  double factor = 1;
  for (const Trial& trial : record.trials) {
    Record& run = runs.emplace_back(record);
    run.trials = {trial};
    run.trials[0].window_s *= factor;
    for (EnergyRow& row : run.trials[0].energy) row.window_s = run.trials[0].window_s;
    summarise(run);
    factor += 1e-13;
  }
  return runs;
}
SystemInput system_of(const std::string& name, const Record& record) {
  SystemInput system = made_system(name, {});
  system.runs.clear();
  for (const Record& run : runs_of(record)) system.runs.push_back(made_report({run}));
  return system;
}
BreakEvens evens(const Record& a, const PriceRow& of_a, const Record& b, const PriceRow& of_b) {
  const std::vector<Record> runs_a = runs_of(a), runs_b = runs_of(b);
  CostSubject subject_a{"A", {}, &of_a}, subject_b{"B", {}, &of_b};
  for (const Record& run : runs_a) subject_a.runs.push_back({&run, 1});
  for (const Record& run : runs_b) subject_b.runs.push_back({&run, 1});
  return break_evens(subject_a, subject_b, Replicates::runs, "EUR");
}

TEST(BreakEven, ByHand) {
  // A million samples: A 2.7778 + 2.7778 p; B, 200 samples/s at 1.6 an hour and 3 kW, 2.2222 + 4.1667 p: equal at 0.4.
  const Record a = made_record(id, hundred, 1000), b = made_record(id, two_hundred, 3000);
  PriceRow of_a = rented(1, 0.1), of_b = rented(1.6, 0.1);
  const auto all = [&] { return evens(a, of_a, b, of_b).inputs; };
  {
    const std::vector<BreakEven> found = all();
    const BreakEven& one = *find(found, "electricity_per_kwh");
    ASSERT_TRUE(one.at);
    EXPECT_NEAR(*one.at, 0.4, 1e-11);
    EXPECT_EQ(one.ranges.front().cheaper, "B");
    EXPECT_EQ(one.ranges.back().cheaper, "A");
    EXPECT_EQ(one.ranges.front().from, 0);
    EXPECT_NEAR(one.ranges.front().to, 0.4, 1e-6);
    EXPECT_EQ(one.ranges.back().to, 1) << "ten times what is given";
    EXPECT_EQ(one.text,
              "by the price of electricity: B is cheaper below 0.400 EUR/kWh, A is cheaper above 0.400, up to 1.00");
    const BreakEven& rent = *find(found, "rent_per_month", "B");
    EXPECT_NEAR(*rent.at, 1387, 1e-8);  // (2.7778 + 0.27778 - 0.41667) / 1.38889 x 730
    EXPECT_EQ(rent.ranges.front().cheaper, "B");
    EXPECT_EQ(find(found, "utilisation"), nullptr) << "B is cheaper at each";
  }
  of_a.electricity_per_kwh = of_b.electricity_per_kwh = 0.6;  // 2.7778/u + 1.6667 and 2.2222/u + 2.5: equal at 2/3
  const std::vector<BreakEven> found = all();
  const BreakEven& utilisation = *find(found, "utilisation");
  EXPECT_NEAR(*utilisation.at, 2.0 / 3, 1e-11);
  EXPECT_EQ(utilisation.ranges.front().cheaper, "B") << "the cheaper hours";
  EXPECT_EQ(utilisation.ranges.back().cheaper, "A");
  EXPECT_EQ(utilisation.text, "by the utilisation of both: B is cheaper below 0.667, A is cheaper above 0.667");
}

TEST(BreakEven, NowhereIsSaid) {
  const Record a = made_record(id, hundred, 1000), b = made_record(id, two_hundred, 1000);
  const PriceRow price = rented(1, 0.2);
  const std::vector<BreakEven> found = evens(a, price, b, price).inputs;
  const BreakEven& one = *find(found, "electricity_per_kwh");
  EXPECT_FALSE(one.at);
  EXPECT_EQ(one.text, "B is cheaper at any price of electricity up to 2.00 EUR/kWh");
  // As many joules, by another rounding: the lines are parallel.
  const Record c = made_record(id, {98, 99, 100, 101, 102}, 1000), d = made_record(id, {101, 99, 102, 98, 100}, 1000);
  const PriceRow dear = rented(2, 0.2);
  const std::vector<BreakEven> same = evens(c, price, d, dear).inputs;
  EXPECT_FALSE(find(same, "electricity_per_kwh")->at) << find(same, "electricity_per_kwh")->text;
}

TEST(BreakEven, NoneOfTwoKindsOfJoules) {
  const Record a = made_record(id, hundred, 1000), b = made_record(id, two_hundred, 500, Scope::package);
  const PriceRow price = rented(1, 0.2);
  EXPECT_TRUE(evens(a, price, b, price).inputs.empty());
  std::vector<SystemInput> systems = {system_of("A", a), system_of("B", b)};
  for (SystemInput& system : systems) system.price = price;
  CompareOptions options;
  options.currency = "EUR";
  const Comparison c = compare(systems, options);
  const auto basis = std::ranges::find(c.differences, "basis of cost", &Difference::what);
  ASSERT_NE(basis, c.differences.end());
  EXPECT_TRUE(basis->blocking);
  EXPECT_TRUE(c.break_even.empty());
}

/// Whoever is named is so by the ratio that the comparison has at that price, and nobody is where it has none.
TEST(BreakEven, ClaimsNoMoreThanTheRatio) {
  const Record a = made_record(id, {97, 99, 100, 101, 103}, 1000), b = made_record(id, {194, 199, 201, 200, 206}, 3000);
  const auto verdict_at = [&](double electricity, double rent_of_b) {
    std::vector<SystemInput> systems = {system_of("A", a), system_of("B", b)};
    systems[0].price = rented(1, electricity), systems[1].price = rented(rent_of_b, electricity);
    CompareOptions options;
    options.figures = {"cost"}, options.currency = "EUR";
    return compare(systems, options).figures.at(0).rows.at(0).systems.at(1).ratio.verdict;
  };
  const std::vector<BreakEven> found = evens(a, rented(1, 0.1), b, rented(1.6, 0.1)).inputs;
  const BreakEven& electricity = *find(found, "electricity_per_kwh");
  ASSERT_EQ(electricity.ranges.size(), 3u);
  const double low = electricity.ranges[0].to, high = electricity.ranges[2].from;
  ASSERT_TRUE(electricity.at);
  EXPECT_LT(low, *electricity.at);
  EXPECT_GT(high, *electricity.at);
  EXPECT_EQ(electricity.ranges[0].cheaper, "B");
  EXPECT_EQ(electricity.ranges[1].cheaper, "");
  EXPECT_EQ(electricity.ranges[2].cheaper, "A");
  EXPECT_EQ(verdict_at(0.9999 * low, 1.6), Claim::better);
  EXPECT_EQ(verdict_at(1.0001 * low, 1.6), Claim::no_difference);
  EXPECT_EQ(verdict_at(*electricity.at, 1.6), Claim::no_difference);
  EXPECT_EQ(verdict_at(0.9999 * high, 1.6), Claim::no_difference);
  EXPECT_EQ(verdict_at(1.0001 * high, 1.6), Claim::worse);
  EXPECT_NE(electricity.text.find("no difference is shown from"), std::string::npos) << electricity.text;
  EXPECT_NE(electricity.text.find("(the means meet at"), std::string::npos) << electricity.text;
  const BreakEven& rent = *find(found, "rent_per_month", "B");
  ASSERT_EQ(rent.ranges.size(), 3u);
  EXPECT_EQ(verdict_at(0.1, 0.9999 * rent.ranges[0].to / 730), Claim::better);
  EXPECT_EQ(verdict_at(0.1, 1.0001 * rent.ranges[0].to / 730), Claim::no_difference);
  EXPECT_EQ(verdict_at(0.1, 1.0001 * rent.ranges[2].from / 730), Claim::worse);
  // As dear as each other but for noise, whatever electricity costs.
  const Record same = made_record(id, {103, 100, 98, 99, 101.5}, 1000);
  const BreakEven nowhere = *find(evens(a, rented(1, 0.1), same, rented(1, 0.1)).inputs, "electricity_per_kwh");
  EXPECT_FALSE(nowhere.at);
  EXPECT_EQ(nowhere.text, "no difference is shown at any price of electricity up to 1.00 EUR/kWh");
  // Fewer hours for the more joules: below some price nothing is shown, or above.
  const BreakEven one_side =
      *find(evens(a, rented(1, 0.1), made_record(id, {98, 101, 100, 99, 102}, 2000), rented(1, 0.1)).inputs,
            "electricity_per_kwh");
  ASSERT_EQ(one_side.ranges.size(), 2u);
  EXPECT_EQ(one_side.ranges[0].cheaper, "");
  EXPECT_EQ(one_side.ranges[1].cheaper, "A");
  EXPECT_NE(one_side.text.find("no difference is shown below"), std::string::npos) << one_side.text;
}

/// Time and joules of one trial may go together, or apart: then an interval is narrowest somewhere in between.
TEST(BreakEven, SaysWhatTheComparisonSaysAtEachPrice) {
  std::mt19937 random(1);
  const auto uniform = [&](double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random);
  };
  const auto made = [&](double speed, double joules, double spread, double together, std::size_t trials) {
    std::normal_distribution<double> normal;
    std::vector<double> speeds;
    std::vector<double> of_joules;
    for (std::size_t trial = 0; trial < trials; ++trial) {
      const double of_time = normal(random),
                   of_energy = together * of_time + std::sqrt(1 - together * together) * normal(random);
      speeds.push_back(speed * std::exp(-spread * of_time));
      of_joules.push_back(joules * std::exp(spread * of_energy));
    }
    Record record = made_record(id, speeds, 1000);
    for (std::size_t trial = 0; trial < trials; ++trial)
      record.trials[trial].energy[0].energy_j = of_joules[trial], record.trials[trial].energy[0].uncertainty_j = 1;
    summarise(record);
    return record;
  };
  std::size_t changes = 0;
  for (int pair = 0; pair < 30; ++pair) {
    const double currency = std::pow(10, uniform(0, 4)), spread = uniform(0.001, 0.02);
    const std::size_t trials = pair % 3 == 0 ? 12 : 5;
    const Record a = made(100, 6400, spread, uniform(-1, 1), trials),
                 b = made(100 * std::exp(uniform(-2, 2) * spread), 6400 * std::exp(uniform(-2, 2) * spread), spread,
                          uniform(-1, 1), trials);
    const PriceRow price = rented(0.1 * currency, 0.3 * currency);
    const BreakEvens found = evens(a, price, b, price);
    ASSERT_GE(found.inputs.size(), 3u);
    for (const BreakEven& one : found.inputs) {
      changes += one.ranges.size() - 1;
      for (std::size_t i = 1; i < one.ranges.size(); ++i) {
        EXPECT_EQ(one.ranges[i].from, one.ranges[i - 1].to);
        EXPECT_NE(one.ranges[i].cheaper, one.ranges[i - 1].cheaper);
      }
      for (int k = 0; k < 8; ++k) {
        const double most = one.ranges.back().to, least = std::max(one.ranges.front().from, 1e-6 * most),
                     value = least * std::pow(most / least, uniform(0, 1));
        std::vector<SystemInput> systems = {system_of("A", a), system_of("B", b)};
        for (SystemInput& system : systems) {
          system.price = price;
          if (one.input == "electricity_per_kwh") system.price->electricity_per_kwh = value;
          if (one.input == "utilisation") system.price->utilisation = value;
          if (one.whose == system.name) system.price->rent_per_month = value;
        }
        CompareOptions options;
        options.figures = {"cost"}, options.currency = "EUR";
        const Claim verdict = compare(systems, options).figures.at(0).rows.at(0).systems.at(1).ratio.verdict;
        const auto range = std::ranges::find_if(one.ranges, [&](const CheaperRange& r) { return value <= r.to; });
        ASSERT_NE(range, one.ranges.end());
        EXPECT_EQ(range->cheaper, verdict == Claim::better  ? "B"
                                  : verdict == Claim::worse ? "A"
                                                       : "")
            << pair << " " << one.input << " " << value << ": " << to_string(verdict) << "; " << one.text;
      }
    }
  }
  EXPECT_GT(changes, 50u);
}

/// Who has the electricity in the rent needs no meter for a break-even of the other's price of it.
TEST(BreakEven, AsksWhoPaysForElectricityForJoules) {
  PriceRow included = rented(1.05, 0.1);
  included.electricity_included = true;
  const Record metered = made_record(id, hundred, 1000), unmetered = made_record(id, hundred);
  const std::vector<BreakEven> found = evens(unmetered, included, metered, rented(1, 0.1)).inputs;
  const BreakEven* one = find(found, "electricity_per_kwh");
  ASSERT_NE(one, nullptr);
  EXPECT_NEAR(*one->at, 0.05, 1e-9) << "1 kW";
  EXPECT_EQ(one->ranges.front().cheaper, "B");
}

TEST(BreakEven, IsWithheldWhereNothingIsClaimed) {
  const PriceRow price = rented(1, 0.1), dear = rented(1.6, 0.1);
  const auto reason = [&](const Record& a, const Record& b) {
    const BreakEvens found = evens(a, price, b, dear);
    EXPECT_TRUE(found.inputs.empty());
    std::vector<SystemInput> systems = {system_of("A", a), system_of("B", b)};
    systems[0].price = price, systems[1].price = dear;
    CompareOptions options;
    options.currency = "EUR";
    const Comparison c = compare(systems, options);
    EXPECT_EQ(c.break_even.at(0).reason, found.reason);
    EXPECT_NE(comparison_markdown(c).find("no break-even price is given"), std::string::npos);
    const auto json = nlohmann::json::parse(comparison_json(c, {}))["break_even"][0];
    EXPECT_EQ(json["reason"], found.reason);
    EXPECT_TRUE(json["input"].is_null() && json["text"].is_null());
    return found.reason;
  };
  EXPECT_NE(reason(made_record(id, hundred, 1000, Scope::package), made_record(id, two_hundred, 3000, Scope::package))
                .find("lower bounds"),
            std::string::npos);
  EXPECT_NE(reason(made_record(id, hundred), made_record(id, two_hundred)).find("lower bounds"), std::string::npos);
  // One run of each, however many trials it has.
  const Record a = made_record(id, {100, 101, 99, 102, 98}, 1000), b = made_record(id, {200, 201, 199, 202, 198}, 3000);
  const BreakEvens single = break_evens({"A", {{&a, 1}}, &price}, {"B", {{&b, 1}}, &dear}, Replicates::trials, "EUR");
  EXPECT_TRUE(single.inputs.empty());
  EXPECT_FALSE(single.reason.empty());
  EXPECT_FALSE(evens(a, price, b, dear).inputs.empty());
}

TEST(BreakEven, StandsInAComparison) {
  std::vector<SystemInput> systems = {system_of("A", made_record(id, hundred, 1000)),
                                      system_of("B", made_record(id, two_hundred, 3000))};
  systems[0].price = rented(1, 0.1), systems[1].price = rented(1.6, 0.1);
  CompareOptions options;
  options.currency = "EUR";
  const Comparison c = compare(systems, options);
  ASSERT_EQ(c.break_even.size(), 1u);
  const auto cost = std::ranges::find(c.figures, "cost", [](const FigureComparison& f) { return f.figure.name; });
  ASSERT_NE(cost, c.figures.end());
  EXPECT_EQ(cost->rows[0].systems[1].ratio.verdict, Claim::better);
  EXPECT_NEAR(*cost->rows[0].systems[1].ratio.value, (2.2222222222 + 0.41666666667) / (2.7777777778 + 0.27777777778),
              1e-9);
  const std::string text = comparison_text(c, {}, {});
  EXPECT_NE(text.find("B is cheaper below 0.400 EUR/kWh, A is cheaper above"), std::string::npos) << text;
  EXPECT_NE(text.find("Prices of B"), std::string::npos) << "every input is echoed";
}

}  // namespace
}  // namespace tw
