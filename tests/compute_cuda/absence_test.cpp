// Counting GPUs and saying why there are none works on every machine.
#include <gtest/gtest.h>

#include "models/compute/registry.hpp"
#include "models/compute/error.hpp"

namespace tw {

using namespace models;

namespace {

Failure failure_of(const DeviceOptions& options, const std::string& text) {
  try {
    create_device("cuda", options);
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    return error.failure();
  }
  ADD_FAILURE() << "no exception";
  return Failure::internal;
}

TEST(CudaAbsence, count_and_reason_agree) {
  const int count = count_cuda_devices();
  EXPECT_GE(count, 0);
  EXPECT_EQ(count == 0, !why_no_cuda_device().empty()) << why_no_cuda_device();
  EXPECT_EQ(why_no_cuda_device().find('\n'), std::string::npos);
}

TEST(CudaAbsence, an_index_that_is_not_there_is_refused_with_the_reason) {
  const int count = count_cuda_devices();
  EXPECT_EQ(failure_of({.index = count}, count == 0 ? why_no_cuda_device() : "there is no index"), Failure::environment);
}

TEST(CudaAbsence, the_registry_lists_cuda_first) {
  ASSERT_FALSE(backends().empty());
  EXPECT_EQ(backends().front().kind, DeviceKind::cuda);
  EXPECT_EQ(backends().front().count(), count_cuda_devices());
}

}  // namespace
}  // namespace tw
