// Costs against arithmetic by hand.
#include "results/cost/cost.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "results/analysis/verdict.hpp"
#include "results/compare/comparison.hpp"
#include "results/cost/plausible_prices.hpp"
#include "results/cost/cost_words.hpp"
#include "results/export/export.hpp"
#include "results/record/report_io.hpp"
#include "results/terminal/tables.hpp"
#include "tests/results/made_reports.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

constexpr const char* id = "gpt2-tiny/bf16/acc4/np2";
const std::vector<double> hundred(5, 100.0);

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
const CostFigure& figure(const RecordCost& record, CostPer per) {
  const auto found = std::ranges::find(record.figures, per, &CostFigure::per);
  if (found == record.figures.end()) throw std::runtime_error(std::string("no ") + to_string(per));
  return *found;
}
/// Nobody had trained the task: each view of the cost of a model says so.
TEST(Cost, OfAModelToAnExtrapolatedTargetSaysSo) {
  Report report = made_report({made_target_record(id, hundred, 1000)});
  EXPECT_EQ(cost_of(report, "EUR", bought()).records.at(0).target_note, "");
  report.records[0].target->extrapolated_from = "runs of gpt2-tiny";
  const CostReport costs = cost_of(report, "EUR", bought());
  const std::string said = "steps extrapolated from runs of gpt2-tiny, not trained before";
  EXPECT_EQ(costs.records.at(0).target_note, said);
  EXPECT_NE(cost_text(costs, {.width = 200}).find(said), std::string::npos);
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
  EXPECT_EQ(r.scope, Scope::node);
  EXPECT_DOUBLE_EQ(r.it_power_w->value, 1000);
  EXPECT_DOUBLE_EQ(*r.facility_power_w, 1200);
  EXPECT_NEAR(figure(r, CostPer::hour).total->value, 7.5 + 1.2 * 0.3, 1e-9);
  const CostFigure& million = figure(r, CostPer::million_samples);  // 10,000 s
  const double hours = 10000.0 / 3600;
  EXPECT_NEAR(million.hours_part, 7.5 * hours, 1e-9);
  EXPECT_NEAR(*million.kwh, hours * 1.2, 1e-9);
  EXPECT_NEAR(million.electricity_part, hours * 1.2 * 0.3, 1e-9);
  EXPECT_NEAR(million.total->value, 7.5 * hours + hours * 1.2 * 0.3, 1e-9);
  EXPECT_NEAR(*million.co2_kg, hours * 1.2 * 0.3, 1e-9) << "300 g a kWh";
  EXPECT_NEAR(figure(r, CostPer::eflop).total->value, 1000 * million.total->value, 1e-6) << "1e9 FLOP a sample";
  EXPECT_TRUE(std::ranges::none_of(r.figures, [](const CostFigure& f) { return f.per == CostPer::model; }));
}

TEST(Cost, OfATrainedModel) {
  const Report report = made_report({made_target_record(id, std::vector<double>(5, 3600.0), 1000)});
  const RecordCost r = cost_of(report, "EUR", bought()).records.at(0);
  EXPECT_NEAR(figure(r, CostPer::model).total->value, 7.5 + 0.36, 1e-9) << "an hour";
  EXPECT_NEAR(*figure(r, CostPer::model).kwh, 1.2, 1e-9);
  EXPECT_EQ(r.of, CostPer::model);
}

TEST(Cost, SwitchesAndStorageDrawTheirShare) {
  PriceRow p = bought();
  p.network_storage_power_w = 200;
  const RecordCost r = cost_of(made_report({made_record(id, hundred, 1000)}), "EUR", p).records.at(0);
  EXPECT_NEAR(figure(r, CostPer::hour).electricity_part, 1.2 * 1.2 * 0.3, 1e-9);
  EXPECT_DOUBLE_EQ(*r.facility_power_w, 1440);
  EXPECT_DOUBLE_EQ(r.it_power_w->value, 1000) << "as it was measured";
}

