// A family that no program has, listed in tests/families/families.def alone: everything that a network can do works for
// it. What fails here names a family outside of its folder and the list.
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "bench/ops/case.hpp"
#include "bench/tool/commands.hpp"
#include "bench/train/point/point_config.hpp"
#include "models/catalog/families.hpp"
#include "models/catalog/floors.hpp"
#include "models/families/build_blocks.hpp"
#include "tests/bench/plan/planned.hpp"
#include "tests/families/mlp/description.hpp"
#include "tests/models/support.hpp"

namespace tw::test {

using namespace bench;
using namespace models;

namespace {

using Json = nlohmann::json;
namespace fs = std::filesystem;

TEST(Families, EachIsListedOnceUnderItsOwnName) {
  std::set<std::string> names;
  for (const auto& [name, family] : families()) {
    EXPECT_TRUE(names.insert(name).second) << name;
    EXPECT_EQ(family.networks.empty(), family.of_layers != nullptr)
        << name << ": has networks, or reads them from files";
    for (const NetworkDescription& network : family.networks) EXPECT_EQ(network.shape->family(), name) << network.name;
    for (const TaskDescription& task : family.tasks) EXPECT_EQ(find_network(task.model).shape->family(), name);
  }
  EXPECT_TRUE(names.contains("mlp")) << "the list of the tests, not the programs'";
}

TEST(Families, TheDescriptionCountsWhatTheBlocksHave) {
  for (const NetworkDescription& whole : catalog()) {
    const LayerCount layers = whole.shape->layers();
    const NetworkDescription network = cut_layers(whole, layers.least);
    EXPECT_EQ(layer_count(network), layers.least);
    const auto blocks = build_blocks(network, Precision::float32, 2, network.default_seq_len);
    EXPECT_EQ(blocks.size(), static_cast<std::size_t>(layers.least) + 2) << "one in front, the layers, the head";
    std::int64_t count = 0;
    for (const auto& block : blocks)
      for (const ParameterSpec& spec : block->parameters()) count += spec.dims.count();
    EXPECT_EQ(count, count_dense_parameters(network)) << network.name;
  }
}

TEST(AFamilyOfTheTests, IsDescribedAndCounted) {
  const NetworkDescription network = find_network("mlp-tiny");
  EXPECT_EQ(catalog().back().name, network.name) << "in the order of the list";
  EXPECT_EQ(network.as<MlpDescription>().width, 24);
  EXPECT_THROW(cut_layers(network, 3), std::invalid_argument);
  // Multiply-adds of an image: 192·48 + 48·24 in front, 24·48 + 48·24 in each of two layers, 24·5 in the head. Three
  // times forward, less the input gradient of the first.
  const double front = 192 * 48 + 48 * 24, layer = 2 * 24 * 48, head = 24 * 5;
  EXPECT_EQ(model_flops_per_sample(network, 0), 6 * (front + 2 * layer + head) - 2.0 * 192 * 48);
  EXPECT_EQ(recomputed_flops_per_sample(network, 0, 1), 2 * (front + layer));
  EXPECT_EQ(exact_floor(network, 0), grating_error(8, 3, 5));
  EXPECT_EQ(task_of("mlp-tiny")->name, "blobs");
  EXPECT_EQ(tasks().back().name, "blobs");
  EXPECT_EQ(why_no_fp8(network), "");
}

TEST(AFamilyOfTheTests, IsPrintedByTheTool) {
  testing::internal::CaptureStdout();
  CLI::App app;
  const tool::Action models = tool::add_models(app, {});
  app.parse("--json");
  EXPECT_EQ(models(), 0);
  std::fflush(stdout);
  const Json entry = Json::parse(testing::internal::GetCapturedStdout())["models"].back();
  EXPECT_EQ(entry["name"], "mlp-tiny");
  EXPECT_EQ(entry["family"], "mlp");
  EXPECT_EQ(entry["shape"], "2 layers of width 24");
  EXPECT_EQ(entry["sizes"], (Json{{"layers", 2}, {"width", 24}, {"image_size", 8}, {"classes", 5}}));
  EXPECT_EQ(entry["constants"], (Json{{"activation", "gelu_tanh"}}));
  EXPECT_EQ(entry["parameters"], count_parameters(find_network("mlp-tiny")));
  EXPECT_TRUE(entry["seq_len"].is_null());
}

TEST(AFamilyOfTheTests, IsPlannedAndTrained) {
  const RunPlan plan = plan_of({"--model", "mlp-tiny", "--accumulate", "2"}, 1);
  ASSERT_EQ(plan.points.size(), 1u);
  const Point& point = plan.points.front();
  EXPECT_EQ(point.id, "mlp-tiny/float32/mb8/acc2/np1");
  EXPECT_FALSE(Json::parse(plan.canonical_json())["points"][0].contains("seq_len"));
  EXPECT_NE(refusal({"--model", "mlp-tiny", "--seq-len", "8"}).find("[option-does-not-apply] "), std::string::npos);
  const auto device = reference_device();
  EXPECT_EQ(why_unsupported(point, *device), "");
  const auto losses = [&](int recomputed_layers) {
    TrainerConfig config = trainer_config(point, plan, 0);
    config.recomputed_layers = recomputed_layers;
    Trainer trainer(*device, config);
    EXPECT_EQ(trainer.parameter_count(), count_parameters(point.network));
    EXPECT_EQ(trainer.memory().parameters, plan_memory(config, 1).parameters);
    std::vector<double> all;
    for (int step = 0; step < 200; ++step) all.push_back(trainer.step({}).loss);
    return all;
  };
  const std::vector<double> kept = losses(0);
  const double late = std::accumulate(kept.end() - 50, kept.end(), 0.0) / 50;
  EXPECT_LT(late, 1.0) << "guessing among five classes costs ln 5 = 1.61";
  EXPECT_EQ(losses(2), kept);
}

TEST(AFamilyOfTheTests, IsExported) {
  std::string folder = (fs::temp_directory_path() / "families-XXXXXX").string();
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const auto device = reference_device();
  Trainer(*device, micro_config(find_network("mlp-tiny"))).export_step(folder, {});
  std::ifstream step(fs::path(folder) / "step.json");
  const Json json = Json::parse(step);
  EXPECT_EQ(json["model"], (Json{{"name", "mlp-tiny"},
                                 {"kind", "mlp"},
                                 {"layers", 2},
                                 {"width", 24},
                                 {"image_size", 8},
                                 {"classes", 5},
                                 {"activation", "gelu_tanh"}}));
  EXPECT_EQ(json["optimizer"]["kind"], "adamw");
  EXPECT_FALSE(json.contains("relu_sides"));
  EXPECT_FALSE(fs::exists(fs::path(folder) / "relu.safetensors")) << "it has no ReLU";
  std::ifstream weights(fs::path(folder) / "weights.safetensors", std::ios::binary);
  std::string text(std::istreambuf_iterator<char>(weights), {});
  for (const char* name : {"stem.up.weight", "layers.1.down.bias", "fc.weight"})
    EXPECT_NE(text.find("\"" + std::string(name) + "\""), std::string::npos) << name;
  fs::remove_all(folder);
}

TEST(AFamilyOfTheTests, HasItsOperatorsInTheMicroBenchmark) {
  const NetworkDescription network = find_network("mlp-tiny");
  const auto device = reference_device();
  std::vector<ops::Entry> entries = ops::product_entries(network, 4, 0);
  for (ops::Entry& entry : ops::elementwise_entries(network, 4, 0)) entries.push_back(std::move(entry));
  std::set<std::string> names;
  for (const ops::Entry& entry : entries) {
    names.insert(entry.name);
    ops::Case made(*device);
    entry.make(made, Precision::float32);
    made.run();
    made.stream().synchronize();
  }
  for (const char* name : {"linear_forward/mlp-tiny/stem+bias+gelu", "linear_backward_input/mlp-tiny/down+gelu",
                           "linear_forward/mlp-tiny/up+bias+gelu", "classifier/mlp-tiny/head", "adamw/mlp-tiny"})
    EXPECT_TRUE(names.contains(name)) << name;
}

}  // namespace
}  // namespace tw::test
