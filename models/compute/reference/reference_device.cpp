// The reference device: every operator as plain loops in float64, rounded once to the stored dtype. The oracle of the
// tests.
#include "models/compute/registry.hpp"

#include <omp.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "models/compute/error.hpp"
#include "models/compute/host_stream.hpp"
#include "models/compute/reference/reference.hpp"

namespace tw::models {
namespace reference {

ReferenceDevice::~ReferenceDevice() {
  for (const auto& [data, bytes] : blocks_) std::free(data);
}

DeviceInfo ReferenceDevice::info() const {
  DeviceInfo info;
  info.kind = DeviceKind::reference;
  info.name = "reference (float64 loops)";
  info.threads = threads_;
  info.memory_bytes =
      static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<std::size_t>(sysconf(_SC_PAGE_SIZE));
  return info;
}

std::string ReferenceDevice::why_unsupported(DType dtype) const {
  return supports(Op::add, dtype) ? std::string() : "the reference device computes on float32, bf16 and fp16";
}

void* ReferenceDevice::allocate(std::size_t bytes) {
  constexpr std::size_t alignment = 128;
  const std::size_t padded = (bytes + alignment - 1) / alignment * alignment;
  void* data = padded >= bytes ? std::aligned_alloc(alignment, std::max(padded, alignment)) : nullptr;
  if (data == nullptr) {
    throw Error(Failure::environment, "reference device: cannot allocate " + std::to_string(bytes) + " bytes");
  }
  blocks_[data] = bytes;
  allocated_ += bytes;
  peak_ = std::max(peak_, allocated_);
  return data;
}

void ReferenceDevice::free(void* data) noexcept {
  const auto found = blocks_.find(data);
  if (found == blocks_.end()) return;
  allocated_ -= found->second;
  blocks_.erase(found);
  std::free(data);
}

std::unique_ptr<Stream> ReferenceDevice::create_stream() { return std::make_unique<HostStream>(); }
std::unique_ptr<Event> ReferenceDevice::create_event() { return std::make_unique<HostEvent>(); }

std::unique_ptr<LinearPlan> ReferenceDevice::plan(const LinearShape& shape) {
  return std::make_unique<ReferenceLinear>(*this, shape);
}
std::unique_ptr<ConvolutionPlan> ReferenceDevice::plan(const ConvolutionShape& shape) {
  return std::make_unique<ReferenceConvolution>(*this, shape);
}
std::unique_ptr<AttentionPlan> ReferenceDevice::plan(const AttentionShape& shape) {
  return std::make_unique<ReferenceAttention>(*this, shape);
}
std::unique_ptr<ClassifierPlan> ReferenceDevice::plan(const ClassifierShape& shape) {
  return std::make_unique<ReferenceClassifier>(*this, shape);
}

}  // namespace reference

std::unique_ptr<Device> make_reference_device(const DeviceOptions& options) {
  if (options.index != 0) throw Error(Failure::environment, "reference device: there is only index 0");
  return std::make_unique<reference::ReferenceDevice>(options.threads > 0 ? options.threads : omp_get_num_procs());
}
int count_reference_devices() { return 1; }
std::string why_no_reference_device() { return {}; }

}  // namespace tw::models
