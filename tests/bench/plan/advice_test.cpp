// Why a point cannot be trained in fp8, and what helps where it needs too much memory.
#include <gtest/gtest.h>

#include <string>

#include "bench/plan/abilities.hpp"
#include "models/catalog/memory.hpp"

namespace tw {
using namespace bench;
namespace {

TEST(Abilities, Fp8WantsRowsAndFeaturesThatAreMultiplesOf16) {
  const auto why = [](const char* model, std::int64_t micro_batch, std::vector<std::int64_t> seq_len) {
    Request request;
    Axes& axes = request.axes.emplace_back();
    axes.model = {model}, axes.precision = {"fp8"}, axes.micro_batch = {micro_batch}, axes.seq_len = seq_len;
    return obstacle(make_plan(request, 1, "cuda").points.front(), "cuda", Abilities(), 1);
  };
  EXPECT_NE(why("bert-tiny", 3, {9}).find("has 27 rows of 128 to 384 features: choose another micro-batch or bf16"),
            std::string::npos)
      << why("bert-tiny", 3, {9});
  EXPECT_EQ(why("bert-tiny", 3, {16}), "");
  EXPECT_NE(why("dlrm-tiny", 7, {}).find("has 7 rows"), std::string::npos) << why("dlrm-tiny", 7, {});
  EXPECT_EQ(why("dlrm-tiny", 16, {}), "") << "the layer of 13 dense features computes in bf16";
}

TEST(Abilities, AdviceOnMemoryNamesOnlyWhatReducesIt) {
  const auto point_of = [](const char* model, int ranks) {
    Request request;
    request.axes.emplace_back().model = {model};
    return make_plan(request, ranks, "cpu").points.front();
  };
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  const std::string tables = advice_on_memory(point_of("dlrm", 1));
  EXPECT_TRUE(has(tables, "use --table-rows-at-most N with N below 39979771 ")) << tables;
  EXPECT_FALSE(has(tables, "--micro-batch") || has(tables, "--recompute") || has(tables, "--layers")) << tables;
  // 23.2 GiB of weights a rank, and activations.
  const Point large = point_of("gpt2-1558m", 2);
  const double gib = 1024.0 * 1024 * 1024;
  const std::string shared = advice_on_memory(large, false, MemoryLimit{40 * gib, 2});
  EXPECT_TRUE(has(shared, "fewer ranks per node or --layers N with N up to ")) << shared;
  EXPECT_FALSE(has(shared, "--micro-batch") || has(shared, "--recompute")) << shared;
  EXPECT_FALSE(has(advice_on_memory(large, false, MemoryLimit{20 * gib, 1}), "fewer ranks"));
  EXPECT_EQ(advice_on_memory(large, false, MemoryLimit{0.1 * gib, 1}), "use a smaller network");
  // By the memory that the caller knows.
  const auto known = [&](double of_layer) {
    return advice_on_memory(large, false, MemoryLimit{40 * gib, 1, [=](const Point& one) {
                                                        return models::layer_count(one.network) * of_layer;
                                                      }});
  };
  EXPECT_EQ(known(2 * gib), "use --layers N with N up to 20 or a smaller network");
  EXPECT_EQ(known(50 * gib), "use a smaller network");
  // Where all layers are recomputed already.
  Point recomputed = point_of("llama-tiny", 1);
  recomputed.recomputed_layers = 2, recomputed.micro_batch = 65536;
  EXPECT_TRUE(has(advice_on_memory(recomputed), "use a smaller --micro-batch or ")) << advice_on_memory(recomputed);
  // The N that is named fits, one more does not.
  const auto bytes_of = [](const Point& one) {
    return models::least_memory(one.network, one.precision, one.micro_batch, one.seq_len, one.recomputed_layers)
        .total();
  };
  const auto most_named = [](const std::string& text) {
    const std::string words = "--micro-batch N with N up to ";
    const std::size_t at = text.find(words);
    return at == std::string::npos ? 0 : std::stoll(text.substr(at + words.size()));
  };
  for (const int recomputed_layers : {0, 2}) {
    Point many = point_of("llama-tiny", 1);
    many.micro_batch = 100'000, many.recomputed_layers = recomputed_layers;
    const std::string advice = advice_on_memory(many, false, MemoryLimit{1 * gib, 1});
    Point fitting = many;
    fitting.micro_batch = most_named(advice);
    EXPECT_TRUE(bytes_of(fitting) <= 1 * gib && fitting.micro_batch > 1) << advice;
    ++fitting.micro_batch;
    EXPECT_GT(bytes_of(fitting), 1 * gib) << advice;
  }
  // Where the samples of a step are fixed, the size that is named divides them.
  const auto size_named = [](const std::string& text) {
    const std::string words = "--micro-batch ";
    return std::stoll(text.substr(text.find(words) + words.size()));
  };
  Point accumulated = point_of("llama-tiny", 1);
  accumulated.micro_batch = 100'000, accumulated.accumulate = 10;
  const std::string of_million = advice_on_memory(accumulated, false, MemoryLimit{1 * gib, 1});
  const long long size = size_named(of_million);
  EXPECT_TRUE(size > 1 && 1'000'000 % size == 0) << of_million;
  accumulated.micro_batch = size;
  EXPECT_LE(bytes_of(accumulated), 1 * gib);
  Point trained = point_of("llama-tiny", 1);
  trained.task = models::task_of("llama-tiny"), trained.micro_batch = trained.task->global_batch;
  accumulated = trained, accumulated.micro_batch = trained.micro_batch - 1;
  const std::string of_task = advice_on_memory(trained, false, MemoryLimit{bytes_of(accumulated), 1});
  EXPECT_EQ(size_named(of_task), trained.micro_batch / 2) << of_task;
  const std::string up_to = "--layers N with N up to ";
  const int layers = std::stoi(shared.substr(shared.find(up_to) + up_to.size()));
  for (const int more : {0, 1}) {
    Point cut = large;
    cut.network = models::cut_layers(cut.network, layers + more);
    const double bytes =
        models::least_memory(cut.network, cut.precision, cut.micro_batch, cut.seq_len, 0, cut.ranks).total();
    EXPECT_EQ(2 * bytes <= 40 * gib, more == 0) << layers;
  }
}

}  // namespace
}  // namespace tw
