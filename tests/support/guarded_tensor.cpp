#include "tests/support/guarded_tensor.hpp"

#include <cmath>
#include <cstring>
#include <stdexcept>

namespace tw::test {

using namespace models;

namespace {

constexpr std::size_t guard_bytes = 256;  // a multiple of the alignment, and longer than the widest vector
constexpr unsigned char sentinel = 0x7f;  // as a float huge, so that a read beyond the tensor that matters shows too

}  // namespace

GuardedTensor::GuardedTensor(Device& device, Stream& stream, DType dtype, const Dims& dims)
    : device_(&device), stream_(&stream) {
  tensor_ = Tensor{nullptr, dtype, dims};
  memory_ = Buffer(device, tensor_.bytes() + 2 * guard_bytes);
  const std::vector<unsigned char> guards(memory_.bytes(), sentinel);
  device.copy_from_host(stream, memory_.data(), guards.data(), guards.size());
  stream.synchronize();
  tensor_.data = static_cast<char*>(memory_.data()) + guard_bytes;
  upload_bytes(std::vector<unsigned char>(tensor_.bytes(), 0xff));  // NaN in every floating-point type, -1 in int32
}

void GuardedTensor::upload(const Floats& values) {
  std::vector<unsigned char> bytes(tensor_.bytes());
  if (values.size() != static_cast<std::size_t>(tensor_.count())) throw std::logic_error("upload: wrong count");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bf16 rounded = to_bf16(values[i]);
    const fp16 other = to_fp16(values[i]);
    if (tensor_.dtype == DType::bf16) std::memcpy(&bytes[2 * i], &rounded, 2);
    if (tensor_.dtype == DType::fp16) std::memcpy(&bytes[2 * i], &other, 2);
    if (tensor_.dtype == DType::float32) std::memcpy(&bytes[4 * i], &values[i], 4);
  }
  upload_bytes(bytes);
}

void GuardedTensor::upload(const Ints& values) {
  std::vector<unsigned char> bytes(tensor_.bytes());
  if (values.size() * 4 != bytes.size()) throw std::logic_error("upload: wrong count");
  std::memcpy(bytes.data(), values.data(), bytes.size());
  upload_bytes(bytes);
}

void GuardedTensor::upload_bytes(const std::vector<unsigned char>& bytes) {
  device_->copy_from_host(*stream_, tensor_.data, bytes.data(), bytes.size());
  stream_->synchronize();
}

std::vector<unsigned char> GuardedTensor::download_bytes() const {
  std::vector<unsigned char> bytes(tensor_.bytes());
  device_->copy_to_host(*stream_, bytes.data(), tensor_.data, bytes.size());
  stream_->synchronize();
  return bytes;
}

Floats GuardedTensor::download() const {
  const std::vector<unsigned char> bytes = download_bytes();
  Floats values(static_cast<std::size_t>(tensor_.count()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    bf16 narrow{};
    if (tensor_.dtype == DType::bf16) {
      std::memcpy(&narrow, &bytes[2 * i], 2);
      values[i] = to_float(narrow);
    } else if (tensor_.dtype == DType::fp16) {
      fp16 other{};
      std::memcpy(&other, &bytes[2 * i], 2);
      values[i] = to_float(other);
    } else {
      std::memcpy(&values[i], &bytes[4 * i], 4);
    }
  }
  return values;
}

Ints GuardedTensor::download_ints() const {
  const std::vector<unsigned char> bytes = download_bytes();
  Ints values(bytes.size() / 4);
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::string GuardedTensor::damage() const {
  std::vector<unsigned char> all(memory_.bytes());
  device_->copy_to_host(*stream_, all.data(), memory_.data(), all.size());
  stream_->synchronize();
  for (std::size_t i = 0; i < guard_bytes; ++i) {
    if (all[guard_bytes - 1 - i] != sentinel) return std::to_string(i + 1) + " bytes before the tensor";
    if (all[guard_bytes + tensor_.bytes() + i] != sentinel) return std::to_string(i + 1) + " bytes after the tensor";
  }
  return {};
}

}  // namespace tw::test
