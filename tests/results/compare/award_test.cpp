// Runs of a kit decide a tender only where each would be taken as an offer.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "results/export/export.hpp"
#include "results/html/page.hpp"
#include "results/terminal/tables.hpp"
#include "tests/results/compare/compared.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

/// Five runs of each, of which B is better, made from kits of these SHA-256; empty: from none. Only B may break a rule.
std::vector<SystemInput> offers(const std::string& kit_of_a, const std::string& kit_of_b, bool breaks_rule) {
  std::vector<SystemInput> systems = {runs_at("a", spread), runs_at("b", times(spread, 2))};
  const auto prepare = [](SystemInput& system, const std::string& kit, bool is_short) {
    for (Report& run : system.runs) {
      if (!kit.empty()) run.plan.kit = KitInfo{"Tender 7", kit};
      run.records[0].verdict.flags.clear();
      if (is_short) run.records[0].verdict.flags.emplace_back(Flag::short_window);
    }
  };
  prepare(systems[0], kit_of_a, false), prepare(systems[1], kit_of_b, breaks_rule);
  return systems;
}

/// "b rule_broken": each system with its codes.
std::vector<std::string> obstacles(const Comparison& c) {
  std::vector<std::string> all;
  for (const AwardObstacle& one : c.not_an_award) all.push_back(c.systems[one.system].name + " " + one.code);
  return all;
}

TEST(Award, OffersThatKeepTheRulesOfTheirKitDecide) {
  const Comparison c = compare(offers("x", "x", false), {});
  EXPECT_TRUE(c.is_tender && c.names_one());
  EXPECT_EQ(obstacles(c), std::vector<std::string>());
  EXPECT_EQ(c.answer.size(), 1u);
}

TEST(Award, ABrokenRuleComesBeforeWhoIsBetterInEachView) {
  const std::vector<SystemInput> systems = offers("x", "x", true);
  const Comparison c = compare(systems, {});
  EXPECT_EQ(obstacles(c), std::vector<std::string>{"b rule_broken"});
  EXPECT_TRUE(c.names_one()) << "what was measured stays";
  ASSERT_EQ(c.answer.size(), 2u);
  EXPECT_TRUE(c.answer[0].starts_with("Not an award: ")) << c.answer[0];
  EXPECT_NE(c.answer[0].find("\"window\""), std::string::npos) << c.answer[0];
  const std::string text = comparison_text(c, {}, TableStyle{});
  EXPECT_LT(text.find("Not an award: "), text.find("is better")) << text;
  const std::string markdown = comparison_markdown(c);
  EXPECT_LT(markdown.find("Not an award: "), markdown.find("is better")) << markdown;
  const nlohmann::json json = nlohmann::json::parse(comparison_json(c, {}));
  EXPECT_EQ(json.at("is_tender"), true);
  ASSERT_EQ(json.at("not_an_award").size(), 1u);
  EXPECT_EQ(json.at("not_an_award")[0].at("system"), "b");
  EXPECT_EQ(json.at("not_an_award")[0].at("code"), "rule_broken");
  const page::Page page = page::build({{"a", systems[0].runs[0]}, {"b", systems[1].runs[0]}}, &c);
  ASSERT_GE(page.answer.size(), 2u);
  EXPECT_EQ(page.answer[0].look, page::Look::bad);
  EXPECT_TRUE(page.answer[0].text.starts_with("Not an award: ")) << page.answer[0].text;
}

TEST(Award, OnlyOffersOfOneKitAreHeldAgainstEachOther) {
  EXPECT_EQ(obstacles(compare(offers("x", "y", false), {})), std::vector<std::string>{"b kit_differs"});
  EXPECT_EQ(obstacles(compare(offers("x", "", false), {})), std::vector<std::string>{"b kit_differs"});
  const Comparison first = compare(offers("", "x", false), {});
  EXPECT_EQ(obstacles(first), std::vector<std::string>{"a kit_differs"}) << "the reference is of no kit";
  EXPECT_NE(first.answer[0].find("a: not all runs are of the kit of b"), std::string::npos) << first.answer[0];
  std::vector<SystemInput> mixed = offers("x", "x", false);
  mixed[0].runs[0].plan.kit.reset();
  EXPECT_EQ(obstacles(compare(mixed, {})), std::vector<std::string>{"a kit_differs"});
  const Comparison none = compare(offers("", "", true), {});
  EXPECT_FALSE(none.is_tender);
  EXPECT_EQ(obstacles(none), std::vector<std::string>()) << "a comparison of two machines, for a look";
}

TEST(Award, WhatAGivenKitFindsCountsToo) {
  std::vector<SystemInput> systems = offers("", "", false);
  systems[0].offer_faults = {{"fewer_runs", "", "the kit asks for 7 runs"}};
  CompareOptions options;
  options.is_tender = true;
  EXPECT_EQ(obstacles(compare(systems, options)), std::vector<std::string>{"a fewer_runs"});
  systems = offers("x", "", false);
  systems[1].offer_faults = {{"kit_differs", "/plan/kit", "is missing"}};
  const Comparison c = compare(systems, options);
  EXPECT_EQ(obstacles(c), std::vector<std::string>{"b kit_differs"}) << "said once";
  EXPECT_NE(c.answer[0].find("b: /plan/kit: is missing"), std::string::npos) << c.answer[0];
}

TEST(Award, TheSentenceNamesThreeOfTheFaults) {
  std::vector<SystemInput> systems = offers("x", "x", true);
  CompareOptions options;
  options.is_tender = true;
  for (SystemInput& system : systems)
    for (const char* fault : {"first", "first", "second", "third"})
      system.offer_faults.push_back({"same_launch", "", fault});
  systems[1].offer_faults.push_back({"fewer_runs", "", "fewer than 7"});
  const Comparison c = compare(systems, options);
  EXPECT_TRUE(c.answer[0].starts_with("Not an award: a, b: first; b: run rule \"window\"")) << c.answer[0];
  EXPECT_TRUE(c.answer[0].ends_with("; b: fewer than 7 (and 2 more). The figures are good for a look.")) << c.answer[0];
  EXPECT_EQ(c.answer[0].find("second"), std::string::npos) << "one of each kind: " << c.answer[0];
  EXPECT_EQ(c.answer[0].find("one run each"), std::string::npos) << c.answer[0];
  for (SystemInput& system : systems) system.runs.resize(1);
  EXPECT_NE(compare(systems, options).answer[0].find("; and one run each decides nothing."), std::string::npos);
}

TEST(Award, NamesOfSystemsStayAsTheyWereGiven) {
  std::vector<SystemInput> systems = offers("", "", false);
  systems.push_back(runs_at("c", {1.031, 0.972, 1.013, 0.998, 0.987}));
  const Comparison c = compare(systems, {});
  for (const std::string& line : c.rests_on) EXPECT_FALSE(line.starts_with("C, ") || line.starts_with("B, ")) << line;
  EXPECT_TRUE(std::ranges::any_of(c.rests_on, [](const std::string& line) { return line.starts_with("c, "); }));
}

}  // namespace
}  // namespace tw
