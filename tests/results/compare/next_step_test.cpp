// What to do after an answer: one step after each kind.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "results/compare/comparison_words.hpp"
#include "results/export/export.hpp"
#include "results/html/html.hpp"
#include "results/html/page.hpp"
#include "results/terminal/tables.hpp"
#include "tests/results/compare/compared.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

std::string step_of(const std::vector<SystemInput>& systems, const CompareOptions& options = {}) {
  return compare(systems, options).next_step.code;
}
SystemInput flagged(SystemInput system, Flag flag) {
  for (Report& run : system.runs) run.records[0].verdict.flags.emplace_back(flag);
  return system;
}

TEST(NextStep, FollowsEveryKindOfAnswer) {
  const SystemInput a = runs_at("A", spread), faster = runs_at("B", times(spread, 1.5));
  EXPECT_EQ(step_of({runs_at("A", {1}), runs_at("B", {1.5})}), "repeat_runs");
  EXPECT_EQ(step_of({flagged(runs_at("A", {1}), Flag::busy_host), runs_at("B", {1.5})}), "repeat_runs");
  EXPECT_EQ(step_of({a, flagged(faster, Flag::steps_disagree)}), "repeat_quiet");
  EXPECT_EQ(step_of({a, runs_at("B", times(spread, 1.02))}), "more_runs");
  EXPECT_EQ(step_of({a, runs_at("B", times(spread, 1.0001))}), "treat_as_equal");
  SystemInput without = faster;
  for (Report& run : without.runs) run.records[0].verdict = {Status::failed, {}, {"failed: out of memory"}};
  EXPECT_EQ(step_of({a, without}), "see_verdicts");
  SystemInput other = faster;
  for (Report& run : other.runs) {
    run.records[0].workload.model = "another";
    run.records[0].workload.hash = workload_hash(run.records[0].workload);
  }
  EXPECT_EQ(step_of({a, other}), "run_one_plan") << "no workload in common";
  SystemInput unlike = faster;
  for (Report& run : unlike.runs) run.records[0].workload.global_batch = 128;
  EXPECT_EQ(step_of({a, unlike}), "resolve_differences");
  SystemInput faulty = faster;
  faulty.faults = {"error[window]: /records/0: is odd"};
  EXPECT_EQ(step_of({a, faulty}), "validate_report");
}

/// Where something is decided: rules, then costs, then what to keep.
TEST(NextStep, AfterADecisionItIsWhatItLacks) {
  const SystemInput a = runs_at("A", spread), b = runs_at("B", times(spread, 1.5));
  Comparison c = compare({a, b}, {});
  ASSERT_TRUE(c.names_one());
  const auto code = [&] { return words::next_step(c).code; };
  c.systems[1].broken_rules = {"window"};
  EXPECT_EQ(code(), "keep_run_rules");
  for (ComparedSystem& system : c.systems) system.broken_rules.clear();
  EXPECT_EQ(code(), "add_prices");
  c.currency = "EUR";
  EXPECT_EQ(code(), "keep_evidence");
  c.not_an_award = {{1, "rule_broken", "why"}};
  EXPECT_EQ(code(), "mend_offer");
}

TEST(NextStep, OfOneReportIsToMakeMoreRunsAndCompare) {
  Report report = runs_at("A", {1}).runs[0];
  EXPECT_EQ(words::next_step(report).code, "repeat_runs");
  report.context.run_index = 2;
  EXPECT_EQ(words::next_step(report).code, "compare") << "one of several";
  report.records[0].verdict = {Status::failed, {}, {"failed: out of memory"}};
  EXPECT_EQ(words::next_step(report).code, "see_verdicts");
  report.records.clear();
  EXPECT_EQ(words::next_step(report).code, "resume_run") << "one that was interrupted before its first point ended";
}

TEST(NextStep, IsInEveryView) {
  const std::vector<SystemInput> systems = {runs_at("A", {1}), runs_at("B", {1.5})};
  const Comparison c = compare(systems, {});
  ASSERT_TRUE(c.next_step.text.starts_with("Next: ")) << c.next_step.text;
  EXPECT_NE(c.next_step.text.find(words::repeat_command()), std::string::npos) << c.next_step.text;
  EXPECT_NE(comparison_text(c, {}, {false, 1000}).find(c.next_step.text), std::string::npos);
  EXPECT_NE(comparison_markdown(c).find("Next: "), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(comparison_json(c, {})).at("next_step").at("code"), "repeat_runs");
  const std::vector<HtmlSystem> pages = {{"A", systems[0].runs[0]}, {"B", systems[1].runs[0]}};
  const page::Page page = page::build(pages, &c);
  EXPECT_TRUE(page.next.starts_with("Next: ")) << page.next;
  EXPECT_NE(page::static_html(page, "").find("class=\"next\""), std::string::npos) << "without scripts";
  EXPECT_TRUE(page::build({pages[0]}, nullptr).next.starts_with("Next: ")) << "of one report, too";
}

}  // namespace
}  // namespace tw
