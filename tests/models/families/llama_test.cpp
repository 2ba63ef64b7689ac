// What only Llama has: rotary frequencies, and parameters that are one product here and several in the public
// definition.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "models/compute/error.hpp"
#include "models/export/step_export.hpp"
#include "models/families/build_blocks.hpp"
#include "models/network/parameters.hpp"
#include "tests/models/support.hpp"

namespace tw::test {

using namespace models;

namespace {

TEST(Llama, FrequenciesFollowTheRule) {
  // Wavelengths in positions: below 8192 / 4 as they are, above 8192 slowed down by the factor, between them a blend.
  const double two_pi = 2 * std::acos(-1.0);
  for (const auto& [name, factor] : {std::pair("llama3.1-8b", 8), {"llama3.2-1b", 32}}) {
    const LlamaDescription d = find_network(name).as<LlamaDescription>();
    const std::vector<double> frequencies = family::llama::rotary_frequencies(d);
    ASSERT_EQ(frequencies.size(), static_cast<std::size_t>(d.head_dim() / 2));
    int kept = 0, slowed = 0, blended = 0;
    for (std::size_t i = 0; i < frequencies.size(); ++i) {
      const double plain = std::pow(500000.0, -2.0 * static_cast<double>(i) / d.head_dim()),
                   wavelength = two_pi / plain;
      if (wavelength < 2048) {
        EXPECT_DOUBLE_EQ(frequencies[i], plain);
        ++kept;
      } else if (wavelength > 8192) {
        EXPECT_DOUBLE_EQ(frequencies[i], plain / factor);
        ++slowed;
      } else {
        const double smooth = (8192 / wavelength - 1) / 3;
        EXPECT_NEAR(frequencies[i], (1 - smooth) * plain / factor + smooth * plain, 1e-15);
        ++blended;
      }
    }
    EXPECT_GT(kept, 0) << name;
    EXPECT_GT(slowed, 0) << name;
    EXPECT_GT(blended, 0) << name;
  }
}

TEST(Llama, TinyHasFrequenciesOfAllThreeKinds) {
  const LlamaDescription d = find_network("llama-tiny").as<LlamaDescription>();
  const std::vector<double> frequencies = family::llama::rotary_frequencies(d);
  EXPECT_EQ(frequencies[0], 1);
  const double second = std::pow(500000.0, -1.0 / 16), third = std::pow(500000.0, -2.0 / 16);
  EXPECT_LT(frequencies[1], second);
  EXPECT_GT(frequencies[1], second / 8);
  EXPECT_DOUBLE_EQ(frequencies[2], third / 8);
}

TEST(Llama, RefusesHeadsAndSequencesThatDoNotFit) {
  const auto refusal = [](LlamaDescription d, std::int64_t seq_len) {
    NetworkDescription network = micro_llama();
    network.shape = family::llama::shape(d);
    try {
      build_blocks(network, Precision::float32, 1, seq_len);
    } catch (const Error& error) {
      EXPECT_EQ(error.failure(), Failure::usage);
      return std::string(error.what());
    }
    return std::string();
  };
  LlamaDescription d = micro_llama().as<LlamaDescription>();
  EXPECT_EQ(refusal(d, 9), "");
  EXPECT_NE(refusal(d, 10).find("sequence length 10"), std::string::npos);
  d.kv_heads = 3;
  EXPECT_NE(refusal(d, 9).find("4 heads"), std::string::npos);
  d.kv_heads = 2, d.heads = 16;  // heads of width 1
  EXPECT_NE(refusal(d, 9).find("16 heads"), std::string::npos);
}

TEST(Llama, IsExportedUnderThePublicNames) {
  const NetworkDescription network = micro_llama(false);
  const auto device = reference_device();
  const auto stream = device->create_stream();
  const auto blocks = build_blocks(network, Precision::float32, 1, 7);
  ParameterStore store(*device, DType::float32, blocks);
  store.initialise(*stream, 1);
  std::map<std::string, SafeTensor> tensors;
  std::int64_t count = 0;
  for (const SafeTensor& tensor : exported_parameters(*device, *stream, store, ExportKind::master, 1)) {
    EXPECT_TRUE(tensors.emplace(tensor.name, tensor).second) << tensor.name;
    std::int64_t elements = 1;
    for (const std::int64_t extent : tensor.dims) elements *= extent;
    count += elements;
  }
  EXPECT_EQ(count, count_parameters(network));
  using Shape = std::vector<std::int64_t>;
  const std::map<std::string, Shape> of_a_layer = {
      {"input_layernorm", {16}},     {"self_attn.q_proj", {16, 16}}, {"self_attn.k_proj", {8, 16}},
      {"self_attn.v_proj", {8, 16}}, {"self_attn.o_proj", {16, 16}}, {"post_attention_layernorm", {16}},
      {"mlp.gate_proj", {48, 16}},   {"mlp.up_proj", {48, 16}},      {"mlp.down_proj", {16, 48}}};
  std::set<std::string> names = {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"};
  for (const char* layer : {"model.layers.0.", "model.layers.1."}) {
    for (const auto& [name, shape] : of_a_layer) {
      const std::string full = layer + name + ".weight";
      names.insert(full);
      ASSERT_TRUE(tensors.contains(full)) << full;
      EXPECT_EQ(tensors.at(full).dims, shape) << full;
    }
  }
  for (const auto& [name, tensor] : tensors) EXPECT_TRUE(names.contains(name)) << name;
  // The parts are the rows of the packed matrix in order.
  for (const Parameter& parameter : store.parameters()) {
    if (parameter.spec.exported_as.empty()) continue;
    std::vector<char> joined;
    for (const NamedRows& part : parameter.spec.exported_as) {
      const std::vector<char> values = tensors.at(part.name).load();
      joined.insert(joined.end(), values.begin(), values.end());
    }
    const std::vector<float> whole = values_of(*device, parameter.master);
    ASSERT_EQ(joined.size(), whole.size() * sizeof(float));
    EXPECT_TRUE(std::equal(joined.begin(), joined.end(), reinterpret_cast<const char*>(whole.data())))
        << parameter.spec.name;
  }
}

TEST(Llama, PartsMustAddUpToTheMatrix) {
  ParameterSpec spec;
  spec.name = "packed";
  spec.dims = {5, 2};
  spec.exported_as = {{"a", 2}, {"b", 2}};
  EXPECT_THROW(exported_parts(spec), Error);
  spec.exported_as.push_back({"c", 1});
  ASSERT_EQ(exported_parts(spec).size(), 3u);
  EXPECT_EQ(exported_parts(spec)[2].first, 4);
}

}  // namespace
}  // namespace tw::test
