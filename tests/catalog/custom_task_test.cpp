// The task in a file of layers: what it says, and what is wrong by a stable code and a JSON pointer.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "models/catalog/described.hpp"
#include "models/catalog/floors.hpp"
#include "models/catalog/tasks.hpp"

namespace tw::models::task_of_a_file {  // its helpers have names of custom_test.cpp
namespace {

using Json = nlohmann::json;

Json task(double target) {
  return {{"global_batch", 8},
          {"target", target},
          {"held_out_samples", 64},
          {"evaluation_interval", 10},
          {"most_steps", 100}};
}
Json images() {
  return Json::parse(R"({"name": "a", "input": {"kind": "images", "size": 8, "channels": 3, "classes": 4},
    "layers": [{"layer": "flatten"}, {"layer": "loss", "per": "sample"}]})");
}
Json images_with_batch_norm() {
  Json file = images();
  file["layers"].insert(file["layers"].begin(), Json{{"layer", "batch_norm"}});
  file["task"] = task(0.1), file["micro_batch"] = 4;
  return file;
}
Json tokens() {
  return Json::parse(R"({"name": "b", "input": {"kind": "tokens", "vocabulary": 16, "longest_sequence": 8},
    "seq_len": 6, "layers": [{"layer": "embedding", "channels": 4}, {"layer": "attention", "heads": 2, "causal": true},
    {"layer": "loss", "per": "position"}]})");
}
Json with_task(Json file, double target) {
  file["task"] = task(target);
  return file;
}

TaskDescription read(const Json& file) { return *described_network("custom", file.dump()).task; }

/// "layers-task /task/target"; "read" where nothing is wrong.
std::string fault(const Json& file, std::string* said = nullptr) {
  try {
    described_network("custom", file.dump());
  } catch (const LayersFault& found) {
    if (said != nullptr) *said = found.what();
    return found.code() + " " + found.pointer();
  }
  return "read";
}

TEST(TaskOfAFile, SaysWhatATaskOfTheCatalogSays) {
  EXPECT_FALSE(described_network("custom", images().dump()).task);
  Json file = with_task(images(), 0.1);
  file["optimizer"] = {{"learning_rate", 0.003}};
  TaskDescription found = read(file);
  EXPECT_EQ(found.name, "a") << "the file's";
  EXPECT_EQ(found.metric, TaskDescription::Metric::error);
  EXPECT_EQ(found.target, 0.1);
  EXPECT_EQ(found.global_batch, 8);
  EXPECT_EQ(found.held_out_samples, 64);
  EXPECT_EQ(found.evaluation_interval, 10);
  EXPECT_EQ(found.most_steps, 100);
  EXPECT_EQ(found.seq_len, 0);
  EXPECT_EQ(found.extrapolated_from, "");
  EXPECT_TRUE(found.micro_batches.empty());
  const OptimizerConfig usual = default_optimizer(described_network("custom", file.dump()));
  EXPECT_EQ(found.learning_rate, 0.003) << "a report has the digits of the file";
  EXPECT_EQ(found.final_learning_rate_share, 0.1);
  EXPECT_EQ(found.warmup_steps, usual.warmup_steps);
  EXPECT_EQ(found.decay_steps, usual.decay_steps);

  file["task"]["name"] = "b", file["task"]["extrapolated_from"] = "a smaller one", file["task"]["comment"] = "c";
  file["task"]["schedule"] = {{"learning_rate", 0.02}, {"final_share", 0.5}, {"warmup_steps", 3}, {"decay_steps", 40}};
  found = read(file);
  EXPECT_EQ(found.name, "b");
  EXPECT_EQ(found.extrapolated_from, "a smaller one");
  EXPECT_EQ(found.learning_rate, 0.02);
  EXPECT_EQ(found.final_learning_rate_share, 0.5);
  EXPECT_EQ(found.warmup_steps, 3);
  EXPECT_EQ(found.decay_steps, 40);

  found = read(with_task(tokens(), 0.3));
  EXPECT_EQ(found.metric, TaskDescription::Metric::excess_loss);
  EXPECT_EQ(found.seq_len, 6);
  EXPECT_EQ(read(images_with_batch_norm()).micro_batches, std::vector<std::int64_t>{4});
}

TEST(TaskOfAFile, IsTheTaskOfItsNetworkAlone) {
  NetworkDescription network = described_network("custom", with_task(images(), 0.1).dump());
  network.name += "-0123456789ab";
  EXPECT_EQ(task_of(network).value().model, network.name);
  EXPECT_FALSE(task_of(described_network("custom", images().dump())));
  EXPECT_EQ(task_of(find_network("gpt2-tiny")).value().name, "markov");
  EXPECT_FALSE(task_of(find_network("gpt2-355m")));
}

