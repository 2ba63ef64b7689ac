// Read along a window besides joules: power, temperature, clocks, utilisation, memory, counters of throttling and
// errors.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "power/meter/sysfs.hpp"

namespace tw::power {

/// One quantity of one device. The unit is in the quantity's name, as in a report's keys.
struct Channel {
  std::string domain;  ///< as a meter's: "nvml:GPU-…", "cpu", "rapl:package-0"
  /// Of the moment: "power_w", "temperature_c", "sm_clock_mhz", "memory_clock_mhz", "cpu_clock_mhz", "utilisation"
  /// (share of time in which a kernel ran), "sm_active" (share of the multiprocessors' time), "memory_used_bytes" (of a
  /// GPU, by all programs and the driver).
  /// Cumulative: "throttle_power_cap_s", "throttle_thermal_s", "throttle_brake_s" (time so far),
  /// "throttle_thermal_events", "ecc_errors", "xid_errors" (numbers so far).
  std::string quantity;
  bool cumulative = false;  ///< only the difference between two readings says something
};

/// The channels of one device, read together. One reader per node.
class Telemetry {
 public:
  virtual ~Telemetry() = default;
  virtual const std::vector<Channel>& channels() const = 0;
  /// Fills one value per channel, NaN where it cannot be read now. Takes well under a millisecond; never throws.
  virtual void read(std::span<double> values) = 0;
};

/// What a source found: channels, or the reason why there are none.
struct TelemetryFinding {
  std::string domain;
  std::unique_ptr<Telemetry> telemetry;  ///< null if unavailable
  std::string reason, detail;            ///< as MeterFinding's
};

/// Asks every source in telemetry.def. Call on one rank per node only.
std::vector<TelemetryFinding> find_telemetry();

/// One channel: files whose numbers make one value.
struct FileChannel {
  enum class Combine { mean, largest, sum };
  Channel channel;
  std::vector<std::filesystem::path> files;
  double factor = 1;
  /// Mean and largest pass over files that cannot be read now; a part of a sum is not the sum. Where nothing is left
  /// the value is NaN.
  Combine combine = Combine::mean;
};

class FileTelemetry : public Telemetry {
 public:
  explicit FileTelemetry(const std::vector<FileChannel>& files);
  const std::vector<Channel>& channels() const override { return channels_; }
  void read(std::span<double> values) override;

 private:
  struct Source {
    std::vector<sysfs::NumberFile> files;
    double factor;
    FileChannel::Combine combine;
    double read() noexcept;
  };
  std::vector<Source> sources_;
  std::vector<Channel> channels_;
};

}  // namespace tw::power
