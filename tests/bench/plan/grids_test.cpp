// Grids as a whole: how many points they may have, what is left out of them, and in whose words they are refused.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "bench/plan/plan.hpp"
#include "bench/plan/shares.hpp"
#include "tests/bench/plan/planned.hpp"

namespace tw {
namespace {

/// Of a config file, from its text to its points.
std::string refusal_of(const std::string& text, int ranks = 2) {
  return refusal({"--config", "plan.json"}, ranks, text);
}

void says(const std::string& text, const std::string& what) {
  EXPECT_NE(text.find(what), std::string::npos) << text << "\nlacks: " << what;
}

TEST(Grids, HaveAtMostAHundredThousandPoints) {
  says(refusal_of(R"({"model": "gpt2-tiny", "gpu_clock": "1000:1999:1", "cpu_frequency": "1000:1999:1",
                      "gpu_power_limit": "1:1000:1", "cpu_power_limit": "1:1000:1"})"),
       "plan.json: the axes make about 10^12 points: at most 100,000 are taken; use larger steps");
  says(refusal({"--model", "gpt2-tiny", "--gpu-clock", "1000:1999:1", "--cpu-frequency", "1000:1100:1"}),
       "the axes make 101000 points");
  says(refusal_of(R"({"gpu_clock": "1000:1999:1", "cpu_frequency": "1000:1059:1",
                      "grids": [{"model": "gpt2-tiny"}, {"model": "resnet-tiny"}]})"),
       "the axes make 120000 points");
  const RunPlan plan =
      plan_of({"--model", "gpt2-tiny", "--gpu-clock", "1000:1999:1", "--cpu-frequency", "1000:1099:1"});
  EXPECT_EQ(plan.points.size(), 100'000u);
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
       "--global-batch 16 is not divisible by micro-batch 3 × 1 ranks = 3: choose a multiple of 3");
  const RunPlan config =
      plan_of({"--config", "plan.json"}, 1, R"({"model": "gpt2-tiny", "global_batch": 16, "micro_batch": [3, 5, 4]})");
  EXPECT_EQ(config.points.size(), 1u);
  ASSERT_EQ(config.left_out.size(), 2u);
  EXPECT_EQ(config.left_out[0], "plan.json: /global_batch 16 is not divisible by micro-batch 3 × 1 ranks = 3");
  // Held-out samples, too, are shared out by micro-batches.
  const RunPlan target =
      plan_of({"--model", "gpt2-tiny", "--target", "default", "--micro-batch", "3,4", "--accumulate", "1"}, 1);
  EXPECT_EQ(target.points.size(), 1u);
  says(target.left_out.at(0), "micro-batch 3 × 1 ranks do not divide the 256 held-out samples");
}

TEST(Grids, OfAConfigAreRefusedInItsWords) {
  says(refusal_of(R"({"model": "gpt2-tiny", "micro_batch": 2, "accumulate": 2, "global_batch": 8})"),
       "plan.json: /micro_batch, /accumulate and /global_batch are over-determined");
  says(
      refusal_of(
          R"({"accumulate": 2, "grids": [{"model": "gpt2-tiny"}, {"model": "resnet-tiny", "micro_batch": 2, "global_batch": 8}]})"),
      "plan.json: /grids/1/micro_batch, /accumulate and /grids/1/global_batch are over-determined");
  says(refusal_of(R"({"grids": [{"model": "gpt2-tiny", "global_batch": 7, "micro_batch": 2}]})"),
       "plan.json: /grids/0/global_batch 7 is not divisible by micro-batch 2 × 2 ranks = 4: choose a multiple of 4");
  says(refusal_of(R"({"model": "gpt2-tiny", "micro_batch": 16777216, "accumulate": 65536})"),
       "plan.json: global batch");
  says(refusal_of(R"({"grids": [{"model": "gpt2-tiny"}, {"model": "gpt2-124m", "seq_len": [64, 5000]}]})"),
       "plan.json: /grids/1/seq_len 5000: gpt2-124m has 1024 positions");
  says(refusal_of(R"({"model": "resnet-tiny", "seq_len": 8})"), "plan.json: /seq_len does not apply to resnet-tiny");
  says(refusal_of(R"({"model": "gpt2-tiny", "layers": 99})"), "plan.json: /layers 99: cannot cut gpt2-tiny");
  says(refusal_of(R"({"model": "resnet-50", "layers": 1})"), "plan.json: /layers 1: cannot cut resnet-50");
  says(refusal_of(R"({"model": "gpt2-tiny", "accumulate": [1, 1]})"), "plan.json: /accumulate lists 1 twice");
  says(refusal_of(R"({"model": "gpt2-tiny", "gpu_clock": [900, "600:900:300"]})"),
       "plan.json: /gpu_clock lists 900 twice");
  says(refusal_of(R"({"grids": [{"model": "gpt2-tiny"}, {"model": "gpt2-tiny"}]})"),
       "plan.json: /grids/1: the plan holds gpt2-tiny/float32");
  says(refusal_of(R"({"model": "gpt2-tiny", "accumulate": [1, 2], "target": 0.3, "seeds": [4, 5, 6]})"),
       "plan.json: /seeds lists 3 seeds for 2 points");
  says(refusal_of(R"({"model": "gpt2-124m", "target": 0.3})"), "plan.json: /target: gpt2-124m has no task");
  says(refusal_of(R"({"model": "gpt2-tiny", "search": "energy"})"),
       "plan.json: /search has nothing to choose from: add /gpu_clock");
  says(refusal_of(R"({"model": "gpt2-tiny", "ranks": 8})"), "plan.json: /ranks 8: the job has 2");
  for (const char* text :
       {R"({"model": "gpt2-tiny", "micro_batch": 2, "accumulate": 2, "global_batch": 8})",
        R"({"model": "gpt2-tiny", "search": "energy"})", R"({"model": "gpt2-tiny", "accumulate": [1, 1]})"})
    EXPECT_EQ(refusal_of(text).find("--"), std::string::npos) << refusal_of(text);
  // What was given on the command line is named as it was given.
  says(refusal({"--config", "plan.json", "--seeds", "4,5,6"}, 2,
               R"({"model": "gpt2-tiny", "accumulate": [1, 2], "target": 0.3})"),
       "plan.json: --seeds lists 3 seeds for 2 points");
  says(refusal({"--model", "gpt2-tiny", "--accumulate", "1,1"}), "--accumulate lists 1 twice");
  Request shares = read_config("plan.json", R"({"grids": [{"model": "gpt2-tiny", "gpu_clock": "60%"}]})");
  try {
    resolve_shares(shares, "cpu", {});
    FAIL();
  } catch (const UsageError& error) {
    says(error.what(), "plan.json: /grids/0/gpu_clock 60%: no device here tells its range");
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
  const std::vector<std::string> all = {refusal_of(R"({"model": "gpt2-tiny", ")" + word + R"(": 1})"),
                                        refusal_of(R"({"grids": [{"model": "gpt2-tiny", ")" + word + R"(": 1}]})"),
                                        refusal_of(R"({"model": ")" + word + R"("})"),
                                        refusal_of(R"({"model": "gpt2-tiny", "precision": ")" + word + R"("})"),
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

}  // namespace
}  // namespace tw
