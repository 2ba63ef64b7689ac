// How much scratch memory the products of a network take on a CPU, before anything is planned.
#pragma once

#include <cstddef>
#include <cstdint>

#include "models/catalog/description.hpp"
#include "models/compute/dtype.hpp"

namespace tw::models {

/// An upper estimate of Device::arena_bytes() of a cpu device with `threads` threads once all plans of the network are
/// built. What the plans themselves lay out is counted; what the library takes for each thread (copies of blocks,
/// partial sums of gradients) is bounded by the largest of its known ways.
std::size_t workspace_estimate(const NetworkDescription& network, DType precision, std::int64_t micro_batch,
                               std::int64_t seq_len, int threads);

}  // namespace tw::models
