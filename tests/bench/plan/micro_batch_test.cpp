// `--micro-batch auto`: a plan that leaves the size to the run.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "bench/plan/batch.hpp"
#include "bench/plan/forecast.hpp"
#include "bench/plan/options/kit.hpp"
#include "bench/plan/plan.hpp"
#include "tests/bench/plan/planned.hpp"

namespace tw {

using namespace bench;

namespace {

nlohmann::json first_point(const RunPlan& plan) { return nlohmann::json::parse(plan.canonical_json())["points"][0]; }

TEST(AutoMicroBatch, IsThePlansValue) {
  const RunPlan open = plan_of({"--model", "gpt2-tiny", "--micro-batch", "auto", "--accumulate", "1,4"}, 2);
  ASSERT_EQ(open.points.size(), 2u);
  for (const Point& point : open.points) {
    EXPECT_TRUE(point.is_automatic);
    says(point.id, "/mbauto/t128/acc");
    EXPECT_EQ(point.global_batch(), point.accumulate * 2) << "of size 1, until one is found";
  }
  EXPECT_EQ(first_point(open)["micro_batch"], "auto");
  EXPECT_TRUE(first_point(open)["accumulate"].is_number());
  EXPECT_FALSE(first_point(open).contains("global_batch"));
  const RunPlan fixed = plan_of({"--model", "gpt2-tiny", "--micro-batch", "auto", "--global-batch", "48"}, 2);
  EXPECT_EQ(fixed.points.at(0).id, "gpt2-tiny/float32/mbauto/t128/gb48/np2");
  EXPECT_EQ(first_point(fixed)["micro_batch"], "auto");
  EXPECT_TRUE(first_point(fixed)["accumulate"].is_null());
  EXPECT_EQ(first_point(fixed)["global_batch"], 48);
  EXPECT_EQ(fixed.points[0].global_batch(), 48);
  const RunPlan of_config = plan_of({"--config", "plan.json"}, 2,
                                    R"({"model": "gpt2-tiny", "micro_batch": ["auto", 3], "global_batch": 48})");
  EXPECT_EQ(of_config.points.size(), 2u);
}

TEST(AutoMicroBatch, ASizeKeepsTheGlobalBatch) {
  const Point point =
      plan_of({"--model", "gpt2-tiny", "--micro-batch", "auto", "--global-batch", "48"}, 2).points.at(0);
  std::string why;
  const std::optional<Point> sized = with_micro_batch(point, 8, why);
  ASSERT_TRUE(sized);
  EXPECT_EQ(sized->micro_batch, 8);
  EXPECT_EQ(sized->accumulate, 3);
  EXPECT_EQ(sized->global_batch(), 48);
  EXPECT_EQ(sized->id, point.id);
  EXPECT_FALSE(with_micro_batch(point, 16, why));
  says(why, "16 samples × 2 ranks do not divide the global batch 48");
  const Point open = plan_of({"--model", "gpt2-tiny", "--micro-batch", "auto", "--accumulate", "4"}, 2).points.at(0);
  EXPECT_EQ(with_micro_batch(open, 16, why)->global_batch(), 128);
  const Point task = plan_of({"--model", "gpt2-tiny", "--micro-batch", "auto", "--target", "default"}, 2).points.at(0);
  ASSERT_TRUE(task.fixed_global);
  EXPECT_EQ(*task.fixed_global, task.task->global_batch);
  std::int64_t largest = 1;
  while (with_micro_batch(task, 2 * largest, why)) largest *= 2;
  EXPECT_EQ(task.task->held_out_samples % (2 * largest), 0);
  EXPECT_EQ(*task.fixed_global % (2 * largest), 0);
}

TEST(AutoMicroBatch, IsOneSizeUnderAllSettings) {
  const RunPlan plan = plan_of({"--model", "gpt2-tiny", "--micro-batch", "auto", "--precision", "float32,bf16",
                                "--gpu-clock", "900,1200"});
  std::map<std::string, int> keys;
  for (const Point& point : plan.points) ++keys[size_key(point)];
  EXPECT_EQ(keys.size(), 2u) << "a size for each precision";
  for (const auto& [key, points] : keys) EXPECT_EQ(points, 2) << key;
}

TEST(AutoMicroBatch, IsRefusedWhereItSaysNothing) {
  says(refusal({"--model", "resnet-tiny", "--micro-batch", "auto"}), "[option-does-not-apply] --micro-batch auto");
  says(refusal({"--model", "gpt2-tiny", "--micro-batch", "auto", "--accumulate", "2", "--global-batch", "8"}),
       "[options-conflict] --micro-batch auto");
  says(refusal({"--model", "gpt2-tiny", "--micro-batch", "auto", "--global-batch", "7"}, 2), "[batch-not-divisible]");
  says(refusal({"--model", "gpt2-tiny", "--micro-batch", "auto,auto"}), "lists auto twice");
  const std::vector<std::string> large = {"--model", "gpt2-tiny", "--micro-batch", "auto", "--global-batch", "131072"};
  says(refusal(large, 1),
       "[bad-value] --global-batch 131072: value too large (maximum 65536 on 1 rank): with --micro-batch auto ");
  EXPECT_EQ(plan_of(large, 2).points.size(), 1u);
  says(refusal({"--model", "gpt2-tiny", "--micro-batch", "0"}), "value too small (minimum 1)");
  says(refusal({"--config", "plan.json"}, 1, R"({"model": "gpt2-tiny", "micro_batch": 0})"), "/micro_batch 0");
  says(refusal({"--config", "plan.json"}, 1, R"({"model": "gpt2-tiny", "micro_batch": "most"})"), "/micro_batch");
}

TEST(AutoMicroBatch, AKitLeavesTheSizeToWhoRunsIt) {
  const Request request = read_config(
      "plan.json", R"({"grids": [{"model": "gpt2-tiny", "micro_batch": "auto", "global_batch": 64},
                                 {"model": "resnet-tiny", "micro_batch": 8, "global_batch": 32}]})");
  const std::string kit = kit_json({"Tender 7", "", ""}, request, {"trainwatt", "0.1.0", "0123456789ab"});
  says(kit, "\"auto\"");
  const RunPlan found = plan_of({"--config", "kit.json"}, 2, kit);
  const RunPlan declared = plan_of({"--config", "kit.json", "--micro-batch", "4"}, 2, kit);
  EXPECT_EQ(declared.canonical_json(), found.canonical_json()) << "what is declared is not in the kit's plan";
  EXPECT_EQ(declared.declared_micro_batch, 4);
  EXPECT_EQ(plan_of({"--config", "kit.json", "--micro-batch", "auto"}, 2, kit).declared_micro_batch, std::nullopt);
  for (const Point& point : declared.points)
    EXPECT_EQ(point.is_automatic, point.network.name == "gpt2-tiny") << "batch norm: the kit's size stays";
  says(refusal({"--config", "kit.json", "--micro-batch", "64"}, 2, kit), "do not divide the global batch 64");
  says(refusal({"--config", "kit.json", "--micro-batch", "4,8"}, 2, kit), "one size");
  const std::string closed = kit_json({"", "", ""}, read_config("p", R"({"model": "gpt2-tiny", "global_batch": 64})"),
                                      {"trainwatt", "0.1.0", "0123456789ab"});
  says(refusal({"--config", "kit.json", "--micro-batch", "4"}, 2, closed), "[frozen-plan]");
  EXPECT_EQ(found.title(), "kit Tender 7");
  EXPECT_EQ(plan_of({"--config", "kit.json"}, 2, closed).title(), "kit without a title");
}

