// A cuda device on the stand-ins for the runtime and cuBLASLt, anew for each test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

#include "models/compute/cuda/cuda_device.hpp"
#include "tests/support/cublaslt/stand_in.hpp"
#include "tests/support/simt/runtime.hpp"

namespace tw::test {

class CudaPlans : public testing::Test {
 protected:
  void SetUp() override {
    blas::state() = {};
    simt::gpu() = {};
    device_ = make_cuda_device({});
    stream_ = device_->create_stream();
  }
  void TearDown() override { blas::state() = {}; }
  Tensor tensor(DType dtype, const Dims& dims) {
    buffers_.emplace_back(*device_, static_cast<std::size_t>(dims.count()) * size_of(dtype));
    const Tensor made{buffers_.back().data(), dtype, dims};
    if (dtype == DType::int32) {
      std::fill_n(made.as<std::int32_t>(), made.count(), 0);
    } else {
      device_->fill(*stream_, {made, 0.5f});
    }
    return made;
  }
  std::vector<blas::Call>& calls() { return blas::state().calls; }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
  std::deque<Buffer> buffers_;
};

}  // namespace tw::test
