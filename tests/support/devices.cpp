#include "tests/support/devices.hpp"

#include <cstring>
#include <map>
#include <stdexcept>

#include "models/compute/error.hpp"
#include "tests/support/comparison.hpp"
#include "tests/support/require_gpu.hpp"

namespace tw::test {

using namespace models;

namespace {

const Backend& backend(const std::string& name) {
  for (const Backend& candidate : backends()) {
    if (name == candidate.name) return candidate;
  }
  throw std::logic_error("no backend " + name);
}

/// One device of each kind for the whole program.
Device& shared_device(const std::string& name) {
  static std::map<std::string, std::unique_ptr<Device>> devices;
  std::unique_ptr<Device>& device = devices[name];
  if (!device) device = create_device(name, {});
  return *device;
}

bool all_zero(const Floats& values) {
  for (const float value : values) {
    if (value != 0) return false;
  }
  return true;
}

}  // namespace

std::vector<DeviceCase> device_cases() {
  std::vector<DeviceCase> cases;
  for (const Backend& candidate : backends()) {
    cases.push_back({candidate.name, DType::float32});
    cases.push_back({candidate.name, DType::bf16});
    if (candidate.kind != DeviceKind::cpu) cases.push_back({candidate.name, DType::fp16});  // it has none anywhere
  }
  return cases;
}

void PrintTo(const DeviceCase& device_case, std::ostream* stream) {
  *stream << device_case.device << " " << to_string(device_case.dtype);
}

std::string device_case_name(const testing::TestParamInfo<DeviceCase>& info) {
  return info.param.device + "_" + std::string(to_string(info.param.dtype));
}

void DeviceTest::SetUp() {
  const Backend& chosen = backend(GetParam().device);
  if (chosen.count() == 0) {
    ASSERT_FALSE(chosen.kind == DeviceKind::cuda && gpu_is_required())
        << "TRAINWATT_REQUIRE_GPU=1, but " << chosen.why_none();
    GTEST_SKIP() << "no " << chosen.name << " device: " << chosen.why_none();
  }
  device_ = &shared_device(chosen.name);
  if (chosen.kind != DeviceKind::cuda && !device_->supports(Op::linear_forward, dtype())) {
    const std::string reason = device_->why_unsupported(dtype());
    ASSERT_TRUE(is_half(dtype()) && !reason.empty()) << chosen.name << " must compute in float32, or say why not";
    GTEST_SKIP() << "no " << to_string(dtype()) << " on " << chosen.name << ": " << reason;
  }
}

std::string DeviceTest::why_not(Op op) const {
  if (device().supports(op, dtype())) return {};
  if (device().info().kind != DeviceKind::cuda)
    ADD_FAILURE() << to_string(op) << " is missing on " << GetParam().device;
  return std::string(to_string(op)) + " is not on " + GetParam().device;
}

Lab::Lab(Device& on) : device(on), stream(on.create_stream()) {}

Lab::Item& Lab::add(const std::string& name, DType dtype, const Dims& dims, int roundings) {
  items_.push_back(Item{GuardedTensor(device, *stream, dtype, dims), name, roundings, {}});
  return items_.back();
}

Lab::Item& Lab::find(const Tensor& tensor) {
  for (Item& item : items_) {
    if (item.guarded.tensor().data == tensor.data) return item;
  }
  throw std::logic_error("this tensor is not of this lab");
}

Tensor Lab::in(DType dtype, const Dims& dims, const Floats& values) {
  Item& item = add("", dtype, dims, -1);
  item.guarded.upload(values);
  item.before = item.guarded.download_bytes();
  return item.guarded.tensor();
}

Tensor Lab::in(const Dims& dims, const Ints& values) {
  Item& item = add("", DType::int32, dims, -1);
  item.guarded.upload(values);
  item.before = item.guarded.download_bytes();
  return item.guarded.tensor();
}

Tensor Lab::out(const std::string& name, DType dtype, const Dims& dims, int roundings) {
  return add(name, dtype, dims, roundings).guarded.tensor();
}

Tensor Lab::in_out(const std::string& name, DType dtype, const Dims& dims, const Floats& values, int roundings) {
  Item& item = add(name, dtype, dims, roundings);
  item.guarded.upload(values);
  return item.guarded.tensor();
}

Tensor Lab::left(const Dims& dims) {
  Tensor tensor{nullptr, DType::byte, dims};
  if (dims.rank() == 0) return tensor;
  left_.emplace_back(device, tensor.bytes());
  tensor.data = left_.back().data();
  return tensor;
}

StepScalars* Lab::scalars(const StepScalars& values) {
  Floats raw(sizeof(StepScalars) / sizeof(float));
  std::memcpy(raw.data(), &values, sizeof values);
  return in_out("scalars", DType::float32, {static_cast<std::int64_t>(raw.size())}, raw).as<StepScalars>();
}

template <class T>
const T* Lab::structures(const std::vector<T>& values) {
  Ints raw(values.size() * sizeof(T) / sizeof(std::int32_t));
  std::memcpy(raw.data(), values.data(), values.size() * sizeof(T));
  return in({static_cast<std::int64_t>(raw.size())}, raw).template as<T>();
}
const DecaySegment* Lab::segments(const std::vector<DecaySegment>& values) { return structures(values); }
const ClickTable* Lab::click_tables(const std::vector<ClickTable>& values) { return structures(values); }

void Lab::change(const Tensor& tensor, const Floats& values) {
  Item& item = find(tensor);
  item.guarded.upload(values);
  item.before = item.guarded.download_bytes();
}

Floats Lab::read(const Tensor& tensor) {
  stream->synchronize();
  return find(tensor).guarded.download();
}

std::vector<Output> Lab::finish() {
  stream->synchronize();
  std::vector<Output> outputs;
  int position = 0;
  for (Item& item : items_) {
    const std::string label = item.name.empty() ? "input " + std::to_string(position) : item.name;
    EXPECT_EQ(item.guarded.damage(), "") << "guard of " << label << " " << item.guarded.tensor().dims.str();
    if (item.name.empty()) {
      EXPECT_TRUE(item.guarded.download_bytes() == item.before) << label << " was written to";
    } else {
      Output output{item.name, item.guarded.tensor().dtype, item.roundings, {}, item.guarded.download_bytes()};
      if (output.dtype == DType::int32) {
        for (const std::int32_t value : item.guarded.download_ints())
          output.values.push_back(static_cast<float>(value));
      } else {
        output.values = item.guarded.download();
      }
      outputs.push_back(std::move(output));
    }
    ++position;
  }
  return outputs;
}

std::vector<Output> run_on(Device& device, const Case& run) {
  Lab lab(device);
  run(lab);
  return lab.finish();
}

Device& reference_device() { return shared_device("reference"); }

void compare(Device& device, Op op, DType dtype, const Case& run, Exactness exactness) {
  const std::vector<Output> want = run_on(reference_device(), run);
  const std::vector<Output> got = run_on(device, run), again = run_on(device, run);
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) {
    const Output& output = got[i];
    EXPECT_FALSE(all_zero(want[i].values)) << output.name << ": all zero on the reference, the case proves nothing";
    EXPECT_TRUE(output.bytes == again[i].bytes) << output.name << ": two runs differ";
    if (output.dtype == DType::int32) {  // floats would hide what differs beyond 2^24
      EXPECT_TRUE(output.bytes == want[i].bytes) << to_string(op) << " " << output.name;
    }
    const bool discrete = exactness == Exactness::exact || output.dtype == DType::int32;
    const double limit = discrete ? 0
                                  : tolerance(op, dtype, output.dtype, output.values.size(), output.roundings,
                                              exactness == Exactness::bf16_operands);
    EXPECT_LE(normalised_error(output.values, want[i].values), limit) << to_string(op) << " " << output.name;
  }
}

void compare_bf16_products(Device& device, Op op, const Case& run) {
  const std::string why = device.why_no_math(Math::bf16);
  if (why.empty()) return compare(device, op, DType::float32, run, Exactness::bf16_operands);
  try {
    run_on(device, run);
    ADD_FAILURE() << "there is a plan, but: " << why;
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::unsupported);
    EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
  }
}

}  // namespace tw::test
