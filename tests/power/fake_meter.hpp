// A meter that says what a test tells it.
#pragma once

#include <atomic>
#include <memory>
#include <system_error>
#include <utility>

#include "power/meter/energy_meter.hpp"

namespace tw {

struct FakeState {
  std::atomic<double> joules{0};
  std::atomic<bool> fails{false};
  std::atomic<long> reads{0};
  bool may_wrap = true;
  double reading_interval_seconds = 0;          ///< if set, instead of a quarter of the wrap
  std::chrono::steady_clock::duration shift{};  ///< added to the time of a reading
};

class FakeMeter : public power::EnergyMeter {
 public:
  FakeMeter(std::shared_ptr<FakeState> state, double wrap_seconds, double update_period_seconds = 0.001,
            double maximum_watts = 100)
      : state_(std::move(state)),
        wrap_seconds_(wrap_seconds),
        update_period_seconds_(update_period_seconds),
        maximum_watts_(maximum_watts) {}
  std::string domain() const override { return "fake:0"; }
  power::EnergyScope scope() const override { return power::EnergyScope::package; }
  power::EnergyMethod method() const override { return power::EnergyMethod::counter; }
  power::EnergySample read() override {
    ++state_->reads;
    if (state_->fails) throw std::system_error(5, std::generic_category(), "fake:0");
    return {std::chrono::steady_clock::now() + state_->shift, state_->joules};
  }
  double update_period_seconds() const override { return update_period_seconds_; }
  double wrap_seconds() const override { return wrap_seconds_; }
  double reading_interval_seconds() const override {
    return state_->reading_interval_seconds > 0 ? state_->reading_interval_seconds
                                                : power::EnergyMeter::reading_interval_seconds();
  }
  double cpu_seconds() override { return 3; }
  bool may_wrap() const override { return state_->may_wrap; }
  double maximum_power_watts() const override { return maximum_watts_; }
  bool maximum_power_is_default() const override { return false; }

 private:
  std::shared_ptr<FakeState> state_;
  double wrap_seconds_, update_period_seconds_, maximum_watts_;
};

/// One counted fake and one source that found nothing.
inline std::vector<power::MeterFinding> fake_findings(std::shared_ptr<FakeState> state, double wrap_seconds,
                                                      double update_period_seconds = 0.001) {
  std::vector<power::MeterFinding> findings(2);
  findings[0].domain = "fake:0";
  findings[0].meter = std::make_unique<FakeMeter>(std::move(state), wrap_seconds, update_period_seconds);
  findings[0].counted = true;
  findings[1].domain = "other";
  findings[1].reason = "no_driver";
  findings[1].detail = "nothing there";
  return findings;
}

}  // namespace tw
