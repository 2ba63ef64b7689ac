// The one reader of a node's meters: keeps wrapping counters counted, and answers "how much by now".
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "power/energy_meter.hpp"

namespace tw {

/// One meter's answer; without a sample it has a reason: "lost" (the sensor stopped answering), "wrapped" (the counter was
/// left unread for longer than it takes to wrap, so that a wrap may have gone unseen), "gap" (left unread for as long, a
/// counter that does not wrap may have stood still).
struct MeterReading {
  std::optional<EnergySample> sample;
  std::string reason, detail;
};

/// Readings by finding, in the order of findings(); findings without a meter carry their own reason.
struct EnergySnapshot {
  std::chrono::steady_clock::time_point time;
  std::vector<MeterReading> readings;
};

/// Owns the meters of a node. A thread reads those that can wrap at a quarter of the shortest wrap time, at absolute
/// deadlines, asleep in between; without such a meter there is no thread. Once a meter has failed it stays failed.
/// All functions may be called from any thread.
class EnergyReader {
 public:
  explicit EnergyReader(std::vector<MeterFinding> findings);
  ~EnergyReader();
  EnergyReader(const EnergyReader&) = delete;
  EnergyReader& operator=(const EnergyReader&) = delete;

  const std::vector<MeterFinding>& findings() const { return findings_; }
  /// Reads all meters now.
  EnergySnapshot snapshot();
  /// Seconds between the thread's readings; infinity where there is no thread.
  double interval_seconds() const { return interval_seconds_; }

 private:
  void read_all();  // with mutex_ held
  void run();

  struct State {
    std::chrono::steady_clock::time_point last_read;
    MeterReading reading;
  };
  std::vector<MeterFinding> findings_;
  std::vector<State> states_;
  double interval_seconds_;
  bool stop_ = false;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::thread thread_;  // last: it uses all of the above
};

}  // namespace tw