TEST(TaskOfAFile, EachFaultHasACodeAndAPlace) {
  const auto changed = [](const char* key, const Json& value) {
    Json file = with_task(images(), 0.1);
    file["task"][key] = value;
    return fault(file);
  };
  EXPECT_EQ(fault(with_task(images(), 0.1)), "read");
  Json file = images();
  file["task"] = 1;
  EXPECT_EQ(fault(file), "layers-value /task");
  for (const char* key : {"global_batch", "target", "held_out_samples", "evaluation_interval", "most_steps"}) {
    file = with_task(images(), 0.1);
    file["task"].erase(key);
    EXPECT_EQ(fault(file), "layers-missing /task") << key;
    EXPECT_EQ(changed(key, 0), std::string("layers-value /task/") + key);
    EXPECT_EQ(changed(key, "1"), std::string("layers-value /task/") + key);
    EXPECT_EQ(changed(key, 1e300), std::string("layers-value /task/") + key);
  }
  EXPECT_EQ(changed("tagret", 1), "layers-unknown-key /task/tagret");
  EXPECT_EQ(changed("metric", "error"), "layers-unknown-key /task/metric") << "the kind of input has one";
  EXPECT_EQ(changed("name", "no spaces"), "layers-name /task/name");
  EXPECT_EQ(changed("name", std::string(33, 'a')), "layers-name /task/name");
  EXPECT_EQ(changed("evaluation_interval", 101), "layers-task /task/evaluation_interval");
  for (const char* text : {"", "two\nlines"})
    EXPECT_EQ(changed("extrapolated_from", text), "layers-value /task/extrapolated_from");
  EXPECT_EQ(changed("extrapolated_from", std::string(401, 'a')), "layers-value /task/extrapolated_from");
  EXPECT_EQ(changed("schedule", 1), "layers-value /task/schedule");
  EXPECT_EQ(changed("schedule", {{"learning_rate", 0}}), "layers-value /task/schedule/learning_rate");
  EXPECT_EQ(changed("schedule", {{"final_share", 0}}), "layers-value /task/schedule/final_share");
  EXPECT_EQ(changed("schedule", {{"final_share", 1.5}}), "layers-value /task/schedule/final_share");
  EXPECT_EQ(changed("schedule", {{"warmup_steps", -1}}), "layers-value /task/schedule/warmup_steps");
  EXPECT_EQ(changed("schedule", {{"decay", 5}}), "layers-unknown-key /task/schedule/decay");
  EXPECT_EQ(changed("schedule", {{"warmup_steps", 20}, {"decay_steps", 20}}), "layers-task /task/schedule");
}

TEST(TaskOfAFile, ATargetLiesBetweenTheBestAndAGuess) {
  std::string said;
  EXPECT_EQ(fault(with_task(images(), 0.74)), "read");
  EXPECT_EQ(fault(with_task(images(), 0.01), &said), "layers-task /task/held_out_samples")
      << "of 64, none may be wrong";
  EXPECT_NE(said.find("is 64, too few for a target of 0.01"), std::string::npos) << said;
  EXPECT_EQ(fault(with_task(images(), 0.75), &said), "layers-task /task/target");
  EXPECT_EQ(said, "/task/target: is 0.75, must be below 0.75, the error of a guess in the task a");
  Json hard = with_task(images(), 0.1);  // little energy: even the best classifier errs
  hard["input"] = {{"kind", "images"}, {"size", 5}, {"channels", 1}, {"classes", 4}};
  const double floor = exact_floor(described_network("custom", hard.dump()), 0);
  ASSERT_GT(floor, 0.001);
  hard["task"]["target"] = floor, hard["task"]["held_out_samples"] = 65536;
  EXPECT_EQ(fault(hard, &said), "layers-task /task/target");
  EXPECT_NE(said.find("the error of the best classifier of the task a"), std::string::npos) << said;
  hard["task"]["target"] = floor * 1.01;
  EXPECT_EQ(fault(hard), "read");
  const NetworkDescription of_tokens = described_network("custom", tokens().dump());
  const double most = guess(of_tokens) - exact_floor(of_tokens, 6);
  EXPECT_EQ(fault(with_task(tokens(), most * 0.999)), "read");
  EXPECT_EQ(fault(with_task(tokens(), most * 1.001), &said), "layers-task /task/target");
  EXPECT_NE(said.find("the excess loss of a guess"), std::string::npos) << said;
}

