#include "models/step_ring.hpp"

#include <algorithm>
#include <utility>

namespace tw::models {

StepRing::StepRing(Device& device, Stream& stream, std::int64_t accumulate)
    : device_(device),
      stream_(stream),
      accumulate_(accumulate),
      is_asynchronous_(device.is_asynchronous()),
      ahead_(is_asynchronous_ ? Trainer::most_ahead : 1) {}

std::unique_ptr<StepSlot> StepRing::make() const {
  auto slot = std::make_unique<StepSlot>();
  for (std::int64_t i = 0; i < 4 * accumulate_; ++i) slot->marks.push_back(device_.create_event());
  for (auto* event : {&slot->synchronised, &slot->updated}) *event = device_.create_event();
  slot->done = device_.create_waited_event();  // the one that the host waits for: the others have happened by then
  slot->memory = HostBuffer(device_, 2 * sizeof(StepScalars) + static_cast<std::size_t>(accumulate_) * sizeof(float));
  slot->given = static_cast<StepScalars*>(slot->memory.data());
  slot->scalars = slot->given + 1;
  slot->losses = reinterpret_cast<float*>(slot->scalars + 1);
  return slot;
}

StepSlot& StepRing::open() {
  while (pending_.size() >= ahead_) finish_oldest();
  if (free_.empty()) free_.push_back(make());
  pending_.push_back(std::move(free_.front()));
  free_.pop_front();
  pending_.back()->ready_seconds = pending_.back()->forward_exchange_seconds = 0;
  return *pending_.back();
}

void StepRing::close(const Tensor& losses, const StepScalars* scalars) {
  StepSlot& slot = *pending_.back();
  device_.copy_to_host(stream_, slot.losses, losses.data, losses.bytes());
  device_.copy_to_host(stream_, slot.scalars, scalars, sizeof(StepScalars));
  slot.done->record(stream_);
}

void StepRing::finish_oldest() {
  StepSlot& slot = *pending_.front();
  slot.done->synchronize();
  StepResult result;
  for (std::int64_t m = 0; m < accumulate_; ++m)
    result.loss += static_cast<double>(slot.losses[m]) / static_cast<double>(accumulate_);
  result.gradient_norm = static_cast<double>(slot.scalars->gradient_norm);
  result.loss_scale = static_cast<double>(slot.scalars->loss_scale);
  result.skipped_steps = slot.scalars->skipped_steps;
  PhaseSeconds& phases = result.phases;
  for (std::int64_t m = 0; m < accumulate_; ++m) {
    phases.data += slot.mark(m, 1).seconds_since(slot.mark(m, 0));
    phases.forward += slot.mark(m, 2).seconds_since(slot.mark(m, 1));
    phases.backward += slot.mark(m, 3).seconds_since(slot.mark(m, 2));
  }
  phases.communication = slot.synchronised->seconds_since(slot.mark(accumulate_ - 1, 3));
  if (!is_asynchronous_) {  // `ready` did its work inside backward; elsewhere it only enqueued it
    phases.backward -= slot.ready_seconds;
    phases.communication += slot.ready_seconds + slot.forward_exchange_seconds;
    phases.forward -= slot.forward_exchange_seconds;
  }
  phases.optimizer = slot.updated->seconds_since(*slot.synchronised);
  result.seconds = slot.done->seconds_since(slot.mark(0, 0));
  results_.push_back(result);
  free_.push_back(std::move(pending_.front()));
  pending_.pop_front();
}

std::vector<StepResult> StepRing::collect() {
  while (!pending_.empty()) finish_oldest();
  return std::exchange(results_, {});
}

void StepRing::set_ahead(int steps) {
  ahead_ = is_asynchronous_ ? static_cast<std::size_t>(std::clamp(steps, 1, Trainer::most_ahead)) : 1;
}

}  // namespace tw::models
