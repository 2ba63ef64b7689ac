// Owned memory, and what a device need not have: page-locked memory, graphs.
#include <algorithm>
#include <cstdlib>

#include "models/compute/device.hpp"
#include "models/compute/error.hpp"

namespace tw::models {

template <bool of_host>
OwnedMemory<of_host>::OwnedMemory(Device& device, std::size_t bytes) : device_(&device), bytes_(bytes) {
  if (bytes > 0) data_ = of_host ? device.allocate_host(bytes) : device.allocate(bytes);
}

template <bool of_host>
OwnedMemory<of_host>::~OwnedMemory() {
  if (data_ != nullptr) of_host ? device_->free_host(data_) : device_->free(data_);
}

template class OwnedMemory<false>;
template class OwnedMemory<true>;

void* Device::allocate_host(std::size_t bytes) {
  constexpr std::size_t alignment = 128;
  const std::size_t padded = (bytes + alignment - 1) / alignment * alignment;
  void* data = padded >= bytes ? std::aligned_alloc(alignment, std::max(padded, alignment)) : nullptr;
  if (data == nullptr)
    throw Error(Failure::environment, "cannot allocate " + std::to_string(bytes) + " bytes of host memory");
  return data;
}
void Device::free_host(void* data) noexcept { std::free(data); }

void Device::begin_capture(Stream&) {
  throw Error(Failure::unsupported, std::string(to_string(info().kind)) + ": this device records no graphs");
}
std::unique_ptr<Graph> Device::end_capture(Stream&) {
  throw Error(Failure::unsupported, std::string(to_string(info().kind)) + ": this device records no graphs");
}

const char* to_string(DeviceKind kind) {
  static constexpr const char* names[] = {"reference", "cpu", "cuda"};
  return names[static_cast<std::size_t>(kind)];
}

std::string Device::why_unsupported(Precision precision) const {
  std::string reason = why_unsupported(storage(precision));
  return reason.empty() ? why_no_math(math(precision)) : reason;
}

}  // namespace tw::models
