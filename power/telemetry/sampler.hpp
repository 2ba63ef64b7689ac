// Time series along a window: the telemetry's channels, and power from each energy counter.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include "power/meter/reader.hpp"
#include "power/telemetry/telemetry.hpp"

namespace tw::power {

/// All samples of a stretch of time.
struct SeriesPoint {
  double time_seconds = 0;  ///< of its first sample, since begin()
  double minimum = 0, mean = 0, maximum = 0;
  int samples = 0;
};

struct Series {
  Channel channel;
  std::vector<SeriesPoint> points;  ///< at most the sampler's most_points; empty if nothing could be read
  std::optional<double> change;     ///< of a cumulative channel: last reading − first
};

struct Sampled {
  std::vector<Series> series;
  double window_seconds = 0;  ///< from begin() to end()
  double cpu_seconds = 0;     ///< that all metering threads used: the sampler's, the reader's, the meters'
  double thread_seconds = 0;  ///< of them, the sampler's own
};

/// Reads at a fixed rate between begin() and end(), in a thread that sleeps between absolute deadlines; none runs
/// otherwise. Memory is bounded: when a series is full, neighbours are merged, with their least and greatest values
/// kept. A deadline that was missed is not made up for. One per node, beside the node's EnergyReader.
class Sampler {
 public:
  /// `reader` may be null; it must outlive this. Its meters appear as "power_w" of their domain, where the telemetry
  /// has no such channel: joules over time, at intervals of at least ten update periods, so that edges do not show as
  /// peaks. All of its meters are read at each sample, so that it can judge the counters along the window.
  Sampler(std::vector<TelemetryFinding> findings, EnergyReader* reader, double period_seconds = 0.1,
          std::size_t most_points = 128);
  ~Sampler();

  const std::vector<TelemetryFinding>& findings() const { return findings_; }
  double period_seconds() const { return period_seconds_; }
  /// Called at each sample from the next begin() on, by the sampler's thread, after the sensors are read; empty:
  /// nothing. The thread runs also where there is nothing else to read. Not between begin() and end().
  void beside(std::function<void()> look) { beside_ = std::move(look); }
  void begin();
  Sampled end();

 private:
  using Clock = std::chrono::steady_clock;
  /// One channel in the making.
  struct Track {
    Series series;
    double bucket_seconds = 0;
    std::optional<double> first, last;  // of a cumulative channel
  };
  struct Meter {
    std::size_t finding = 0, track = 0;
    double least_seconds = 0;  // between two power values
    std::optional<EnergySample> from;
    int breaks = 0;  // of the meter, at `from`
  };

  void sample();
  void add(Track& track, double time_seconds, double value) const;
  void run(const std::stop_token& stop);

  std::vector<TelemetryFinding> findings_;
  EnergyReader* reader_;
  std::function<void()> beside_;
  double period_seconds_;
  std::size_t most_points_;
  std::vector<std::size_t> first_track_;  // of each finding
  std::vector<Track> tracks_;
  std::vector<Meter> meters_;
  bool reads_meters_ = false;  // any, whether shown or not
  std::vector<double> values_;
  EnergySnapshot snapshot_;
  Clock::time_point start_;
  double thread_seconds_ = 0, reader_seconds_ = 0;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

}  // namespace tw::power
