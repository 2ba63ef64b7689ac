// In place of models/compute/registry.cpp: the cuda device on stand-ins for its libraries is the device under test, and
// the reference is its oracle.
#include "models/compute/registry.hpp"

namespace tw {

using namespace models;

const std::vector<Backend>& models::backends() {
  static const std::vector<Backend> list = {
      {DeviceKind::cuda, "stand_in", make_cuda_device, count_cuda_devices, why_no_cuda_device}};
  return list;
}

std::unique_ptr<Device> models::create_device(const std::string& name, const DeviceOptions& options) {
  return name == "reference" ? make_reference_device(options) : make_cuda_device(options);
}

}  // namespace tw
