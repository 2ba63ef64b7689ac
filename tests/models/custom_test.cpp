// Networks that a file describes: the examples learn, the cpu device computes what the reference does, and pixels have
// labels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "models/catalog/memory.hpp"
#include "models/data/segmented_source.hpp"
#include "models/data/synthetic_data.hpp"
#include "models/families/custom/description.hpp"
#include "tests/models/support.hpp"
#include "tests/support/needs_cpu.hpp"

namespace tw::test {

using namespace models;

namespace {

TEST(Segmented, APixelHasTheClassOfTheGratingThatItShows) {
  constexpr int size = 12, channels = 2, count = 5;
  constexpr std::int64_t classes = 6;
  const ImageSource gratings(size, channels, classes, 7);
  SegmentedSource source(size, channels, classes, 7);
  const Tensor shape{nullptr, DType::float32, {count, size, size, channels}};
  std::vector<float> images(count * size * size * channels), pure(2 * images.size());
  std::vector<std::int32_t> labels(count * size * size), noisy(2 * count), of_image(2 * count);
  bool has_two = false;
  for (const Split split : {Split::training, Split::held_out}) {
    source.fill(split, 3, shape, images.data(), labels.data(), 2);
    gratings.fill(split, 6, 2 * count, DType::float32, pure.data(), noisy.data(), 1, of_image.data());
    for (std::size_t i = 0; i < count; ++i) {
      std::set<std::int32_t> seen;
      for (std::size_t pixel = 0; pixel < size * size; ++pixel) {
        const std::int32_t label = labels[i * size * size + pixel];
        seen.insert(label);
        bool is_shown = false;
        for (const std::size_t from : {2 * i, 2 * i + 1}) {
          const auto begin = pure.begin() + static_cast<std::ptrdiff_t>((from * size * size + pixel) * channels);
          const auto own = images.begin() + static_cast<std::ptrdiff_t>((i * size * size + pixel) * channels);
          is_shown = is_shown || (label == of_image[from] && std::equal(begin, begin + channels, own));
        }
        EXPECT_TRUE(is_shown) << "image " << i << ", pixel " << pixel;
      }
      EXPECT_LE(seen.size(), 2u);
      has_two = has_two || seen.size() == 2;
    }
  }
  EXPECT_TRUE(has_two);
  std::vector<float> second(images.size() / count);
  std::vector<std::int32_t> its_labels(size * size);
  source.fill(Split::held_out, 4, {nullptr, DType::float32, {1, size, size, channels}}, second.data(),
              its_labels.data(), 1);
  EXPECT_TRUE(std::equal(second.begin(), second.end(), images.begin() + static_cast<std::ptrdiff_t>(second.size())))
      << "a sample does not depend on the batch";
}

TEST(CustomPieces, AreCutWhereOneValueIsReadOn) {
  const NetworkDescription of_images = micro_custom_images(), of_vectors = micro_custom_vectors();
  const auto& images = of_images.as<family::custom::CustomDescription>();
  const std::vector<int> ends = family::custom::pieces(images);
  EXPECT_EQ(ends, (std::vector<int>{17, 18, 19, 20, 21})) << "the input is read up to the concatenation";
  // The chain behind the norm that two branches read; a view ends no piece.
  const auto& vectors = of_vectors.as<family::custom::CustomDescription>();
  EXPECT_EQ(family::custom::pieces(vectors), (std::vector<int>{1, 2, 3, 9, 10, 11}));
}

TEST(CustomOnTheCpu, IsTheReference) {
  TW_NEEDS_CPU();
  for (const NetworkDescription& network : {micro_custom_images(), micro_custom_vectors(), micro_custom_tokens()}) {
    const auto cpu = create_device("cpu", {0, 2});
    const auto reference = reference_device();
    TrainerConfig config = micro_config(network);
    config.accumulate = 2;
    Trainer ours(*cpu, config), theirs(*reference, config);
    const double loss = theirs.step({}).loss;
    EXPECT_NEAR(ours.step({}).loss, loss, 1e-5 * loss) << network.name;
    for (std::size_t i = 0; i < ours.parameters().size(); ++i)
      EXPECT_LT(normalised_error(values_of(*cpu, ours.parameters()[i].gradient),
                                 values_of(*reference, theirs.parameters()[i].gradient)),
                1e-4)
          << network.name << ": " << ours.parameters()[i].spec.name;
  }
}

TEST(CustomMemory, ThePlanCoversWhatTheCpuTakes) {
  TW_NEEDS_CPU();
  for (const char* name : {"policy-network", "segmentation", "time-series"}) {
    for (const int threads : {1, 3}) {
      const auto device = create_device("cpu", {0, threads});
      const TrainerConfig config = micro_config(custom_example(name));
      const MemoryPlan plan = plan_memory(config, threads);
      const MemoryPlan real = Trainer(*device, config).memory();
      EXPECT_EQ(plan.parameters, real.parameters) << name;
      EXPECT_EQ(plan.activations, real.activations) << name;
      EXPECT_GE(plan.packed_weights, real.packed_weights) << name;
      EXPECT_GE(plan.workspace, real.workspace) << name << ", " << threads << " threads";
      EXPECT_GE(plan.total(), real.total()) << name;
      EXPECT_LE(least_memory(config.network, "float32", config.micro_batch, config.seq_len, 0).total(),
                static_cast<double>(real.total()))
          << name;
    }
  }
}

using Case = std::tuple<const char*, Precision, std::uint64_t>;
class CustomLearning : public testing::TestWithParam<Case> {};

TEST_P(CustomLearning, LossOfTheExampleFalls) {
  TW_NEEDS_CPU();
  const auto& [name, precision, seed] = GetParam();
  const auto device = create_device("cpu", {0, 1});
  if (!device->why_unsupported(precision).empty()) GTEST_SKIP() << device->why_unsupported(precision);
  TrainerConfig config = micro_config(custom_example(name), precision);
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
  std::printf("%s seed %d: %.4f -> %.4f, slope %.2e\n", name, static_cast<int>(seed), first, last, sum_xy / sum_xx);
}
std::string case_name(const testing::TestParamInfo<Case>& param) {
  std::string text = std::string(std::get<0>(param.param)) + "_" + std::string(to_string(std::get<1>(param.param))) +
                     "_seed" + std::to_string(std::get<2>(param.param));
  std::ranges::replace(text, '-', '_');
  return text;
}
INSTANTIATE_TEST_SUITE_P(Examples, CustomLearning,
                         testing::Combine(testing::Values("policy-network", "segmentation", "time-series"),
                                          testing::Values(Precision::float32, Precision::bf16),
                                          testing::Values(1, 2, 3)),
                         case_name);

}  // namespace
}  // namespace tw::test
