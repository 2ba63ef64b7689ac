// The one reader of a node's meters: keeps wrapping counters counted, and answers "how much by now".
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "power/meter/energy_meter.hpp"
#include "power/meter/interval_judge.hpp"

namespace tw::power {

/// One meter's answer, and how it broke off last: "lost" (the sensor did not answer: then there is no sample), "reset"
/// (a counter that does not wrap went back), "wrapped" (the counter was left unread for longer than it takes to wrap,
/// so that a wrap may have gone unseen), "gap" (left unread for as long, a counter that does not wrap may have stood
/// still).
struct MeterReading {
  std::optional<EnergySample> sample;
  std::string reason, detail;
  int breaks = 0;  ///< how often it broke off so far: only between readings with the same number are the joules known
  std::optional<WindowFinding> window = {};  ///< at the end of a window: of all readings along it
};

/// Readings by finding, in the order of findings(); findings without a meter carry their own reason.
struct EnergySnapshot {
  std::chrono::steady_clock::time_point time;
  std::vector<MeterReading> readings;
};

/// Owns the meters of a node. A thread reads each that must be read within its reading interval, asleep in between;
/// without such a meter there is no thread. Readings that others ask for count: it reads what they leave unread. A
/// meter that has failed is asked again. All functions may be called from any thread.
class EnergyReader {
 public:
  explicit EnergyReader(std::vector<MeterFinding> findings);

  const std::vector<MeterFinding>& findings() const { return findings_; }
  /// Reads all meters now.
  EnergySnapshot snapshot();
  /// The same into memory that is there already.
  void snapshot(EnergySnapshot& into);
  /// The snapshots at a window's two edges. Each reading in between, whoever asks for it, is judged; the second has
  /// what was found. One window at a time: another begin_window() takes the place of the first.
  EnergySnapshot begin_window();
  EnergySnapshot end_window();
  /// Announces that somebody calls snapshot() every so many seconds; infinity: nobody any more. Meters for which that
  /// is often enough are then left to them: the thread wakes only to see to it that they do.
  void expect_snapshots(double period_seconds);
  /// CPU time that the thread and those of the meters have used by now.
  double cpu_seconds();
  /// The shortest reading interval of a meter; infinity if there is no thread.
  double interval_seconds() const { return interval_seconds_; }

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct State {
    Time last_read, asked;  // the reading's own time; when it returned
    MeterReading reading;
    std::optional<IntervalJudge> judge;  // of meters whose joules follow the time
  };
  // With mutex_ held:
  void read(std::size_t finding);
  void read_all(EnergySnapshot& into);
  /// When the thread must read it, if no other caller does.
  Time deadline(std::size_t finding) const;
  void run(const std::stop_token& stop);

  std::vector<MeterFinding> findings_;
  std::vector<State> states_;
  double interval_seconds_, expected_seconds_;
  bool called_ = false;  // the deadlines have changed
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace tw::power