TEST(AutoMicroBatch, TheForecastOfAnOpenSizeIsALowerBound) {
  const auto forecast_at = [](const RunPlan& plan, std::vector<std::int64_t>& sizes) {
    return forecast(
        plan, 1, [](const Point&) { return std::string(); },
        [&](const Point& point) {
          sizes.push_back(point.micro_batch);
          return std::optional(0.01);
        },
        [](const Point&) { return std::optional(RankMemory{1, false}); });
  };
  std::vector<std::int64_t> sizes;
  const RunPlan open = plan_of({"--model", "gpt2-tiny", "--micro-batch", "auto", "--global-batch", "64"}, 2);
  const Forecast least = forecast_at(open, sizes);
  EXPECT_TRUE(least.is_least());
  EXPECT_TRUE(least.points.at(0).memory->is_least);
  EXPECT_TRUE(sizes.empty()) << "a step of micro-batch 1 says nothing about the size that is found";
  const std::string kit = kit_json(
                        {"", "", ""}, read_config("p", R"({"model": "gpt2-tiny", "micro_batch": "auto", "global_batch": 64})"),
                                   {"trainwatt", "0.1.0", "0123456789ab"});
  const RunPlan declared = plan_of({"--config", "kit.json", "--micro-batch", "16"}, 2, kit);
  const Forecast exact = forecast_at(declared, sizes);
  EXPECT_FALSE(exact.is_least());
  EXPECT_EQ(sizes, std::vector<std::int64_t>{16});
}