TEST(Cost, JoulesOfAPartAreALowerBoundAndNoneAtAllAreSaid) {
  const RecordCost part =
      cost_of(made_report({made_record(id, hundred, 600, Scope::package)}), "EUR", bought()).records.at(0);
  EXPECT_EQ(part.basis, CostBasis::lower_bound);
  EXPECT_EQ(part.scope, Scope::package);
  EXPECT_FALSE(part.facility_power_w) << "facility energy is the node's x PUE alone";
  EXPECT_NE(part.basis_note.find("lower bound"), std::string::npos);
  const RecordCost none = cost_of(made_report({made_record(id, hundred)}), "EUR", bought()).records.at(0);
  EXPECT_EQ(none.basis, CostBasis::hours_only);
  EXPECT_FALSE(figure(none, CostPer::hour).kwh) << "absent, not 0";
  EXPECT_FALSE(figure(none, CostPer::hour).co2_kg);
  EXPECT_DOUBLE_EQ(figure(none, CostPer::hour).total->value, 7.5);
  PriceRow all_in = rented(1, 0.3);
  all_in.electricity_included = true;
  const RecordCost included = cost_of(made_report({made_record(id, hundred, 1000)}), "EUR", all_in).records.at(0);
  EXPECT_EQ(included.basis, CostBasis::complete);
  EXPECT_DOUBLE_EQ(figure(included, CostPer::hour).total->value, 1);
  EXPECT_NEAR(*figure(included, CostPer::hour).kwh, 1, 1e-12) << "what it draws is known all the same";
}

TEST(Cost, ARentThatIncludesElectricityMakesNoMeterWhole) {
  PriceRow all_in = rented(1, 0.3);
  all_in.electricity_included = true, all_in.carbon_g_per_kwh = 300;
  for (const Scope scope : {Scope::device, Scope::package, Scope::node}) {
    Record record = made_record(id, hundred, 1000, scope);
    const CostReport costs = cost_of(made_report({record}), "EUR", all_in);
    const RecordCost& r = costs.records.at(0);
    const bool is_whole = scope == Scope::node;
    EXPECT_EQ(r.basis, CostBasis::complete) << "the money is";
    EXPECT_EQ(r.energy_is_whole, is_whole) << to_string(scope);
    EXPECT_EQ(r.energy_note.find(to_string(scope)) != std::string::npos, !is_whole) << r.energy_note;
    const std::string text = cost_text(costs, {});
    EXPECT_EQ(text.find("at least 1.00 kWh, at least 0.300 kg") != std::string::npos, !is_whole) << text;
    const auto json = nlohmann::json::parse(cost_json(costs))["records"][0];
    EXPECT_EQ(json["basis"], "complete");
    EXPECT_EQ(json["energy_basis"], is_whole ? "complete" : "lower_bound");
  }
}

TEST(Cost, WhatDoesNotCountHasNone) {
  Record bad = made_record(id, hundred);
  bad.verdict = {Status::invalid, {}, {"throttled: heat"}};
  const RecordCost r = cost_of(made_report({bad}), "EUR", bought()).records.at(0);
  EXPECT_TRUE(r.figures.empty());
  EXPECT_EQ(r.reason, "invalid: throttled: heat");
}

TEST(Cost, IntervalsAreOverTrials) {
  const RecordCost r = cost_of(made_report({made_record(id, {99, 100, 101}, 1000)}), "EUR", bought()).records.at(0);
  const Estimate& total = *figure(r, CostPer::million_samples).total;
  EXPECT_EQ(total.count, 3);
  ASSERT_TRUE(total.low && total.high);
  EXPECT_LT(*total.low, total.value);
}

