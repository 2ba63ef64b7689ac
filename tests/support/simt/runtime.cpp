// In place of CUDA's runtime: what the cuda device calls of it, in memory of the harness. One GPU is there, made up:
// sm_90 with 64 MiB. Streams do their work at once, or put it off (Overlap); a stream that is captured notes it, and a
// graph does it at each launch. While a stream is captured, what a GPU then refuses is refused: allocating, freeing,
// waiting for the device, for the stream or for an event of the capture. More lenient than CUDA: a capture does not
// spread to other streams by events, which is refused as not supported.
#include "tests/support/simt/runtime.hpp"

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/support/simt/memory.hpp"
#include "tests/support/simt/simt.hpp"

namespace {

using tw::simt::gpu;
using tw::simt::Queue;
using tw::simt::Stream;
using tw::simt::Work;

struct Event {
  unsigned flags = cudaEventDefault;
  std::shared_ptr<double> ms = std::make_shared<double>(0);
  const Stream* captured = nullptr;  // the stream whose capture has recorded it last
  std::shared_ptr<Queue> queue;      // of the stream that has recorded it last, and its entry there
  long number = 0;
  bool is_done() const { return !queue || queue->done >= number; }
};
/// A recorded graph, or one that can be launched.
struct Graph {
  std::shared_ptr<const std::vector<Work>> work;
};

int captures = 0;  // streams that are captured
long handle_count = 0;
cudaError_t last_error = cudaSuccess;

Stream& of(cudaStream_t stream) { return *reinterpret_cast<Stream*>(stream); }
Event& of(cudaEvent_t event) { return *reinterpret_cast<Event*>(event); }
bool is_captured(cudaStream_t stream) { return stream != nullptr && of(stream).capturing; }

/// A call's answer: a device that has failed says so in each.
cudaError_t done(cudaError_t code = cudaSuccess) {
  if (gpu().fault != cudaSuccess) return static_cast<cudaError_t>(gpu().fault);
  if (code != cudaSuccess) last_error = code;
  return code;
}
bool has_failed() { return gpu().fault != cudaSuccess; }
template <class Made, class Handle>
void make(Handle* handle) {
  *handle = reinterpret_cast<Handle>(new Made);
  ++handle_count;
}
template <class Made, class Handle>
void destroy(Handle handle) {
  if (handle == nullptr) return;
  delete reinterpret_cast<Made*>(handle);
  --handle_count;
}
bool runs_out_of_memory(std::size_t bytes) {
  if (gpu().failing_allocation == 0 || --gpu().failing_allocation > 0) return false;
  gpu().refused_bytes = bytes;
  return true;
}
void poison() {
  if (gpu().poisoned_bytes != 0) gpu().poisoned += static_cast<long>(tw::simt::memory().poison(gpu().poisoned_bytes));
}
cudaError_t enqueued(cudaStream_t stream, Work work) {
  return done(static_cast<cudaError_t>(tw::simt::enqueue(stream, std::move(work))));
}

}  // namespace

long tw::simt::handles() { return handle_count; }

extern "C" {

cudaError_t CUDARTAPI cudaSetDevice(int device) { return done(device == 0 ? cudaSuccess : cudaErrorInvalidDevice); }
cudaError_t CUDARTAPI cudaGetDeviceCount(int* count) {
  *count = gpu().count_status == cudaSuccess ? 1 : 0;
  return static_cast<cudaError_t>(gpu().count_status);
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
  return done();
}
cudaError_t CUDARTAPI cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrComputeCapabilityMajor:
      *value = gpu().architecture / 10;
      return done();
    case cudaDevAttrComputeCapabilityMinor:
      *value = gpu().architecture % 10;
      return done();
    case cudaDevAttrMultiProcessorCount:
      *value = 2;
      return done();
    default:
      return done(cudaErrorInvalidValue);
  }
}
cudaError_t CUDARTAPI cudaDeviceSynchronize() {
  if (captures > 0) return done(cudaErrorStreamCaptureUnsupported);
  gpu().calls.emplace_back("synchronize device");
  tw::simt::finish_all();
  return done();
}
cudaError_t CUDARTAPI cudaGetLastError() {
  const cudaError_t code = done(last_error);
  last_error = cudaSuccess;
  return code;
}
const char* CUDARTAPI cudaGetErrorName(cudaError_t code) { return tw::simt::name_of(code); }
const char* CUDARTAPI cudaGetErrorString(cudaError_t) { return "made up by the stand-in"; }

