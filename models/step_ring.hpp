// Optimizer steps on their way through a stream: what the host hands to each, and what each leaves for the host to read
// later.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "models/compute/device.hpp"
#include "models/trainer.hpp"

namespace tw::models {

/// One step's events and its memory on the host. Device work reads and writes the memory in the order of the stream, so
/// that it is the step's own until `done` is over.
struct StepSlot {
  /// Four for each micro-batch: start, data there, forward done, backward done.
  std::vector<std::unique_ptr<Event>> marks;
  std::unique_ptr<Event> synchronised, updated, done;
  HostBuffer memory;
  StepScalars* given = nullptr;    ///< copied to the device before the update
  StepScalars* scalars = nullptr;  ///< as the update left them
  float* losses = nullptr;         ///< (accumulate)
  double ready_seconds = 0;  ///< of the host inside GradientSync::ready, and in exchanges of backward
  double forward_exchange_seconds = 0;

  Event& mark(std::int64_t micro, int which) { return *marks[static_cast<std::size_t>(4 * micro + which)]; }
};

/// The steps in flight. As many as `ahead` may be; who opens one more waits for the oldest alone.
class StepRing {
 public:
  /// The device and the stream outlive the ring.
  StepRing(Device& device, Stream& stream, std::int64_t accumulate);
  /// The next step's slot.
  StepSlot& open();
  /// All of the step has been enqueued: so are the copies of what it leaves, from device memory.
  void close(const Tensor& losses, const StepScalars* scalars);
  /// Waits for all steps; the results since the last call, oldest first.
  std::vector<StepResult> collect();
  /// Steps in flight at most, from 1.
  void set_ahead(int steps);

 private:
  void finish_oldest();
  std::unique_ptr<StepSlot> make() const;

  Device& device_;
  Stream& stream_;
  std::int64_t accumulate_;
  bool is_asynchronous_;
  std::size_t ahead_;
  std::deque<std::unique_ptr<StepSlot>> pending_, free_;  // the last pending one may be open
  std::vector<StepResult> results_;
};

}  // namespace tw::models
