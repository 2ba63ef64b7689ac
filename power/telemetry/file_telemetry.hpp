// Telemetry from small files of the kernel.
#pragma once

#include <filesystem>
#include <vector>

#include "power/meter/sysfs.hpp"
#include "power/telemetry/telemetry.hpp"

namespace tw::power {

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
