// Costs and where the cheaper one changes, against arithmetic by hand.
#include "results/cost.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "results/break_even.hpp"
#include "results/comparison.hpp"
#include "results/report_io.hpp"
#include "results/verdict.hpp"
#include "tests/results/made_reports.hpp"

namespace tw {
namespace {

using namespace testing;

constexpr const char* id = "gpt2-tiny/bf16/acc4/np2";
const std::vector<double> hundred(5, 100.0), two_hundred(5, 200.0);

/// 2 + 0.5 + 0.25 + 1 = 3.75 an hour of which half are used: 7.5.
PriceRow bought() {
  PriceRow p;
  p.capex = 87600, p.life_years = 5, p.maintenance_per_year = 4380, p.fixed_opex_per_year = 2190,
  p.network_storage_capex = 43800;
  p.utilisation = 0.5, p.electricity_per_kwh = 0.3, p.pue = 1.2, p.carbon_g_per_kwh = 300;
  return p;
}
PriceRow rented(double per_hour, double electricity) {
  PriceRow p;
  p.rent_per_month = 730 * per_hour, p.electricity_per_kwh = electricity;
  return p;
}
const CostFigure& figure(const RecordCost& record, const std::string& per) {
  const auto found = std::ranges::find(record.figures, per, &CostFigure::per);
  if (found == record.figures.end()) throw std::runtime_error("no " + per);
  return *found;
}
const BreakEven* find(const std::vector<BreakEven>& all, const std::string& input, const std::string& whose = "") {
  const auto found =
      std::ranges::find_if(all, [&](const BreakEven& b) { return b.input == input && b.whose == whose; });
  return found == all.end() ? nullptr : &*found;
}

BreakEvens evens(const Record& a, const PriceRow& of_a, const Record& b, const PriceRow& of_b) {
  return break_evens({"A", {{&a, 1}}, &of_a}, {"B", {{&b, 1}}, &of_b}, Replicates::trials, "EUR");
}

TEST(Cost, OfAnHourAnEflopAndAMillionSamples) {
  EXPECT_DOUBLE_EQ(hour_price(bought(), 1), 7.5);
  EXPECT_DOUBLE_EQ(hour_price(bought(), 3), 22.5);
  EXPECT_DOUBLE_EQ(hour_price(rented(1, 0), 2), 2);
  const Report report = made_report({made_record(id, hundred, 1000)});  // 10 J a sample
  const CostReport costs = cost_of(report, "EUR", bought());
  const RecordCost& r = costs.records.at(0);
  EXPECT_EQ(r.nodes, 1);
  EXPECT_EQ(r.basis, CostBasis::complete);
  EXPECT_EQ(r.scope, "node");
  EXPECT_DOUBLE_EQ(r.it_power_w->value, 1000);
  EXPECT_DOUBLE_EQ(*r.facility_power_w, 1200);
  EXPECT_NEAR(figure(r, "hour").total->value, 7.5 + 1.2 * 0.3, 1e-9);
  const CostFigure& million = figure(r, "million_samples");  // 10,000 s
  const double hours = 10000.0 / 3600;
  EXPECT_NEAR(million.hours_part, 7.5 * hours, 1e-9);
  EXPECT_NEAR(*million.kwh, hours * 1.2, 1e-9);
  EXPECT_NEAR(million.electricity_part, hours * 1.2 * 0.3, 1e-9);
  EXPECT_NEAR(million.total->value, 7.5 * hours + hours * 1.2 * 0.3, 1e-9);
  EXPECT_NEAR(*million.co2_kg, hours * 1.2 * 0.3, 1e-9) << "300 g a kWh";
  EXPECT_NEAR(figure(r, "eflop").total->value, 1000 * million.total->value, 1e-6) << "1e9 FLOP a sample";
  EXPECT_TRUE(std::ranges::none_of(r.figures, [](const CostFigure& f) { return f.per == "model"; }));
}

TEST(Cost, OfATrainedModel) {
  const Report report = made_report({made_target_record(id, std::vector<double>(5, 3600.0), 1000)});
  const RecordCost r = cost_of(report, "EUR", bought()).records.at(0);
  EXPECT_NEAR(figure(r, "model").total->value, 7.5 + 0.36, 1e-9) << "an hour";
  EXPECT_NEAR(*figure(r, "model").kwh, 1.2, 1e-9);
  EXPECT_EQ(r.of, "model");
}

TEST(Cost, SwitchesAndStorageDrawTheirShare) {
  PriceRow p = bought();
  p.network_storage_power_w = 200;
  const RecordCost r = cost_of(made_report({made_record(id, hundred, 1000)}), "EUR", p).records.at(0);
  EXPECT_NEAR(figure(r, "hour").electricity_part, 1.2 * 1.2 * 0.3, 1e-9);
  EXPECT_DOUBLE_EQ(*r.facility_power_w, 1440);
  EXPECT_DOUBLE_EQ(r.it_power_w->value, 1000) << "as it was measured";
}

TEST(Cost, JoulesOfAPartAreALowerBoundAndNoneAtAllAreSaid) {
  const RecordCost part =
      cost_of(made_report({made_record(id, hundred, 600, "package")}), "EUR", bought()).records.at(0);
  EXPECT_EQ(part.basis, CostBasis::lower_bound);
  EXPECT_EQ(part.scope, "package");
  EXPECT_FALSE(part.facility_power_w) << "facility energy is the node's x PUE alone";
  EXPECT_NE(part.basis_note.find("lower bound"), std::string::npos);
  const RecordCost none = cost_of(made_report({made_record(id, hundred)}), "EUR", bought()).records.at(0);
  EXPECT_EQ(none.basis, CostBasis::hours_only);
  EXPECT_FALSE(figure(none, "hour").kwh) << "absent, not 0";
  EXPECT_FALSE(figure(none, "hour").co2_kg);
  EXPECT_DOUBLE_EQ(figure(none, "hour").total->value, 7.5);
  PriceRow all_in = rented(1, 0.3);
  all_in.electricity_included = true;
  const RecordCost included = cost_of(made_report({made_record(id, hundred, 1000)}), "EUR", all_in).records.at(0);
  EXPECT_EQ(included.basis, CostBasis::complete);
  EXPECT_DOUBLE_EQ(figure(included, "hour").total->value, 1);
  EXPECT_NEAR(*figure(included, "hour").kwh, 1, 1e-12) << "what it draws is known all the same";
}

TEST(Cost, ARentThatIncludesElectricityMakesNoMeterWhole) {
  PriceRow all_in = rented(1, 0.3);
  all_in.electricity_included = true, all_in.carbon_g_per_kwh = 300;
  for (const char* scope : {"device", "package", "node"}) {
    Record record = made_record(id, hundred, 1000, scope);
    const CostReport costs = cost_of(made_report({record}), "EUR", all_in);
    const RecordCost& r = costs.records.at(0);
    const bool is_whole = scope == std::string("node");
    EXPECT_EQ(r.basis, CostBasis::complete) << "the money is";
    EXPECT_EQ(r.energy_is_whole, is_whole) << scope;
    EXPECT_EQ(r.energy_note.find(scope) != std::string::npos, !is_whole) << r.energy_note;
    const std::string text = cost_text(costs, {});
    EXPECT_EQ(text.find("at least 1.00 kWh, at least 0.300 kg CO2e") != std::string::npos, !is_whole) << text;
    const auto json = nlohmann::json::parse(cost_json(costs))["records"][0];
    EXPECT_EQ(json["basis"], "complete");
    EXPECT_EQ(json["energy_basis"], is_whole ? "complete" : "lower_bound");
  }
}

TEST(Cost, WhatDoesNotCountHasNone) {
  Record bad = made_record(id, hundred);
  bad.verdict = {"invalid", {}, {"throttled: heat"}};
  const RecordCost r = cost_of(made_report({bad}), "EUR", bought()).records.at(0);
  EXPECT_TRUE(r.figures.empty());
  EXPECT_EQ(r.reason, "invalid: throttled: heat");
}

TEST(Cost, IntervalsAreOverTrials) {
  const RecordCost r = cost_of(made_report({made_record(id, {99, 100, 101}, 1000)}), "EUR", bought()).records.at(0);
  const Estimate& total = *figure(r, "million_samples").total;
  EXPECT_EQ(total.count, 3);
  ASSERT_TRUE(total.low && total.high);
  EXPECT_LT(*total.low, total.value);
}

/// From ten trials on the cheapest and the dearest are left out, of the total and of all its parts.
TEST(Cost, PartsAreOfTheTrialsThatTheTotalIsOf) {
  Record record = made_record(id, {100, 101, 102, 99, 98, 100, 101, 99, 100, 40, 100, 300}, 1000);
  record.trials[3].energy[0].energy_j = *record.trials[3].energy[0].energy_j * 30;  // the dearest, by its joules
  summarise(record);
  const RecordCost r = cost_of(made_report({record}), "EUR", bought()).records.at(0);
  for (const CostFigure& f : r.figures) {
    ASSERT_EQ(f.total->statistic, "olympic_mean") << f.per;
    EXPECT_NEAR(f.hours_part + f.electricity_part, f.total->value, 1e-12 * f.total->value) << f.per;
    EXPECT_NEAR(f.electricity_part, *f.kwh * 0.3, 1e-12 * f.electricity_part) << f.per;
    EXPECT_NEAR(*f.co2_kg, *f.kwh * 0.3, 1e-12) << f.per;
  }
  EXPECT_NEAR(figure(r, "hour").hours_part, 7.5, 1e-9) << "an hour is an hour";
  PriceRow included = bought();
  included.electricity_included = true;
  for (const CostFigure& f : cost_of(made_report({record}), "EUR", included).records.at(0).figures)
    EXPECT_EQ(f.electricity_part, 0) << "and no remainder of a rounding";
}

TEST(Cost, AnHourDoesNotKnowWhenATargetWasReached) {
  const Record record = made_target_record(id, std::vector<double>(5, 3600.0), 1000);
  const RecordCost r = cost_of(made_report({record}), "EUR", bought()).records.at(0);
  const Estimate &hour = *figure(r, "hour").total, &model = *figure(r, "model").total;
  EXPECT_NEAR(*hour.high - *hour.low, 0, 1e-12);
  EXPECT_GT(*model.high - *model.low, 0.01);
}

TEST(Cost, SensitivityTurnsOneInputAtATime) {
  PriceRow p = bought();
  p.utilisation = 0.9;
  const CostReport costs = cost_of(made_report({made_record(id, hundred, 1000)}), "EUR", p, 0.2);
  const auto& all = costs.records[0].sensitivity;
  const auto of = [&](const std::string& input) { return *std::ranges::find(all, input, &Sensitivity::input); };
  const double base = figure(costs.records[0], "million_samples").total->value;
  const double hours = 10000.0 / 3600, electricity = hours * 1.2 * 0.3;
  EXPECT_NEAR(of("electricity_per_kwh").cost_high - base, 0.2 * electricity, 1e-9);
  EXPECT_NEAR(of("electricity_per_kwh").cost_low - base, -0.2 * electricity, 1e-9);
  EXPECT_DOUBLE_EQ(of("utilisation").high, 1) << "no more than all hours";
  EXPECT_NEAR(of("utilisation").cost_high, 3.75 * hours + electricity, 1e-9);
  EXPECT_DOUBLE_EQ(of("pue").low, 1) << "no less than the IT alone";
  EXPECT_NEAR(of("samples_per_s").cost_low, base / 0.8, 1e-9);
  EXPECT_NEAR(of("capex").cost_high - base, 0.2 * 2 / 0.9 * hours, 1e-9);
  for (std::size_t i = 1; i < all.size(); ++i)
    EXPECT_GE(std::abs(all[i - 1].cost_high - all[i - 1].cost_low), std::abs(all[i].cost_high - all[i].cost_low))
        << "most effect first";
  EXPECT_TRUE(std::ranges::none_of(all, [](const Sensitivity& s) { return s.input == "rent_per_month"; }))
      << "what is not paid has none";
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
    EXPECT_NEAR(*one.at, 0.4, 1e-12);
    EXPECT_EQ(one.ranges.front().cheaper, "B");
    EXPECT_EQ(one.ranges.back().cheaper, "A");
    EXPECT_EQ(one.ranges.front().from, 0);
    EXPECT_NEAR(one.ranges.front().to, 0.4, 1e-12);
    EXPECT_EQ(one.ranges.back().to, 1) << "ten times what is given";
    EXPECT_EQ(one.text,
              "by the price of electricity: B is cheaper below 0.400 EUR/kWh, A is cheaper above 0.400, up to 1.00");
    const BreakEven& rent = *find(found, "rent_per_month", "B");
    EXPECT_NEAR(*rent.at, 1387, 1e-9);  // (2.7778 + 0.27778 - 0.41667) / 1.38889 x 730
    EXPECT_EQ(rent.ranges.front().cheaper, "B");
    EXPECT_EQ(find(found, "utilisation"), nullptr) << "B is cheaper at each";
  }
  of_a.electricity_per_kwh = of_b.electricity_per_kwh = 0.6;  // 2.7778/u + 1.6667 and 2.2222/u + 2.5: equal at 2/3
  const std::vector<BreakEven> found = all();
  const BreakEven& utilisation = *find(found, "utilisation");
  EXPECT_NEAR(*utilisation.at, 2.0 / 3, 1e-12);
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
  const Record a = made_record(id, hundred, 1000), b = made_record(id, two_hundred, 500, "package");
  const PriceRow price = rented(1, 0.2);
  EXPECT_TRUE(evens(a, price, b, price).inputs.empty());
  std::vector<SystemInput> systems = {made_system("A", {a}), made_system("B", {b})};
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
    std::vector<SystemInput> systems = {made_system("A", {a}), made_system("B", {b})};
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
  EXPECT_EQ(verdict_at(0.9999 * low, 1.6), "better");
  EXPECT_EQ(verdict_at(1.0001 * low, 1.6), "no difference shown");
  EXPECT_EQ(verdict_at(*electricity.at, 1.6), "no difference shown");
  EXPECT_EQ(verdict_at(0.9999 * high, 1.6), "no difference shown");
  EXPECT_EQ(verdict_at(1.0001 * high, 1.6), "worse");
  EXPECT_NE(electricity.text.find("no difference is shown from"), std::string::npos) << electricity.text;
  EXPECT_NE(electricity.text.find("(the means meet at"), std::string::npos) << electricity.text;
  const BreakEven& rent = *find(found, "rent_per_month", "B");
  ASSERT_EQ(rent.ranges.size(), 3u);
  EXPECT_EQ(verdict_at(0.1, 0.9999 * rent.ranges[0].to / 730), "better");
  EXPECT_EQ(verdict_at(0.1, 1.0001 * rent.ranges[0].to / 730), "no difference shown");
  EXPECT_EQ(verdict_at(0.1, 1.0001 * rent.ranges[2].from / 730), "worse");
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
  for (int pair = 0; pair < 60; ++pair) {
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
      for (int k = 0; k < 20; ++k) {
        const double most = one.ranges.back().to, least = std::max(one.ranges.front().from, 1e-6 * most),
                     value = least * std::pow(most / least, uniform(0, 1));
        std::vector<SystemInput> systems = {made_system("A", {a}), made_system("B", {b})};
        for (SystemInput& system : systems) {
          system.price = price;
          if (one.input == "electricity_per_kwh") system.price->electricity_per_kwh = value;
          if (one.input == "utilisation") system.price->utilisation = value;
          if (one.whose == system.name) system.price->rent_per_month = value;
        }
        CompareOptions options;
        options.figures = {"cost"}, options.currency = "EUR";
        const std::string verdict = compare(systems, options).figures.at(0).rows.at(0).systems.at(1).ratio.verdict;
        const auto range = std::ranges::find_if(one.ranges, [&](const CheaperRange& r) { return value <= r.to; });
        ASSERT_NE(range, one.ranges.end());
        EXPECT_EQ(range->cheaper, verdict == "better" ? "B" : verdict == "worse" ? "A" : "")
            << pair << " " << one.input << " " << value << ": " << verdict << "; " << one.text;
      }
    }
  }
  EXPECT_GT(changes, 100u);
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
    std::vector<SystemInput> systems = {made_system("A", {a}), made_system("B", {b})};
    systems[0].price = price, systems[1].price = dear;
    CompareOptions options;
    options.currency = "EUR";
    const Comparison c = compare(systems, options);
    EXPECT_EQ(c.break_even.at(0).reason, found.reason);
    EXPECT_NE(comparison_markdown(c).find("no price is named at which"), std::string::npos);
    const auto json = nlohmann::json::parse(comparison_json(c, {}))["break_even"][0];
    EXPECT_EQ(json["reason"], found.reason);
    EXPECT_TRUE(json["input"].is_null() && json["text"].is_null());
    return found.reason;
  };
  EXPECT_NE(reason(made_record(id, hundred, 1000, "package"), made_record(id, two_hundred, 3000, "package"))
                .find("lower bounds"),
            std::string::npos);
  EXPECT_NE(reason(made_record(id, hundred), made_record(id, two_hundred)).find("lower bounds"), std::string::npos);
  EXPECT_NE(reason(made_record(id, {100, 101, 99}, 1000), made_record(id, {200, 201, 199}, 3000))
                .find("for a claim run each with --trials 5"),
            std::string::npos);
}

