// What the comm tests share: the one job of the process, and tensors in host memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/job.hpp"
#include "models/compute/tensor.hpp"

namespace tw {

comm::Job& test_job();
/// The reference device: its memory is the host's.
models::Device& host_device();
/// "GPU-" and the rank.
std::string own_uuid();
/// The memory that TW_TEST_MEMORY says: the host's, a GPU's that only copies may touch (vault), or one that the
/// stand-in NCCL reads (gpu).
models::Device& tested_device();
/// The one that TW_TEST_COMM names, or the one that the job would choose, over the memory of tested_device().
std::unique_ptr<comm::Communicator> tested_communicator();

/// A stream whose work is done before a call returns, and that counts how often it was waited for.
struct HostStream : models::Stream {
  int waits = 0;
  void synchronize() override { ++waits; }
  void* native() const override { return const_cast<HostStream*>(this); }
};

/// From an address on the host to that on the device under test; 0 where they are the same.
inline std::ptrdiff_t device_offset = 0;
inline models::Tensor on_device(models::Tensor host) {
  if (host.data)
    host.data = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(host.data) +
                                        static_cast<std::uintptr_t>(device_offset));
  return host;
}

/// Host memory with guard elements on both sides.
template <class T>
class Guarded {
 public:
  Guarded(std::int64_t count, T fill)
      : count_(count), guard_(fill), memory_(static_cast<std::size_t>(count) + 2 * guards, fill) {}
  T* data() { return memory_.data() + guards; }
  T& operator[](std::int64_t i) { return data()[i]; }
  std::int64_t count() const { return count_; }
  bool intact() const {
    for (std::int64_t i = 0; i < guards; ++i)
      if (!same(memory_[static_cast<std::size_t>(i)]) ||
          !same(memory_[memory_.size() - 1 - static_cast<std::size_t>(i)]))
        return false;
    return true;
  }
  models::Tensor tensor() {
    return on_device({data(), sizeof(T) == 2 ? models::DType::bf16 : models::DType::float32, models::Dims{count_}});
  }

 private:
  static constexpr std::int64_t guards = 32;
  bool same(const T& value) const { return models::to_float(value) == models::to_float(guard_); }
  std::int64_t count_;
  T guard_;
  std::vector<T> memory_;
};

template <class T>
T value_of(float value) {
  if constexpr (sizeof(T) == 2)
    return models::to_bf16(value);
  else
    return value;
}

}  // namespace tw
