// Grids as a whole: how many points they may have, what is left out of them, and in whose words they are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/plan/batch.hpp"
#include "bench/plan/options/kit.hpp"
#include "bench/plan/plan.hpp"
#include "bench/plan/shares.hpp"
#include "tests/bench/plan/planned.hpp"

namespace tw {

using namespace bench;

namespace {

/// Of a config file, from its text to its points.
std::string refusal_of_file(const std::string& text, int ranks = 2) {
  return refusal({"--config", "plan.json"}, ranks, text);
}

TEST(Grids, HaveAtMostAHundredThousandPoints) {
  says(refusal_of_file(R"({"model": "gpt2-tiny", "gpu_clock": "1000:1999:1", "cpu_frequency": "1000:1999:1",
                      "gpu_power_limit": "1:1000:1", "cpu_power_limit": "1:1000:1"})"),
       "[too-many-points] plan.json: ");
  says(refusal({"--model", "gpt2-tiny", "--gpu-clock", "1000:1999:1", "--cpu-frequency", "1000:1100:1"}), "101000");
  says(refusal_of_file(R"({"gpu_clock": "1000:1999:1", "cpu_frequency": "1000:1059:1",
                      "grids": [{"model": "gpt2-tiny"}, {"model": "resnet-tiny"}]})"),
       "120000");
  const RunPlan plan =
      plan_of({"--model", "gpt2-tiny", "--gpu-clock", "1000:1999:1", "--cpu-frequency", "1000:1099:1"});
  EXPECT_EQ(plan.points.size(), 100'000u);
}

TEST(Grids, RowsOfTablesAreAnAxisOfTheWorkload) {
  const RunPlan plan = plan_of({"--model", "dlrm", "--table-rows-at-most", "100,1000"}, 1);
  ASSERT_EQ(plan.points.size(), 2u);
  for (const Point& point : plan.points) {
    const std::int64_t rows = point.table_rows_at_most.value();
    EXPECT_NE(point.id.find("dlrm-r" + std::to_string(rows) + "/"), std::string::npos) << point.id;
    const models::Tables tables = point.network.shape->tables();
    EXPECT_EQ(*std::ranges::max_element(tables.rows), rows);
    EXPECT_NE(plan.canonical_json().find("\"table_rows_at_most\":" + std::to_string(rows)), std::string::npos);
  }
  EXPECT_EQ(plan_of({"--model", "dlrm-tiny"}, 1).canonical_json().find("table_rows"), std::string::npos);
  says(refusal({"--model", "dlrm", "--table-rows-at-most", "1"}), "--table-rows-at-most 1: ");
  says(refusal({"--model", "gpt2-tiny", "--table-rows-at-most", "100"}), "[option-does-not-apply] --table-rows-at-most: gpt2-tiny has no tables");
}

TEST(Grids, CombinationsThatDoNotDivideAreLeftOutAndNamed) {
  const RunPlan ranks =
      plan_of({"--model", "gpt2-tiny", "--global-batch", "32", "--micro-batch", "8", "--ranks", "1,2,3"}, 3);
  EXPECT_EQ(ranks.points.size(), 2u);
  EXPECT_EQ(ranks.left_out,
            std::vector<std::string>{"--global-batch 32 is not divisible by micro-batch 8 × 3 ranks = 24"});
  const RunPlan batches = plan_of({"--model", "gpt2-tiny", "--global-batch", "16", "--micro-batch", "3,5,4"}, 1);
  EXPECT_EQ(batches.points.size(), 1u);
  EXPECT_EQ(batches.left_out.size(), 2u);
  says(refusal({"--model", "gpt2-tiny", "--global-batch", "16", "--micro-batch", "3,5"}, 1),
       "[batch-not-divisible] --global-batch 16 ");
  const RunPlan config =
      plan_of({"--config", "plan.json"}, 1, R"({"model": "gpt2-tiny", "global_batch": 16, "micro_batch": [3, 5, 4]})");
  EXPECT_EQ(config.points.size(), 1u);
  ASSERT_EQ(config.left_out.size(), 2u);
  EXPECT_EQ(config.left_out[0], "plan.json: /global_batch 16 is not divisible by micro-batch 3 × 1 rank = 3");
  // Held-out samples, too, are shared out by micro-batches.
  const RunPlan target =
      plan_of({"--model", "gpt2-tiny", "--target", "default", "--micro-batch", "3,4", "--accumulate", "1"}, 1);
  EXPECT_EQ(target.points.size(), 1u);
  says(target.left_out.at(0), "micro-batch 3 × 1 rank do not divide the 256 held-out samples");
}

TEST(Grids, WhoRunsASuiteOrAKitIsAdvisedOfNumbersOfRanks) {
  const std::string advice = " is not divisible by 6 ranks: choose 1, 2, 4 or 8 ranks";
  const RunPlan plan = plan_of({"--suite", "standard"}, 6);
  EXPECT_EQ(plan.points.size(), 1u) << "by one rank";
  ASSERT_FALSE(plan.left_out.empty());
  EXPECT_NE(std::ranges::find(plan.left_out, "global batch 16" + advice), plan.left_out.end());
  for (const std::string& why : plan.left_out) EXPECT_EQ(why.find("--global-batch"), std::string::npos) << why;
  const std::string none = refusal({"--suite", "standard", "--ranks", "6"}, 6);
  says(none, "[batch-not-divisible] global batch 16" + advice);
  const std::string grids = R"({"grids": [{"model": "gpt2-tiny", "micro_batch": "auto", "global_batch": 64}]})";
  const std::string kit =
      kit_json({"Tender 7", "", ""}, read_config("plan.json", grids), {"trainwatt", "0.1.0", "0123456789ab"});
  says(refusal({"--config", "kit.json"}, 6, kit), "[batch-not-divisible] kit.json: /grids/0/global_batch 64" + advice);
  says(refusal({"--config", "plan.json"}, 6, grids), "64 is not divisible by 6 ranks: choose a multiple of 6");
}

TEST(Grids, NumbersOfRanksThatShareABatchEndWithTheFirstAbove) {
  EXPECT_EQ(choose_ranks(256, 6), "choose 1, 2, 4 or 8 ranks");
  EXPECT_EQ(choose_ranks(2, 8), "choose 1 or 2 ranks");
  EXPECT_EQ(choose_ranks(1, 3), "choose 1 rank");
  EXPECT_EQ(choose_ranks(720, 19), "choose 10, 12, 15, 16, 18 or 20 ranks");
  EXPECT_EQ(choose_ranks(0, 3), "");
}

TEST(Grids, OfAConfigAreRefusedInItsWords) {
  says(refusal_of_file(R"({"model": "gpt2-tiny", "micro_batch": 2, "accumulate": 2, "global_batch": 8})"),
       "[options-conflict] plan.json: /micro_batch, /accumulate and /global_batch ");
  says(
      refusal_of_file(
          R"({"accumulate": 2, "grids": [{"model": "gpt2-tiny"}, {"model": "resnet-tiny", "micro_batch": 2, "global_batch": 8}]})"),
      "[options-conflict] plan.json: /grids/1/micro_batch, /accumulate and /grids/1/global_batch ");
  says(refusal_of_file(R"({"grids": [{"model": "gpt2-tiny", "global_batch": 7, "micro_batch": 2}]})"),
       "[batch-not-divisible] plan.json: /grids/0/global_batch 7 ");
  says(refusal_of_file(R"({"model": "gpt2-tiny", "micro_batch": 16777216, "accumulate": 65536})"),
       "[bad-value] plan.json: global batch");
  says(refusal_of_file(R"({"grids": [{"model": "gpt2-tiny"}, {"model": "gpt2-124m", "seq_len": [64, 5000]}]})"),
       "[bad-value] plan.json: /grids/1/seq_len 5000: ");
  says(refusal_of_file(R"({"model": "resnet-tiny", "seq_len": 8})"), "[option-does-not-apply] plan.json: /seq_len");
  says(refusal_of_file(R"({"model": "gpt2-tiny", "layers": 99})"), "[bad-value] plan.json: /layers 99: ");
  says(refusal_of_file(R"({"model": "resnet-50", "layers": 1})"), "[bad-value] plan.json: /layers 1: ");
  says(refusal_of_file(R"({"model": "resnet-50", "table_rows_at_most": 100})"),
       "[option-does-not-apply] plan.json: /table_rows_at_most: ");
  says(refusal_of_file(R"({"model": "gpt2-tiny", "accumulate": [1, 1]})"), "[duplicate-value] plan.json: /accumulate ");
  says(refusal_of_file(R"({"model": "gpt2-tiny", "gpu_clock": [900, "600:900:300"]})"),
       "[duplicate-value] plan.json: /gpu_clock ");
  says(refusal_of_file(R"({"grids": [{"model": "gpt2-tiny"}, {"model": "gpt2-tiny"}]})"),
       "[duplicate-value] plan.json: /grids/1: ");
  says(refusal_of_file(R"({"model": "gpt2-tiny", "accumulate": [1, 2], "target": 0.3, "seeds": [4, 5, 6]})"),
       "[bad-value] plan.json: /seeds: 3 ");
  says(refusal_of_file(R"({"model": "gpt2-355m", "target": 0.3})"), "[no-task] plan.json: /target: gpt2-355m ");
  says(refusal_of_file(R"({"model": "gpt2-tiny", "search": "energy"})"), "[option-needs] plan.json: /search ");
  says(refusal_of_file(R"({"model": "gpt2-tiny", "ranks": 8})"), "[bad-value] plan.json: /ranks 8: ");
  for (const char* text :
       {R"({"model": "gpt2-tiny", "micro_batch": 2, "accumulate": 2, "global_batch": 8})",
        R"({"model": "gpt2-tiny", "search": "energy"})", R"({"model": "gpt2-tiny", "accumulate": [1, 1]})"})
    EXPECT_EQ(refusal_of_file(text).find("--"), std::string::npos) << refusal_of_file(text);
  // What was given on the command line is named as it was given.
  says(refusal({"--config", "plan.json", "--seeds", "4,5,6"}, 2,
               R"({"model": "gpt2-tiny", "accumulate": [1, 2], "target": 0.3})"),
       "[bad-value] plan.json: --seeds: 3 ");
  says(refusal({"--model", "gpt2-tiny", "--accumulate", "1,1"}), "[duplicate-value] --accumulate ");
  Request shares = read_config("plan.json", R"({"grids": [{"model": "gpt2-tiny", "gpu_clock": "60%"}]})");
  try {
    resolve_shares(shares, "cpu", {});
    FAIL();
  } catch (const UsageError& error) {
    says(error.what(), "[range-unknown] plan.json: /grids/0/gpu_clock 60%: ");
  }
}

TEST(Grids, WholeNumbersMayBeWrittenWithAPoint) {
  const RunPlan plan =
      plan_of({"--config", "plan.json"}, 1, R"({"model": "gpt2-tiny", "accumulate": 2.0, "micro_batch": 4e0})");
  EXPECT_EQ(plan.points.at(0).accumulate, 2);
  EXPECT_EQ(plan.points.at(0).micro_batch, 4);
}

TEST(LongWords, AreCutAndNotCompared) {
  const std::string word(100'000, 'a');
  const std::vector<std::string> all = {refusal_of_file(R"({"model": "gpt2-tiny", ")" + word + R"(": 1})"),
                                        refusal_of_file(R"({"grids": [{"model": "gpt2-tiny", ")" + word + R"(": 1}]})"),
                                        refusal_of_file(R"({"model": ")" + word + R"("})"),
                                        refusal_of_file(R"({"model": "gpt2-tiny", "precision": ")" + word + R"("})"),
                                        refusal({"--model", word}),
                                        refusal({"--model", "gpt2-tiny", "--precision", word}),
                                        refusal({"--model", "gpt2-tiny", "--gpu-clock", word}),
                                        refusal({"--model", "gpt2-tiny", "--accumulate", word}),
                                        refusal({"--suite", word}),
                                        refusal({"--" + word})};
  for (const std::string& said : all) {
    EXPECT_LT(said.size(), 600u) << said.substr(0, 600);
    says(said, word.substr(0, 62));
  }
}

TEST(LongWords, NumbersThatNoComputerNumberHoldsAreQuotedAsGiven) {
  for (const char* option :
       {"--accumulate", "--micro-batch", "--global-batch", "--seq-len", "--steps", "--trials", "--seed"}) {
    const std::string said = refusal({"--model", "gpt2-tiny", option, "99999999999999999999"});
    says(said, "[bad-value] " + std::string(option) + " 99999999999999999999: value too large (maximum ");
  }
  says(refusal({"--model", "gpt2-tiny", "--accumulate", "1,99999999999999999999"}),
       "--accumulate 99999999999999999999: value too large (maximum 65536)");
}

// The count has another maximum than a seed, and a number of a list may be a seed.
TEST(LongWords, ASeedThatNoComputerNumberHoldsNamesBothMaxima) {
  const std::string said = refusal({"--model", "gpt2-tiny", "--target", "default", "--seeds", "99999999999999999999"});
  says(said, "[bad-value] --seeds 99999999999999999999: ");
  says(said, "1000");
  EXPECT_EQ(said.find("(maximum "), std::string::npos) << said;
}

// What a person types may hold the byte that marks keys inside messages.
TEST(LongWords, AreNotTakenForKeys) {
  const std::string said = refusal({"--model", "gpt2-tiny", "--comm", "\x1eseeds\x1e"});
  says(said, "[unknown-name] ");
  EXPECT_EQ(said.find("--seeds"), std::string::npos) << said;
}

}  // namespace
}  // namespace tw
