#include "bench/train/job/slurm.hpp"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "bench/plan/options/usage_error.hpp"

namespace tw::bench {
namespace {

std::string lower(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// Slurm hands some words on as codes above any frequency.
std::optional<double> number(const std::string& text) {
  constexpr double largest = 1e9;
  const std::optional<double> value = number_in<double>(text);
  return value > 0.0 && value < largest ? value : std::nullopt;
}

}  // namespace

std::map<power::KnobKind, FoundSetting> slurm_settings(const std::string& cpu_freq, const std::string& gpu_freq) {
  std::map<power::KnobKind, FoundSetting> found;
  if (!cpu_freq.empty()) {
    const std::string by = "slurm --cpu-freq=" + cpu_freq;
    const std::size_t colon = cpu_freq.find(':');
    std::string frequency = lower(cpu_freq.substr(0, colon));
    std::string governor = colon == std::string::npos ? "" : lower(cpu_freq.substr(colon + 1));
    if (power::set_point_of_name(power::KnobKind::cpu_governor, frequency)) std::swap(frequency, governor);
    if (!frequency.empty()) {
      const std::size_t dash = frequency.find('-');
      const auto mhz = [](const std::string& khz) {
        const auto value = number(khz);
        return value ? std::optional(*value / 1000) : std::nullopt;
      };
      FoundSetting& setting = found[power::KnobKind::cpu_frequency];
      setting.by = by;
      setting.minimum = mhz(frequency.substr(0, dash));
      setting.maximum = dash == std::string::npos ? setting.minimum : mhz(frequency.substr(dash + 1));
    }
    if (!governor.empty()) {
      FoundSetting& setting = found[power::KnobKind::cpu_governor];
      setting.by = by;
      setting.minimum = setting.maximum = power::set_point_of_name(power::KnobKind::cpu_governor, governor);
    }
  }
  for (std::size_t begin = 0; begin < gpu_freq.size();) {
    const std::size_t comma = std::min(gpu_freq.find(',', begin), gpu_freq.size());
    std::string value = lower(gpu_freq.substr(begin, comma - begin));
    begin = comma + 1;
    if (value.empty() || value == "verbose") continue;
    const bool memory = value.starts_with("memory=");
    if (memory) value = value.substr(value.find('=') + 1);
    FoundSetting& setting = found[memory ? power::KnobKind::gpu_memory_clock : power::KnobKind::gpu_clock];
    setting.by = "slurm --gpu-freq=" + gpu_freq;
    setting.minimum = setting.maximum = number(value);
  }
  return found;
}

std::map<power::KnobKind, FoundSetting> found_settings(const std::vector<results::HostInfo>& hosts) {
  const auto variable = [](const char* name) {
    const char* text = std::getenv(name);
    return std::string(text ? text : "");
  };
  if (variable("SLURM_JOB_ID").empty()) return {};
  // srun shows its own --gpu-freq to its tasks in the daemon's variable only, as "gpu:1305".
  const std::string step = variable("SLURMD_TRES_FREQ"), mark = "gpu:";
  const std::string gpu_freq = step.starts_with(mark) ? step.substr(mark.size()) : variable("SLURM_GPU_FREQ");
  auto found = slurm_settings(variable("SLURM_CPU_FREQ_REQ"), gpu_freq);
  if (const auto governor = found.find(power::KnobKind::cpu_governor); governor != found.end())
    for (const results::HostInfo& host : hosts) {
      results::SettingRow row{host.name, "cpu", {}, {}, ""};
      if (host.cpu_governor) row.observed = *host.cpu_governor;
      governor->second.devices.push_back(std::move(row));
    }
  return found;
}

}  // namespace tw::bench