// ---- memory ----

cudaError_t CUDARTAPI cudaMalloc(void** data, std::size_t bytes) {
  if (has_failed()) return done();
  if (captures > 0) return done(cudaErrorStreamCaptureUnsupported);
  if (bytes > gpu().memory_bytes || runs_out_of_memory(bytes)) return done(cudaErrorMemoryAllocation);
  *data = tw::simt::allocate(bytes);
  gpu().calls.emplace_back("allocate");
  return done();
}
cudaError_t CUDARTAPI cudaFree(void* data) {
  if (captures > 0) return done(cudaErrorStreamCaptureUnsupported);
  tw::simt::finish_all();
  tw::simt::free(data);  // of a device that has failed too, whose memory is gone
  gpu().calls.emplace_back("free");
  return done();
}
cudaError_t CUDARTAPI cudaMallocHost(void** data, std::size_t bytes) {
  if (has_failed()) return done();
  if (captures > 0) return done(cudaErrorStreamCaptureUnsupported);
  if (runs_out_of_memory(bytes)) return done(cudaErrorMemoryAllocation);
  *data = std::malloc(bytes);
  if (*data == nullptr) return done(cudaErrorMemoryAllocation);
  ++handle_count;
  return done();
}
cudaError_t CUDARTAPI cudaFreeHost(void* data) {
  tw::simt::finish_all();
  if (data != nullptr) --handle_count;
  std::free(data);
  return done();
}
cudaError_t CUDARTAPI cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  *free_bytes = gpu().memory_bytes / 2;
  *total_bytes = gpu().memory_bytes;
  return done();
}
cudaError_t CUDARTAPI cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind,
                                      cudaStream_t stream) {
  return enqueued(stream, [=] { std::memmove(to, from, bytes); });
}
cudaError_t CUDARTAPI cudaMemset(void* data, int value, std::size_t bytes) {
  return enqueued(nullptr, [=] { std::memset(data, value, bytes); });
}
cudaError_t CUDARTAPI cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  return enqueued(stream, [=] { std::memset(data, value, bytes); });
}

// ---- streams and graphs ----

