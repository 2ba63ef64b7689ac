#include "power/meter/sensor_meter.hpp"

#include <cmath>
#include <system_error>

namespace tw::power {

using Clock = std::chrono::steady_clock;

CounterMeter::CounterMeter(CounterSpec spec, std::function<std::uint64_t()> read, std::uint64_t first)
    : SensorMeter(std::move(spec.sensor)),
      read_(std::move(read)),
      joules_per_count_(spec.joules_per_count),
      range_(spec.range),
      last_(first),
      counter_(first, spec.range) {}

EnergySample CounterMeter::read() {
  const auto before = Clock::now();
  const std::uint64_t value = read_();
  const auto after = Clock::now();
  if (range_ == 0 && value < last_) {
    const std::uint64_t highest = std::exchange(last_, value);
    counter_.resume(value);
    throw CounterReset(EIO, std::generic_category(),
                       domain() + ": the counter went back from " + std::to_string(highest) + " to " +
                           std::to_string(value) + ": was the driver reloaded?");
  }
  last_ = value;
  const double joules = joules_of(static_cast<double>(counter_.feed(value)));
  return {before + (after - before) / 2, joules, counter_.wraps(), value};
}

/// A millionth is no binary number, but a million is: 34 200 000 of them are 34.2 by division alone.
double CounterMeter::joules_of(double counts) const {
  const double per_joule = std::round(1 / joules_per_count_);
  return 1 / per_joule == joules_per_count_ ? counts / per_joule : counts * joules_per_count_;
}

double CounterMeter::joules_between(const EnergySample& from, const EnergySample& to) {
  const double counts = std::round(to.joules / joules_per_count_) - std::round(from.joules / joules_per_count_);
  return joules_of(counts);
}

double CounterMeter::wrap_seconds() const {
  if (range_ == 0) return SensorMeter::wrap_seconds();
  return static_cast<double>(range_) * joules_per_count_ / default_maximum_watts(scope());
}

}  // namespace tw::power
