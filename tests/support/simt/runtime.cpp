// In place of CUDA's runtime: what the cuda device calls of it, in memory of the harness. Streams do their work at
// once. One GPU is there, made up: sm_90 with 64 MiB.
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "tests/support/simt/runtime.hpp"
#include "tests/support/simt/simt.hpp"

namespace tw::simt {

StandInGpu& gpu() {
  static StandInGpu& one = *new StandInGpu;  // never destroyed, as the memory
  return one;
}

}  // namespace tw::simt

namespace {

using tw::simt::gpu;

struct StandInStream {
  bool capturing = false;
};
struct StandInEvent {
  std::chrono::steady_clock::time_point time;
};

int captures = 0;  // streams that record
cudaError_t last_error = cudaSuccess;
cudaError_t done(cudaError_t code) {
  if (code != cudaSuccess) last_error = code;
  return code;
}
cudaError_t copied(void* to, const void* from, std::size_t bytes) {
  std::memmove(to, from, bytes);
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t CUDARTAPI cudaSetDevice(int device) { return done(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
cudaError_t CUDARTAPI cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = cudaDeviceProp{};
  std::strcpy(properties->name, "stand-in");
  properties->major = gpu().architecture / 10;
  properties->minor = gpu().architecture % 10;
  properties->totalGlobalMem = gpu().memory_bytes;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = gpu().architecture / 10;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = gpu().architecture % 10;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = 2;
      return cudaSuccess;
    default:
      return done(cudaErrorInvalidValue);
  }
}
cudaError_t CUDARTAPI cudaDeviceSynchronize() {
  gpu().calls.emplace_back("synchronize device");
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGetLastError() {
  const cudaError_t code = last_error;
  last_error = cudaSuccess;
  return code;
}
const char* CUDARTAPI cudaGetErrorName(cudaError_t) { return "an error of the stand-in"; }
const char* CUDARTAPI cudaGetErrorString(cudaError_t) { return "an error of the stand-in"; }

cudaError_t CUDARTAPI cudaMalloc(void** data, std::size_t bytes) {
  if (bytes > gpu().memory_bytes) return done(cudaErrorMemoryAllocation);
  *data = tw::simt::allocate(bytes);
  gpu().calls.emplace_back("allocate");
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaFree(void* data) {
  if (captures > 0) return done(cudaErrorStreamCaptureUnsupported);
  tw::simt::free(data);
  gpu().calls.emplace_back("free");
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaMallocHost(void** data, std::size_t bytes) {
  *data = std::malloc(bytes);
  return *data ? cudaSuccess : done(cudaErrorMemoryAllocation);
}
cudaError_t CUDARTAPI cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  *free_bytes = gpu().memory_bytes / 2;
  *total_bytes = gpu().memory_bytes;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind, cudaStream_t) {
  return copied(to, from, bytes);
}
cudaError_t CUDARTAPI cudaMemset(void* data, int value, std::size_t bytes) {
  std::memset(data, value, bytes);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t) {
  return cudaMemset(data, value, bytes);
}

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = reinterpret_cast<cudaStream_t>(new StandInStream);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream) {
  delete reinterpret_cast<StandInStream*>(stream);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t) {
  gpu().calls.emplace_back("synchronize stream");
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  const bool capturing = stream != nullptr && reinterpret_cast<StandInStream*>(stream)->capturing;
  *status = capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
/// Nothing is recorded: what is enqueued runs. For what a device refuses while it is captured.
cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  reinterpret_cast<StandInStream*>(stream)->capturing = true;
  ++captures;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  reinterpret_cast<StandInStream*>(stream)->capturing = false;
  --captures;
  *graph = nullptr;
  return cudaSuccess;
}

// Work is done when a call returns, so that nothing is recorded: replays are tested with a device that records (tests/support).
cudaError_t CUDARTAPI cudaGraphInstantiate(cudaGraphExec_t* graph, cudaGraph_t, unsigned long long) {
  *graph = nullptr;
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return done(cudaErrorNotSupported); }
cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
cudaError_t CUDARTAPI cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }

cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t* event) {
  *event = reinterpret_cast<cudaEvent_t>(new StandInEvent);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
  delete reinterpret_cast<StandInEvent*>(event);
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  reinterpret_cast<StandInEvent*>(event)->time = std::chrono::steady_clock::now();
  return cudaSuccess;
}
cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t) { return cudaSuccess; }
cudaError_t CUDARTAPI cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  const std::chrono::duration<float, std::milli> elapsed =
      reinterpret_cast<StandInEvent*>(end)->time - reinterpret_cast<StandInEvent*>(start)->time;
  *milliseconds = elapsed.count();
  return cudaSuccess;
}

}  // extern "C"
