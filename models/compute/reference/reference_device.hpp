// The reference device: every operator as plain loops in float64, rounded once to the stored dtype. The oracle of the
// tests.
#pragma once

#include <memory>
#include <string>

#include "models/compute/registry.hpp"

namespace tw::models {

std::unique_ptr<Device> make_reference_device(const DeviceOptions& options);
int count_reference_devices();          ///< always 1
std::string why_no_reference_device();  ///< always empty

}  // namespace tw::models
