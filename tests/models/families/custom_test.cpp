// Networks that a file describes: the examples learn, the cpu device computes what the reference does, and pixels have
// labels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>

#include "models/catalog/described.hpp"
#include "models/catalog/memory.hpp"
#include "models/data/segmented_source.hpp"
#include "models/data/synthetic_data.hpp"
#include "models/data/value_source.hpp"
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

DataDescription restored(int size, int channels, int gratings, int scale) {
  DataDescription data;
  data.kind = DataKind::restored_images;
  data.image_size = size, data.image_channels = channels, data.classes = gratings, data.scale = scale;
  return data;
}

TEST(Values, OfRestoredImagesAreThoseWithoutNoise) {
  constexpr int size = 10, channels = 3, count = 200;
  const Tensor shape{nullptr, DType::float32, {count, size, size, channels}};
  std::vector<float> images(static_cast<std::size_t>(shape.count())), other(images.size());
  ValueSource plain(restored(size, channels, 5, 1), 3), twice(restored(size, channels, 5, 2), 3);
  const ImageSource gratings(size, channels, 5, 3);
  for (const Split split : {Split::training, Split::held_out}) {
    std::vector<float> small(count * size * size), large(4 * small.size());
    std::vector<std::int32_t> labels(count);
    plain.fill(split, 4, shape, images.data(), small.data(), 2);
    gratings.fill(split, 4, count, DType::float32, other.data(), labels.data(), 1);
    EXPECT_EQ(images, other) << "those of the image source";
    twice.fill(split, 4, shape, other.data(), large.data(), 1);
    EXPECT_EQ(images, other);
    double sum = 0, squares = 0;
    for (std::size_t i = 0; i < small.size(); ++i) {
      const std::size_t image = i / (size * size), row = i / size % size, column = i % size;
      EXPECT_NEAR(small[i], large[(image * 2 * size + 2 * row) * 2 * size + 2 * column], 1e-6) << i;
      for (std::size_t c = 0; c < channels; ++c) {
        const double noise = static_cast<double>(images[i * channels + c] - small[i]);
        sum += noise, squares += noise * noise;
      }
    }
    // What the targets leave of the images is the noise: standard normal.
    const auto n = static_cast<double>(images.size());
    EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
    EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
  }
}

TEST(Values, OfMeasuredImagesAreThePhase) {
  constexpr int size = 8, count = 3;
  DataDescription data = restored(size, 1, 1, 1);
  ValueSource clean(data, 5);
  data.kind = DataKind::measured_images;
  ValueSource source(data, 5);
  const Frequency wave = ImageSource(size, 1, 1, 5).frequencies().front();
  const Tensor shape{nullptr, DType::float32, {count, size, size, 1}};
  std::vector<float> images(static_cast<std::size_t>(shape.count())), same(images), pure(images.size()),
      values(2 * count);
  source.fill(Split::training, 0, shape, images.data(), values.data(), 2);
  clean.fill(Split::training, 0, shape, same.data(), pure.data(), 2);
  EXPECT_EQ(images, same);
  for (std::size_t i = 0; i < count; ++i)
    for (int row = 0; row < size; ++row)
      for (int column = 0; column < size; ++column) {
        const double angle = 2 * std::numbers::pi * (wave.x * column + wave.y * row) / size;
        const double expected = std::cos(angle) * static_cast<double>(values[2 * i]) -
                                std::sin(angle) * static_cast<double>(values[2 * i + 1]);
        EXPECT_NEAR(pure[(i * size + static_cast<std::size_t>(row)) * size + static_cast<std::size_t>(column)],
                    expected, 1e-5);
      }
}

