// The tiny networks learn: least-squares slope of the loss below zero over 40 steps, three seeds, both precisions.
#include <gtest/gtest.h>

#include "models/compute/error.hpp"
#include "models/data/synthetic_data.hpp"
#include "models/trainer.hpp"
#include "tests/models/support.hpp"
#include "tests/support/needs_cpu.hpp"

namespace tw::test {

using namespace models;

namespace {

using Case = std::tuple<std::string, Precision, std::uint64_t>;
class Learning : public testing::TestWithParam<Case> {};

TEST_P(Learning, LossFalls) {
  TW_NEEDS_CPU();
  const auto& [name, precision, seed] = GetParam();
  const auto device = create_device("cpu", {0, 1});  // one thread: many tests run at once
  if (!device->why_unsupported(precision).empty()) GTEST_SKIP() << device->why_unsupported(precision);
  TrainerConfig config = micro_config(find_network(name), precision);
  config.seed = seed;
  Trainer trainer(*device, config);
  constexpr int steps = 40;
  double sum_xy = 0, sum_xx = 0, first = 0, last = 0;
  for (int step = 0; step < steps; ++step) {
    const double loss = trainer.step({}).loss, x = step - (steps - 1) / 2.0;
    ASSERT_TRUE(loss > 0 && loss < 10) << "step " << step << ": " << loss;
    sum_xy += x * loss;
    sum_xx += x * x;
    (step < 10 ? first : last) += step < 10 || step >= steps - 10 ? loss / 10 : 0;
  }
  EXPECT_LT(sum_xy / sum_xx, 0);
  EXPECT_LT(last, first);
  RecordProperty("first_ten", std::to_string(first));
  RecordProperty("last_ten", std::to_string(last));
  std::printf("%s seed %d: %.4f -> %.4f, slope %.2e\n", name.c_str(), static_cast<int>(seed), first, last, sum_xy / sum_xx);
}
std::string case_name(const testing::TestParamInfo<Case>& param) {
  std::string text = std::get<0>(param.param) + "_" + std::string(to_string(std::get<1>(param.param))) +
                     "_seed" + std::to_string(std::get<2>(param.param));
  for (char& c : text) c = c == '-' ? '_' : c;
  return text;
}
INSTANTIATE_TEST_SUITE_P(Tiny, Learning,
                         testing::Combine(testing::ValuesIn(tiny_networks()),
                                          testing::Values(Precision::float32, Precision::bf16),
                                          testing::Values(1, 2, 3)),
                         case_name);

// float32_bf16 is float32 with other products: near it and not the same, or refused with the library's name.
TEST(Float32Bf16, IsNearFloat32OrRefused) {
  TW_NEEDS_CPU();
  for (const std::string& name : tiny_networks()) {
    const auto device = create_device("cpu", {0, 1});
    if (const std::string why = device->why_unsupported(Precision::float32_bf16); !why.empty()) {
      EXPECT_NE(why.find("oneDNN"), std::string::npos) << why;
      EXPECT_THROW(Trainer(*device, micro_config(find_network(name), Precision::float32_bf16)), Error);
      continue;
    }
    Trainer wide(*device, micro_config(find_network(name), Precision::float32));
    Trainer mixed(*device, micro_config(find_network(name), Precision::float32_bf16));
    for (int step = 0; step < 3; ++step) {
      const double loss = wide.step({}).loss, other = mixed.step({}).loss;
      EXPECT_NE(other, loss) << name << " step " << step;
      EXPECT_NEAR(other, loss, 3e-2 * loss) << name << " step " << step;
    }
  }
}

}  // namespace
}  // namespace tw::test
