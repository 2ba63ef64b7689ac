// Files of layers: what is wrong is named by a stable code and a JSON pointer; the counts of what is right.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "models/catalog/described.hpp"
#include "models/catalog/memory.hpp"

namespace tw::models {
namespace {

using Json = nlohmann::json;

Json images(Json layers) {
  return {{"name", "a"},
          {"input", {{"kind", "images"}, {"size", 8}, {"channels", 3}, {"classes", 4}}},
          {"layers", std::move(layers)}};
}
Json tokens(Json layers) {
  return {{"name", "a"},
          {"input", {{"kind", "tokens"}, {"vocabulary", 16}, {"longest_sequence", 8}}},
          {"layers", std::move(layers)}};
}
Json series(Json layers) {
  return {{"name", "a"},
          {"input", {{"kind", "series"}, {"variables", 3}, {"longest_sequence", 8}}},
          {"layers", std::move(layers)}};
}
Json restored(Json layers) {
  return {{"name", "a"},
          {"input", {{"kind", "restored_images"}, {"size", 8}, {"channels", 3}, {"gratings", 4}, {"scale", 2}}},
          {"layers", std::move(layers)}};
}
Json layer(const std::string& text) { return Json::parse(text); }
const Json flatten = {{"layer", "flatten"}}, loss = {{"layer", "loss"}, {"per", "sample"}};
const Json convolution = {{"layer", "convolution"}, {"channels", 4}, {"kernel", 3}};

NetworkDescription read(const Json& json) { return described_network("custom", json.dump()); }

/// "layers-shape /layers/0/kernel"; "read" where nothing is wrong.
std::string fault(const std::string& text, std::string* said = nullptr) {
  try {
    described_network("custom", text);
  } catch (const LayersFault& found) {
    if (said != nullptr) *said = found.what();
    return found.code() + " " + found.pointer();
  }
  return "read";
}
std::string fault(const Json& json, std::string* said = nullptr) { return fault(json.dump(), said); }

TEST(LayersFile, WithoutAnOptimizerHasThatOfAnEmptyOne) {
  Json file = images({flatten, loss});
  const OptimizerConfig absent = default_optimizer(read(file));
  file["optimizer"] = Json::object();
  const OptimizerConfig empty = default_optimizer(read(file));
  EXPECT_EQ(absent.learning_rate, 1e-3f);
  EXPECT_EQ(empty.learning_rate, absent.learning_rate);
  EXPECT_EQ(empty.kind, absent.kind);
}

TEST(LayersFile, EachFaultHasACodeAndAPlace) {
  EXPECT_EQ(fault(images({flatten, loss})), "read");
  EXPECT_EQ(fault(std::string("{")), "layers-json ");
  EXPECT_EQ(fault(std::string("[]")), "layers-value ");
  EXPECT_EQ(fault(Json{{"name", "a"}}), "layers-missing ");
  Json file = images({flatten, loss});
  file["learning_rate"] = 1;
  EXPECT_EQ(fault(file), "layers-unknown-key /learning_rate");
  file = images({flatten, loss}), file["name"] = "no spaces";
  EXPECT_EQ(fault(file), "layers-name /name");
  file = images({flatten, loss}), file["input"]["kind"] = "image";
  EXPECT_EQ(fault(file), "layers-value /input/kind");
  file = images({flatten, loss}), file["input"]["classes"] = 1000;
  EXPECT_EQ(fault(file), "layers-value /input/classes");
  file = images({flatten, loss}), file["seq_len"] = 4;
  EXPECT_EQ(fault(file), "layers-value /seq_len");
  file = images({flatten, loss}), file["optimizer"] = {{"kind", "adam"}};
  EXPECT_EQ(fault(file), "layers-value /optimizer/kind");
  file = images({flatten, loss}), file["optimizer"] = {{"learning_rate", "fast"}};
  EXPECT_EQ(fault(file), "layers-value /optimizer/learning_rate");
  for (const char* kind : {"adamw", "sgd"}) {
    file["optimizer"] = {{"kind", kind}, {"momentum", 0.5}};
    EXPECT_EQ(fault(file), kind == std::string("sgd") ? "read" : "layers-value /optimizer/momentum");
  }
  file["optimizer"] = {{"momentum", 0.9}};
  EXPECT_EQ(fault(file), "layers-value /optimizer/momentum") << "adamw is the default";

  EXPECT_EQ(fault(images(Json::array())), "layers-loss /layers");
  EXPECT_EQ(fault(images({flatten})), "layers-loss /layers/0") << "no loss";
  EXPECT_EQ(fault(images({flatten, loss, loss})), "layers-loss /layers/2") << "several losses";
  EXPECT_EQ(fault(images({flatten, loss, flatten})), "layers-loss /layers/2") << "behind the loss";
  EXPECT_EQ(fault(images({loss})), "layers-shape /layers/0") << "an image has no loss per sample";
  EXPECT_EQ(fault(images({flatten, layer(R"({"layer": "loss", "per": "position"})")})), "layers-shape /layers/1/per");

  EXPECT_EQ(fault(images({layer(R"({"layer": "convolve"})"), loss})), "layers-unknown-layer /layers/0/layer");
  EXPECT_EQ(fault(images({layer(R"({"channels": 3})"), loss})), "layers-missing /layers/0");
  EXPECT_EQ(fault(images({layer(R"({"layer": "convolution", "kernel": 3})"), loss})), "layers-missing /layers/0");
  EXPECT_EQ(fault(images({layer(R"({"layer": "linear", "channels": 0})"), loss})), "layers-value /layers/0/channels");
  EXPECT_EQ(fault(images({layer(R"({"layer": "linear", "channels": 1.5})"), loss})), "layers-value /layers/0/channels");
  EXPECT_EQ(fault(images({layer(R"({"layer": "linear", "channels": 3, "bias": 1})"), loss})),
            "layers-value /layers/0/bias");
  EXPECT_EQ(fault(images({layer(R"({"layer": "flatten", "a/b": 1})"), loss})), "layers-unknown-key /layers/0/a~1b");
  EXPECT_EQ(fault(images({1, loss})), "layers-value /layers/0");

  Json wide = convolution;
  wide["kernel"] = 9;
  EXPECT_EQ(fault(images({wide, flatten, loss})), "layers-shape /layers/0/kernel");
  wide["padding"] = 1;
  EXPECT_EQ(fault(images({wide, flatten, loss})), "read") << "8 + 2·1 is wide enough";
  wide["kernel"] = 3, wide["padding"] = 3;
  EXPECT_EQ(fault(images({wide, flatten, loss})), "layers-shape /layers/0/padding");
  EXPECT_EQ(fault(images({flatten, convolution, loss})), "layers-shape /layers/1");
  EXPECT_EQ(fault(images({layer(R"({"layer": "swiglu"})"), flatten, loss})), "layers-shape /layers/0");
  EXPECT_EQ(fault(images({layer(R"({"layer": "attention", "heads": 2})"), flatten, loss})),
            "layers-shape /layers/0/heads");
  EXPECT_EQ(fault(images({convolution, layer(R"({"layer": "residual", "with": "input"})"), flatten, loss})),
            "layers-shape /layers/1")
      << "6 x 6 x 4 and 8 x 8 x 3";

  EXPECT_EQ(fault(images({layer(R"({"layer": "flatten", "from": "inptu"})"), loss})), "layers-name /layers/0/from");
  EXPECT_EQ(fault(images({convolution, layer(R"({"layer": "residual", "name": "r", "with": "r"})"), flatten, loss})),
            "layers-cycle /layers/1/with");
  EXPECT_EQ(fault(images({layer(R"({"layer": "residual", "with": "later"})"),
                          layer(R"({"layer": "tanh", "name": "later"})"), flatten, loss})),
            "layers-cycle /layers/0/with");
  EXPECT_EQ(fault(images({layer(R"({"layer": "flatten", "name": "a"})"),
                          layer(R"({"layer": "linear", "name": "a", "channels": 4})"), loss})),
            "layers-name /layers/1/name");
  EXPECT_EQ(fault(images({layer(R"({"layer": "flatten", "name": "layer1"})"),
                          layer(R"({"layer": "linear", "channels": 4})"), loss})),
            "layers-name /layers/0/name")
      << "what has no name is called by its place";
  EXPECT_EQ(fault(images({convolution, layer(R"({"layer": "flatten", "from": "input"})"), loss})),
            "layers-unused /layers/0");
  EXPECT_EQ(fault(images({layer(R"({"layer": "linear", "channels": 1048576})"), flatten,
                          layer(R"({"layer": "linear", "channels": 1048576})"), loss})),
            "layers-too-large /layers/2");

  const Json embedding = {{"layer", "embedding"}, {"channels", 4}},
             of_positions = {{"layer", "loss"}, {"per", "position"}};
  EXPECT_EQ(fault(tokens({embedding, of_positions})), "read");
  EXPECT_EQ(fault(tokens({layer(R"({"layer": "linear", "channels": 4})"), of_positions})), "layers-shape /layers/0");
  EXPECT_EQ(fault(tokens({embedding, embedding, of_positions})), "layers-shape /layers/1");
  EXPECT_EQ(fault(tokens({embedding, flatten, of_positions})), "layers-shape /layers/1");
  EXPECT_EQ(fault(tokens({embedding, loss})), "layers-shape /layers/1/per");
  EXPECT_EQ(fault(images({embedding, loss})), "layers-shape /layers/0");
  file = tokens({embedding, of_positions}), file["seq_len"] = 9;
  EXPECT_EQ(fault(file), "layers-value /seq_len");
}

TEST(LayersFile, LossesFitTheTargets) {
  const Json squared = layer(R"({"layer": "mean_squared_error", "per": "position"})"),
             of_samples = layer(R"({"layer": "mean_squared_error", "per": "sample"})"),
             of_positions = layer(R"({"layer": "loss", "per": "position"})"),
             same = layer(R"({"layer": "linear", "channels": 3})"), up = layer(R"({"layer": "upsample", "factor": 2})"),
             one = layer(R"({"layer": "convolution", "channels": 1, "kernel": 1})");
  std::string said;
  EXPECT_EQ(fault(series({same, squared})), "read");
  EXPECT_EQ(fault(series({same, of_samples})), "layers-shape /layers/1/per");
  EXPECT_EQ(fault(series({same, of_positions}), &said), "layers-shape /layers/1/layer");
  EXPECT_NE(said.find("use mean_squared_error"), std::string::npos) << said;
  EXPECT_EQ(fault(series({layer(R"({"layer": "linear", "channels": 4})"), squared}), &said), "layers-shape /layers/1");
  EXPECT_NE(said.find("the targets are positions x 3, and it reads positions x 4"), std::string::npos) << said;
  EXPECT_EQ(fault(series({layer(R"({"layer": "embedding", "channels": 4})"), squared})), "layers-shape /layers/0");
  EXPECT_EQ(fault(series({layer(R"({"layer": "rms_norm"})"), squared})), "layers-value /layers") << "no product";
  EXPECT_EQ(fault(series({same}), &said), "layers-loss /layers/0");
  EXPECT_NE(said.find("mean_squared_error"), std::string::npos) << said;
  EXPECT_EQ(fault(series({same, squared, squared})), "layers-loss /layers/2");
  EXPECT_EQ(fault(images({flatten, of_samples}), &said), "layers-shape /layers/1/layer");
  EXPECT_NE(said.find("labels: use loss"), std::string::npos) << said;
  Json file = series({same, squared});
  file["seq_len"] = 9;
  EXPECT_EQ(fault(file), "layers-value /seq_len");
  file = series({same, squared}), file["input"]["variables"] = 0;
  EXPECT_EQ(fault(file), "layers-value /input/variables");

  EXPECT_EQ(fault(restored({up, one, squared})), "read");
  EXPECT_EQ(fault(restored({one, squared})), "layers-shape /layers/1") << "8 x 8 of 16 x 16";
  EXPECT_EQ(fault(restored({up, same, squared})), "layers-shape /layers/2") << "three channels";
  EXPECT_EQ(fault(restored({flatten, up, one, squared})), "layers-shape /layers/1") << "a vector";
  Json wide = up;
  wide["factor"] = {1, 0};
  EXPECT_EQ(fault(restored({wide, one, squared})), "layers-value /layers/0/factor/1");
  wide["factor"] = 65;
  EXPECT_EQ(fault(restored({wide, one, squared})), "layers-value /layers/0/factor");
  wide["factor"] = {2, 1};
  Json high = up;
  high["factor"] = {1, 2};
  EXPECT_EQ(fault(restored({wide, high, one, squared})), "read");
  Json too_many = Json::array();
  for (int i = 0; i < 8; ++i) too_many.push_back(layer(R"({"layer": "upsample", "factor": 64})"));
  too_many.push_back(one), too_many.push_back(squared);
  EXPECT_EQ(fault(restored(too_many)), "layers-too-large /layers/2");
  file = restored({up, one, squared}), file["input"]["gratings"] = 1000;
  EXPECT_EQ(fault(file), "layers-value /input/gratings");
  file = restored({up, one, squared}), file["input"]["scale"] = 0;
  EXPECT_EQ(fault(file), "layers-value /input/scale");
  file = restored({up, one, squared}), file["input"]["classes"] = 4;
  EXPECT_EQ(fault(file), "layers-unknown-key /input/classes");
  file = restored({flatten, layer(R"({"layer": "linear", "channels": 2})"), of_samples});
  file["input"]["kind"] = "measured_images", file["input"].erase("scale");
  EXPECT_EQ(fault(file), "read");
  file["layers"][1]["channels"] = 3;
  EXPECT_EQ(fault(file), "layers-shape /layers/2");
}

TEST(LayersFile, CountsBiasesAndUpsampling) {
  Json with_bias = convolution;
  with_bias["bias"] = true;
  EXPECT_EQ(count_parameters(read(images({with_bias, flatten, loss}))),
            count_parameters(read(images({convolution, flatten, loss}))) + 4);
  EXPECT_EQ(model_flops_per_sample(read(images({with_bias, flatten, loss})), 0),
            model_flops_per_sample(read(images({convolution, flatten, loss})), 0));
  const NetworkDescription network = read(restored(
      {layer(R"({"layer": "transposed_convolution", "channels": 5, "kernel": 3, "padding": 1, "bias": true})"),
       layer(R"({"layer": "upsample", "factor": 2})"), layer(R"({"layer": "convolution", "channels": 1, "kernel": 1})"),
       layer(R"({"layer": "mean_squared_error", "per": "position"})")}));
  EXPECT_EQ(count_parameters(network), 3 * 5 * 9 + 5 + 5);
  EXPECT_EQ(model_flops_per_sample(network, 0), 2.0 * 2 * 64 * 3 * 5 * 9 + 3.0 * 2 * 256 * 5);
}

TEST(LayersFile, SuggestsTheNearestWord) {
  std::string said;
  fault(images({layer(R"({"layer": "convolutoin"})"), loss}), &said);
  EXPECT_NE(said.find("did you mean 'convolution'?"), std::string::npos) << said;
  fault(images({layer(R"({"layer": "linear", "chanels": 3})"), loss}), &said);
  EXPECT_NE(said.find("did you mean 'channels'?"), std::string::npos) << said;
  Json file = images({flatten, loss});
  file["layres"] = 1;
  fault(file, &said);
  EXPECT_NE(said.find("unknown key 'layres' in the file: did you mean 'layers'?"), std::string::npos) << said;
  fault(images({flatten, layer(R"({"layer": "loss", "per": "pixel"})")}), &said);
  EXPECT_EQ(said, "/layers/1/per: must be \"sample\" or \"position\", not \"pixel\"");
  fault(images({layer(R"({"layer": "activation", "function": "rleu"})"), loss}), &said);
  EXPECT_NE(said.find("did you mean 'relu'?"), std::string::npos) << said;
  fault(images({layer(R"({"layer": "flatten", "name": "flat"})"),
                layer(R"({"layer": "linear", "channels": 3, "from": "flta"})"), loss}),
        &said);
  EXPECT_NE(said.find("did you mean 'flat'?"), std::string::npos) << said;
}

TEST(LayersFile, CountsParametersAndFlops) {
  const NetworkDescription network =
      read(images({convolution, {{"layer", "batch_norm"}}, flatten, {{"layer", "linear"}, {"channels", 10}}, loss}));
  EXPECT_EQ(network.name, "custom-a");
  EXPECT_EQ(count_parameters(network), 4 * 3 * 9 + 2 * 4 + (6 * 6 * 4 * 10 + 10) + (10 * 4 + 4));
  // 2 a multiply-add; the first layer has no input gradient.
  EXPECT_EQ(model_flops_per_sample(network, 0), 2.0 * 2 * 36 * 4 * 3 * 9 + 3.0 * 2 * 144 * 10 + 3.0 * 2 * 10 * 4);
  EXPECT_GT(least_memory(network, "float32", 4, 0, 0).activations, 0);
  // Nor has it one where a view of the input is in front of it.
  const NetworkDescription perceptron = read(images({flatten, {{"layer", "linear"}, {"channels", 10}}, loss}));
  EXPECT_EQ(model_flops_per_sample(perceptron, 0), 2.0 * 2 * 192 * 10 + 3.0 * 2 * 10 * 4);
  // What a transposed convolution computes is a convolution of its output.
  Json up = images({convolution,
                    layer(R"({"layer": "transposed_convolution", "channels": 2, "kernel": 2, "stride": 2})"),
                    {{"layer", "global_average_pool"}},
                    loss});
  EXPECT_EQ(count_parameters(read(up)), 4 * 3 * 9 + 4 * 2 * 4 + (2 * 4 + 4));
  EXPECT_EQ(model_flops_per_sample(read(up), 0), 2.0 * 2 * 36 * 4 * 3 * 9 + 3.0 * 2 * 36 * 4 * 2 * 4 + 3.0 * 2 * 2 * 4);
  // An attention layer: queries, keys and values, 4·T²·C, and a product behind it.
  const NetworkDescription attention = read(tokens({{{"layer", "embedding"}, {"channels", 8}},
                                                    {{"layer", "attention"}, {"heads", 4}, {"kv_heads", 2}},
                                                    {{"layer", "loss"}, {"per", "position"}, {"bias", false}}}));
  EXPECT_EQ(count_parameters(attention), 16 * 8 + (8 * 16 + 16) + (8 * 8 + 8) + 8 * 16);
  EXPECT_EQ(model_flops_per_sample(attention, 5), 3.0 * (5 * 2 * (8 * 16 + 8 * 8 + 8 * 16) + 4 * 5 * 5 * 8));
}

TEST(LayersFile, WindowsOfTwoExtentsGroupsAndConcatenation) {
  const Json rectangular =
      layer(R"({"layer": "convolution", "name": "c", "channels": 6, "kernel": [1, 3], "groups": 3})");
  Json joined = images({rectangular,
                        layer(R"({"layer": "average_pool", "kernel": [3, 1], "stride": 1, "padding": [1, 0]})"),
                        layer(R"({"layer": "concatenation", "with": ["c", "c"]})"),
                        {{"layer", "global_average_pool"}},
                        loss});
  EXPECT_EQ(count_parameters(read(joined)), 6 * 1 * 3 + (18 * 4 + 4));
  EXPECT_EQ(model_flops_per_sample(read(joined), 0), 2.0 * 2 * (8 * 6) * 6 * 3 * 1 + 3.0 * 2 * 18 * 4);
  joined["layers"][2]["with"] = Json::array({"c", "input"});
  EXPECT_EQ(fault(joined), "layers-shape /layers/2") << "8 x 6 and 8 x 8";
  joined["layers"][2]["with"] = Json::array({"c", "d"});
  EXPECT_EQ(fault(joined), "layers-name /layers/2/with/1");
  joined["layers"][2]["with"] = Json::array({"c", 1});
  EXPECT_EQ(fault(joined), "layers-value /layers/2/with/1");
  joined["layers"][2]["with"] = Json::array();
  EXPECT_EQ(fault(joined), "layers-value /layers/2/with");
  joined["layers"][2].erase("with");
  EXPECT_EQ(fault(joined), "layers-missing /layers/2");
  Json wrong = joined;
  wrong["layers"][0]["groups"] = 2;
  EXPECT_EQ(fault(wrong), "layers-shape /layers/0/groups");
  wrong = joined, wrong["layers"][0]["kernel"] = {1, 2, 3};
  EXPECT_EQ(fault(wrong), "layers-value /layers/0/kernel");
  wrong = joined, wrong["layers"][0]["kernel"] = {1, 0};
  EXPECT_EQ(fault(wrong), "layers-value /layers/0/kernel/1");
  wrong = joined, wrong["layers"][0]["kernel"] = {1, 9};
  EXPECT_EQ(fault(wrong), "layers-shape /layers/0/kernel");
  wrong = joined, wrong["layers"][1]["padding"] = {2, 0};
  EXPECT_EQ(fault(wrong), "layers-shape /layers/1/padding");
}

TEST(LayersFile, BatchNormOfVectorsNeedsTwoSamples) {
  const NetworkDescription network = read(images({flatten, {{"layer", "batch_norm"}}, loss}));
  EXPECT_NE(network.shape->why_no_micro_batch(1, 0), "");
  EXPECT_EQ(network.shape->why_no_micro_batch(2, 0), "");
  EXPECT_EQ(read(images({{{"layer", "batch_norm"}}, flatten, loss})).shape->why_no_micro_batch(1, 0), "");
}

TEST(LayersFile, BatchNormOfSequencesNeedsTwoTokens) {
  const NetworkDescription network = read(
      tokens({layer(R"({"layer": "embedding", "channels": 4})"), layer(R"({"layer": "batch_norm", "name": "norm"})"),
              layer(R"({"layer": "loss", "per": "position"})")}));
  EXPECT_NE(network.shape->why_no_micro_batch(1, 1).find("'norm'"), std::string::npos);
  EXPECT_EQ(network.shape->why_no_micro_batch(2, 1), "");
  EXPECT_EQ(network.shape->why_no_micro_batch(1, 2), "");
}

TEST(LayersFile, AMicroBatchWhoseBytesNobodyCanCountIsRefused) {
  const NetworkDescription network = read(images({layer(R"({"layer": "upsample", "factor": 64})"),
                                                  layer(R"({"layer": "upsample", "factor": 64})"),
                                                  layer(R"({"layer": "upsample", "factor": 4})"),
                                                  layer(R"({"layer": "convolution", "channels": 1, "kernel": 1})"),
                                                  {{"layer", "global_average_pool"}},
                                                  loss}));
  EXPECT_EQ(network.shape->why_no_micro_batch(1, 0), "");
  EXPECT_EQ(network.shape->why_no_micro_batch(1 << 18, 0), "");
  EXPECT_NE(network.shape->why_no_micro_batch(1 << 24, 0).find("2^56"), std::string::npos);
}

TEST(LayersFile, AFaultIsShownBehindANul) {
  std::string said;
  Json file = images({flatten, loss});
  file["name"] = std::string("t\0x", 3);
  EXPECT_EQ(fault(file, &said), "layers-name /name");
  EXPECT_TRUE(said.starts_with("/name: 't\\x00x': ")) << said;
}

TEST(LayersFile, NeedsAFile) {
  EXPECT_TRUE(is_described("custom"));
  EXPECT_FALSE(is_described("resnet"));
  EXPECT_THROW(find_network("custom"), std::invalid_argument);
  EXPECT_THROW(described_network("resnet", "{}"), std::invalid_argument);
}

std::string example(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(TW_SOURCE_DIR "/models/custom/examples/" + name + ".json").rdbuf();
  return text.str();
}

// Whatever a file holds: a network with counts, or a fault with a code and a place.
TEST(LayersFile, HostileFilesAreRefusedOrRead) {
  std::mt19937 random(1);
  const auto below = [&](std::size_t count) { return static_cast<std::size_t>(random()) % count; };
  const std::vector<Json> values = {
      0,       -1, 1,       2,        3.5,        1e300,         9223372036854775807, true,
      nullptr, "", "input", "layer0", "position", Json::array(), Json::object(),      Json::array({1, 2})};
  std::size_t read_count = 0, refused = 0;
  for (const char* name :
       {"forecast", "image-classifier", "policy-network", "segmentation", "super-resolution", "time-series"}) {
    const std::string text = example(name);
    const Json good = Json::parse(text).flatten();
    ASSERT_EQ(fault(text), "read") << name;
    for (int round = 0; round < 1500; ++round) {
      std::string mutated = text;
      if (round % 3 == 0) {  // bytes
        for (std::size_t changes = 1 + below(3); changes > 0; --changes)
          mutated[below(mutated.size())] = static_cast<char>(below(256));
        if (below(4) == 0) mutated.resize(below(mutated.size()));
      } else {  // values, or a layer less
        Json whole = Json::parse(text);
        auto at = good.begin();
        std::advance(at, static_cast<std::ptrdiff_t>(below(good.size())));
        whole[Json::json_pointer(at.key())] = values[below(values.size())];
        if (round % 3 == 2 && whole["layers"].is_array() && !whole["layers"].empty())
          whole["layers"].erase(below(whole["layers"].size()));
        mutated = whole.dump(-1, ' ', false, Json::error_handler_t::replace);
      }
      const std::string found = fault(mutated);
      if (found != "read") {
        EXPECT_TRUE(found.starts_with("layers-")) << found;
        ++refused;
        continue;
      }
      ++read_count;
      const NetworkDescription network = described_network("custom", mutated);
      EXPECT_GT(count_parameters(network), 0);
      EXPECT_GT(model_flops_per_sample(network, network.default_seq_len), 0);
      network.shape->norms(2, network.default_seq_len);
    }
  }
  EXPECT_GT(read_count, 100u);
  EXPECT_GT(refused, 1000u);
}

}  // namespace
}  // namespace tw::models
