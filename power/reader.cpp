#include "power/reader.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <system_error>
#include <utility>

namespace tw {

using Clock = std::chrono::steady_clock;

EnergyReader::EnergyReader(std::vector<MeterFinding> findings)
    : findings_(std::move(findings)),
      states_(findings_.size()),
      interval_seconds_(std::numeric_limits<double>::infinity()) {
  const auto now = Clock::now();
  for (std::size_t i = 0; i < findings_.size(); ++i) {
    states_[i].last_read = now;
    if (findings_[i].meter)
      interval_seconds_ = std::min(interval_seconds_, findings_[i].meter->wrap_seconds() / 4);
    else
      states_[i].reading = {std::nullopt, findings_[i].reason, findings_[i].detail};
  }
  if (std::isfinite(interval_seconds_)) thread_ = std::thread([this] { run(); });
}

EnergyReader::~EnergyReader() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

EnergySnapshot EnergyReader::snapshot() {
  const std::lock_guard lock(mutex_);
  read_all();
  EnergySnapshot snapshot{Clock::now(), {}};
  for (const State& state : states_) snapshot.readings.push_back(state.reading);
  return snapshot;
}

void EnergyReader::read_all() {
  for (std::size_t i = 0; i < findings_.size(); ++i) {
    const EnergyMeter* meter = findings_[i].meter.get();
    State& state = states_[i];
    if (!meter || !state.reading.reason.empty()) continue;
    try {
      const EnergySample sample = findings_[i].meter->read();
      const double gap_seconds = std::chrono::duration<double>(sample.time - state.last_read).count();
      state.last_read = sample.time;
      state.reading.sample = sample;
      if (gap_seconds > meter->wrap_seconds())
        state.reading = {std::nullopt, meter->may_wrap() ? "wrapped" : "gap",
                         findings_[i].domain + ": not read for " + std::to_string(gap_seconds) + " s, and may " +
                             (meter->may_wrap() ? "wrap" : "stand still unseen") + " within " +
                             std::to_string(meter->wrap_seconds()) +
                             " s: was the process stopped or the node overloaded?"};
    } catch (const std::system_error& error) {
      state.reading = {std::nullopt, "lost", error.what()};
    }
  }
}

void EnergyReader::run() {
  std::unique_lock lock(mutex_);
  const auto interval = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(interval_seconds_));
  // Deadlines are absolute, so that the time a reading takes does not add up; one that was missed is not made up for.
  for (auto deadline = Clock::now() + interval; !wake_.wait_until(lock, deadline, [this] { return stop_; });
       deadline = std::max(deadline + interval, Clock::now())) {
    read_all();
  }
}

}  // namespace tw
