// The cuda device's own kernels as a Device without a GPU: each operator without a plan calls the same function of
// kernels.hpp, in memory and on threads of the harness. So the operator tests of all devices run over the kernels too.
#pragma once

#include <memory>

#include "models/compute/device.hpp"

namespace tw::simt {

std::unique_ptr<Device> make_device();

}  // namespace tw::simt
