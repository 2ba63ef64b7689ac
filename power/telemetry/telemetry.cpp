#include "power/telemetry/telemetry.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace tw::power {

#define TW_TELEMETRY_SOURCE(name) std::vector<TelemetryFinding> name##_find_telemetry();
#include "power/telemetry/telemetry.def"

std::vector<TelemetryFinding> find_telemetry() {
  std::vector<TelemetryFinding> all;
#define TW_TELEMETRY_SOURCE(name) std::ranges::move(name##_find_telemetry(), std::back_inserter(all));
#include "power/telemetry/telemetry.def"
  return all;
}

double FileTelemetry::Source::read() noexcept {
  double value = 0;
  std::size_t read = 0;
  for (sysfs::NumberFile& file : files) {
    const auto number = file.number_or_none();
    if (!number) {
      if (combine == FileChannel::Combine::sum) return std::nan("");
      continue;
    }
    const bool takes = combine != FileChannel::Combine::largest || read == 0 || *number > value;
    if (takes) value = combine == FileChannel::Combine::largest ? *number : value + *number;
    ++read;
  }
  if (read == 0) return std::nan("");
  return value * factor / (combine == FileChannel::Combine::mean ? static_cast<double>(read) : 1);
}

FileTelemetry::FileTelemetry(const std::vector<FileChannel>& files) {
  for (const FileChannel& file : files) {
    channels_.push_back(file.channel);
    Source& source = sources_.emplace_back(Source{{}, file.factor, file.combine});
    for (const std::filesystem::path& path : file.files) source.files.emplace_back(path);
  }
}

void FileTelemetry::read(std::span<double> values) {
  for (std::size_t i = 0; i < sources_.size() && i < values.size(); ++i) values[i] = sources_[i].read();
}

}  // namespace tw::power