/// However uneven the trials are, a price ÷ the throughput beside it is the cost, and joules are those of the samples/J.
TEST(Cost, OfSamplesIsAtTheThroughputAndTheSamplesAJouleBesideIt) {
  std::vector<double> speeds = {100, 300, 20, 150};
  for (int more = 0; more < 2; ++more, speeds.insert(speeds.end(), {90, 110, 400, 10, 100, 120})) {
    Record record = made_record(id, speeds, 1000);
    record.trials[1].energy[0].energy_j = *record.trials[1].energy[0].energy_j * 2;
    summarise(record);
    const double seconds = 1e6 / record.summary.samples_per_s->value,
                 joules = 1e6 / record.summary.samples_per_j.at(Scope::node)->value;
    const RecordCost r = cost_of(made_report({record}), "EUR", bought()).records.at(0);
    const CostFigure& million = figure(r, CostPer::million_samples);
    EXPECT_NEAR(million.hours_part, 7.5 * seconds / 3600, 1e-12 * million.hours_part);
    EXPECT_NEAR(*million.kwh, 1.2 * joules / 3.6e6, 1e-12 * *million.kwh);
    EXPECT_NEAR(million.total->value, million.hours_part + million.electricity_part, 1e-12 * million.total->value);
    EXPECT_NEAR(figure(r, CostPer::eflop).total->value, 1000 * million.total->value, 1e-9 * million.total->value);
    ASSERT_TRUE(million.total->low && million.total->high);
    EXPECT_GT(*million.total->low, 0) << "nobody is paid for training";
    EXPECT_LT(*million.total->low, million.total->value);
    EXPECT_GT(*million.total->high, million.total->value);
    SystemInput a = made_system("A", {record}), b = made_system("B", {record});
    a.price = b.price = bought();
    for (Trial& trial : b.runs[0].records[0].trials) trial.window_s *= 1.1;  // a measurement of its own
    summarise(b.runs[0].records[0]);
    CompareOptions options;
    options.figures = {"cost"};
    const Comparison compared = compare({a, b}, options);
    const Estimate& shown = *compared.figures.at(0).rows.at(0).systems.at(0).figure;
    EXPECT_EQ(shown.value, million.total->value) << "one cost, whoever prints it";
    EXPECT_EQ(shown.low, million.total->low);
  }
}

TEST(Cost, PartsAreOfTheTrialsThatTheTotalIsOf) {
  Record record = made_record(id, {100, 101, 102, 99, 98, 100, 101, 99, 100, 40, 100, 300}, 1000);
  record.trials[3].energy[0].energy_j = *record.trials[3].energy[0].energy_j * 30;  // the dearest, by its joules
  summarise(record);
  const RecordCost r = cost_of(made_report({record}), "EUR", bought()).records.at(0);
  for (const CostFigure& f : r.figures) {
    ASSERT_EQ(f.total->statistic, Statistic::mean) << to_string(f.per);
    EXPECT_NEAR(f.hours_part + f.electricity_part, f.total->value, 1e-12 * f.total->value) << to_string(f.per);
    EXPECT_NEAR(f.electricity_part, *f.kwh * 0.3, 1e-12 * f.electricity_part) << to_string(f.per);
    EXPECT_NEAR(*f.co2_kg, *f.kwh * 0.3, 1e-12) << to_string(f.per);
  }
  EXPECT_NEAR(figure(r, CostPer::hour).hours_part, 7.5, 1e-9) << "an hour is an hour";
  PriceRow included = bought();
  included.electricity_included = true;
  for (const CostFigure& f : cost_of(made_report({record}), "EUR", included).records.at(0).figures)
    EXPECT_EQ(f.electricity_part, 0) << "and no remainder of a rounding";
}

TEST(Cost, AnHourDoesNotKnowWhenATargetWasReached) {
  const Record record = made_target_record(id, std::vector<double>(5, 3600.0), 1000);
  const RecordCost r = cost_of(made_report({record}), "EUR", bought()).records.at(0);
  const Estimate &hour = *figure(r, CostPer::hour).total, &model = *figure(r, CostPer::model).total;
  EXPECT_NEAR(*hour.high - *hour.low, 0, 1e-12);
  EXPECT_GT(*model.high - *model.low, 0.01);
}

