// Recorded work of a cuda device. Private to models/compute/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "models/compute/device.hpp"

namespace tw::models::cuda {

/// From here on `stream` records what this thread enqueues on it. Other threads go on as they like (a watch over a
/// communicator asks its library all the time).
void begin_capture(cudaStream_t stream);
/// What was recorded, ready to be launched on a stream of the same device. An empty record launches nothing. `memory` lives
/// as long as the graph: what the recorded calls used of a workspace that may grow.
std::unique_ptr<Graph> end_capture(cudaStream_t stream, std::shared_ptr<const void> memory = nullptr);

}  // namespace tw::models::cuda
