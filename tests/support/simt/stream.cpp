#include "tests/support/simt/stream.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "models/compute/cuda/kernels/check.hpp"
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
    gpu().fault = gpu().failing_code;
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
  auto* const on = static_cast<Stream*>(stream);
  if (on == nullptr) {
    run(work);
    return cudaSuccess;
  }
  if (on->capturing) {
    if (on->invalid) return cudaErrorStreamCaptureInvalidated;
    on->recorded.push_back(std::move(work));
    return cudaSuccess;
  }
  put_off(*on, [work = std::move(work)] { run(work); });
  return cudaSuccess;
}

// ---- work that is put off ----

namespace {

std::vector<std::weak_ptr<Queue>>& queues() {
  static auto& all = *new std::vector<std::weak_ptr<Queue>>;
  return all;
}

void do_first(Queue& queue) {
  const Queue::Entry entry = std::move(queue.entries.front());
  queue.entries.pop_front();
  struct Doing {  // done, too, where the harness throws what is wrong with a kernel
    explicit Doing(Queue& of) : queue(of) { queue.is_busy = true; }
    ~Doing() {
      queue.is_busy = false;
      ++queue.done;
    }
    Queue& queue;
  } doing(queue);
  if (entry.other) {
    finish(*entry.other, entry.until);
  } else {
    entry.work();
  }
}

/// Every queue but this goes on until it has to wait.
void let_others_go_on(const Queue& queue) {
  for (bool went = true; went;) {
    went = false;
    for (const std::weak_ptr<Queue>& one : queues()) {
      const std::shared_ptr<Queue> other = one.lock();
      if (!other || other.get() == &queue || other->is_busy) continue;
      while (!other->entries.empty()) {
        const Queue::Entry& next = other->entries.front();
        if (next.other && next.other->done < next.until) break;
        do_first(*other);
        went = true;
      }
    }
  }
}

}  // namespace

std::shared_ptr<Queue> new_queue() {
  std::erase_if(queues(), [](const auto& one) { return one.expired(); });
  const auto made = std::make_shared<Queue>();
  queues().push_back(made);
  return made;
}

void put_off(Stream& stream, Work work) {
  if (gpu().overlap == Overlap::none) {
    finish(*stream.queue, stream.queue->enqueued);  // from before
    return work();
  }
  stream.queue->entries.push_back({.work = std::move(work)});
  ++stream.queue->enqueued;
}

void put_off_wait(Stream& stream, std::shared_ptr<Queue> other, long until) {
  if (gpu().overlap == Overlap::none || other == stream.queue) return;
  stream.queue->entries.push_back({.other = std::move(other), .until = until});
  ++stream.queue->enqueued;
}

void finish(Queue& queue, long until) {
  while (queue.done < until) {
    if (gpu().overlap == Overlap::early) let_others_go_on(queue);
    if (queue.done < until) do_first(queue);
  }
}

void finish_all() {
  for (const std::weak_ptr<Queue>& one : std::vector(queues()))
    if (const std::shared_ptr<Queue> queue = one.lock()) finish(*queue, queue->enqueued);
}

long put_off_entries() {
  long entries = 0;
  for (const std::weak_ptr<Queue>& one : queues())
    if (const std::shared_ptr<Queue> queue = one.lock()) entries += queue->enqueued - queue->done;
  return entries;
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
  if (code == cudaSuccess) return;
  if (const char* const helps = models::what_helps(static_cast<cudaError_t>(code)))
    throw models::MachineFault("CUDA", code, name_of(code), call, __FILE__, __LINE__, helps);
  throw models::ApiError("CUDA", code, name_of(code), call, __FILE__, __LINE__);
}

}  // namespace tw::simt
