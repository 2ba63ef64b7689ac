// A plan that bears a suite's name and class is that suite.
#include "bench/tool/inputs/suite_points.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "bench/plan/options/request.hpp"
#include "bench/plan/plan.hpp"
#include "results/record/version.hpp"

namespace tw::bench::tool {
namespace {

struct Found {
  std::string fault, note;
};

/// Of a report of `suite` on two ranks, after `change`.
template <class Change>
Found found_in(const std::string& suite, const std::string& device, Change change) {
  results::Report report;
  report.program = results::program_info("trainwatt-train");
  report.plan.suite = suite;
  report.plan.canonical_json = make_plan(suite_request(suite), 2, device).canonical_json();
  report.context.devices.resize(2);
  change(report);
  results::Validation found;
  check_suite(report, found);
  Found texts;
  for (const results::Fault& fault : found.violations) texts.fault += fault.code + ": " + fault.text;
  for (const results::Fault& note : found.warnings) texts.note += note.code;
  return texts;
}

void replace(std::string& text, const std::string& from, const std::string& to) {
  ASSERT_NE(text.find(from), std::string::npos) << from;
  text.replace(text.find(from), from.size(), to);
}

TEST(SuitePoints, ASuiteIsItself) {
  for (const std::string& suite : suite_names())
    for (const std::string device : {"cpu", "cuda"}) {
      const Found found = found_in(suite, device, [](results::Report&) {});
      EXPECT_EQ(found.fault + found.note, "") << suite << " " << device;
    }
}

TEST(SuitePoints, AnotherClassThanTheDevicesIsAFault) {
  for (const std::string other : {"gpu", "h200"})
    EXPECT_TRUE(found_in("procurement", "cpu", [&](results::Report& r) {
                  replace(r.plan.canonical_json, R"("device_class":"cpu")", R"("device_class":")" + other + "\"");
                }).fault.starts_with("plan_differs: has the device class \"" + other + "\""));
}

TEST(SuitePoints, OtherPointsThanTheSuitesAreAFault) {
  const auto changed = [](const std::string& from, const std::string& to) {
    return found_in("procurement", "cpu", [&](results::Report& r) { replace(r.plan.canonical_json, from, to); });
  };
  EXPECT_NE(changed(R"("id":"gpt2-124m)", R"("id":"gpt2-x)").fault.find("and has the point gpt2-x"), std::string::npos);
  EXPECT_NE(changed(R"("ranks":2)", R"("ranks":1)").fault.find("and has another point "), std::string::npos);
  const Found fewer = found_in("procurement", "cpu", [](results::Report& r) {
    std::string& plan = r.plan.canonical_json;
    const std::size_t first = plan.find(R"({"accumulate")"), second = plan.find(R"({"accumulate")", first + 1);
    plan.erase(first, second - first);
  });
  EXPECT_NE(fewer.fault.find("and lacks the point "), std::string::npos) << fewer.fault;
}

TEST(SuitePoints, ThoseOfAnotherBuildAreNotedIfTheyDiffer) {
  const Found same = found_in("procurement", "cpu", [](results::Report& r) { r.program.version = "0.0.9"; });
  EXPECT_EQ(same.fault + same.note, "");
  const auto other = [](results::Report& r) {
    replace(r.plan.canonical_json, R"("id":"gpt2-124m)", R"("id":"gpt2-x)");
  };
  const Found version =
      found_in("procurement", "cpu", [&](results::Report& r) { r.program.version = "0.0.9", other(r); });
  EXPECT_EQ(version.fault, "");
  EXPECT_EQ(version.note, "suite_differs");
  const Found commit =
      found_in("procurement", "cpu", [&](results::Report& r) { r.program.git_commit = "0", other(r); });
  EXPECT_EQ(commit.fault, "");
  EXPECT_EQ(commit.note, "suite_differs");
  const Found kit = found_in("procurement", "cpu", [](results::Report& r) {
    r.plan.kit = results::KitInfo{"Tender 7", std::string(64, 'a')};
    replace(r.plan.canonical_json, R"("id":"gpt2-124m)", R"("id":"gpt2-x)");
  });
  EXPECT_EQ(kit.fault + kit.note, "") << "a kit is compared as a whole";
}

}  // namespace
}  // namespace tw::bench::tool
