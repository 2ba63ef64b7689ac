// What the cuda device makes of samples is what the host makes: on a GPU, and without one on stand-ins.
#include "models/compute/registry.hpp"
#include "tests/models/data/host_samples.hpp"
#include "tests/support/require_gpu.hpp"

namespace tw::test {

using namespace models;

namespace {

class Samples : public testing::Test {
 protected:
  void SetUp() override {
    if (count_cuda_devices() == 0) TW_SKIP_WITHOUT_GPU("no CUDA device: " + why_no_cuda_device());
    device_ = make_cuda_device({});
  }
  std::unique_ptr<Device> device_;
};

TEST_F(Samples, OfTokensAndImagesAreTheHosts) {
  NetworkDescription few = micro_gpt2();
  few.drawn_tokens = 6;
  for (const DType precision : {DType::float32, DType::bf16, DType::fp16}) {
    for (const NetworkDescription& network : {micro_gpt2(), few})
      expect_host_samples(*device_, Op::generate_tokens, network, precision, 5);
    expect_host_samples(*device_, Op::generate_images, micro_resnet(), precision, 5);
  }
}

// Samples of 5 begin their indices anywhere, those of 8 where wide accesses may go.
TEST_F(Samples, OfClicksAreTheHostsOnEachRank) {
  for (const auto& [network, share] : click_cases())
    for (const std::int64_t micro_batch : {5, 8})
      expect_host_samples(*device_, Op::generate_clicks, network, DType::float32, micro_batch, share);
}

// Many blocks: with wide accesses and without.
TEST_F(Samples, OfManyClicksAreTheHosts) {
  const NetworkDescription network = click_cases().front().network;
  for (const std::int64_t micro_batch : {300, 2001})
    expect_host_samples(*device_, Op::generate_clicks, network, DType::float32, micro_batch);
}

}  // namespace
}  // namespace tw::test
