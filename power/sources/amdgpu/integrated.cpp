#include "power/sources/amdgpu/integrated.hpp"

#include "power/meter/sysfs.hpp"

namespace tw::power {

bool amdgpu::is_integrated(const std::filesystem::path& chip) {
  constexpr const char* mi300a = "0x74a0";
  std::error_code none;
  return std::filesystem::exists(chip / "in1_input", none) ||
         sysfs::text_or_empty(chip / "device" / "device") == mi300a;
}

}  // namespace tw::power