TEST(BreakEven, StandsInAComparison) {
  std::vector<SystemInput> systems = {made_system("A", {made_record(id, hundred, 1000)}),
                                      made_system("B", {made_record(id, two_hundred, 3000)})};
  systems[0].price = rented(1, 0.1), systems[1].price = rented(1.6, 0.1);
  CompareOptions options;
  options.currency = "EUR";
  const Comparison c = compare(systems, options);
  ASSERT_EQ(c.break_even.size(), 1u);
  const auto cost = std::ranges::find(c.figures, "cost", [](const FigureComparison& f) { return f.figure.name; });
  ASSERT_NE(cost, c.figures.end());
  EXPECT_EQ(cost->rows[0].systems[1].ratio.verdict, "better");
  EXPECT_NEAR(*cost->rows[0].systems[1].ratio.value, (2.2222222222 + 0.41666666667) / (2.7777777778 + 0.27777777778),
              1e-9);
  const std::string text = comparison_text(c, {}, {});
  EXPECT_NE(text.find("B is cheaper below 0.400 EUR/kWh, A is cheaper above"), std::string::npos) << text;
  EXPECT_NE(text.find("Prices of B"), std::string::npos) << "every input is echoed";
}

// ---- the file ----
constexpr const char* two_rows = R"({
  // prices of the offer
  "currency": "EUR", "electricity_per_kwh": 0.3, "pue": 1.3, "carbon_g_per_kwh": 380, "utilisation": 0.8,
  "systems": {
    "rented": {"rent_per_month": 135, "electricity_included": true, "hosts": ["gpu*"]},
    "bought": {"capex": 250000, "life_years": 5, "pue": 1.1, "hosts": ["node1", "node2"]}
  }})";

