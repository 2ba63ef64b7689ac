// Joules from a sensor that shows power only.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "power/meter/cpu_time.hpp"
#include "power/meter/energy_meter.hpp"

namespace tw::power {

struct IntegratorOptions {
  double period_seconds = 0.1;  ///< between two samples
  /// Two samples further apart than this leave a gap: a window that touches it has no joules.
  double longest_gap_seconds = 2;
  /// Whether read() takes the samples, so that a window's edge is exact; the owner then reads at least once a period,
  /// and no thread runs. For sensors that answer slowly: false; then a thread samples, and read() holds the last power
  /// until now, wrong by less than one period's joules.
  bool sample_on_read = true;
};

/// Integrates power over time by trapezoids. Monotone: power is never negative. All functions may be called from any
/// thread. Eight threads of eight sensors would wake eight times as often as the node's one reader, and waking costs
/// more CPU time than a reading: so there is a thread only for what the reader must not wait for.
class PowerIntegrator {
 public:
  /// `read_watts` throws std::system_error if the sensor does not answer; a value that is no power (negative, not
  /// finite) counts as that. Calls never overlap. The first is made here, and its exception leaves the constructor.
  PowerIntegrator(std::string domain, std::function<double()> read_watts, const IntegratorOptions& options = {});

  /// Joules since construction. Throws what the sensor threw while it does not answer; a window that holds such a time
  /// has no joules.
  EnergySample read();
  const IntegratorOptions& options() const { return options_; }
  /// CPU time of the thread, where there is one.
  double cpu_seconds() { return cpu_seconds_of(thread_); }
  /// For EnergyMeter::joules_between. Throws WindowUnknown "gap" or "lost".
  double joules_between(const EnergySample& from, const EnergySample& to) const;
  /// The longest time between two samples that touches the window; at least the period.
  double longest_period_seconds(const EnergySample& from, const EnergySample& to) const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  void sample();  // the sensor's own time is between its call and its return
  void run(const std::stop_token& stop);

  std::string domain_;
  std::function<double()> read_watts_;
  IntegratorOptions options_;
  std::mutex sensor_mutex_;  // before mutex_
  mutable std::mutex mutex_;
  Time last_time_;
  double last_watts_ = 0, joules_ = 0, shown_joules_ = 0;
  struct Gap {
    Time begin, end;
    bool lost;  // the sensor did not answer
  };
  std::vector<Gap> gaps_;
  struct Pause {  // longer than the period by half
    Time begin, end;
    double seconds;  // the longest in between
  };
  std::deque<Pause> pauses_;  // the latest: windows follow each other
  std::exception_ptr failure_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace tw::power
