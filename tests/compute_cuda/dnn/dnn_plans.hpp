// A cuda device on a stand-in for cuDNN that runs graphs on the host.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "models/compute/error.hpp"
#include "models/compute/registry.hpp"
#include "tests/support/cudnn/stand_in.hpp"
#include "tests/support/simt/runtime.hpp"

namespace tw::test {

inline constexpr models::ConvolutionShape wide = {2, 6, 5, 16, 8, 3, 1, 1, models::DType::bf16};
inline constexpr models::AttentionShape fused = {2, 9, 2, 16, true, models::DType::bf16};
inline constexpr models::AttentionShape grouped = {2, 12, 12, 16, true, models::DType::bf16, models::Math::standard, 4};

class DnnPlans : public testing::Test {
 protected:
  void SetUp() override {
    cudnn::state() = {};
    simt::gpu() = {};
    open();
  }
  void TearDown() override {
    cudnn::state() = {};
    simt::gpu() = {};
  }
  void open(bool deterministic = true) {
    models::DeviceOptions options;
    options.deterministic = deterministic;
    device_ = models::make_cuda_device(options);
  }
  /// What plan() says when it throws.
  template <class Shape>
  std::string refusal(const Shape& shape) {
    try {
      device_->plan(shape);
    } catch (const models::Error& error) {
      EXPECT_EQ(error.failure(), models::Failure::unsupported);
      return error.what();
    }
    return "no refusal";
  }
  static bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

  std::unique_ptr<models::Device> device_;
};

}  // namespace tw::test
