#include "models/compute/registry.hpp"

#include "models/compute/error.hpp"

namespace tw::models {

// A backend that was not compiled in is listed all the same, with that as its reason.
#define TW_ABSENT_BACKEND(name, option)                                                 \
  std::string why_no_##name##_device() {                                                \
    return "not compiled into this program (configure a build with -D" option "=ON)";   \
  }                                                                                     \
  std::unique_ptr<Device> make_##name##_device(const DeviceOptions&) {                  \
    throw Error(Failure::environment, "device " #name ": " + why_no_##name##_device()); \
  }                                                                                     \
  int count_##name##_devices() { return 0; }
#if !TW_HAVE_CPU
TW_ABSENT_BACKEND(cpu, "TRAINWATT_CPU")
#endif
#if !TW_HAVE_CUDA
TW_ABSENT_BACKEND(cuda, "TRAINWATT_CUDA")
#endif

const std::vector<Backend>& backends() {
  static const std::vector<Backend> list = {
#define TW_BACKEND(name) \
  {DeviceKind::name, #name, make_##name##_device, count_##name##_devices, why_no_##name##_device},
#include "models/compute/backends.def"
  };
  return list;
}

std::unique_ptr<Device> create_device(const std::string& name, const DeviceOptions& options) {
  std::string known;
  for (const Backend& backend : backends()) {
    if (name == backend.name) {
      if (backend.count() == 0) throw Error(Failure::environment, "device " + name + ": " + backend.why_none());
      return backend.create(options);
    }
    known += (known.empty() ? "" : ", ") + std::string(backend.name);
  }
  throw Error(Failure::usage, "unknown device \"" + name + "\"; known: " + known);
}

}  // namespace tw::models
