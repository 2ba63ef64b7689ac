// Memory, copies, streams and events of a real GPU, and what it refuses.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "models/compute/error.hpp"
#include "models/compute/registry.hpp"
#include "tests/support/require_gpu.hpp"

namespace tw {

using namespace models;

namespace {

class CudaDeviceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (count_cuda_devices() == 0) TW_SKIP_WITHOUT_GPU("no CUDA device: " + why_no_cuda_device());
    device_ = create_device("cuda", {});
    stream_ = device_->create_stream();
  }
  template <class T>
  std::vector<T> read(const Buffer& buffer, std::size_t count) {
    std::vector<T> values(count);
    device_->copy_to_host(*stream_, values.data(), buffer.data(), count * sizeof(T));
    stream_->synchronize();
    return values;
  }

  std::unique_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

TEST_F(CudaDeviceTest, says_what_it_is) {
  const DeviceInfo info = device_->info();
  EXPECT_EQ(info.kind, DeviceKind::cuda);
  EXPECT_FALSE(info.name.empty());
  EXPECT_EQ(info.uuid.size(), 40u) << info.uuid;
  EXPECT_EQ(info.uuid.rfind("GPU-", 0), 0u);
  EXPECT_EQ(info.instruction_set.rfind("sm_", 0), 0u);
  EXPECT_GT(info.memory_bytes, std::size_t{1} << 30);
}

TEST_F(CudaDeviceTest, every_visible_device_opens) {
  for (int index = 0; index < count_cuda_devices(); ++index) {
    const auto device = create_device("cuda", {.index = index});
    EXPECT_EQ(device->info().index, index);
  }
}

TEST_F(CudaDeviceTest, bytes_survive_the_way_there_across_and_back) {
  std::vector<std::uint8_t> sent(1'000'003);
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::uint8_t>(i * 131 + i / 257);
  const Buffer first(*device_, sent.size()), second(*device_, sent.size());
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.data()) % 128, 0u);
  device_->copy_from_host(*stream_, first.data(), sent.data(), sent.size());
  device_->copy(*stream_, second.data(), first.data(), sent.size());
  EXPECT_EQ(read<std::uint8_t>(second, sent.size()), sent);
}

TEST_F(CudaDeviceTest, counts_what_it_holds) {
  EXPECT_EQ(device_->allocated_bytes(), 0u);
  {
    const Buffer a(*device_, 1000);
    const Buffer b(*device_, 24);
    EXPECT_EQ(device_->allocated_bytes(), 1024u);
  }
  EXPECT_EQ(device_->allocated_bytes(), 0u);
  EXPECT_EQ(device_->peak_allocated_bytes(), 1024u);
}

TEST_F(CudaDeviceTest, too_much_memory_is_named_and_the_device_goes_on) {
  const std::size_t wanted = device_->info().memory_bytes * 2;
  try {
    device_->allocate(wanted);
    FAIL() << "allocated twice the memory";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::environment);
    EXPECT_NE(std::string(error.what()).find(std::to_string(wanted)), std::string::npos) << error.what();
  }
  const Buffer buffer(*device_, 4096);
  EXPECT_TRUE(buffer);
}

TEST_F(CudaDeviceTest, events_are_ordered_along_a_stream) {
  const auto before = device_->create_event(), after = device_->create_event();
  const Buffer buffer(*device_, std::size_t{64} << 20);
  const Tensor y{buffer.data(), DType::float32, {std::int64_t{16} << 20}};
  before->record(*stream_);
  for (int i = 0; i < 20; ++i) device_->fill(*stream_, {.y = y, .value = 1.0f});
  after->record(*stream_);
  EXPECT_GT(after->seconds_since(*before), 0.0);
  EXPECT_LT(before->seconds_since(*after), 0.0);
}

TEST_F(CudaDeviceTest, a_graph_runs_when_it_is_launched_on_what_memory_then_holds) {
  constexpr std::int64_t count = 1000;
  const Buffer a(*device_, count * 4), b(*device_, count * 4);
  const Tensor x{a.data(), DType::float32, {count}}, y{b.data(), DType::float32, {count}};
  device_->fill(*stream_, {y, 0});
  device_->add(*stream_, {y, y, y});  // has run before it is recorded
  device_->begin_capture(*stream_);
  device_->add(*stream_, {x, y, y});
  device_->copy(*stream_, a.data(), b.data(), 4);
  const std::unique_ptr<Graph> graph = device_->end_capture(*stream_);
  const HostBuffer host(*device_, count * 4);
  auto* values = static_cast<float*>(host.data());
  for (int i = 0; i < count; ++i) values[i] = 1;
  device_->copy_from_host(*stream_, a.data(), values, count * 4);
  for (int i = 0; i < 3; ++i) graph->launch(*stream_);
  std::vector<float> want(count, 3);
  want[0] = 4;  // 1, 2, 4
  EXPECT_EQ(read<float>(b, count), want);
}

