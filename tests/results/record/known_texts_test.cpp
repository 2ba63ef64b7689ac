#include "results/record/known_texts.hpp"

#include <gtest/gtest.h>

#include "results/analysis/verdict.hpp"
#include "results/record/report_io.hpp"
#include "results/validation/validate.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;

TEST(KnownText, IsWrittenInTheFirstWordingAndReadInAll) {
  const KnownText known{{"{} shows no difference to {}", "no difference of {} and {}"}};
  EXPECT_EQ(known.text({"a", "b"}), "a shows no difference to b");
  EXPECT_TRUE(known.is("a shows no difference to b", {"a", "b"}));
  EXPECT_TRUE(known.is("no difference of a and b", {"a", "b"}));
  EXPECT_FALSE(known.is("no difference of a and b", {"a", "c"}));
  EXPECT_FALSE(known.is("no difference of a and b: so far", {"a", "b"}));
  EXPECT_TRUE(known.begins("no difference of a and b: so far", {"a", "b"}));
  EXPECT_TRUE(known.is_with_any("x y shows no difference to z"));
  EXPECT_TRUE(known.is_with_any("no difference of  and "));
  EXPECT_FALSE(known.is_with_any("no difference to z"));
  EXPECT_FALSE(known.is("", {"", ""})) << "a wording that is absent is none";
  EXPECT_FALSE(known.is_with_any(""));
  const KnownText plain{{"now", "then"}};
  EXPECT_TRUE(plain.is("then") && plain.is_with_any("then"));
  EXPECT_FALSE(plain.is_with_any("then and now"));
}

TEST(SameReason, ComparesCodesAndNotProse) {
  EXPECT_TRUE(same_reason("", ""));
  EXPECT_FALSE(same_reason("", "too short"));
  EXPECT_TRUE(same_reason("too short", "shorter than 60 s"));
  EXPECT_TRUE(same_reason("throttled: GPU-1 for 3 s", "throttled: for 3 s, GPU-1"));
  EXPECT_FALSE(same_reason("throttled: GPU-1 for 3 s", "not_applied: GPU-1 for 3 s"));
  EXPECT_FALSE(same_reason("throttled: GPU-1 for 3 s", "GPU-1 for 3 s"));
  EXPECT_FALSE(same_reason("no_energy_meter: rapl: no_driver", "no_energy_meter: rapl: permission"));
  EXPECT_FALSE(same_reason("no_energy_meter: rapl: no_driver", "no_energy_meter"));
  EXPECT_TRUE(same_reason("dram: no valid trial; package: no valid trial", "dram: of 3 none; package: of 3 none"));
  EXPECT_FALSE(same_reason("dram: no valid trial; package: no valid trial", "dram: no valid trial"));
  EXPECT_TRUE(same_reason("rapl: no_driver; but one more", "rapl: no_driver")) << "a clause without a code is prose";
}

std::vector<std::string> codes_of(const Report& report) {
  std::vector<std::string> codes;
  for (const Fault& fault : validate_report(to_json(report)).violations) codes.push_back(fault.code);
  return codes;
}

/// A version that words the reasons in another way writes what this one takes for consistent, and no other code.
TEST(SameReason, AReportInOtherWordsIsConsistent) {
  const auto stating = [](auto change) {
    Report report = sample_target_report();
    change(report.records[1]);
    return codes_of(report);
  };
  using Codes = std::vector<std::string>;
  const Record missed = sample_target_report().records[1];
  ASSERT_EQ(missed.verdict.reasons, std::vector<std::string>{"target_missed: " + missed.summary.to_target->reason});
  EXPECT_EQ(stating([](Record& r) { r.verdict.reasons = {"target_missed: error 0.11 was not reached by seed 5"}; }),
            Codes());
  EXPECT_EQ(stating([](Record& r) {
              r.summary.to_target->reason = r.summary.to_target->cost_reason.emplace() = "error 0.11 was not reached";
            }),
            Codes());
  EXPECT_EQ(stating([](Record& r) { r.summary.to_target->reason.clear(); }), Codes{"figure_differs"});
  EXPECT_EQ(stating([](Record& r) { r.summary.to_target->cost_reason.reset(); }), Codes{"figure_differs"});
  EXPECT_EQ(stating([](Record& r) { r.summary.energy_reason = "no samples per joule: evaluations took some"; }),
            Codes());
  EXPECT_EQ(stating([](Record& r) { r.summary.energy_reason = "no_energy_meter: rapl: no_driver"; }),
            Codes{"figure_differs"});
  EXPECT_EQ(stating([](Record& r) { r.verdict.reasons = {"throttled: " + r.summary.to_target->reason}; }),
            Codes{"figure_differs"});
  EXPECT_EQ(stating([](Record& r) { r.verdict.reasons.push_back("off_reference: more steps"); }),
            Codes{"figure_differs"});
}

}  // namespace
}  // namespace tw
