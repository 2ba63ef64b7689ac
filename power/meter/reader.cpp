#include "power/meter/reader.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

#include "power/meter/cpu_time.hpp"
#include "power/meter/number_text.hpp"

namespace tw::power {

using Clock = std::chrono::steady_clock;

namespace {
constexpr double never = std::numeric_limits<double>::infinity();
/// How long a meter whose turn has come is left to those who were expected to read it.
constexpr double patience_seconds = 1;
}  // namespace

EnergyReader::EnergyReader(std::vector<MeterFinding> findings)
    : findings_(std::move(findings)), states_(findings_.size()), interval_seconds_(never), expected_seconds_(never) {
  const auto now = Clock::now();
  for (std::size_t i = 0; i < findings_.size(); ++i) {
    states_[i].last_read = states_[i].asked = now;
    if (const EnergyMeter* meter = findings_[i].meter.get(); meter && meter->follows_time())
      states_[i].judge.emplace(meter->method(), meter->update_period_seconds(),
                               meter->maximum_power_watts(), meter->maximum_power_is_default());
    if (findings_[i].meter)
      interval_seconds_ = std::min(interval_seconds_, findings_[i].meter->reading_interval_seconds());
    else
      states_[i].reading = {std::nullopt, findings_[i].reason, findings_[i].detail};
  }
  if (std::isfinite(interval_seconds_)) thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

EnergySnapshot EnergyReader::snapshot() {
  EnergySnapshot snapshot;
  this->snapshot(snapshot);
  return snapshot;
}

void EnergyReader::snapshot(EnergySnapshot& into) {
  const std::lock_guard lock(mutex_);
  read_all(into);
}

EnergySnapshot EnergyReader::begin_window() {
  const std::lock_guard lock(mutex_);
  EnergySnapshot snapshot;
  read_all(snapshot);
  for (State& state : states_)
    if (state.judge) state.judge->begin();
  return snapshot;
}

EnergySnapshot EnergyReader::end_window() {
  const std::lock_guard lock(mutex_);
  EnergySnapshot snapshot;
  read_all(snapshot);
  for (std::size_t i = 0; i < states_.size(); ++i)
    if (states_[i].judge) snapshot.readings[i].window = states_[i].judge->end();
  return snapshot;
}

void EnergyReader::read_all(EnergySnapshot& into) {
  for (std::size_t i = 0; i < findings_.size(); ++i)
    if (findings_[i].meter) read(i);
  into.time = Clock::now();
  into.readings.resize(states_.size());
  for (std::size_t i = 0; i < states_.size(); ++i) into.readings[i] = states_[i].reading;
}

void EnergyReader::expect_snapshots(double period_seconds) {
  {
    const std::lock_guard lock(mutex_);
    expected_seconds_ = period_seconds;
    called_ = true;
  }
  wake_.notify_all();
}

double EnergyReader::cpu_seconds() {
  double seconds = cpu_seconds_of(thread_);
  for (const MeterFinding& finding : findings_)
    if (finding.meter) seconds += finding.meter->cpu_seconds();
  return seconds;
}

void EnergyReader::read(std::size_t finding) {
  EnergyMeter& meter = *findings_[finding].meter;
  State& state = states_[finding];
  const auto break_off = [&](const char* reason, std::string detail) {
    state.reading = {std::nullopt, reason, std::move(detail), state.reading.breaks + 1};
    if (state.judge) state.judge->lose();
  };
  try {
    const auto before = Clock::now();
    const EnergySample sample = meter.read();
    const std::chrono::duration<double> taken = Clock::now() - before;
    const double gap_seconds = std::chrono::duration<double>(sample.time - state.last_read).count();
    state.last_read = sample.time;
    if (gap_seconds > meter.wrap_seconds())
      break_off(meter.may_wrap() ? "wrapped" : "gap",
                findings_[finding].domain + ": not read for " + number_text(gap_seconds) + " s, and may " +
                    (meter.may_wrap() ? "wrap" : "stop unnoticed") + " within " + number_text(meter.wrap_seconds()) +
                    " s: was the process stopped or the node overloaded?");
    state.reading.sample = sample;
    if (state.judge) state.judge->feed(sample, taken.count());
  } catch (const CounterReset& error) {
    break_off("reset", error.what());
  } catch (const std::system_error& error) {
    break_off("lost", error.what());
  }
  state.asked = Clock::now();
}

EnergyReader::Time EnergyReader::deadline(std::size_t finding) const {
  const EnergyMeter& meter = *findings_[finding].meter;
  double seconds = meter.reading_interval_seconds();
  if (!std::isfinite(seconds)) return Time::max();
  if (seconds >= expected_seconds_) seconds += std::min(patience_seconds, meter.wrap_seconds() / 2);
  return states_[finding].asked + duration_of(seconds);
}

void EnergyReader::run(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stop.stop_requested()) {
    called_ = false;
    Time next = Time::max();
    for (std::size_t i = 0; i < findings_.size(); ++i) {
      if (!findings_[i].meter) continue;
      if (deadline(i) <= Clock::now()) read(i);
      next = std::min(next, deadline(i));
    }
    const auto is_called = [this] { return called_; };
    if (next == Time::max())
      wake_.wait(lock, stop, is_called);
    else
      wake_.wait_until(lock, stop, next, is_called);
  }
}

}  // namespace tw::power
