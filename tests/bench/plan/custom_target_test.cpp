// What --target comes to with a file of layers: the task that the file describes.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "bench/plan/options/kit.hpp"
#include "bench/plan/reference_steps.hpp"
#include "results/record/report_io.hpp"
#include "tests/bench/plan/planned.hpp"

namespace tw {
using namespace bench;
using namespace models;
using namespace results;
namespace {

using Json = nlohmann::json;

const std::string example = TW_SOURCE_DIR "/models/custom/examples/image-classifier.json";

class CustomTarget : public testing::Test {
 protected:
  ~CustomTarget() override { std::filesystem::remove(path_); }

  /// Words that plan the example after `change`, to its target.
  template <class Change>
  std::vector<std::string> words(Change change, std::vector<std::string> more = {"--target", "default"}) {
    std::ostringstream text;
    text << std::ifstream(example).rdbuf();
    Json json = Json::parse(text.str());
    change(json);
    std::ofstream(path_) << json.dump();
    more.insert(more.begin(), {"--model", "custom", "--layers-file", path_});
    return more;
  }
  std::vector<std::string> words(std::vector<std::string> more = {"--target", "default"}) {
    return words([](Json&) {}, std::move(more));
  }
  static void without_batch_norm(Json& json) {
    std::erase_if(json["layers"].get_ref<Json::array_t&>(),
                  [](const Json& layer) { return layer["layer"] == "batch_norm"; });
  }

 private:
  std::string path_ = testing::TempDir() + "trainwatt-custom-target-" +
                      testing::UnitTest::GetInstance()->current_test_info()->name() + ".json";
};

TEST_F(CustomTarget, TheTaskIsTheFiles) {
  const Point point = plan_of(words()).points.at(0);
  ASSERT_TRUE(point.task);
  EXPECT_EQ(point.task->name, "image-classifier");
  EXPECT_EQ(point.task->model, point.network.name);
  EXPECT_EQ(point.global_batch(), 64);
  EXPECT_EQ(point.seeds.size(), 5u);
  const Target target = target_of(point, {});
  EXPECT_EQ(target.metric, TargetMetric::error);
  EXPECT_EQ(target.value, 0.02);
  EXPECT_EQ(target.most_steps, point.task->most_steps);
  EXPECT_FALSE(target.reference);
  EXPECT_EQ(target.reference_reason, "no reference for this task");
  EXPECT_FALSE(target.extrapolated_from);
  EXPECT_EQ(plan_of(words({"--target", "0.3"})).points.at(0).task->target, 0.3);
  const Point marked =
      plan_of(words([](Json& json) { json["task"]["extrapolated_from"] = "a smaller one"; })).points.at(0);
  EXPECT_EQ(target_of(marked, {}).extrapolated_from.value_or(""), "a smaller one");
}

// It is a part of the workload, however many ranks there are.
TEST_F(CustomTarget, WithBatchNormTheMicroBatchIsTheFiles) {
  for (const int ranks : {1, 2}) {
    const Point point = plan_of(words(), ranks).points.at(0);
    EXPECT_EQ(point.micro_batch, 32) << ranks;
    EXPECT_EQ(point.accumulate, 2 / ranks) << ranks;
  }
  says(refusal(words(), 3), "[batch-not-divisible] ");
  EXPECT_EQ(plan_of(words({"--target", "default", "--micro-batch", "16"})).points.at(0).micro_batch, 16);
  EXPECT_EQ(plan_of(words({"--target", "default", "--accumulate", "1"}), 1).points.at(0).micro_batch, 64);
  EXPECT_EQ(plan_of(words({"--target", "default", "--global-batch", "128"}), 1).points.at(0).global_batch(), 128);
  const Point free = plan_of(words(without_batch_norm), 1).points.at(0);
  EXPECT_EQ(free.micro_batch, 64) << "as with the tasks of the catalog";
}

TEST_F(CustomTarget, WhatCannotBeIsRefused) {
  const std::string none = refusal(words([](Json& json) { json.erase("task"); }));
  says(none, "[no-task] --target: the file of custom-image-classifier-");
  says(none, "add the object \"task\" (models/README.md, \"A task of your own\")");
  says(refusal(words({"--target", "0.9"})),
       "[bad-value] --target 0.9: must be below 0.9, the error of a guess in the task image-classifier");
  says(refusal(words([](Json& json) { json["task"]["target"] = 0.95; })), "[layers-task] ");
}

TEST_F(CustomTarget, TheHashOfAFileWithoutATaskIsAsBefore) {
  // Of the commit before there were tasks in files.
  const RunPlan plan =
      plan_of({"--model", "custom", "--layers-file", TW_SOURCE_DIR "/models/custom/examples/policy-network.json",
               "--steps", "3", "--trials", "1", "--warmup", "0"},
              1);
  EXPECT_EQ(plan.points.at(0).network.name, "custom-policy-network-ecd70ff01cba");
  EXPECT_EQ(sha256_hex(plan.canonical_json()), "4220cb541d0c9c7b8e8e0e353b0fab8c54e2381b1c2d25b764756cd33493d628");
}

TEST_F(CustomTarget, AKitHasTheTask) {
  const std::vector<std::string> line = words({"--target", "default", "--seeds", "2"});
  const std::string kit = kit_json({}, request_of(*parse(line).options, ""), {"trainwatt", "1", "a"});
  const RunPlan plan = make_plan(read_config("kit.json", kit), 1, "cpu");
  EXPECT_EQ(plan.points.at(0).task.value().most_steps, plan_of(line).points.at(0).task->most_steps);
  EXPECT_EQ(plan.points.at(0).seeds.size(), 2u);
}

}  // namespace
}  // namespace tw