TEST(AutoMicroBatch, TheForecastSaysThatItIsFoundAtRunTime) {
  const RunPlan plan = plan_of({"--model", "gpt2-tiny", "--micro-batch", "auto", "--global-batch", "48"}, 2);
  const Forecast made = forecast(
      plan, 1, [](const Point&) { return std::string(); }, [](const Point&) { return std::nullopt; });
  says(forecast_text(plan, made, 200),
       "micro-batch of 1 point: found at run time, before the trials, among up to 4 sizes: ");
}

TEST(AutoMicroBatch, OneIsNoPlural) {
  const auto text_of = [](const std::vector<std::string>& words) {
    const RunPlan plan = plan_of(words, 2);
    const Forecast made = forecast(
        plan, 1, [](const Point&) { return std::string(); }, [](const Point&) { return std::nullopt; });
    return forecast_text(plan, made, 200);
  };
  says(text_of({"--model", "gpt2-tiny", "--micro-batch", "auto", "--global-batch", "2"}), "the trials, among 1 size: ");
  says(text_of({"--model", "gpt2-tiny", "--steps", "1", "--warmup", "0"}), "  1 step\n");
  std::string why;
  const RunPlan three = plan_of({"--model", "gpt2-tiny", "--micro-batch", "auto", "--global-batch", "3"}, 3);
  Point odd = three.points.front();
  odd.fixed_global = 4;
  EXPECT_FALSE(with_micro_batch(odd, 1, why));
  says(why, "1 sample × 3 ranks do not divide the global batch 4");
  says(refusal({"--model", "gpt2-tiny", "--layers", "1", "--recompute", "2"}), "gpt2-tiny has 1 layer");
}

TEST(AutoMicroBatch, TheForecastHasTheSearchOncePerSizeThatIsShared) {
  const auto forecast_of = [](const RunPlan& plan) {
    return forecast(
        plan, 1, [](const Point&) { return std::string(); }, [](const Point&) { return std::nullopt; });
  };
  const std::vector<std::string> words = {"--model", "gpt2-tiny", "--global-batch", "48", "--gpu-clock", "900,1200"};
  std::vector<std::string> with_auto = words;
  with_auto.insert(with_auto.end(), {"--micro-batch", "auto"});
  const RunPlan plan = plan_of(with_auto, 2);
  ASSERT_EQ(plan.points.size(), 2u);
  EXPECT_EQ(count_sizes(plan.points[0]), 4) << "1, 2, 4, 8 samples by 2 ranks divide 48";
  const Forecast open = forecast_of(plan), fixed = forecast_of(plan_of(words, 2));
  EXPECT_EQ(fixed.points[0].sizes + fixed.points[1].sizes, 0);
  EXPECT_EQ(open.points[0].sizes, 4);
  EXPECT_EQ(open.points[1].sizes, 0) << "the size is known by then";
  EXPECT_GE(open.points[0].search_seconds, 4 * timed_seconds_of_size);
  EXPECT_DOUBLE_EQ(open.seconds(), fixed.seconds() + open.points[0].search_seconds);
  const auto json = nlohmann::json::parse(forecast_json(plan, open));
  EXPECT_EQ(json["points"][0]["micro_batch_sizes_at_most"], 4);
  EXPECT_EQ(json["points"][0]["micro_batch_search_seconds"], open.points[0].search_seconds);
}

}  // namespace
}  // namespace tw
