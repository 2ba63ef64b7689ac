// Work of the made-up GPU: kernels, copies, and what the stand-ins for cuBLASLt and cuDNN compute. It is done when it
// is enqueued, or put off (StandInGpu::overlap); while its stream is captured it is noted instead, and done whenever
// the graph is launched. Needs no header of CUDA: the stand-ins for the libraries call it too.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

namespace tw::simt {

using Work = std::function<void()>;

/// What a stream has put off, in its order. It outlives its stream in the events and streams that wait for it.
struct Queue {
  /// Work, or waiting for entry number `until` of another queue.
  struct Entry {
    Work work{};
    std::shared_ptr<Queue> other{};
    long until = 0;
  };
  std::deque<Entry> entries;
  long enqueued = 0, done = 0;  ///< entries, numbered from 1
  bool is_busy = false;         ///< its first entry is being done
};
std::shared_ptr<Queue> new_queue();

/// Behind a cudaStream_t.
struct Stream {
  bool capturing = false;
  bool invalid = false;  ///< the capture: a call was made that a captured stream refuses
  std::vector<Work> recorded;
  int priority = 0;  ///< lower numbers go first
  std::shared_ptr<Queue> queue = new_queue();
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

/// Does or puts off what is no piece of work of its own: noting an event's time, or a graph. Not while it is captured.
void put_off(Stream& stream, Work work);
/// What is put off on `stream` from here on waits for entry `until` of `other`.
void put_off_wait(Stream& stream, std::shared_ptr<Queue> other, long until);
/// Does entries of the queue up to this number; of other queues what they wait for, and in Overlap::early all they can.
void finish(Queue& queue, long until);
/// All that has been put off.
void finish_all();
/// Entries that have been put off and not done.
long put_off_entries();

}  // namespace tw::simt