TEST(Prices, DefaultsAndRows) {
  const Prices prices = prices_from_json(two_rows);
  ASSERT_EQ(prices.rows.size(), 2u);
  EXPECT_EQ(prices.rows[0].name, "rented") << "in the order of the file";
  EXPECT_EQ(prices.rows[0].pue, 1.3);
  EXPECT_EQ(prices.rows[1].pue, 1.1);
  EXPECT_EQ(prices.rows[1].utilisation, 0.8);
  EXPECT_EQ(prices.rows[1].carbon_g_per_kwh, 380);
  EXPECT_EQ(find_price(prices, "bought", {}), &prices.rows[1]);
  EXPECT_EQ(find_price(prices, "A", {"gpu7", "gpu8"}), &prices.rows[0]);
  EXPECT_EQ(find_price(prices, "A", {"node1"}), &prices.rows[1]);
  EXPECT_EQ(find_price(prices, "A", {"node1", "node3"}), nullptr) << "each host of it";
  EXPECT_EQ(find_price(prices, "A", {}), nullptr);
}

TEST(Prices, MistakesAreNamedWithTheirPlace) {
  const auto fault = [](const std::string& text) {
    try {
      prices_from_json(text);
    } catch (const std::runtime_error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  const auto row = [&](const std::string& fields) {
    return fault(R"({"currency": "EUR", "systems": {"a": {)" + fields + "}}}");
  };
  const std::pair<std::string, std::string> wrong[] = {
      {fault("{"), "not JSON"},
      {fault("[]"), "is no object"},
      {fault(R"({"currency": "EUR", "systems": {}})"), "/systems"},
      {fault(R"({"systems": {"a": {"rent_per_month": 1}}})"), "currency"},
      {fault(R"({"currency": "EUR", "curency": "EUR", "systems": {"a": {"rent_per_month": 1}}})"), "/curency"},
      {row(""), "neither rent_per_month nor capex"},
      {row(R"("rent_per_month": 1, "capex": 1, "life_years": 1)"), "rented or bought"},
      {row(R"("capex": 1)"), "life_years"},
      {row(R"("capex": 1, "life_years": 0)"), "/systems/a/life_years"},
      {row(R"("rent_per_month": -1)"), "/systems/a/rent_per_month"},
      {row(R"("rent_per_month": "x")"), "/systems/a/rent_per_month"},
      {row(R"("rent_per_month": 1, "pue": 0.9)"), "/systems/a/pue"},
      {row(R"("rent_per_month": 1, "utilisation": 0)"), "/systems/a/utilisation"},
      {row(R"("rent_per_month": 1, "rent_per_month": 2)"), "twice"},
      {row(R"("rent_per_month": 1e999)"), "not JSON"},
      {row(R"("rent_per_month": 1e308)"), "/systems/a/rent_per_month"},
      {row(R"("capex": 1e13, "life_years": 1)"), "/systems/a/capex"},
      {row(R"("capex": 1, "life_years": 1e-300)"), "/systems/a/life_years"},
      {row(R"("rent_per_month": 1, "utilisation": 1e-300)"), "/systems/a/utilisation"},
      {row(R"("rent_per_month": 1, "electricity_per_kwh": 1e300)"), "/systems/a/electricity_per_kwh"},
      {row(R"("rent_per_month": 1, "network_storage_power_w": 1e300)"), "/systems/a/network_storage_power_w"},
      {row(R"("rent_per_month": 1, "carbon_g_per_kwh": 1e300)"), "/systems/a/carbon_g_per_kwh"},
      {row(R"("rent_per_month": 1, "electrcity_per_kwh": 2)"), "known: "},
  };
  for (const auto& [said, word] : wrong) EXPECT_NE(said.find(word), std::string::npos) << said << " | " << word;
}

TEST(Prices, TheExampleCatalogueReads) {
  std::ifstream file(TRAINWATT_PRICES "/examples-usd.json");
  std::stringstream text;
  text << file.rdbuf();
  const Prices prices = prices_from_json(text.str());
  EXPECT_EQ(prices.rows.size(), 17u);
  EXPECT_EQ(prices.currency, "USD");
  EXPECT_NE(prices.note.find("example"), std::string::npos);
  EXPECT_EQ(*find_price(prices, "epyc-9454p-256gb", {})->rent_per_month, 270);
}

TEST(Views, TheNoteOfTheFileIsPrinted) {
  const Prices prices =
      prices_from_json(R"({"currency": "EUR", "note": "of March 2026", "systems": {"a": {"rent_per_month": 1}}})");
  const CostReport costs = cost_of(made_report({made_record(id, hundred, 1000)}), "EUR", prices.rows[0]);
  EXPECT_NE(cost_text(costs, {}).find("of March 2026"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(cost_json(costs))["price"]["note_of_prices"], "of March 2026");
}

TEST(Views, OfACostEchoEveryInput) {
  const CostReport costs = cost_of(made_report({made_record(id, hundred, 1000)}), "EUR", bought());
  TableStyle style;
  style.width = 80;
  const std::string text = cost_text(costs, style);
  for (const char* word : {"87600", "5 years", "4380", "2190", "43800", "50 %", "0.3 EUR/kWh", "1.2 (input)", "300 g"})
    EXPECT_NE(text.find(word), std::string::npos) << word << "\n" << text;
  const nlohmann::json json = nlohmann::json::parse(cost_json(costs));
  EXPECT_EQ(json["price"]["capex"], 87600);
  EXPECT_TRUE(json["price"]["rent_per_month"].is_null());
  EXPECT_NEAR(json["records"][0]["cost_per"]["hour"]["total"]["value"].get<double>(), 7.86, 1e-9);
}

}  // namespace
}  // namespace tw
