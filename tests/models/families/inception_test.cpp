// What only Inception has: modules of branches, and an auxiliary head whose loss is a part of the sum.
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <map>
#include <thread>

#include "models/compute/error.hpp"
#include "models/export/step_export.hpp"
#include "models/families/build_blocks.hpp"
#include "models/network/parameters.hpp"
#include "tests/models/support.hpp"

namespace tw::test {

using namespace models;

namespace {

NetworkDescription with(const std::function<void(InceptionDescription&)>& change) {
  NetworkDescription network = micro_inception();
  InceptionDescription sizes = network.as<InceptionDescription>();
  change(sizes);
  network.shape = family::inception::shape(sizes);
  return network;
}

std::string refusal(const NetworkDescription& network, std::int64_t micro_batch) {
  try {
    build_blocks(network, Precision::float32, micro_batch, 0);
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::usage);
    return error.what();
  }
  return {};
}

TEST(Inception, ASingleValuePerChannelIsRefusedWithTheLayer) {
  EXPECT_EQ(refusal(micro_inception(), 2), "");
  EXPECT_EQ(micro_inception().shape->why_no_micro_batch(2, 0), "");
  const NetworkDescription whole = find_network("inception-v3");
  for (const std::string& why : {refusal(whole, 1), whole.shape->why_no_micro_batch(1, 0)})
    EXPECT_NE(why.find("AuxLogits.conv1.bn"), std::string::npos) << why;
  for (const std::string& why : {refusal(micro_inception(), 1), micro_inception().shape->why_no_micro_batch(1, 0)})
    EXPECT_NE(why.find("AuxLogits.conv0.bn"), std::string::npos) << why;
  // Maps of 4 values do: 23×23 images and a 1×1 kernel on 2×2 of them.
  const NetworkDescription wide = with([](InceptionDescription& sizes) { sizes.image_size = 23; });
  EXPECT_EQ(refusal(wide, 1), "");
  EXPECT_EQ(wide.shape->why_no_micro_batch(1, 0), "");
}

TEST(Inception, ImagesThatAreTooSmallAreRefused) {
  const std::string small = refusal(with([](InceptionDescription& sizes) { sizes.image_size = 14; }), 4);
  EXPECT_NE(small.find("14 x 14"), std::string::npos) << small;
  EXPECT_NE(refusal(with([](InceptionDescription& sizes) { sizes.pool_features.clear(); }), 4).find("each kind"),
            std::string::npos);
}

TEST(Inception, TheLossIsTheSumOfBothHeads) {
  // The auxiliary head's fresh weights are next to nothing: its loss is that of uniform guesses, ln 5.
  const auto device = reference_device();
  const auto losses = [&](float weight) {
    const NetworkDescription network = with([&](InceptionDescription& sizes) { sizes.auxiliary_weight = weight; });
    Trainer trainer(*device, micro_config(network));
    const double evaluated = trainer.evaluate(0).loss;
    return std::pair{evaluated, trainer.step({}).loss};
  };
  const auto [evaluated, trained] = losses(0.4f);
  const auto [evaluated_more, trained_more] = losses(1.4f);
  EXPECT_NEAR(evaluated_more - evaluated, std::log(5.0), 1e-3);
  EXPECT_NEAR(trained_more - trained, std::log(5.0), 1e-3);
}

TEST(Inception, TheAuxiliaryHeadsGradientsAreProportionalToItsWeight) {
  const auto device = reference_device();
  const auto gradients = [&](float weight) {
    const NetworkDescription network = with([&](InceptionDescription& sizes) { sizes.auxiliary_weight = weight; });
    TrainerConfig config = micro_config(network);
    Trainer trainer(*device, config);
    trainer.step({});
    std::map<std::string, std::vector<float>> all;
    for (const Parameter& parameter : trainer.parameters())
      all[parameter.spec.name] = values_of(*device, parameter.gradient);
    return all;
  };
  const auto small = gradients(0.25f), large = gradients(0.5f);
  for (const char* name : {"AuxLogits.fc.weight", "AuxLogits.fc.bias", "AuxLogits.conv0.conv.weight"}) {
    std::vector<float> twice = small.at(name);
    for (float& value : twice) value *= 2;
    EXPECT_LT(normalised_error(twice, large.at(name)), 1e-6) << name;
  }
  EXPECT_EQ(small.at("fc.weight"), large.at("fc.weight"));
  EXPECT_EQ(small.at("Mixed_7b.branch3x3_2a.conv.weight"), large.at("Mixed_7b.branch3x3_2a.conv.weight"));
  EXPECT_NE(small.at("Mixed_6b.branch7x7_2.conv.weight"), large.at("Mixed_6b.branch7x7_2.conv.weight"));
}

TEST(Inception, IsExportedUnderThePublicNames) {
  const NetworkDescription network = micro_inception();
  const auto device = reference_device();
  const auto stream = device->create_stream();
  const auto blocks = build_blocks(network, Precision::float32, 2, 0);
  ParameterStore store(*device, DType::float32, blocks);
  store.initialise(*stream, 1);
  std::map<std::string, std::vector<std::int64_t>> exported;
  std::int64_t count = 0;
  for (const SafeTensor& tensor : exported_parameters(*device, *stream, store, ExportKind::gradient, 1)) {
    EXPECT_TRUE(exported.emplace(tensor.name, tensor.dims).second) << tensor.name;
    std::int64_t elements = 1;
    for (const std::int64_t extent : tensor.dims) elements *= extent;
    count += elements;
  }
  EXPECT_EQ(count, count_parameters(network));
  using Shape = std::vector<std::int64_t>;
  // (out, in, rows, columns)
  const std::map<std::string, Shape> wanted = {{"Conv2d_1a_3x3.conv.weight", {1, 3, 3, 3}},
                                               {"Mixed_5b.branch5x5_2.conv.weight", {2, 1, 5, 5}},
                                               {"Mixed_6b.branch7x7_2.conv.weight", {4, 4, 1, 7}},
                                               {"Mixed_6b.branch7x7_3.conv.weight", {6, 4, 7, 1}},
                                               {"Mixed_7b.branch3x3_2a.conv.weight", {12, 12, 1, 3}},
                                               {"Mixed_7b.branch3x3dbl_3b.conv.weight", {12, 12, 3, 1}},
                                               {"Mixed_7b.branch_pool.bn.bias", {6}},
                                               {"AuxLogits.conv1.conv.weight", {24, 4, 1, 1}},
                                               {"AuxLogits.fc.weight", {5, 24}},
                                               {"fc.bias", {5}}};
  for (const auto& [name, shape] : wanted) EXPECT_EQ(exported[name], shape) << name;
  // Units: stem 5, A 7, B 4, C 10, D 6, E 9, auxiliary head 2; three tensors each, and two classifiers.
  EXPECT_EQ(exported.size(), 3u * (5 + 7 + 4 + 10 + 6 + 9 + 2) + 4);
}

struct Steps {
  std::vector<double> losses;                 // means over the ranks
  std::vector<std::vector<float>> gradients;  // sums over micro-batches and ranks
};
/// Steps of inception-tiny on four micro-batches of four images. `replayed`: updates use these gradients, so that each
/// step starts from the weights of the run that they are of.
Steps run(int ranks, int count, const Steps* replayed) {
  Steps steps;
  steps.losses.assign(static_cast<std::size_t>(count), 0);
  std::vector<std::vector<double>> losses(static_cast<std::size_t>(ranks));
  std::vector<Tensor> all(static_cast<std::size_t>(ranks));
  std::barrier meet(ranks);
  const auto exchange = [&](int rank, const Tensor& own) {
    all[static_cast<std::size_t>(rank)] = own;
    meet.arrive_and_wait();
    if (rank == 0) {
      std::vector<float> sum(static_cast<std::size_t>(own.count()));
      for (const Tensor& one : all)
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one.as<float>()[i];
      const std::vector<float>& used = replayed ? replayed->gradients[steps.gradients.size()] : sum;
      for (const Tensor& one : all) std::copy_n(used.begin(), std::min(used.size(), sum.size()), one.as<float>());
      steps.gradients.push_back(std::move(sum));
    }
    meet.arrive_and_wait();
  };
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      const auto device = reference_device();
      TrainerConfig config = micro_config(find_network("inception-tiny"));
      config.micro_batch = 4;
      config.accumulate = 4 / ranks;
      config.rank = rank;
      config.ranks = ranks;
      Trainer trainer(*device, config);
      GradientSync sync;
      sync.finish = [&](Stream&, Tensor flat) { exchange(rank, flat); };
      for (int step = 0; step < count; ++step)
        losses[static_cast<std::size_t>(rank)].push_back(trainer.step(sync).loss);
    });
  threads.clear();
  for (const auto& of_rank : losses)
    for (std::size_t step = 0; step < of_rank.size(); ++step) steps.losses[step] += of_rank[step] / ranks;
  return steps;
}

/// Left to themselves, the runs part: rounding of the sums (5e-8 of the gradient) grows to 1e-6 in three updates. Then
/// the input of a ReLU is on the other side of zero, which changes the gradient by 1 %. Each later update makes the
/// difference about five times as large: the losses differ by 1e-4 at step 5 and by 6e-3 at step 7. A run on one rank
/// differs as much if its first weights are multiplied by factors within 1e-7 of 1. So do split runs of resnet-tiny at
/// ten times its learning rate. The split itself adds no difference:
TEST(Inception, SplitStepsFromTheSameWeightsHaveTheSameGradients) {
  constexpr int count = 5;
  const Steps one = run(1, count, nullptr), two = run(2, count, &one);
  for (std::size_t step = 0; step < count; ++step) {
    EXPECT_NEAR(two.losses[step], one.losses[step], 1e-6 * one.losses[step]) << "step " << step;
    std::vector<float> a = two.gradients[step], b = one.gradients[step];  // padded to the number of ranks
    a.resize(std::min(a.size(), b.size())), b.resize(a.size());
    EXPECT_LT(normalised_error(a, b), 1e-6) << "step " << step;
  }
  EXPECT_NE(one.losses.front(), one.losses.back());
}

}  // namespace
}  // namespace tw::test