TEST(Cost, SensitivityTurnsOneInputAtATime) {
  PriceRow p = bought();
  p.utilisation = 0.9;
  const CostReport costs = cost_of(made_report({made_record(id, hundred, 1000)}), "EUR", p, 0.2);
  const auto& all = costs.records[0].sensitivity;
  const auto of = [&](const std::string& input) { return *std::ranges::find(all, input, &Sensitivity::input); };
  const double base = figure(costs.records[0], CostPer::million_samples).total->value;
  const double hours = 10000.0 / 3600, electricity = hours * 1.2 * 0.3;
  EXPECT_NEAR(of("electricity_per_kwh").cost_high - base, 0.2 * electricity, 1e-9);
  EXPECT_NEAR(of("electricity_per_kwh").cost_low - base, -0.2 * electricity, 1e-9);
  EXPECT_DOUBLE_EQ(of("utilisation").high, 1) << "no more than all hours";
  EXPECT_NEAR(of("utilisation").cost_high, 3.75 * hours + electricity, 1e-9);
  EXPECT_DOUBLE_EQ(of("pue").low, 1) << "no less than the IT alone";
  EXPECT_NEAR(of("samples_per_s").cost_low, base / 0.8, 1e-9);
  EXPECT_NEAR(of("capex").cost_high - base, 0.2 * 2 / 0.9 * hours, 1e-9);
  for (std::size_t i = 1; i < all.size(); ++i)
    EXPECT_GE(all[i - 1].effect(), all[i].effect()) << "most effect first";
  EXPECT_TRUE(std::ranges::none_of(all, [](const Sensitivity& s) { return s.input == "rent_per_month"; }))
      << "what is not paid has none";
}

