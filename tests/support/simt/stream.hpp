// Work of the made-up GPU: kernels, copies, and what the stand-ins for cuBLASLt and cuDNN compute. It is done when it
// is enqueued; while its stream is captured it is noted instead, and done whenever the graph is launched. Needs no
// header of CUDA: the stand-ins for the libraries call it too.
#pragma once

#include <functional>
#include <vector>

namespace tw::simt {

using Work = std::function<void()>;

/// Behind a cudaStream_t.
struct Stream {
  bool capturing = false;
  bool invalid = false;  ///< the capture: a call was made that a captured stream refuses
  std::vector<Work> recorded;
  int priority = 0;  ///< lower numbers go first
};

/// Does or notes `work`; `stream` is a cudaStream_t of the stand-in, null for the default stream. Returns what CUDA's
/// runtime would: 0 (cudaSuccess) or the code of an error. On a device that has failed nothing is done any more.
__attribute__((visibility("default"))) int enqueue(void* stream, Work work);
/// The same; throws ApiError, with `call` as the expression that failed.
void enqueue_or_throw(void* stream, const char* call, Work work);
/// Work that is being done takes so much longer on the made-up clock, where there is one (StandInGpu::clock_ms).
__attribute__((visibility("default"))) void take(double milliseconds);
/// One piece of work, as the device does it: may make the device fail (StandInGpu::failing_work).
void run(const Work& work);

}  // namespace tw::simt
