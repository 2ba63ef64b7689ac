// What fp8 asks of a micro-batch.
#pragma once

#include <cstdint>
#include <string>

#include "models/catalog/description.hpp"

namespace tw::models {

/// Why a GPU does not train micro-batches of this size in fp8, with what helps; empty where it does. The rows and
/// features of the linear layers that compute in fp8 must be multiples of 16. Also where the network has no such layer
/// at all (why_no_fp8()).
std::string why_no_fp8_batch(const NetworkDescription& network, std::int64_t micro_batch, std::int64_t seq_len);

}  // namespace tw::models
