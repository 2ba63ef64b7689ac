// Known answers: parameter counts of the published checkpoints (Hugging Face, torchvision), FLOPs by the stated rule.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "models/catalog/facts.hpp"
#include "models/catalog/families.hpp"
#include "models/families/bert/description.hpp"
#include "models/families/gpt2/description.hpp"
#include "models/families/inception/description.hpp"
#include "models/families/llama/description.hpp"
#include "models/families/resnet/description.hpp"

namespace tw {

using namespace models;

namespace {

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(Catalog, ParameterCountsAreThePublishedOnes) {
  const std::map<std::string, std::int64_t> published = {
      {"gpt2-124m", 124'439'808},       {"gpt2-355m", 354'823'168},     {"gpt2-774m", 774'030'080},
      {"gpt2-1558m", 1'557'611'200},    {"bert-base", 110'106'428},     {"bert-large", 336'226'108},
      {"llama3.2-1b", 1'235'814'400},   {"llama3.2-3b", 3'212'749'824}, {"llama3.1-8b", 8'030'261'248},
      {"llama3.1-70b", 70'553'706'496}, {"resnet-50", 25'557'032},      {"inception-v3", 27'161'264},
      {"dlrm", 24'036'595'969}};
  for (const auto& [name, count] : published) EXPECT_EQ(count_parameters(find_network(name)), count) << name;
}

TEST(Catalog, TinyNetworksAreTiny) {
  // By hand. GPT-2: tables 2·128·128, a layer 2·256 + 4·128² + 8·128² + (3 + 1 + 4 + 1)·128, twice, final norm 256.
  EXPECT_EQ(count_parameters(find_network("gpt2-tiny")), 2 * 128 * 128 + 2 * (512 + 12 * 128 * 128 + 9 * 128) + 256);
  // Llama: tables 2·128·128, a layer 128·(4 + 2·2)·32 + 128² + 3·128·352 + 2·128, twice, final norm 128.
  EXPECT_EQ(count_parameters(find_network("llama-tiny")),
            2 * 128 * 128 + 2 * (128 * 256 + 128 * 128 + 3 * 128 * 352 + 256) + 128);
  // ResNet: stem 3·16·9; stages 16 (two bottlenecks), 32, 64, each with projection; batch norms; head 256·10 + 10.
  const int stem = 432 + 32;
  const int first =
      16 * 16 + 9 * 256 + 16 * 64 + 16 * 64 + 2 * (16 + 16 + 64 + 64) + 64 * 16 + 9 * 256 + 16 * 64 + 2 * 96;
  const int second = 64 * 32 + 9 * 1024 + 32 * 128 + 64 * 128 + 2 * (32 + 32 + 128 + 128);
  const int third = 128 * 64 + 9 * 4096 + 64 * 256 + 128 * 256 + 2 * (64 + 64 + 256 + 256);
  EXPECT_EQ(count_parameters(find_network("resnet-tiny")), stem + first + second + third + 2570);
}

TEST(Catalog, TokenFlopsFollowTheRule) {
  const std::map<std::string, double> gflop_per_token = {
      {"gpt2-124m", 0.798}, {"gpt2-355m", 2.272}, {"gpt2-774m", 4.916}, {"gpt2-1558m", 9.802}};
  for (const auto& [name, gflop] : gflop_per_token) {
    const NetworkDescription network = find_network(name);
    EXPECT_NEAR(model_flops_per_sample(network, 1024) / 1024 / 1e9, gflop, 0.0005) << name;
    // The rule itself, exactly: 6·N_mat + 6·L·C·T.
    const Gpt2Description& d = network.as<Gpt2Description>();
    const double c = d.width, matmul_weights = 12.0 * d.layers * c * c + static_cast<double>(d.vocabulary) * c;
    for (const std::int64_t seq : {64, 256, 1024}) {
      const auto t = static_cast<double>(seq);
      EXPECT_DOUBLE_EQ(model_flops_per_sample(network, seq), t * (6 * matmul_weights + 6.0 * d.layers * c * t)) << name;
    }
  }
}

TEST(Catalog, FlopsOfClicksFollowTheRule) {
  // 6 for each weight of the MLPs, less the first layer's input gradient; 6·width for each pair of features.
  const double bottom = 13 * 512 + 512 * 256 + 256 * 128,
               top = (128 + 27 * 26 / 2) * 1024 + 1024 * 1024 + 1024 * 512 + 512 * 256 + 256;
  EXPECT_DOUBLE_EQ(model_flops_per_sample(find_network("dlrm"), 0),
                   6 * (bottom + top) - 2 * 13 * 512 + 6.0 * 128 * 27 * 26 / 2);
  const NetworkDescription tiny = find_network("dlrm-tiny");
  EXPECT_DOUBLE_EQ(model_flops_per_sample(tiny, 0),
                   6.0 * (13 * 64 + 64 * 16 + (16 + 36) * 64 + 64 * 32 + 32) - 2 * 13 * 64 + 6.0 * 16 * 36);
  const std::vector<Product> list = products(find_network("dlrm"), 5, 0);
  ASSERT_EQ(list.size(), 8u);
  EXPECT_FALSE(list[0].backward_input);
  EXPECT_EQ(list[1].count, 2) << "512 to 256 in both MLPs";
  EXPECT_EQ(list[3].kind, Product::Kind::interaction);
  EXPECT_EQ(list[3].heads, 27);
  EXPECT_EQ(list[4].in_features, 479);
  EXPECT_TRUE(list[4].beside_fp8);
  EXPECT_FALSE(list[5].beside_fp8);
  EXPECT_EQ(list[7].name, "top_l.8");
  EXPECT_EQ(list[7].out_features, 1);
}

TEST(Catalog, TablesCanBeCutToRows) {
  const NetworkDescription whole = find_network("dlrm"), cut = limit_table_rows(whole, 100'000);
  EXPECT_EQ(whole.shape->tables().all_rows(), 187'767'399);
  EXPECT_EQ(cut.shape->tables().all_rows(), 921'165);
  EXPECT_EQ(count_parameters(cut), 921'165 * 128 + 2'368'897);
  EXPECT_EQ(count_dense_parameters(cut), 2'368'897);
  EXPECT_EQ(model_flops_per_sample(cut, 0), model_flops_per_sample(whole, 0));
  EXPECT_EQ(count_parameters(limit_table_rows(whole, std::int64_t{1} << 40)), count_parameters(whole));
  EXPECT_THROW(limit_table_rows(whole, 1), std::invalid_argument);
  EXPECT_THROW(limit_table_rows(find_network("gpt2-tiny"), 100), std::invalid_argument);
}

TEST(Catalog, FlopsOfGroupedQueriesFollowTheRule) {
  // 6·N_mat + 6·L·heads·head_dim·T: key and value heads that are shared save products, not scores.
  for (const char* name : {"llama-tiny", "llama3.2-1b", "llama3.2-3b", "llama3.1-8b", "llama3.1-70b"}) {
    const NetworkDescription network = find_network(name);
    const LlamaDescription& d = network.as<LlamaDescription>();
    const double norms = d.width * (2.0 * d.layers + 1);
    const double table = static_cast<double>(d.vocabulary) * d.width;  // looked up; a product only where it is tied
    const double matmul_weights = static_cast<double>(count_parameters(network)) - norms - (d.tied_head ? 0 : table);
    for (const std::int64_t seq : {64, 8192, 131072}) {
      const auto t = static_cast<double>(seq);
      EXPECT_DOUBLE_EQ(model_flops_per_sample(network, seq), t * (6 * matmul_weights + 6.0 * d.layers * d.width * t))
          << name;
    }
  }
}

TEST(Catalog, FlopsOfMaskedTokensFollowTheRule) {
  // A sequence of T: 6·N_layers·T + 12·L·C·T² (each token sees all), and the heads on M masked positions and one token.
  for (const char* name : {"bert-tiny", "bert-base", "bert-large"}) {
    const NetworkDescription network = find_network(name);
    const BertDescription& d = network.as<BertDescription>();
    const double c = d.width, layer = 4 * c * c + 2 * c * d.hidden;
    for (const std::int64_t seq : {8, 64, 128}) {
      const auto t = static_cast<double>(seq), masked = static_cast<double>(masked_positions(seq));
      EXPECT_DOUBLE_EQ(model_flops_per_sample(network, seq),
                       d.layers * (6 * layer * t + 12 * c * t * t) +
                           6 * masked * (c * c + c * static_cast<double>(d.vocabulary)) + 6 * (c * c + 2 * c))
          << name;
    }
  }
  EXPECT_EQ(masked_positions(512), 76);  // MLPerf's max_predictions_per_seq
  EXPECT_EQ(masked_positions(128), 19);
  EXPECT_EQ(masked_positions(3), 1);
}

TEST(Catalog, ProductsOfBert) {
  const std::vector<Product> list = products(find_network("bert-large"), 2, 512);
  ASSERT_EQ(list.size(), 9u);
  EXPECT_FALSE(list[1].causal);
  EXPECT_EQ(list[1].heads, 16);
  EXPECT_EQ(list[1].count, 24);
  EXPECT_EQ(list[5].rows, 2 * 76);
  EXPECT_TRUE(list[5].beside_fp8);
  EXPECT_EQ(list[6].rows, 2);
  EXPECT_EQ(list[7].rows, 2 * 76);
  EXPECT_EQ(list[7].out_features, 30522);
  EXPECT_EQ(list[8].out_features, 2);
}

TEST(Catalog, BetweenProductsOfBertTheMaskedHeadHasShapesOfItsOwn) {
  const std::shared_ptr<const NetworkShape> shape = find_network("bert-large").shape;
  const std::vector<Norm> norms = shape->norms(2, 512);
  ASSERT_EQ(norms.size(), 2u);
  EXPECT_EQ(norms[1].rows, 2 * 76);
  EXPECT_EQ(norms[1].channels, 1024);
  const std::vector<Elementwise> all = shape->elementwise(2, 512);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[1].kind, Elementwise::Kind::gelu);
  EXPECT_EQ(all[1].rows, 2 * 76);
  EXPECT_EQ(all[1].width, 1024);
}

TEST(Catalog, PoolsOfCnnsAreAllThere) {
  const auto pools = [](const char* network) {
    std::vector<std::string> found;
    for (const Elementwise& e : find_network(network).shape->elementwise(2, 0)) {
      EXPECT_EQ(e.batch, 2);
      if (e.kind == Elementwise::Kind::concatenation) continue;
      found.push_back((e.kind == Elementwise::Kind::max_pool ? "max " : "average ") + e.image.brief() + "_" +
                      std::to_string(e.channels) + (e.kernel == 0 ? "" : " " + e.kernel.brief()));
    }
    return found;
  };
  EXPECT_EQ(pools("resnet-50"), (std::vector<std::string>{"max 112_64 3", "average 7_2048"}));
  EXPECT_EQ(pools("resnet-tiny"), (std::vector<std::string>{"average 4_256"}));
  const std::vector<std::string> inception = pools("inception-v3");
  for (const char* one : {"max 147_64 3", "average 17_768 3", "average 17_768 5", "average 1_768", "average 8_2048"})
    EXPECT_EQ(std::ranges::count(inception, one), 1) << one;
}

TEST(Catalog, WhatIsTimedBetweenProductsHasANameOfItsOwn) {
  for (const NetworkDescription& network : catalog()) {
    std::set<std::string> names;
    for (const Norm& n : network.shape->norms(2, network.default_seq_len))
      EXPECT_TRUE(names.insert(std::to_string(static_cast<int>(n.kind)) + "/" + n.name).second)
          << network.name << ": norm " << n.name;
    names.clear();
    for (const Elementwise& e : network.shape->elementwise(2, network.default_seq_len)) {
      std::string name = std::to_string(static_cast<int>(e.kind)) + "/" + e.name;
      if (e.channels > 0)
        name += e.image.brief() + "_" + std::to_string(e.width) + "_" + std::to_string(e.channels) + "k" +
                e.kernel.brief() + "s" + e.stride.brief();
      EXPECT_TRUE(names.insert(name).second) << network.name << ": " << name;
    }
  }
}

TEST(Catalog, ProductsOfLlama) {
  const std::vector<Product> list = products(find_network("llama3.1-8b"), 2, 256);
  ASSERT_EQ(list.size(), 6u);
  EXPECT_EQ(list[0].out_features, 4096 + 2 * 8 * 128);
  EXPECT_EQ(list[1].kind, Product::Kind::attention);
  EXPECT_EQ(list[1].heads, 32);
  EXPECT_EQ(list[1].kv_heads, 8);
  EXPECT_EQ(list[1].head_dim, 128);
  EXPECT_EQ(list[3].out_features, 2 * 14336);
  EXPECT_EQ(list[4].in_features, 14336);
  EXPECT_EQ(list[5].out_features, 128256);
}

TEST(Catalog, ImageFlopsFollowTheRule) {
  const NetworkDescription network = find_network("resnet-50");
  double forward_multiply_adds = 0;
  for (const Product& p : products(network, 1, 0)) forward_multiply_adds += p.forward_flops() / 2;
  EXPECT_NEAR(forward_multiply_adds / 1e9, 4.089, 0.0005);
  EXPECT_NEAR(model_flops_per_sample(network, 0) / 1e9, 24.30, 0.005);
  const double first_layer = 2.0 * 112 * 112 * 64 * 7 * 7 * 3;
  EXPECT_DOUBLE_EQ(model_flops_per_sample(network, 0), 6 * forward_multiply_adds - first_layer);
  // Computed again: forward of everything but the head, 2048 → 1000; of the stem and the first bottleneck, which has a
  // projection; of nothing.
  EXPECT_EQ(layer_count(network), 16);
  EXPECT_DOUBLE_EQ(recomputed_flops_per_sample(network, 0, 16), 2 * forward_multiply_adds - 2.0 * 2048 * 1000);
  EXPECT_DOUBLE_EQ(recomputed_flops_per_sample(network, 0, 1),
                   first_layer + 2.0 * 56 * 56 * (64 * 256 + 64 * 64 + 9 * 64 * 64 + 64 * 256));
  EXPECT_EQ(recomputed_flops_per_sample(network, 0, 0), 0);
  const NetworkDescription gpt2 = find_network("gpt2-124m");
  EXPECT_EQ(layer_count(gpt2), 12);
  EXPECT_DOUBLE_EQ(recomputed_flops_per_sample(gpt2, 1024, 3), 3.0 * 1024 * (24.0 * 768 * 768 + 2.0 * 1024 * 768));
  EXPECT_DOUBLE_EQ(recomputed_flops_per_sample(gpt2, 1024, 12), 4 * recomputed_flops_per_sample(gpt2, 1024, 3));
}

TEST(Catalog, ProductsAddUpToTheModelFlops) {
  for (const NetworkDescription& network : catalog()) {
    const std::int64_t seq = network.default_seq_len;
    for (const std::int64_t batch : {1, 4}) {
      double total = 0;
      for (const Product& p : products(network, batch, seq)) total += p.flops();
      EXPECT_DOUBLE_EQ(total, static_cast<double>(batch) * model_flops_per_sample(network, seq)) << network.name;
    }
  }
}

TEST(Catalog, ProductsOfGpt2) {
  EXPECT_THROW(products(find_network("gpt2-124m"), std::int64_t{1} << 62, 1024), std::invalid_argument);
  const std::vector<Product> list = products(find_network("gpt2-124m"), 4, 256);
  ASSERT_EQ(list.size(), 6u);
  EXPECT_EQ(list[0].rows, 1024);
  EXPECT_EQ(list[0].in_features, 768);
  EXPECT_EQ(list[0].out_features, 2304);
  EXPECT_EQ(list[0].count, 12);
  EXPECT_EQ(list[1].kind, Product::Kind::attention);
  EXPECT_EQ(list[1].batch, 4);
  EXPECT_EQ(list[1].head_dim, 64);
  EXPECT_EQ(list[5].kind, Product::Kind::classifier);
  EXPECT_EQ(list[5].out_features, 50257);
  EXPECT_EQ(list[5].count, 1);
}

TEST(Catalog, ProductsOfResnet50) {
  const std::vector<Product> list = products(find_network("resnet-50"), 8, 0);
  int convolutions = 0, without_input_gradient = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Product& p = list[i];
    if (p.kind != Product::Kind::convolution) continue;
    convolutions += p.count;
    without_input_gradient += p.backward_input ? 0 : p.count;
    EXPECT_EQ(p.batch, 8);
    for (std::size_t j = 0; j < i; ++j) {
      const Product& q = list[j];
      EXPECT_FALSE(p.height == q.height && p.in_channels == q.in_channels && p.out_channels == q.out_channels &&
                   p.kernel == q.kernel && p.stride == q.stride)
          << "equal shapes are merged";
    }
  }
  EXPECT_EQ(convolutions, 53);
  EXPECT_EQ(without_input_gradient, 1);
  EXPECT_FALSE(list.front().backward_input);
  EXPECT_EQ(list.back().kind, Product::Kind::classifier);
  EXPECT_EQ(list.back().rows, 8);
  // v1.5: the stride sits in the 3×3, so the 1×1 before it still sees the full extent.
  bool strided_3x3 = false;
  for (const Product& p : list) strided_3x3 = strided_3x3 || (p.kernel == 3 && p.stride == 2 && p.height == 56);
  EXPECT_TRUE(strided_3x3);
}

TEST(Catalog, UnknownNetworkNamesAllAndSuggestsTheNearest) {
  const std::string close = refusal([] { find_network("gpt2-125m"); });
  EXPECT_NE(close.find("unknown network 'gpt2-125m', did you mean 'gpt2-124m'?"), std::string::npos) << close;
  EXPECT_EQ(close.find('\n'), std::string::npos);
  for (const NetworkDescription& network : catalog()) EXPECT_NE(close.find(network.name), std::string::npos) << close;
  const std::string resnet = refusal([] { find_network("resnet50"); });
  EXPECT_NE(resnet.find("did you mean 'resnet-50'?"), std::string::npos) << resnet;
  const std::string far = refusal([] { find_network("alexnet-zzzzzz"); });
  EXPECT_EQ(far.find("did you mean"), std::string::npos) << far;
}

TEST(Catalog, CutLayersOfATransformer) {
  const NetworkDescription whole = find_network("gpt2-124m");
  const NetworkDescription cut = cut_layers(whole, 2);
  EXPECT_EQ(cut.as<Gpt2Description>().layers, 2);
  EXPECT_EQ(cut.as<Gpt2Description>().width, 768);
  EXPECT_EQ(count_parameters(whole) - count_parameters(cut), 10 * 7'087'872);
  EXPECT_EQ(cut_layers(whole, 12).as<Gpt2Description>().layers, 12);
  const std::string many = refusal([&] { cut_layers(whole, 13); });
  EXPECT_NE(many.find("12 transformer layers"), std::string::npos) << many;
  EXPECT_NE(refusal([&] { cut_layers(whole, 0); }).find("choose 1 to 12"), std::string::npos);
}

TEST(Catalog, CutLayersOfAResnetFillsStageByStage) {
  const NetworkDescription whole = find_network("resnet-50");
  const auto blocks = [&](int layers) { return cut_layers(whole, layers).as<ResnetDescription>().blocks; };
  EXPECT_EQ(blocks(4), (std::vector<int>{1, 1, 1, 1}));
  EXPECT_EQ(blocks(5), (std::vector<int>{2, 1, 1, 1}));
  EXPECT_EQ(blocks(8), (std::vector<int>{3, 3, 1, 1}));
  EXPECT_EQ(blocks(16), (std::vector<int>{3, 4, 6, 3}));
  EXPECT_NE(refusal([&] { cut_layers(whole, 3); }).find("choose 4 to 16"), std::string::npos);
  EXPECT_NE(refusal([&] { cut_layers(whole, 17); }).find("16 bottlenecks"), std::string::npos);
}

TEST(Catalog, InceptionIsThePublishedNetwork) {
  const NetworkDescription network = find_network("inception-v3");
  const family::inception::Layout all = family::inception::layout(network.as<InceptionDescription>());
  // Table 1 of the paper: maps of 35, 17 and 8 pixels with 288, 768 and 2048 channels; torchvision's first two modules
  // have 256 and 288.
  std::vector<std::pair<std::int64_t, std::int64_t>> outputs;
  std::string names;
  for (const family::inception::Module& module : all.modules) {
    outputs.emplace_back(module.out_size, module.out_channels);
    names += module.name.substr(6) + " ";
  }
  EXPECT_EQ(names, "5b 5c 5d 6a 6b 6c 6d 6e 7a 7b 7c ");
  EXPECT_EQ(outputs, (std::vector<std::pair<std::int64_t, std::int64_t>>{{35, 256},
                                                                         {35, 288},
                                                                         {35, 288},
                                                                         {17, 768},
                                                                         {17, 768},
                                                                         {17, 768},
                                                                         {17, 768},
                                                                         {17, 768},
                                                                         {8, 1280},
                                                                         {8, 2048},
                                                                         {8, 2048}}));
  EXPECT_EQ(all.auxiliary.size, 17);
  EXPECT_EQ(all.auxiliary.units.back().out_size(), 1);
  // Without the auxiliary head (of 1×1 and 5×5 convolutions and a classifier) it has 23,834,568 parameters, and
  // 5.713 · 10⁹ multiply-adds (torchvision's documentation).
  const std::int64_t auxiliary = 768 * 128 + 2 * 128 + 25 * 128 * 768 + 2 * 768 + 768 * 1000 + 1000;
  EXPECT_EQ(count_parameters(network) - auxiliary, 23'834'568);
  double multiply_adds = 0, convolutions = 0;
  for (const Product& p : products(network, 1, 0)) {
    multiply_adds += p.forward_flops() / 2;
    convolutions += p.kind == Product::Kind::convolution ? p.count : 0;
  }
  const double of_auxiliary = 25.0 * 768 * 128 + 25.0 * 128 * 768 + 768.0 * 1000;
  EXPECT_NEAR((multiply_adds - of_auxiliary) / 1e9, 5.713, 0.0005);
  EXPECT_EQ(convolutions, 96);
  EXPECT_DOUBLE_EQ(model_flops_per_sample(network, 0), 6 * multiply_adds - 2.0 * 149 * 149 * 9 * 3 * 32);
}

TEST(Catalog, CutLayersOfAnInceptionKeepsAModuleOfEachKind) {
  const NetworkDescription whole = find_network("inception-v3");
  const auto modules = [&](int layers) {
    const auto d = cut_layers(whole, layers).as<InceptionDescription>();
    return std::vector<int>{static_cast<int>(d.pool_features.size()), static_cast<int>(d.factorised_channels.size()),
                            d.wide_modules};
  };
  EXPECT_EQ(modules(5), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(modules(8), (std::vector<int>{3, 2, 1}));
  EXPECT_EQ(modules(11), (std::vector<int>{3, 4, 2}));
  EXPECT_NE(refusal([&] { cut_layers(whole, 4); }).find("choose 5 to 11"), std::string::npos);
  EXPECT_NE(refusal([&] { cut_layers(whole, 12); }).find("11 modules"), std::string::npos);
}

TEST(Catalog, EveryNetworkIsWellFormed) {
  std::map<std::string, int> seen;
  for (const NetworkDescription& network : catalog()) {
    EXPECT_EQ(++seen[network.name], 1) << network.name;
    EXPECT_GT(network.default_micro_batch, 0);
    if (network.has_sequence()) {
      EXPECT_LE(network.default_seq_len, network.data().longest_sequence);
      EXPECT_GT(network.default_seq_len, 0);
    } else {
      EXPECT_EQ(network.default_seq_len, 0);
    }
    if (network.shape->family() == "gpt2") {
      EXPECT_EQ(network.as<Gpt2Description>().width % network.as<Gpt2Description>().heads, 0);
    }
  }
  EXPECT_STRNE(flops_rule(), "");
}

TEST(Facts, AreMembersOfAnObjectInTheirOrder) {
  const std::vector<Fact> facts = {{"rate", 0.1f},
                                   {"layers", std::int64_t{2}},
                                   {"tied", true},
                                   {"activation", std::string("a\"\n")},
                                   {"sizes", std::vector<int>{3, 4}},
                                   {"none", std::numeric_limits<float>::quiet_NaN()}};
  EXPECT_EQ(json_of(facts).dump(),
            R"({"rate":0.1,"layers":2,"tied":true,"activation":"a\"\n","sizes":[3,4],"none":null})");
  for (const float value : {3e-3f, 1e-8f, 16777216.0f, 0.95f})
    EXPECT_EQ(static_cast<float>(shortest_decimal(value)), value);
}

}  // namespace
}  // namespace tw
