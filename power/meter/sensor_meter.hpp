// The meters that most sources hand out: a counter of energy, or power integrated over time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "power/meter/energy_meter.hpp"
#include "power/meter/integrator.hpp"

namespace tw::power {

/// What is known of a sensor before its first reading.
struct SensorSpec {
  std::string domain;
  EnergyScope scope = EnergyScope::node;
  double update_period_seconds = 0;     ///< measured: the longest that was seen
  std::optional<double> maximum_watts;  ///< as the hardware states; absent: default_maximum_watts(scope)
};

class SensorMeter : public EnergyMeter {
 public:
  explicit SensorMeter(SensorSpec spec) : spec_(std::move(spec)) {}
  std::string domain() const override { return spec_.domain; }
  EnergyScope scope() const override { return spec_.scope; }
  double update_period_seconds() const override { return spec_.update_period_seconds; }
  double wrap_seconds() const override { return std::numeric_limits<double>::infinity(); }
  double maximum_power_watts() const override {
    return spec_.maximum_watts.value_or(default_maximum_watts(spec_.scope));
  }
  bool maximum_power_is_default() const override { return !spec_.maximum_watts; }

 private:
  SensorSpec spec_;
};

/// Adds up the steps of a counter that runs from 0 to `range` and wraps. Right as long as it is fed at least once per
/// wrap. The range is the zone's max_energy_range_uj. (The hardware wraps one unit, 15–61 µJ, after it: that much is
/// lost a wrap.)
class WrapCounter {
 public:
  WrapCounter(std::uint64_t first, std::uint64_t range) : last_(first), range_(range) {}
  /// Returns the total since the first value.
  std::uint64_t feed(std::uint64_t value) {
    wraps_ += value < last_;
    total_ += value >= last_ ? value - last_ : range_ - last_ + value;
    last_ = value;
    return total_;
  }
  /// Continues from a value of unknown origin, without adding joules.
  void resume(std::uint64_t value) { last_ = value; }
  /// How often the counter has started again since the first value.
  int wraps() const { return wraps_; }

 private:
  std::uint64_t last_, range_, total_ = 0;
  int wraps_ = 0;
};

struct CounterSpec {
  SensorSpec sensor;
  double joules_per_count = 1e-6;
  /// The counter starts again at zero after this value. 0: it is too wide to wrap, and one that goes back has failed.
  std::uint64_t range = 0;
};

class CounterMeter : public SensorMeter {
 public:
  /// `read` throws std::system_error naming the sensor; `first` is its value now.
  CounterMeter(CounterSpec spec, std::function<std::uint64_t()> read, std::uint64_t first);
  EnergyMethod method() const override { return EnergyMethod::counter; }
  EnergySample read() override;
  /// Of the counts between them, so that it is as exact as these.
  double joules_between(const EnergySample& from, const EnergySample& to) override;
  /// From the assumed ceiling, never from the firmware's limits: a wrap that goes unseen is a wrong figure.
  double wrap_seconds() const override;
  bool may_wrap() const override { return range_ != 0; }

 private:
  double joules_of(double counts) const;
  std::function<std::uint64_t()> read_;
  double joules_per_count_;
  std::uint64_t range_, last_;
  WrapCounter counter_;
};

class IntegratedMeter : public SensorMeter {
 public:
  /// As PowerIntegrator's constructor: the first sample is taken here, and its exception leaves.
  IntegratedMeter(const SensorSpec& spec, std::function<double()> read_watts, const IntegratorOptions& options)
      : SensorMeter(spec), integrator_(spec.domain, std::move(read_watts), options) {}
  EnergyMethod method() const override { return EnergyMethod::integrated_power; }
  EnergySample read() override { return integrator_.read(); }
  double reading_interval_seconds() const override {
    return integrator_.options().sample_on_read ? integrator_.options().period_seconds
                                                : SensorMeter::reading_interval_seconds();
  }
  double cpu_seconds() override { return integrator_.cpu_seconds(); }
  double joules_between(const EnergySample& from, const EnergySample& to) override {
    return integrator_.joules_between(from, to);
  }
  double longest_period_seconds(const EnergySample& from, const EnergySample& to) override {
    return std::max(update_period_seconds(), integrator_.longest_period_seconds(from, to));
  }

 private:
  PowerIntegrator integrator_;
};

}  // namespace tw::power