TEST(Cost, SensitivityIsOfTheCostAsGivenAndSaysWhatGoesOneWayOnly) {
  PriceRow p;
  p.name = "r", p.rent_per_month = 730, p.utilisation = 1;
  const CostReport costs = cost_of(made_report({made_record(id, hundred)}), "EUR", p, 0.2);
  const auto& all = costs.records[0].sensitivity;
  const auto of = [&](const std::string& input) { return *std::ranges::find(all, input, &Sensitivity::input); };
  EXPECT_EQ(words::change_at_less(of("rent_per_month")) + ", " + words::change_at_more(of("rent_per_month")), "-20.0 %, +20.0 %");
  EXPECT_EQ(words::change_at_less(of("samples_per_s")) + ", " + words::change_at_more(of("samples_per_s")), "+25.0 %, -16.7 %");
  EXPECT_EQ(words::change_at_less(of("utilisation")), "+25.0 %");
  EXPECT_EQ(words::change_at_more(of("utilisation")), "already at its maximum");
  EXPECT_EQ(all.back().input, "rent_per_month") << "25 % is more than 20";
  const std::string text = cost_text(costs, {false, 160});
  EXPECT_NE(text.find("rent per month"), std::string::npos) << text;
  EXPECT_EQ(text.find("rent_per_month"), std::string::npos) << text;
  EXPECT_NE(text.find("\n  per hour             "), std::string::npos) << text;
  EXPECT_NE(text.find("\n  per million samples  "), std::string::npos) << text;
  EXPECT_NE(text.find("+25.0 %, -16.7 %"), std::string::npos) << text;
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

/// A row that is another machine's by what it says itself is named; nothing is said where it fits.
TEST(Prices, ARowThatMayBeAnotherMachinesIsNoted) {
  Report report = made_report({});
  report.context.hosts[0].name = "node1", report.context.hosts[0].cpu = "AMD EPYC 9454P 48-Core Processor";
  for (DeviceEntry& device : report.context.devices) device.name = "NVIDIA H100 80GB HBM3";
  PriceRow row;
  const auto doubt = [&](const char* name, const std::vector<std::string>& hosts) {
    row.name = name, row.hosts = hosts;
    return price_doubt(row, "Offer 1", report);
  };
  for (const char* name : {"epyc-9454p-256gb", "h100-node", "Offer 1", "node1"}) EXPECT_EQ(doubt(name, {}), "") << name;
  EXPECT_EQ(doubt("anything", {"node*"}), "");
  const std::string other_hosts = doubt("h100-node", {"gpu*"}), other_name = doubt("xeon-6430", {});
  EXPECT_NE(other_hosts.find("gpu*, and the report was made on node1"), std::string::npos) << other_hosts;
  EXPECT_NE(other_name.find("row xeon-6430 "), std::string::npos) << other_name;
  EXPECT_NE(other_name.find("EPYC 9454P"), std::string::npos) << other_name;
  row.machine_note = other_name;
  const CostReport cost = cost_of(report, "EUR", row);
  EXPECT_NE(cost_json(cost).find("\"machine_note\": \"row xeon-6430"), std::string::npos) << cost_json(cost);
  EXPECT_NE(cost_text(cost, {false, 400}).find(other_name), std::string::npos);
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
      {fault("[]"), "must be an object"},
      {fault(R"({"currency": "EUR", "systems": {}})"), "/systems"},
      {fault(R"({"systems": {"a": {"rent_per_month": 1}}})"), "currency"},
      {fault(R"({"currency": "EUR", "curency": "EUR", "systems": {"a": {"rent_per_month": 1}}})"), "/curency"},
      {fault(R"({"currency": "\u001b]0;x\u0007", "systems": {"a": {"rent_per_month": 1}}})"), "/currency"},
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

/// Keys of doubtful values of a row beside an electricity price of 0.3.
std::string doubted(const std::string& currency, const std::string& fields) {
  const Prices prices = prices_from_json(R"({"electricity_per_kwh": )" + std::string(currency == "JPY" ? "30" : "0.3") +
                                         R"(, "currency": ")" + currency + R"(", "systems": {"a": {)" + fields + "}}}");
  std::string keys;
  for (const PriceDoubt& doubt : prices.rows[0].doubts) keys += (keys.empty() ? "" : " ") + doubt.key;
  return keys;
}

TEST(Prices, TheExampleOfMessagesReadsAndIsPlausible) {
  const Prices prices = prices_from_json(prices_example);
  ASSERT_EQ(prices.rows.size(), 1u);
  EXPECT_TRUE(prices.rows[0].doubts.empty());
}

TEST(Prices, ImplausibleValuesAreDoubted) {
  EXPECT_EQ(doubted("EUR", R"("capex": 20000, "life_years": 5, "pue": 1.2, "carbon_g_per_kwh": 380)"), "");
  EXPECT_EQ(doubted("EUR", R"("capex": 12, "life_years": 5)"), "capex");
  EXPECT_EQ(doubted("EUR", R"("rent_per_month": 0)"), "") << "free is no slip";
  EXPECT_EQ(doubted("EUR", R"("rent_per_month": 100, "electricity_per_kwh": 30)"), "electricity_per_kwh");
  EXPECT_EQ(doubted("EUR", R"("rent_per_month": 100, "electricity_per_kwh": 0.0003)"), "electricity_per_kwh");
  EXPECT_EQ(doubted("EUR", R"("capex": 5000, "life_years": 50, "pue": 4, "utilisation": 0.01)"), "life_years utilisation pue");
  EXPECT_EQ(doubted("JPY", R"("capex": 3000000, "life_years": 5)"), "") << "30 yen are no 30 euros";
  EXPECT_EQ(doubted("JPY", R"("capex": 12, "life_years": 5)"), "capex");
  EXPECT_EQ(doubted("points", R"("capex": 12, "life_years": 5)"), "") << "nobody knows what a point is worth";
  EXPECT_EQ(doubted("points", R"("capex": 12, "life_years": 50)"), "life_years");
}

TEST(Prices, WhatNothingCostsIsRejected) {
  for (const char* row : {R"("capex": 1e12, "life_years": 5)", R"("rent_per_month": 1e12)",
                          R"("rent_per_month": 1, "electricity_per_kwh": 300)"})
    EXPECT_THROW(doubted("EUR", row), std::runtime_error) << row;
  EXPECT_NO_THROW(doubted("IRR", R"("capex": 1e12, "life_years": 5)")) << "an unknown currency may be worth little";
}

TEST(Prices, DoubtsAreInEveryView) {
  const Prices prices =
      prices_from_json(R"({"currency": "EUR", "electricity_per_kwh": 30, "systems": {"a": {"rent_per_month": 100}}})");
  EXPECT_EQ(place_of(prices.rows[0], "electricity_per_kwh"), "/electricity_per_kwh");
  EXPECT_EQ(place_of(prices.rows[0], "rent_per_month"), "/systems/a/rent_per_month");
  const CostReport costs = cost_of(made_report({made_record(id, hundred, 1000)}), "EUR", prices.rows[0]);
  EXPECT_EQ(nlohmann::json::parse(cost_json(costs))["price"]["doubts"][0]["key"], "electricity_per_kwh");
  EXPECT_NE(cost_text(costs, {false, 400}).find("electricity_per_kwh: "), std::string::npos);
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
  for (const PriceRow& row : prices.rows) EXPECT_TRUE(row.doubts.empty()) << row.name;
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