cudaError_t CUDARTAPI cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  if (has_failed()) return done();
  make<Stream>(stream);
  return done();
}
cudaError_t CUDARTAPI cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = tw::simt::least_priority;
  *greatest = tw::simt::greatest_priority;
  return done();
}
cudaError_t CUDARTAPI cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int priority) {
  if (has_failed()) return done();
  make<Stream>(stream);
  of(*stream).priority = priority;
  return done();
}
cudaError_t CUDARTAPI cudaStreamDestroy(cudaStream_t stream) {
  if (is_captured(stream)) --captures;
  if (stream != nullptr) tw::simt::finish(*of(stream).queue, of(stream).queue->enqueued);
  destroy<Stream>(stream);
  return done();
}
cudaError_t CUDARTAPI cudaStreamSynchronize(cudaStream_t stream) {
  if (is_captured(stream)) {
    of(stream).invalid = true;
    return done(cudaErrorStreamCaptureUnsupported);
  }
  gpu().calls.emplace_back("synchronize stream");
  if (stream != nullptr) tw::simt::finish(*of(stream).queue, of(stream).queue->enqueued);
  return done();
}
cudaError_t CUDARTAPI cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  if (!is_captured(stream)) {
    if (of(event).captured != nullptr) return done(cudaErrorNotSupported);
    if (of(event).queue) tw::simt::put_off_wait(of(stream), of(event).queue, of(event).number);
    return done();
  }
  if (of(event).captured == &of(stream)) return done();
  of(stream).invalid = true;
  return done(cudaErrorStreamCaptureIsolation);
}
cudaError_t CUDARTAPI cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = !is_captured(stream) ? cudaStreamCaptureStatusNone
            : of(stream).invalid ? cudaStreamCaptureStatusInvalidated
                                 : cudaStreamCaptureStatusActive;
  return done();
}
cudaError_t CUDARTAPI cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (has_failed()) return done();
  if (stream == nullptr) return done(cudaErrorStreamCaptureUnsupported);
  if (is_captured(stream)) return done(cudaErrorIllegalState);
  of(stream).capturing = true;
  ++captures;
  return done();
}
cudaError_t CUDARTAPI cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  if (!is_captured(stream)) return done(cudaErrorIllegalState);
  --captures;
  of(stream).capturing = false;
  const bool is_invalid = std::exchange(of(stream).invalid, false);
  std::vector<Work> recorded = std::exchange(of(stream).recorded, {});
  if (has_failed()) return done();
  if (is_invalid) return done(cudaErrorStreamCaptureInvalidated);
  make<Graph>(graph);
  reinterpret_cast<Graph*>(*graph)->work = std::make_shared<const std::vector<Work>>(std::move(recorded));
  ++gpu().recorded;
  return done();
}
cudaError_t CUDARTAPI cudaGraphInstantiate(cudaGraphExec_t* graph, cudaGraph_t recorded, unsigned long long) {
  if (has_failed()) return done();
  if (gpu().refuses_graphs) return done(cudaErrorMemoryAllocation);
  make<Graph>(graph);
  *reinterpret_cast<Graph*>(*graph) = *reinterpret_cast<Graph*>(recorded);
  return done();
}
cudaError_t CUDARTAPI cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream) {
  if (has_failed()) return done();
  if (is_captured(stream)) return done(cudaErrorNotSupported);
  ++gpu().launched;
  tw::simt::put_off(of(stream), [all = reinterpret_cast<Graph*>(graph)->work] {
    poison();
    for (const Work& work : *all) tw::simt::run(work);
  });
  return cudaSuccess;  // what fails there shows later
}
cudaError_t CUDARTAPI cudaGraphDestroy(cudaGraph_t graph) {
  destroy<Graph>(graph);
  return done();
}
cudaError_t CUDARTAPI cudaGraphExecDestroy(cudaGraphExec_t graph) {
  destroy<Graph>(graph);
  return done();
}

// ---- events ----

cudaError_t CUDARTAPI cudaEventCreate(cudaEvent_t* event) {
  if (has_failed()) return done();
  make<Event>(event);
  return done();
}
cudaError_t CUDARTAPI cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (has_failed()) return done();
  make<Event>(event);
  of(*event).flags = flags;
  return done();
}
cudaError_t CUDARTAPI cudaEventDestroy(cudaEvent_t event) {
  destroy<Event>(event);
  return done();
}
cudaError_t CUDARTAPI cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (has_failed()) return done();
  of(event).captured = is_captured(stream) ? &of(stream) : nullptr;
  if (is_captured(stream)) return done();
  const auto note = [ms = of(event).ms] {
    *ms = gpu().clock_ms.value_or(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count());
    poison();
  };
  if (stream == nullptr) {
    of(event).queue = nullptr;
    note();
    return done();
  }
  tw::simt::put_off(of(stream), note);
  of(event).queue = of(stream).queue;
  of(event).number = of(stream).queue->enqueued;
  return done();
}
cudaError_t CUDARTAPI cudaEventSynchronize(cudaEvent_t event) {
  if (of(event).captured != nullptr) return done(cudaErrorCapturedEvent);
  if (!of(event).is_done() && (of(event).flags & cudaEventBlockingSync) == 0) ++gpu().spins;
  if (of(event).queue) tw::simt::finish(*of(event).queue, of(event).number);
  return done();
}
cudaError_t CUDARTAPI cudaEventQuery(cudaEvent_t event) {
  if (of(event).captured != nullptr) return done(cudaErrorCapturedEvent);
  return done(of(event).is_done() ? cudaSuccess : cudaErrorNotReady);
}
cudaError_t CUDARTAPI cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  if (!of(start).is_done() || !of(end).is_done()) return done(cudaErrorNotReady);
  *milliseconds = static_cast<float>(*of(end).ms - *of(start).ms);
  return done(of(start).captured == nullptr && of(end).captured == nullptr ? cudaSuccess : cudaErrorCapturedEvent);
}

}  // extern "C"
