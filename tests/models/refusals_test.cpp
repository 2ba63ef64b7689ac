// What a trainer refuses before it allocates anything.
#include <gtest/gtest.h>

#include "models/compute/error.hpp"
#include "tests/models/support.hpp"

namespace tw::test {

using namespace models;

namespace {

TEST(Trainer, RefusesWhatDoesNotFit) {
  const auto device = reference_device();
  const auto refused = [&](auto change) {
    TrainerConfig config = micro_config(micro_gpt2());
    change(config);
    EXPECT_THROW(plan_memory(config), Error);
    EXPECT_THROW(Trainer(*device, config), Error);
  };
  refused([](TrainerConfig& c) { c.micro_batch = 0; });
  refused([](TrainerConfig& c) { c.accumulate = 0; });
  refused([](TrainerConfig& c) { c.recomputed_layers = layer_count(c.network) + 1; });
  refused([](TrainerConfig& c) { c.seq_len = 10; });
  refused([](TrainerConfig& c) { c.rank = 1; });
  refused([](TrainerConfig& c) { c.optimizer.final_learning_rate_share = 0; });
  refused([](TrainerConfig& c) { change_gpt2(c.network, [](Gpt2Description& sizes) { sizes.heads = 3; }); });
}

// 2^54 + 1 samples of 1024 tokens have 1024 rows modulo 2^64: the plan of one sample, and memory for no more.
TEST(Trainer, RefusesSizesThatWrap) {
  const auto device = reference_device();
  for (const char* name : {"gpt2-124m", "resnet-50"}) {
    for (const std::int64_t absurd : {(std::int64_t{1} << 54) + 1, std::int64_t{1} << 62}) {
      const auto refused = [&](auto change) {
        TrainerConfig config = micro_config(find_network(name));
        config.seq_len = config.network.has_sequence() ? 1024 : 0;
        change(config);
        try {
          plan_memory(config);
          ADD_FAILURE() << name << ": planned";
        } catch (const Error& error) {
          EXPECT_EQ(error.failure(), Failure::usage);
        }
        EXPECT_THROW(Trainer(*device, config), Error);
      };
      refused([&](TrainerConfig& c) { c.micro_batch = absurd; });
      refused([&](TrainerConfig& c) { c.accumulate = absurd; });
      refused([&](TrainerConfig& c) { c.micro_batch = c.accumulate = std::int64_t{1} << 31; });
    }
  }
}

}  // namespace
}  // namespace tw::test
