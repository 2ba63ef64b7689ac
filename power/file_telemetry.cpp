#include "power/file_telemetry.hpp"

#include <algorithm>
#include <cmath>

#include "power/sysfs.hpp"

namespace tw {

double FileChannel::read() const noexcept {
  double value = 0;
  std::size_t read = 0;
  for (const std::filesystem::path& file : files) {
    const auto number = sysfs::number_or_none(file);
    if (!number) {
      if (combine == Combine::sum) return std::nan("");
      continue;
    }
    const bool takes = combine != Combine::largest || read == 0 || *number > value;
    if (takes) value = combine == Combine::largest ? *number : value + *number;
    ++read;
  }
  if (read == 0) return std::nan("");
  return value * factor / (combine == Combine::mean ? static_cast<double>(read) : 1);
}

FileTelemetry::FileTelemetry(std::vector<FileChannel> files) : files_(std::move(files)) {
  for (const FileChannel& file : files_) channels_.push_back(file.channel);
}

void FileTelemetry::read(std::span<double> values) {
  for (std::size_t i = 0; i < files_.size() && i < values.size(); ++i) values[i] = files_[i].read();
}

}  // namespace tw
