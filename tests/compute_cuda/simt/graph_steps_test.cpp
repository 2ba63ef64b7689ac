// Steps as graphs are, bit by bit, the steps call by call: without a GPU, on stand-ins for CUDA's runtime, cuBLASLt and
// cuDNN. What is recorded does not run, and what is launched sees memory as it then is; the workspace is full of NaN
// before each graph and between the phases of a step; kernels run in another order than in the steps call by call.
#include "tests/compute_cuda/graph_steps.hpp"
#include <algorithm>
#include <tuple>

#include "models/catalog/families.hpp"
#include "models/compute/registry.hpp"
#include "tests/support/simt/runtime.hpp"

namespace tw::test {

using namespace models;

namespace {

using Param = std::tuple<GraphCase, std::size_t>;  // and which of micro_networks()

class GraphStepsOnStandIns : public testing::TestWithParam<Param> {
 protected:
  void SetUp() override { simt::gpu() = {}; }
  void TearDown() override { simt::gpu() = {}; }
};

TEST_P(GraphStepsOnStandIns, AreTheStepsCallByCall) {
  const auto& [one, index] = GetParam();
  const NetworkDescription network = micro_networks()[index];
  DeviceOptions options;
  options.time_algorithms = false;  // the same ones for every trainer
  const auto device = make_cuda_device(options);
  TrainerConfig config = ten_steps_config(network, one);
  config.graphs = false;
  simt::gpu().only = simt::Schedule::ascending;
  const Outcome eager = ten_steps(*device, config, one.beside);
  EXPECT_EQ(simt::gpu().launched, 0);
  config.graphs = true;
  simt::gpu().only = simt::Schedule::descending;
  simt::gpu().poisoned_bytes = device->arena_bytes();
  expect_equal(eager, ten_steps(*device, config, one.beside), one.beside);
  // Forward and backward of two kinds of micro-batch, and the update; the first step runs call by call.
  const long pieces = simt::gpu().recorded - 5;
  if (one.beside == Beside::pieces) {
    EXPECT_GT(pieces, 0) << "backward of the last micro-batch in several graphs";
  } else {
    EXPECT_EQ(pieces, 0);
  }
  EXPECT_EQ(simt::gpu().launched, 9 * simt::gpu().recorded);
  EXPECT_GT(simt::gpu().poisoned, simt::gpu().launched);
}

// A layer that is recomputed in the first micro-batch has a scale by then, which its forward had not: the operator in
// front of it rounds, where the layer itself did.
TEST(Fp8StepsOnStandIns, AreTheSameWithLayersThatAreRecomputed) {
  simt::gpu() = {};
  DeviceOptions options;
  options.time_algorithms = false;
  simt::gpu().only = simt::Schedule::ascending;
  for (const NetworkDescription& network : micro_networks()) {
    const std::string family(network.shape->family());
    if (family != "gpt2" && family != "bert" && family != "llama") continue;
    SCOPED_TRACE(network.name);
    const auto steps = [&](int recomputed_layers) {
      const GraphCase one{Precision::fp8, recomputed_layers, Beside::nothing};
      const auto device = make_cuda_device(options);
      return ten_steps(*device, ten_steps_config(network, one), one.beside);
    };
    expect_equal(steps(0), steps(1), Beside::nothing);
  }
  simt::gpu() = {};
}

// A family that is added is recorded and replayed too.
TEST(MicroNetworks, AreOfEveryFamily) {
  for (const auto& [name, family] : families()) {
    const std::vector<NetworkDescription> all = micro_networks();
    EXPECT_TRUE(std::ranges::any_of(all, [&](const auto& one) { return one.shape->family() == name; }))
        << "no micro network of the family " << name << " in micro_networks() of tests/models/support.cpp";
  }
}

/// Every precision plainly, and cut and recomputed; where the loss is scaled also with steps that overflow.
std::vector<Param> cases() {
  std::vector<Param> all;
  const std::vector<NetworkDescription> networks = micro_networks();
  for (std::size_t i = 0; i < networks.size(); ++i) {
    for (const Precision precision :
         {Precision::float32, Precision::tf32, Precision::bf16, Precision::fp16, Precision::fp8}) {
      if (precision == Precision::fp8 && !why_no_fp8(networks[i]).empty()) continue;  // of linear layers
      if (precision == Precision::fp8 && !rows_fit_fp8(networks[i])) continue;
      all.push_back({{precision, 0, Beside::nothing}, i});
      all.push_back({{precision, 1, Beside::pieces}, i});
      if (scales_loss(precision)) all.push_back({{precision, 0, Beside::overflow}, i});
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cases, GraphStepsOnStandIns, testing::ValuesIn(cases()), [](const auto& one) {
  std::string name = micro_networks()[std::get<1>(one.param)].name + "_" + name_of(std::get<0>(one.param));
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace tw::test
