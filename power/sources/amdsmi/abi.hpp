// The binary interface of libamd_smi.so as far as it is used, written from AMD's AMD SMI API reference: no AMD header
// is needed to build, and none to test. No structure is passed: their layout has changed between versions (that of
// amdsmi_power_info_t for one), while these prototypes are the same from ROCm 5.7 on.
#pragma once

#include <cstdint>

namespace tw::power::amdsmi {

using Handle = void*;  // amdsmi_socket_handle, amdsmi_processor_handle

/// amdsmi_status_t. `symbol_missing` is ours: the library lacks the function.
enum Code : int {
  success = 0,
  invalid_argument = 1,
  not_supported = 2,
  not_implemented = 3,
  driver_error = 6,  // of libdrm
  no_permission = 10,
  not_found = 31,
  driver_not_loaded = 34,
  no_driver = 51,
  symbol_missing = -1
};

inline constexpr std::uint64_t initialise_gpus = 1u << 1;  // AMDSMI_INIT_AMD_GPUS
inline constexpr int processor_gpu = 1;                    // AMDSMI_PROCESSOR_TYPE_AMD_GPU
inline constexpr std::uint64_t unknown_energy = ~std::uint64_t{0};

/// A PCI address as amdsmi_get_gpu_bdf_id returns it.
struct Address {
  std::uint32_t domain = 0, bus = 0, device = 0, function = 0, partition = 0;
};
constexpr Address unpack(std::uint64_t id) {
  return {static_cast<std::uint32_t>(id >> 32), static_cast<std::uint32_t>(id >> 8) & 0xff,
          static_cast<std::uint32_t>(id >> 3) & 0x1f, static_cast<std::uint32_t>(id) & 0x7,
          static_cast<std::uint32_t>(id >> 28) & 0xf};
}

}  // namespace tw::power::amdsmi
