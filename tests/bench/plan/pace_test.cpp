// How long steps are estimated to take on a device that nobody has timed.
#include "bench/plan/pace.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "bench/plan/batch.hpp"
#include "bench/plan/forecast.hpp"
#include "results/devices/device_figures.hpp"
#include "tests/bench/plan/planned.hpp"

namespace tw {

using namespace bench;

namespace {

Abilities node_of(const char* gpu, int cores = 0) {
  Abilities node;
  node.host = "n1", node.cores = cores, node.memory_bytes = std::uint64_t{1} << 40;
  if (gpu != nullptr) node.gpus = {gpu, gpu};
  return node;
}
Point point_of(std::vector<std::string> words, int ranks = 1) {
  return plan_of(std::move(words), ranks).points.front();
}

TEST(DevicePace, IsKnownOfListedGpusAndOfCores) {
  EXPECT_TRUE(DevicePace::of(node_of("NVIDIA H200"), "cuda", 1, 2));
  EXPECT_FALSE(DevicePace::of(node_of("NVIDIA H200 NVL"), "cuda", 1, 2)) << "it has other peaks";
  EXPECT_FALSE(DevicePace::of(node_of(nullptr, 8), "cuda", 1, 2));
  EXPECT_TRUE(DevicePace::of(node_of(nullptr, 8), "cpu", 1, 2));
  EXPECT_FALSE(DevicePace::of(node_of(nullptr, 8), "reference", 1, 2));
  EXPECT_FALSE(DevicePace::of(node_of("NVIDIA H200"), "cpu", 1, 2)) << "nobody says how many cores";
}

TEST(DevicePace, IsTheFlopsAgainstAShareOfThePeak) {
  const DevicePace h200 = *DevicePace::of(node_of("NVIDIA H200"), "cuda", 1, 2);
  const std::vector<std::string> words = {"--model", "gpt2-1558m", "--micro-batch", "8", "--accumulate", "4"};
  std::vector<std::string> in_bf16 = words;
  in_bf16.insert(in_bf16.end(), {"--precision", "bf16"});
  const Point point = point_of(in_bf16);
  const double peak = results::find_vendor_peak("NVIDIA H200")->flops_per_s("bf16").value();
  const double products = 32 * models::model_flops_per_sample(point.network, point.seq_len) / (peak * 0.35);
  const double step = h200.step_seconds(point).value();
  EXPECT_GT(step, products);
  EXPECT_LT(step, 1.1 * products) << "the optimizer's traffic is little beside";
  // Twice the ranks with the same micro-batch take as long, but for the exchange; half the clock takes twice as long.
  const double shared = h200.step_seconds(point_of(in_bf16, 2)).value();
  EXPECT_GT(shared, step);
  EXPECT_LT(shared, 1.5 * step);
  Abilities node = node_of("NVIDIA H200");
  KnobAbility& clock = node.knobs.emplace_back();
  clock.kind = power::KnobKind::gpu_clock, clock.maximum = 1980;
  Point slow = point;
  slow.setting[power::KnobKind::gpu_clock] = 990;
  EXPECT_GT(DevicePace::of(node, "cuda", 1, 2)->step_seconds(slow).value(), 1.8 * step);
  Point in_fp8 = point, in_float32_bf16 = point;
  in_fp8.precision = "fp8", in_float32_bf16.precision = "float32_bf16";
  EXPECT_EQ(h200.step_seconds(in_fp8), step) << "taken to be as fast as bf16";
  EXPECT_EQ(h200.step_seconds(in_float32_bf16), std::nullopt);
  EXPECT_EQ(DevicePace::of(node_of("NVIDIA A100-SXM4-80GB"), "cuda", 1, 1)->step_seconds(in_fp8), std::nullopt);
  // Small micro-batches wait for their kernels.
  Point clicks =
      point_of({"--model", "dlrm", "--table-rows-at-most", "1000", "--micro-batch", "1", "--accumulate", "65536"});
  clicks.precision = "bf16";
  Point whole = clicks;
  whole.micro_batch = 65536, whole.accumulate = 1;
  EXPECT_GT(h200.step_seconds(clicks).value(), 20 * h200.step_seconds(whole).value());
}

TEST(DevicePace, OfCoresIsSharedByTheRanksOfANode) {
  const Point one = point_of({"--model", "gpt2-tiny", "--micro-batch", "64"});
  const double alone = DevicePace::of(node_of(nullptr, 8), "cpu", 1, 1)->step_seconds(one).value();
  const double of_eight = DevicePace::of(node_of(nullptr, 8), "cpu", 1, 8)->step_seconds(one).value();
  EXPECT_NEAR(of_eight / alone, 8, 0.5);
  EXPECT_NEAR(DevicePace::of(node_of(nullptr, 8), "cpu", 2, 8)->step_seconds(one).value() / alone, 4, 0.3)
      << "on two nodes";
}

TEST(DevicePace, SizesEndWhereMemoryDoes) {
  const RunPlan plan = make_plan(suite_request("standard"), 1, "cuda");
  const auto point = std::ranges::find(plan.points, "gpt2-1558m", [](const Point& one) { return one.network.name; });
  const auto sizes_on = [&](const char* gpu) {
    return fitting_sizes(*point, *DevicePace::of(node_of(gpu), "cuda", 1, 1)).size();
  };
  EXPECT_LT(sizes_on("NVIDIA A100-SXM4-40GB"), sizes_on("NVIDIA A100-SXM4-80GB"));
  EXPECT_LT(sizes_on("NVIDIA A100-SXM4-80GB"), sizes_on("NVIDIA H200"));
  EXPECT_LE(sizes_on("NVIDIA H200"), static_cast<std::size_t>(count_sizes(*point)));
}

TEST(DevicePace, MakesAForecastOfWhatWasABound) {
  const RunPlan plan = make_plan(suite_request("standard"), 2, "cpu");
  const auto forecast_of = [&](const DevicePace* pace) {
    return forecast(
        plan, 1, [](const Point&) { return std::string(); }, [](const Point&) { return std::nullopt; }, nullptr, pace);
  };
  const DevicePace many = *DevicePace::of(node_of(nullptr, 64), "cpu", 1, 2),
                   few = *DevicePace::of(node_of(nullptr, 2), "cpu", 1, 2);
  const Forecast bound = forecast_of(nullptr), fast = forecast_of(&many), slow = forecast_of(&few);
  EXPECT_TRUE(bound.is_least() && !bound.is_estimated());
  EXPECT_TRUE(!fast.is_least() && fast.is_estimated());
  EXPECT_GT(fast.seconds(), bound.seconds());
  EXPECT_GT(slow.seconds(), fast.seconds() + 60) << "steps are long, and those of the search";
  const std::string text = forecast_text(plan, slow, 200);
  says(text, "  pace    estimated, not measured: 2 cores at ");
  EXPECT_EQ(text.find("at least "), std::string::npos) << text;
  EXPECT_EQ(forecast_text(plan, bound, 200).find("  pace "), std::string::npos);
  const auto json = nlohmann::json::parse(forecast_json(plan, slow));
  EXPECT_EQ(json["pace"], few.words());
  EXPECT_EQ(json["points"][0]["seconds_are_estimated"], true);
  EXPECT_EQ(json["points"][0]["seconds_are_least"], false);
  EXPECT_TRUE(nlohmann::json::parse(forecast_json(plan, bound))["pace"].is_null());
}

TEST(DevicePace, WhatAStepIsTimedByIsNotEstimated) {
  const RunPlan plan = plan_of({"--model", "gpt2-tiny", "--micro-batch", "8"});
  const DevicePace pace = *DevicePace::of(node_of(nullptr, 2), "cpu", 1, 2);
  const Forecast made = forecast(
      plan, 1, [](const Point&) { return std::string(); }, [](const Point&) { return std::optional(0.01); }, nullptr,
      &pace);
  EXPECT_FALSE(made.is_estimated());
  EXPECT_EQ(forecast_text(plan, made, 200).find("estimated"), std::string::npos);
}

TEST(DevicePace, AGpuWithoutFp8CannotRunIt) {
  const Point point = [] {
    Point one = point_of({"--model", "gpt2-124m", "--micro-batch", "16"});
    one.precision = "fp8";
    return one;
  }();
  EXPECT_EQ(obstacle(point, "cuda", node_of("NVIDIA A100-SXM4-80GB"), 1),
            "NVIDIA A100-SXM4-80GB has no fp8: choose bf16");
  EXPECT_EQ(obstacle(point, "cuda", node_of("NVIDIA H200"), 1), "");
}

}  // namespace
}  // namespace tw
