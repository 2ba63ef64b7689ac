// What a point's line says when it is over.
#include <gtest/gtest.h>

#include "bench/train/point/progress.hpp"

namespace tw {

using namespace bench;
using namespace results;

namespace {

TEST(ShortResult, SaysHowBusyTheMachineWas) {
  Record record;
  record.verdict.status = Status::valid;
  record.trials.resize(3);
  record.trials[1].foreign_share = 0.34;
  record.trials[2].foreign_share = 0.02;
  EXPECT_EQ(short_result(record), "valid");
  record.verdict.flags = {Flag::busy_host};
  EXPECT_EQ(short_result(record), "valid · busy_host: other programs used 34 % of the CPU");
  record.summary.samples_per_s = Estimate{10, std::nullopt, std::nullopt, {}};
  record.summary.of_ceiling = 0.5;
  EXPECT_EQ(short_result(record),
            "valid · 10.0 samples/s · busy_host: other programs used 34 % of the CPU · 0.50 of ceiling");
  record.summary.tokens_per_s = Estimate{14'712, std::nullopt, std::nullopt, {}};
  EXPECT_TRUE(short_result(record).starts_with("valid · 14.7 ktokens/s · "))
      << short_result(record) << ", as in the tables";
  record.summary.tokens_per_s.reset();
  record.summary.of_ceiling = 2.5;
  record.verdict.flags = {Flag::above_ceiling};
  EXPECT_EQ(short_result(record), "valid · 10.0 samples/s · above_ceiling") << "no figure";
}

}  // namespace
}  // namespace tw
