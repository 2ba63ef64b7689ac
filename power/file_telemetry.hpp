// Telemetry that stands in small files of the kernel.
#pragma once

#include <filesystem>
#include <utility>
#include <vector>

#include "power/telemetry.hpp"

namespace tw {

/// One channel: files whose numbers make one value.
struct FileChannel {
  enum class Combine { mean, largest, sum };
  Channel channel;
  std::vector<std::filesystem::path> files;
  double factor = 1;
  Combine combine = Combine::mean;

  /// Mean and largest pass over files that cannot be read now; a part of a sum is not the sum. NaN where nothing is
  /// left.
  double read() const noexcept;
};

class FileTelemetry : public Telemetry {
 public:
  explicit FileTelemetry(std::vector<FileChannel> files);
  const std::vector<Channel>& channels() const override { return channels_; }
  void read(std::span<double> values) override;

 private:
  std::vector<FileChannel> files_;
  std::vector<Channel> channels_;
};

}  // namespace tw
