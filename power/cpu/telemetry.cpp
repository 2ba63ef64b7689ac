#include "power/cpu/telemetry.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <system_error>

#include "power/sysfs.hpp"

namespace tw {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_policies = 16;

std::optional<double> number_or_none(const fs::path& file) noexcept {
  try {
    return sysfs::read_number(file);
  } catch (const std::exception&) {
    return std::nullopt;
  }
}
std::string text_or_empty(const fs::path& file) {
  try {
    return sysfs::read_text(file);
  } catch (const std::system_error&) {
    return {};
  }
}

enum class Combine { mean, largest, sum };

/// One channel: files whose numbers make one value.
struct Source {
  Channel channel;
  std::vector<fs::path> files;
  double factor = 1;
  Combine combine = Combine::mean;

  double read() const noexcept {
    double value = 0;
    std::size_t read = 0;
    for (const fs::path& file : files) {
      const auto number = number_or_none(file);
      if (!number) {
        if (combine == Combine::sum) return std::nan("");  // a part of a sum is not the sum
        continue;
      }
      value = combine == Combine::largest && read > 0 ? std::max(value, *number)
              : combine == Combine::largest           ? *number
                                                      : value + *number;
      ++read;
    }
    if (read == 0) return std::nan("");
    return value * factor / (combine == Combine::mean ? static_cast<double>(read) : 1);
  }
};

class CpuTelemetry : public Telemetry {
 public:
  explicit CpuTelemetry(std::vector<Source> sources) : sources_(std::move(sources)) {
    for (const Source& source : sources_) channels_.push_back(source.channel);
  }
  const std::vector<Channel>& channels() const override { return channels_; }
  void read(std::span<double> values) override {
    for (std::size_t i = 0; i < sources_.size() && i < values.size(); ++i) values[i] = sources_[i].read();
  }

 private:
  std::vector<Source> sources_;
  std::vector<Channel> channels_;
};

std::vector<fs::path> sorted(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) entries.push_back(entry.path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::vector<fs::path> clock_files(const fs::path& cpus) {
  std::vector<fs::path> all, some;
  for (const fs::path& policy : sorted(cpus / "cpufreq"))
    if (policy.filename().string().rfind("policy", 0) == 0 && number_or_none(policy / "scaling_cur_freq"))
      all.push_back(policy / "scaling_cur_freq");
  const std::size_t wanted = std::min(all.size(), most_policies);
  for (std::size_t i = 0; i < wanted; ++i) some.push_back(all[i * all.size() / wanted]);
  return some;
}

std::vector<fs::path> temperature_files(const fs::path& hwmon) {
  std::vector<fs::path> files;
  for (const fs::path& chip : sorted(hwmon)) {
    const std::string name = text_or_empty(chip / "name");
    if (name != "coretemp" && name != "k10temp") continue;
    for (const fs::path& file : sorted(chip)) {
      const std::string text = file.string(), tail = "_label";
      if (text.size() < tail.size() || text.compare(text.size() - tail.size(), tail.size(), tail) != 0) continue;
      const std::string label = text_or_empty(file);
      if (label.rfind("Package id", 0) != 0 && label != "Tctl") continue;
      const fs::path input = text.substr(0, text.size() - tail.size()) + "_input";
      if (number_or_none(input)) files.push_back(input);
    }
  }
  return files;
}

std::vector<fs::path> throttle_files(const fs::path& cpus) {
  std::map<double, fs::path> by_package;
  for (const fs::path& cpu : sorted(cpus)) {
    const fs::path count = cpu / "thermal_throttle" / "package_throttle_count";
    const auto package = number_or_none(cpu / "topology" / "physical_package_id");
    if (package && !by_package.count(*package) && number_or_none(count)) by_package.emplace(*package, count);
  }
  std::vector<fs::path> files;
  for (const auto& [package, file] : by_package) files.push_back(file);
  return files;
}

}  // namespace

std::vector<TelemetryFinding> cpu::find_telemetry_in(const fs::path& cpus, const fs::path& hwmon) {
  std::vector<Source> sources;
  const auto add = [&](const char* quantity, bool cumulative, std::vector<fs::path> files, double factor,
                       Combine combine) {
    if (!files.empty()) sources.push_back({{"cpu", quantity, cumulative}, std::move(files), factor, combine});
  };
  add("cpu_clock_mhz", false, clock_files(cpus), 1e-3, Combine::mean);            // kHz
  add("temperature_c", false, temperature_files(hwmon), 1e-3, Combine::largest);  // millidegrees
  add("throttle_thermal_events", true, throttle_files(cpus), 1, Combine::sum);
  std::vector<TelemetryFinding> findings(1);
  findings[0].domain = "cpu";
  if (sources.empty()) {
    findings[0].reason = "no_driver";
    findings[0].detail = "no clock in " + (cpus / "cpufreq").string() + ", no package temperature in " +
                         hwmon.string() + ", no throttle counter: most virtual machines show none";
  } else {
    findings[0].telemetry = std::make_unique<CpuTelemetry>(std::move(sources));
  }
  return findings;
}

std::vector<TelemetryFinding> cpu_find_telemetry() {
  return cpu::find_telemetry_in("/sys/devices/system/cpu", "/sys/class/hwmon");
}

}  // namespace tw
