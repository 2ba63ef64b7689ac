// The devices under test, and how one case runs on a device and on the reference.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/compute/registry.hpp"
#include "tests/support/guarded_tensor.hpp"

namespace tw::test {

struct DeviceCase {
  std::string device;  ///< of backends.def
  models::DType dtype = models::DType::float32;
};
void PrintTo(const DeviceCase& device_case, std::ostream* stream);
/// Every backend × the dtypes that it may have, whether or not it is usable here: what is not skips visibly with the
/// reason.
std::vector<DeviceCase> device_cases();
/// "cpu_bf16"
std::string device_case_name(const testing::TestParamInfo<DeviceCase>& info);

/// A fixture for TEST_P over device_cases(). Skips with the reason where the device or its dtype is not there;
/// TRAINWATT_REQUIRE_GPU=1 turns an absent GPU into a failure.
class DeviceTest : public testing::TestWithParam<DeviceCase> {
 protected:
  void SetUp() override;
  models::Device& device() const { return *device_; }
  models::DType dtype() const { return GetParam().dtype; }
  /// Empty where the device runs `op`; the reason for a skip where it may lack it (cuda), a failure elsewhere.
  std::string why_not(models::Op op) const;

 private:
  models::Device* device_ = nullptr;
};
#define TW_DEVICE_SUITE(suite)          \
  using suite = ::tw::test::DeviceTest; \
  INSTANTIATE_TEST_SUITE_P(Devices, suite, testing::ValuesIn(::tw::test::device_cases()), ::tw::test::device_case_name)
#define TW_NEEDS(op) \
  if (const std::string reason = why_not(op); !reason.empty()) GTEST_SKIP() << reason

/// One output after a run.
struct Output {
  std::string name;
  models::DType dtype = models::DType::float32;
  int roundings = -1;  ///< see tolerance()
  Floats values;       ///< int32 converted
  std::vector<unsigned char> bytes;
};

/// Tensors of one run on one device.
class Lab {
 public:
  explicit Lab(models::Device& device);
  models::Device& device;
  std::unique_ptr<models::Stream> stream;

  /// Inputs; finish() fails where an operator has changed one.
  models::Tensor in(models::DType dtype, const models::Dims& dims, const Floats& values);
  models::Tensor in(const models::Dims& dims, const Ints& values);
  /// Outputs; start as NaN.
  models::Tensor out(const std::string& name, models::DType dtype, const models::Dims& dims, int roundings = -1);
  /// Outputs that an operator adds to or works in place on.
  models::Tensor in_out(const std::string& name, models::DType dtype, const models::Dims& dims, const Floats& values,
                        int roundings = -1);
  /// What one pass of a plan leaves for another, which no comparison reads; nothing without extents.
  models::Tensor left(const models::Dims& dims);
  /// Structures in device memory; scalars are an output too.
  models::StepScalars* scalars(const models::StepScalars& values);
  const models::DecaySegment* segments(const std::vector<models::DecaySegment>& values);
  const models::ClickTable* click_tables(const std::vector<models::ClickTable>& values);
  /// New contents for a tensor made here.
  void change(const models::Tensor& tensor, const Floats& values);
  Floats read(const models::Tensor& tensor);

  /// Waits, checks guards and inputs, returns the outputs.
  std::vector<Output> finish();

 private:
  struct Item {
    GuardedTensor guarded;
    std::string name;  ///< empty for inputs
    int roundings;
    std::vector<unsigned char> before;
  };
  Item& add(const std::string& name, models::DType dtype, const models::Dims& dims, int roundings);
  Item& find(const models::Tensor& tensor);
  template <class T>
  const T* structures(const std::vector<T>& values);
  std::deque<Item> items_;
  std::deque<models::Buffer> left_;
};

using Case = std::function<void(Lab&)>;

std::vector<Output> run_on(models::Device& device, const Case& run);
models::Device& reference_device();

enum class Exactness { tolerance, exact, bf16_operands };
/// Runs twice on `device` (bitwise equal) and once on the reference (within the table's tolerance, or equal). An output
/// that is all zero on the reference makes the case itself fail: it would prove nothing.
void compare(models::Device& device, models::Op op, models::DType dtype, const Case& run,
             Exactness exactness = Exactness::tolerance);
/// `run` plans with Math::bf16: compares where the device has it, else expects Error{unsupported} with the reason.
void compare_bf16_products(models::Device& device, models::Op op, const Case& run);

}  // namespace tw::test
