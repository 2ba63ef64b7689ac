// The bound on memory by arithmetic against the exact plan, for every network.
#include "models/catalog/memory.hpp"

#include <gtest/gtest.h>

#include <string>

#include "models/compute/precision.hpp"
#include "models/trainer.hpp"

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
      }
    }
  }
}

}  // namespace
}  // namespace tw::test
