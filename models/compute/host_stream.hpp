// Streams and events of devices whose work is done when a call returns.
#pragma once

#include <chrono>

#include "models/compute/device.hpp"

namespace tw::models {

class HostStream final : public Stream {
 public:
  void synchronize() override {}
};

class HostEvent final : public Event {
 public:
  void record(Stream&) override { time_ = std::chrono::steady_clock::now(); }
  void synchronize() override {}
  bool is_done() override { return true; }
  double seconds_since(Event& earlier) override {
    return std::chrono::duration<double>(time_ - dynamic_cast<HostEvent&>(earlier).time_).count();
  }

 private:
  std::chrono::steady_clock::time_point time_;
};

}  // namespace tw::models