TEST(TaskOfAFile, KindsWithoutAnExactFloorHaveNone) {
  Json file =
      Json::parse(R"({"name": "s", "input": {"kind": "segmented_images", "size": 8, "channels": 3, "classes": 4},
    "layers": [{"layer": "convolution", "channels": 4, "kernel": 1}, {"layer": "loss", "per": "position"}]})");
  std::string said;
  EXPECT_EQ(fault(with_task(file, 0.1), &said), "layers-task /task");
  EXPECT_NE(said.find("kinds with one are images, series and tokens"), std::string::npos) << said;
  file = Json::parse(R"({"name": "s", "input": {"kind": "measured_images", "size": 8, "channels": 3, "gratings": 4},
    "layers": [{"layer": "flatten"}, {"layer": "linear", "channels": 2},
               {"layer": "mean_squared_error", "per": "sample"}]})");
  EXPECT_EQ(fault(with_task(file, 0.1)), "layers-task /task");
  file = Json::parse(R"({"name": "s", "input": {"kind": "series", "variables": 2, "longest_sequence": 8},
    "layers": [{"layer": "linear", "channels": 2}, {"layer": "mean_squared_error", "per": "position"}]})");
  EXPECT_EQ(fault(with_task(file, 0.1)), "read");
  EXPECT_EQ(fault(with_task(file, 1)), "layers-task /task/target") << "the variance less the floor is the bound";
  for (const DataKind kind : {DataKind::images, DataKind::tokens, DataKind::series, DataKind::segmented_images,
                              DataKind::restored_images, DataKind::measured_images}) {
    const bool is_named = kind == DataKind::images || kind == DataKind::tokens || kind == DataKind::series;
    EXPECT_EQ(std::string("images, series and tokens").find(to_string(kind)) != std::string::npos, is_named);
  }
}

TEST(TaskOfAFile, TwoExamplesHaveOne) {
  const auto of = [](const std::string& name) {
    return read(Json::parse(std::ifstream(TW_SOURCE_DIR "/models/custom/examples/" + name + ".json")));
  };
  const TaskDescription small = of("image-classifier"), large = of("image-classifier-gpu");
  EXPECT_EQ(small.extrapolated_from, "");
  EXPECT_NE(large.extrapolated_from.find("(bench/README.md)"), std::string::npos) << "where the derivation is";
  EXPECT_EQ(small.target, large.target);
}

// The floor is that of a model which does not see what it is asked for.
TEST(TaskOfAFile, WhoSeesTheNextTokensHasNoTask) {
  Json file = with_task(tokens(), 0.3);
  file["layers"][1].erase("causal");
  std::string said;
  EXPECT_EQ(fault(file, &said), "layers-task /layers/1");
  EXPECT_NE(said.find("\"causal\": true"), std::string::npos) << said;
  file.erase("task");
  EXPECT_EQ(fault(file), "read");
  file = with_task(tokens(), 0.3);
  file["layers"][1] = {{"layer", "batch_norm"}};
  EXPECT_EQ(fault(file), "layers-task /layers/1");
  file = with_task(tokens(), 0.3);
  file["layers"][2]["label_smoothing"] = 0.1;
  EXPECT_EQ(fault(file), "layers-task /layers/2/label_smoothing");
  file = with_task(images(), 0.1);
  file["layers"][1]["label_smoothing"] = 0.1;
  EXPECT_EQ(fault(file), "read") << "an error has no smoothing";
}

TEST(TaskOfAFile, BatchNormNeedsAMicroBatchThatDividesTheTask) {
  EXPECT_EQ(fault(images_with_batch_norm()), "read");
  Json file = images_with_batch_norm();
  file.erase("micro_batch");
  std::string said;
  EXPECT_EQ(fault(file, &said), "layers-task /task");
  EXPECT_NE(said.find("add the key \"micro_batch\""), std::string::npos) << said;
  file["micro_batch"] = 3;
  EXPECT_EQ(fault(file), "layers-task /task/global_batch");
  file["micro_batch"] = 4, file["task"]["held_out_samples"] = 66;
  EXPECT_EQ(fault(file), "layers-task /task/held_out_samples");
  file = images_with_batch_norm();
  file["layers"] =
      Json::parse(R"([{"layer": "flatten"}, {"layer": "batch_norm"}, {"layer": "loss", "per": "sample"}])");
  file["micro_batch"] = 1;
  EXPECT_EQ(fault(file), "layers-task /micro_batch") << "one value of each channel";
}

}  // namespace
}  // namespace tw::models::task_of_a_file