TEST_F(CudaDeviceTest, fill_writes_all_and_no_more) {
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{257}, std::int64_t{3'000'001}}) {
    for (const DType dtype : {DType::float32, DType::bf16}) {
      const std::size_t bytes = static_cast<std::size_t>(count) * size_of(dtype), guard = 128;
      const Buffer buffer(*device_, bytes + guard);
      const std::vector<std::uint8_t> pattern(bytes + guard, 0xa5);
      device_->copy_from_host(*stream_, buffer.data(), pattern.data(), pattern.size());
      device_->fill(*stream_, {.y = Tensor{buffer.data(), dtype, {count}}, .value = -2.5f});
      const auto got = read<std::uint8_t>(buffer, bytes + guard);
      for (std::int64_t i = 0; i < count; ++i) {
        float value = 0;
        if (dtype == DType::bf16) {
          bf16 element;
          std::memcpy(&element, &got[static_cast<std::size_t>(i) * 2], 2);
          value = to_float(element);
        } else {
          std::memcpy(&value, &got[static_cast<std::size_t>(i) * 4], 4);
        }
        ASSERT_EQ(value, -2.5f) << "at " << i << " of " << count;
      }
      for (std::size_t i = bytes; i < bytes + guard; ++i) ASSERT_EQ(got[i], 0xa5) << "guard byte " << i - bytes;
    }
  }
}

TEST_F(CudaDeviceTest, cast_rounds_bit_for_bit_as_the_host) {
  std::vector<float> sent(100'003);
  std::uint32_t state = 12345;
  for (float& value : sent) {
    state = state * 1664525u + 1013904223u;  // all bit patterns, NaN, infinities and subnormals among them
    std::memcpy(&value, &state, 4);
  }
  sent[0] = std::numeric_limits<float>::infinity();
  sent[1] = 0.0f;
  const auto count = static_cast<std::int64_t>(sent.size());
  const Buffer x(*device_, sent.size() * 4), y(*device_, sent.size() * 2), back(*device_, sent.size() * 4);
  device_->copy_from_host(*stream_, x.data(), sent.data(), sent.size() * 4);
  const auto compare = [&]<class T>(DType dtype, T (*round)(float)) {
    const Tensor narrow{y.data(), dtype, {count}};
    device_->cast(*stream_, {.x = Tensor{x.data(), DType::float32, {count}}, .y = narrow});
    device_->cast(*stream_, {.x = narrow, .y = Tensor{back.data(), DType::float32, {count}}});
    const auto rounded = read<std::uint16_t>(y, sent.size());
    const auto widened = read<std::uint32_t>(back, sent.size());
    for (std::size_t i = 0; i < sent.size(); ++i) {
      if (std::isnan(sent[i])) {  // whatever its payload
        ASSERT_TRUE(std::isnan(to_float(T{rounded[i]}))) << "at " << i;
        ASSERT_TRUE(std::isnan(std::bit_cast<float>(widened[i]))) << "at " << i;
        continue;
      }
      ASSERT_EQ(rounded[i], round(sent[i]).bits) << "at " << i;
      ASSERT_EQ(widened[i], std::bit_cast<std::uint32_t>(to_float(T{rounded[i]}))) << "at " << i;
    }
  };
  compare(DType::bf16, to_bf16);
  compare(DType::fp16, to_fp16);
}

TEST_F(CudaDeviceTest, what_is_not_there_is_unsupported) {
  EXPECT_FALSE(device_->supports(Op::linear_forward, DType::int32));
  EXPECT_FALSE(device_->why_unsupported(DType::int32).empty());
  if (device_->why_unsupported(DType::float32).empty()) return;  // cuBLASLt is there
  try {
    device_->plan(LinearShape{.rows = 1, .in_features = 1, .out_features = 1});
    FAIL() << "a plan came back";
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::unsupported);
  }
}

}  // namespace
}  // namespace tw
