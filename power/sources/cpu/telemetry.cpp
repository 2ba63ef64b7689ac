#include "power/sources/cpu/telemetry.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <sstream>
#include <utility>

#include "power/meter/sysfs.hpp"
#include "power/sources/cpu/ticks.hpp"

namespace tw::power {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t most_policies = 16;

/// The clock of the CPUs that work: mean of the policies' scaling_cur_freq, each by the time that its CPUs were busy.
class BusyClock {
 public:
  BusyClock(const fs::path& cpus, fs::path stat) : stat_(std::move(stat)) {
    for (const fs::path& folder : sysfs::sorted_entries(cpus / "cpufreq")) {
      const std::string name = folder.filename().string(), head = "policy";
      if (!name.starts_with(head) || !sysfs::number_or_none(folder / "scaling_cur_freq")) continue;
      Policy policy{sysfs::NumberFile(folder / "scaling_cur_freq"), {}};
      std::istringstream members(sysfs::text_or_empty(folder / "affected_cpus"));
      for (int cpu = 0; members >> cpu;) policy.cpus.push_back(cpu);
      policies_.push_back(std::move(policy));
    }
    weigh();
  }
  bool is_there() const { return !policies_.empty(); }

  double read_mhz() {
    // The weights are a second's: ticks are 10 ms, and the file is long on a machine with many CPUs.
    if (Clock::now() - weighed_ >= std::chrono::seconds(1)) weigh();
    double sum = 0, weights = 0;
    for (const auto& [policy, weight] : chosen_) {
      const auto khz = policies_[policy].file.number_or_none();
      if (!khz) continue;
      sum += weight * *khz * 1e-3;
      weights += weight;
    }
    return weights > 0 ? sum / weights : std::nan("");
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Policy {
    sysfs::NumberFile file;
    std::vector<int> cpus;
    std::uint64_t last_busy = 0;
  };

  /// Descriptors are held for the chosen alone: there may be hundreds of policies.
  void weigh() noexcept {
    choose();
    for (std::size_t i = 0; i < policies_.size(); ++i)
      if (std::ranges::none_of(chosen_, [&](const auto& one) { return one.first == i; })) policies_[i].file.close();
  }

  void choose() noexcept {
    weighed_ = Clock::now();
    chosen_.clear();
    try {
      const cpu::AllTicks ticks = cpu::read_ticks(stat_);
      for (std::size_t i = 0; i < policies_.size(); ++i) {
        std::uint64_t busy = 0;
        for (const int cpu : policies_[i].cpus)
          if (const auto found = ticks.of_cpu.find(cpu); found != ticks.of_cpu.end()) busy += found->second.busy;
        if (has_last_ && busy > policies_[i].last_busy)
          chosen_.emplace_back(i, static_cast<double>(busy - policies_[i].last_busy));
        policies_[i].last_busy = busy;
      }
      has_last_ = true;
    } catch (const std::exception&) {  // then all alike
    }
    std::ranges::stable_sort(chosen_, std::greater(), [](const auto& one) { return one.second; });
    if (chosen_.size() > most_policies) chosen_.resize(most_policies);
    if (!chosen_.empty()) return;
    const std::size_t wanted = std::min(policies_.size(), most_policies);
    for (std::size_t i = 0; i < wanted; ++i) chosen_.emplace_back(i * policies_.size() / wanted, 1.0);
  }

  fs::path stat_;
  std::vector<Policy> policies_;
  std::vector<std::pair<std::size_t, double>> chosen_;  // policies and their weights
  Clock::time_point weighed_;
  bool has_last_ = false;
};

class CpuTelemetry : public Telemetry {
 public:
  CpuTelemetry(BusyClock clock, const std::vector<FileChannel>& files) : clock_(std::move(clock)), files_(files) {
    if (clock_.is_there()) channels_.push_back({"cpu", "cpu_clock_mhz", false});
    channels_.insert(channels_.end(), files_.channels().begin(), files_.channels().end());
  }
  const std::vector<Channel>& channels() const override { return channels_; }
  void read(std::span<double> values) override {
    if (clock_.is_there() && !values.empty()) {
      values[0] = clock_.read_mhz();
      values = values.subspan(1);
    }
    files_.read(values);
  }

 private:
  BusyClock clock_;
  FileTelemetry files_;
  std::vector<Channel> channels_;
};

std::vector<fs::path> temperature_files(const fs::path& hwmon) {
  std::vector<fs::path> files;
  for (const fs::path& chip : sysfs::sorted_entries(hwmon)) {
    const std::string name = sysfs::text_or_empty(chip / "name");
    if (name != "coretemp" && name != "k10temp") continue;
    for (const fs::path& file : sysfs::sorted_entries(chip)) {
      const std::string text = file.string(), tail = "_label";
      if (text.size() < tail.size() || text.compare(text.size() - tail.size(), tail.size(), tail) != 0) continue;
      const std::string label = sysfs::text_or_empty(file);
      if (!label.starts_with("Package id") && label != "Tctl") continue;
      const fs::path input = text.substr(0, text.size() - tail.size()) + "_input";
      if (sysfs::number_or_none(input)) files.push_back(input);
    }
  }
  return files;
}

std::vector<fs::path> throttle_files(const fs::path& cpus) {
  std::map<double, fs::path> by_package;
  for (const fs::path& cpu : sysfs::sorted_entries(cpus)) {
    const fs::path count = cpu / "thermal_throttle" / "package_throttle_count";
    const auto package = sysfs::number_or_none(cpu / "topology" / "physical_package_id");
    if (package && !by_package.count(*package) && sysfs::number_or_none(count)) by_package.emplace(*package, count);
  }
  std::vector<fs::path> files;
  for (const auto& [package, file] : by_package) files.push_back(file);
  return files;
}

}  // namespace

std::vector<TelemetryFinding> cpu::find_telemetry_in(const fs::path& cpus, const fs::path& hwmon,
                                                     const fs::path& stat) {
  std::vector<FileChannel> files;
  const auto add = [&](const char* quantity, bool cumulative, std::vector<fs::path> from, double factor,
                       FileChannel::Combine combine) {
    if (!from.empty()) files.push_back({{"cpu", quantity, cumulative}, std::move(from), factor, combine});
  };
  add("temperature_c", false, temperature_files(hwmon), 1e-3, FileChannel::Combine::largest);  // millidegrees
  add("throttle_thermal_events", true, throttle_files(cpus), 1, FileChannel::Combine::sum);
  BusyClock clock(cpus, stat);
  std::vector<TelemetryFinding> findings(1);
  findings[0].domain = "cpu";
  if (files.empty() && !clock.is_there()) {
    findings[0].reason = "no_driver";
    findings[0].detail = "no clock in " + (cpus / "cpufreq").string() + ", no package temperature in " +
                         hwmon.string() + ", no throttle counter: most virtual machines show none";
  } else {
    findings[0].telemetry = std::make_unique<CpuTelemetry>(std::move(clock), files);
  }
  return findings;
}

std::vector<TelemetryFinding> cpu_find_telemetry() {
  return cpu::find_telemetry_in("/sys/devices/system/cpu", "/sys/class/hwmon", "/proc/stat");
}

}  // namespace tw::power
