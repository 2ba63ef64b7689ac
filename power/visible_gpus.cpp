#include "power/visible_gpus.hpp"

#include "power/sources/amdgpu/amdgpu.hpp"
#include "power/sources/nvml/library.hpp"

namespace tw::power {

Sight look() {
  Sight all = nvml::look();
  const Sight amd = amdgpu::look(!all.addressable.empty());
  if (all.unclear.empty()) all.unclear = amd.unclear;
  all.addressable.insert(all.addressable.end(), amd.addressable.begin(), amd.addressable.end());
  all.visible.insert(all.visible.end(), amd.visible.begin(), amd.visible.end());
  return all;
}

GpuName name_of_gpu(const std::string& uuid) { return nvml::name_of(uuid); }

std::vector<std::string> names_of_gpus() { return nvml::names_of_visible(); }

}  // namespace tw::power
