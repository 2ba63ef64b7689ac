// Whole training steps on the reference device.
#include "models/trainer.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/models/support.hpp"

namespace tw::test {
namespace {

class EachNetwork : public testing::TestWithParam<std::tuple<std::string, DType>> {
 protected:
  TrainerConfig config() const {
    const auto& [name, precision] = GetParam();
    const NetworkDescription network = name == "gpt2" ? micro_gpt2() : micro_resnet(name == "resnet_pool");
    return micro_config(network, precision);
  }
};
INSTANTIATE_TEST_SUITE_P(Trainer, EachNetwork,
                         testing::Combine(testing::Values("gpt2", "resnet", "resnet_pool"),
                                          testing::Values(DType::float32, DType::bf16)),
                         [](const auto& param_info) {
                           return std::get<0>(param_info.param) + "_" + std::string(to_string(std::get<1>(param_info.param)));
                         });

TEST_P(EachNetwork, StartsAtChanceLevel) {
  const auto device = reference_device();
  TrainerConfig c = config();
  Trainer trainer(*device, c);
  const double classes = c.network.is_tokens() ? 19 : 5;
  const StepResult first = trainer.step({});
  EXPECT_NEAR(first.loss, std::log(classes), 0.3);
  EXPECT_GT(first.gradient_norm, 0);
}

}  // namespace
}  // namespace tw::test
