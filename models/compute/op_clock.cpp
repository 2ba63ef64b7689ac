// The times of operators: events around each, read when somebody asks.
#include <utility>

#include "models/compute/checks.hpp"

namespace tw::models {

OpClock::OpClock(Device& device, Stream& stream, Op op, int calls)
    : device_(device), stream_(stream), timed_{op, calls, nullptr, nullptr} {
  for (std::unique_ptr<Event>* event : {&timed_.start, &timed_.end}) {
    if (device.unused_events_.empty()) {
      *event = device.create_event();
    } else {
      *event = std::move(device.unused_events_.back());
      device.unused_events_.pop_back();
    }
  }
  timed_.start->record(stream);
}

void OpClock::stop() {
  timed_.end->record(stream_);
  device_.timed_.push_back(std::move(timed_));
}

const OpProfile& Device::profile() {
  while (!timed_.empty()) {
    TimedOp& last = timed_.back();
    const auto slot = static_cast<std::size_t>(last.op);
    profile_.seconds[slot] += last.end->seconds_since(*last.start);
    profile_.calls[slot] += last.calls;
    unused_events_.push_back(std::move(last.start));
    unused_events_.push_back(std::move(last.end));
    timed_.pop_back();
  }
  return profile_;
}

void Device::reset_profile() {
  timed_.clear();
  profile_ = {};
}

}  // namespace tw::models
