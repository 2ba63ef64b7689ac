#include "tests/support/simt/stream.hpp"

#include <cuda_runtime_api.h>

#include <utility>

#include "models/compute/error.hpp"
#include "tests/support/simt/runtime.hpp"

namespace tw::simt {

StandInGpu& gpu() {
  static StandInGpu& one = *new StandInGpu;  // never destroyed, as the memory
  return one;
}

void run(const Work& work) {
  if (gpu().fault != cudaSuccess) return;
  ++gpu().work_done;
  if (gpu().failing_work > 0 && --gpu().failing_work == 0) {
    gpu().fault = cudaErrorIllegalAddress;
    return;
  }
  take(gpu().work_ms);
  work();
}

void take(double milliseconds) {
  if (gpu().clock_ms) *gpu().clock_ms += milliseconds;
}

int enqueue(void* stream, Work work) {
  if (gpu().fault != cudaSuccess) return gpu().fault;
  if (auto* const on = static_cast<Stream*>(stream); on != nullptr && on->capturing) {
    if (on->invalid) return cudaErrorStreamCaptureInvalidated;
    on->recorded.push_back(std::move(work));
    return cudaSuccess;
  }
  run(work);
  return cudaSuccess;
}

const char* name_of(int code) {
  switch (code) {
    case cudaErrorMemoryAllocation:
      return "cudaErrorMemoryAllocation";
    case cudaErrorIllegalAddress:
      return "cudaErrorIllegalAddress";
    case cudaErrorIllegalState:
      return "cudaErrorIllegalState";
    case cudaErrorStreamCaptureUnsupported:
      return "cudaErrorStreamCaptureUnsupported";
    case cudaErrorStreamCaptureInvalidated:
      return "cudaErrorStreamCaptureInvalidated";
    case cudaErrorStreamCaptureIsolation:
      return "cudaErrorStreamCaptureIsolation";
    case cudaErrorCapturedEvent:
      return "cudaErrorCapturedEvent";
    default:
      return "an error of the stand-in";
  }
}

void enqueue_or_throw(void* stream, const char* call, Work work) {
  const int code = enqueue(stream, std::move(work));
  if (code != cudaSuccess) throw models::ApiError("CUDA", code, name_of(code), call, __FILE__, __LINE__);
}

}  // namespace tw::simt
