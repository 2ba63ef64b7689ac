// Which devices this build has, and how to get one.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/compute/device.hpp"

namespace tw::models {

struct DeviceOptions {
  int index = 0;    ///< which of the kind (CUDA)
  int threads = 0;  ///< of the host (DeviceInfo); 0: CPU as many as the affinity mask allows, CUDA 1
  /// Libraries' algorithms are timed when plans are built. False: on CUDA a library's first choice, on the CPU a fixed
  /// one for each shape, so that every run of a program on one kind of device, with as many threads, computes the same
  /// bits.
  bool time_algorithms = true;
  /// Two runs of one algorithm give the same bits (CUDA; the others always do). False: fused attention and convolutions
  /// may also be such as add in any order, which is faster and takes less memory.
  bool deterministic = true;
};

/// One line of backends.def.
struct Backend {
  DeviceKind kind;
  const char* name;                                         ///< the value of --device
  std::unique_ptr<Device> (*create)(const DeviceOptions&);  ///< throws Error{environment} with the reason
  int (*count)();                                           ///< devices visible now; 0 where none or not usable
  std::string (*why_none)();                                ///< why count() is 0; empty otherwise
};

// What the folder of each line of backends.def defines: make_cpu_device(), count_cpu_devices(), why_no_cpu_device(), …
#define TW_BACKEND(name)                                                      \
  std::unique_ptr<Device> make_##name##_device(const DeviceOptions& options); \
  int count_##name##_devices();                                               \
  std::string why_no_##name##_device();
#include "models/compute/backends.def"

/// All backends compiled into this program, best first (cuda, cpu, reference).
const std::vector<Backend>& backends();
/// By name; throws Error{usage} that lists the names known, Error{environment} where it is known but not built or not
/// usable.
std::unique_ptr<Device> create_device(const std::string& name, const DeviceOptions& options);

}  // namespace tw::models