// The least error of a forecast is that of the process that made the series, and its variance is 1.
TEST(Values, OfSeriesAreTheNextOnes) {
  constexpr std::int64_t variables = 9, times = 6, count = 4000;
  DataDescription data;
  data.kind = DataKind::series, data.variables = variables, data.longest_sequence = times;
  ValueSource source(data, 2);
  const Tensor shape{nullptr, DType::float32, {count, times, variables}};
  std::vector<float> series(static_cast<std::size_t>(shape.count())), targets(series.size()), held_out(series.size());
  source.fill(Split::training, 0, shape, series.data(), targets.data(), 2);
  const auto at = [&](std::int64_t i, std::int64_t t, std::int64_t v) {
    return static_cast<std::size_t>((i * times + t) * variables + v);
  };
  double first = 0, later = 0, expected_first = 0, expected_later = 0, squares = 0;
  for (std::int64_t v = 0; v < variables; ++v) {
    const Autoregression p = series_process(v);
    expected_first += 1 - p.correlation * p.correlation, expected_later += p.innovation;
    for (std::int64_t i = 0; i < count; ++i) {
      for (std::int64_t t = 0; t < times; ++t) {
        if (t + 1 < times) {
          ASSERT_EQ(targets[at(i, t, v)], series[at(i, t + 1, v)]);
        }
        const auto now = static_cast<double>(series[at(i, t, v)]), next = static_cast<double>(targets[at(i, t, v)]);
        squares += next * next;
        const double forecast =
            t == 0 ? p.correlation * now : p.first * now + p.second * static_cast<double>(series[at(i, t - 1, v)]);
        (t == 0 ? first : later) += (next - forecast) * (next - forecast);
      }
    }
  }
  // Of squares of n independent normal numbers the mean has a relative deviation of sqrt(2/n).
  constexpr double firsts = variables * count, laters = firsts * (times - 1);
  EXPECT_NEAR(first / count / expected_first, 1, 5 * std::sqrt(2 * variables / firsts));
  EXPECT_NEAR(later / (count * (times - 1)) / expected_later, 1, 5 * std::sqrt(2 * variables / laters));
  EXPECT_NEAR(squares / (firsts * times), 1, 5 * std::sqrt(2 * times / firsts)) << "values of a sample go together";
  EXPECT_NEAR(series_error(variables, times), (expected_first + (times - 1) * expected_later) / (variables * times),
              1e-12);
  EXPECT_EQ(exact_floor(micro_custom_series(), 7), series_error(16, 7));
  source.fill(Split::held_out, 0, shape, held_out.data(), targets.data(), 1);
  EXPECT_NE(series, held_out);
  // A sample does not depend on the batch, and is rounded to the precision.
  std::vector<bf16> rounded(times * variables);
  source.fill(Split::training, 3, {nullptr, DType::bf16, {1, times, variables}}, rounded.data(), targets.data(), 1);
  for (std::int64_t i = 0; i < times * variables; ++i)
    EXPECT_EQ(rounded[static_cast<std::size_t>(i)].bits, to_bf16(series[at(3, 0, i)]).bits);
}

TEST(CustomOfValues, EvaluatesByTheSameLossAndHasNoRightAnswers) {
  for (const NetworkDescription& network : {micro_custom_restored(), micro_custom_series(), micro_custom_measured()}) {
    const auto reference = reference_device();
    Trainer trainer(*reference, micro_config(network));
    const EvaluationResult before = trainer.evaluate(0);
    EXPECT_EQ(before.correct, 0) << network.name;
    EXPECT_EQ(before.predictions,
              SyntheticData::targets_shape(network, network.default_micro_batch, network.default_seq_len).count());
    EXPECT_GT(before.loss, 0.1) << "of targets whose squares are one half or one on average";
    EXPECT_LT(before.loss, 10);
  }
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
  for (const NetworkDescription& network : {micro_custom_images(), micro_custom_vectors(), micro_custom_tokens(),
                                            micro_custom_restored(), micro_custom_series(), micro_custom_measured()}) {
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
  for (const char* name : {"forecast", "policy-network", "segmentation", "super-resolution", "time-series"}) {
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

/// What several layers read is kept once: were it counted for each of them, the bound would refuse what fits.
TEST(CustomMemory, ABranchDoesNotCountWhatAnotherOneReads) {
  TW_NEEDS_CPU();
  constexpr int branches = 12;
  std::string layers = R"({"layer": "convolution", "channels": 32, "kernel": 3, "padding": 1, "name": "stem"},)";
  std::string others;
  for (int i = 0; i < branches; ++i) {
    const std::string name = "branch" + std::to_string(i);
    layers += R"({"layer": "convolution", "channels": 1, "kernel": 1, "from": "stem", "name": ")" + name + R"("},)";
    if (i + 1 < branches) others += (i > 0 ? ", \"" : "\"") + name + "\"";
  }
  layers += R"({"layer": "concatenation", "with": [)" + others + R"(]},)";
  // Its input is smaller than its output.
  layers += R"({"layer": "transposed_convolution", "channels": 8, "kernel": 2, "stride": 2},)";
  layers += R"({"layer": "global_average_pool"}, {"layer": "loss", "per": "sample"})";
  const NetworkDescription network = described_network(
      "custom",
      R"({"name": "branches", "input": {"kind": "images", "size": 32, "channels": 3, "classes": 4}, "layers": [)" +
          layers + "]}");
  const auto device = create_device("cpu", {0, 1});
  TrainerConfig config = micro_config(network);
  config.micro_batch = 4;
  const auto kept = static_cast<double>(Trainer(*device, config).memory().activations);
  const double least = least_memory(network, "float32", 4, 0, 0).activations;
  EXPECT_LE(least, kept);
  const double pixels = 4.0 * 32 * 32;
  EXPECT_EQ(least, 4 * (pixels * 32 + pixels * branches + 4 * 8))
      << "the stem's output, the branches together, the head";
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
INSTANTIATE_TEST_SUITE_P(
    Examples, CustomLearning,
    testing::Combine(testing::Values("forecast", "policy-network", "segmentation", "super-resolution", "time-series"),
                     testing::Values(Precision::float32, Precision::bf16), testing::Values(1, 2, 3)),
    case_name);

}  // namespace
}  // namespace tw::test
