// Operands for measurements: speed and power depend on values, and zeros are the cheapest (models/README.md).
#pragma once

#include "models/compute/device.hpp"

namespace tw::bench {

/// Values in ±scale, float32 or bf16 as the tensor's dtype: one seeded block of 1 MiB over and over. Synchronises.
void fill_random(models::Device& device, models::Stream& stream, const models::Tensor& tensor, float scale = 1);

}  // namespace tw::bench
