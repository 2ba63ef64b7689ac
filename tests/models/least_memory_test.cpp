// The bound on memory by arithmetic against the exact plan, for every network.
#include "models/catalog/memory.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "models/compute/precision.hpp"
#include "models/families/build_blocks.hpp"
#include "models/trainer.hpp"
#include "tests/models/support.hpp"

namespace tw::test {

using namespace models;

namespace {

TEST(Memory, TheLeastByArithmeticIsBelowThePlanAndMostOfIt) {
  for (const NetworkDescription& network : catalog()) {
    for (const char* precision : {"float32", "bf16", "fp8"}) {
      for (const int recomputed : {0, 1, layer_count(network)}) {
        TrainerConfig config;
        config.network = network;
        config.precision = *parse_precision(precision);
        config.micro_batch = 4;
        config.seq_len = network.default_seq_len;
        config.optimizer = default_optimizer(network);
        if (config.precision == Precision::fp8 && !why_no_fp8(network).empty()) continue;
        config.recomputed_layers = recomputed;
        const MemoryPlan plan = plan_memory(config, 1);
        const LeastMemory least = least_memory(network, precision, 4, config.seq_len, recomputed);
        const std::string which = network.name + " " + precision + " " + std::to_string(recomputed);
        EXPECT_LE(least.parameters, static_cast<double>(plan.parameters + plan.gradients)) << which;
        EXPECT_LE(least.optimizer, static_cast<double>(plan.optimizer_state)) << which;
        EXPECT_LE(least.activations, static_cast<double>(plan.activations)) << which;
        EXPECT_GE(least.parameters + least.optimizer,
                  0.9 * static_cast<double>(plan.parameters + plan.gradients + plan.optimizer_state))
            << which;
        if (recomputed == 0 && config.precision != Precision::fp8) {
          EXPECT_GE(least.activations, 0.3 * static_cast<double>(plan.activations)) << which;
        }
        if (recomputed > 0) {
          EXPECT_GE(least.activations, 0.02 * static_cast<double>(plan.activations)) << which;
        }
      }
    }
  }
}

double elements_of(const std::vector<ActivationSpec>& specs) {
  double sum = 0;
  for (const ActivationSpec& spec : specs) sum += static_cast<double>(spec.dims.count());
  return sum;
}

/// What a family says about its blocks is what these hand on, and no more than they save.
void expect_as_built(const NetworkDescription& network) {
  const auto family = std::ranges::find(families(), network.shape->family(), &std::pair<std::string, Family>::first);
  ASSERT_NE(family, families().end());
  constexpr std::int64_t micro_batch = 3;
  const std::int64_t seq_len = network.default_seq_len;
  const std::vector<BlockElements> said = family->second.blocks(network, micro_batch, seq_len);
  const auto built = build_blocks(network, Precision::bf16, micro_batch, seq_len);
  ASSERT_EQ(said.size() + 1, built.size()) << network.name;
  EXPECT_EQ(static_cast<int>(said.size()), layer_count(network) + 1) << network.name;
  for (std::size_t i = 0; i < said.size(); ++i) {
    EXPECT_EQ(said[i].output, elements_of({built[i]->output()})) << network.name << " " << built[i]->name();
    EXPECT_LE(said[i].saved, elements_of(built[i]->saved())) << network.name << " " << built[i]->name();
  }
}

TEST(Memory, BlocksAreAsTheirFamilySays) {
  for (const NetworkDescription& network : catalog()) expect_as_built(network);
  for (const char* name : {"forecast", "policy-network", "segmentation", "super-resolution", "time-series"})
    expect_as_built(custom_example(name));
}

// Two layers of width 128 at 128 tokens: the inputs of both and of the head, and what one of them saves.
TEST(Memory, RecomputedLayersStillKeepTheirInputs) {
  const NetworkDescription network = find_network("llama-tiny");
  const auto at = [&](std::int64_t micro_batch) {
    return least_memory(network, "float32", micro_batch, 128, 2).activations;
  };
  const double rows = 8 * 128, of_layer = 128 + (128 + 2 * 64) + 128 + 128 + 352;
  EXPECT_EQ(at(8), 4 * rows * (3 * 128 + of_layer));
  EXPECT_EQ(at(16), 2 * at(8)) << "a smaller micro-batch helps";
}

}  // namespace
}  // namespace tw::test
