// Steps as CUDA's graphs are, bit by bit, the steps call by call: on a GPU. simt/graph_steps_test.cpp does the same on
// stand-ins.
#include "tests/compute_cuda/graph_steps.hpp"

#include "models/compute/registry.hpp"
#include "tests/support/require_gpu.hpp"

namespace tw::test {

using namespace models;

namespace {

class GraphSteps : public testing::TestWithParam<GraphCase> {};

TEST_P(GraphSteps, AreTheStepsCallByCall) {
  if (count_cuda_devices() == 0) TW_SKIP_WITHOUT_GPU("no CUDA device: " + why_no_cuda_device());
  DeviceOptions options;
  options.time_algorithms = false;  // the same ones for every trainer
  const auto device = make_cuda_device(options);
  const GraphCase& one = GetParam();
  if (const std::string why = device->why_unsupported(one.precision); !why.empty()) GTEST_SKIP() << why;
  for (const NetworkDescription& network : micro_networks()) {
    if (one.precision == Precision::fp8 && !why_no_fp8(network).empty()) continue;  // of linear layers
    if (one.precision == Precision::fp8 && !rows_fit_fp8(network)) continue;
    SCOPED_TRACE(network.name);
    TrainerConfig config = ten_steps_config(network, one);
    config.graphs = false;
    const Outcome eager = ten_steps(*device, config, one.beside);
    config.graphs = true;
    expect_equal(eager, ten_steps(*device, config, one.beside), one.beside);
  }
}

std::vector<GraphCase> cases() {
  std::vector<GraphCase> all;
  for (const Precision precision :  // those that matter most first, as in steps_test.cpp
       {Precision::fp8, Precision::bf16, Precision::fp16, Precision::tf32, Precision::float32})
    for (const int layers : {0, 1})
      for (const Beside beside : {Beside::nothing, Beside::pieces}) all.push_back({precision, layers, beside});
  all.push_back({Precision::fp16, 0, Beside::overflow});
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cases, GraphSteps, testing::ValuesIn(cases()),
                         [](const auto& one) { return name_of(one.param); });

}  // namespace
}  // namespace tw::test
