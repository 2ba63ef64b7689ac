// A cuda device on the stand-ins for the runtime and cuBLASLt, anew for each test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "models/compute/registry.hpp"
#include "tests/support/cublaslt/stand_in.hpp"
#include "tests/support/simt/runtime.hpp"

namespace tw::test {

/// More than any test lets the library offer: with so many failing, each offer fails.
inline constexpr int all_offers = 8;

class CudaPlans : public testing::Test {
 protected:
  void SetUp() override {
    blas::state() = {};
    simt::gpu() = {};
    device_ = models::make_cuda_device({});
    stream_ = device_->create_stream();
  }
  void TearDown() override { blas::state() = {}; }
  models::Tensor tensor(models::DType dtype, const models::Dims& dims) {
    buffers_.emplace_back(*device_, static_cast<std::size_t>(dims.count()) * models::size_of(dtype));
    const models::Tensor made{buffers_.back().data(), dtype, dims};
    if (dtype == models::DType::int32) {
      std::fill_n(made.as<std::int32_t>(), made.count(), 0);
    } else {
      device_->fill(*stream_, {made, 0.5f});
    }
    return made;
  }
  /// What one pass of a plan leaves for another; nothing without extents.
  models::Tensor left(const models::Dims& dims) {
    models::Tensor made{nullptr, models::DType::byte, dims};
    if (dims.rank() == 0) return made;
    buffers_.emplace_back(*device_, made.bytes());
    made.data = buffers_.back().data();
    return made;
  }
  std::vector<blas::Call>& calls() { return blas::state().calls; }

  std::unique_ptr<models::Device> device_;
  std::unique_ptr<models::Stream> stream_;
  std::deque<models::Buffer> buffers_;
};

}  // namespace tw::test
