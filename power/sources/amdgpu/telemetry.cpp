#include "power/sources/amdgpu/amdgpu.hpp"

#include <string>

#include "power/meter/sysfs.hpp"
#include "power/telemetry/telemetry.hpp"

namespace tw::power {
namespace {

namespace fs = std::filesystem;

/// "temp2_input" whose "temp2_label" is `label`; else the first of that kind, where `or_first`.
fs::path labelled(const fs::path& chip, const std::string& kind, const std::string& label, bool or_first) {
  constexpr int most_sensors = 8;
  for (int number = 1; number <= most_sensors; ++number) {
    const std::string stem = kind + std::to_string(number);
    if (sysfs::text_or_empty(chip / (stem + "_label")) == label) return chip / (stem + "_input");
  }
  return or_first ? chip / (kind + "1_input") : fs::path();
}

}  // namespace

bool amdgpu::is_integrated(const std::filesystem::path& chip) {
  constexpr const char* mi300a = "0x74a0";
  std::error_code none;
  return std::filesystem::exists(chip / "in1_input", none) ||
         sysfs::text_or_empty(chip / "device" / "device") == mi300a;
}

std::vector<TelemetryFinding> amdgpu::find_telemetry_in(const fs::path& hwmon) {
  std::vector<TelemetryFinding> findings;
  for (const fs::path& chip : sysfs::sorted_entries(hwmon)) {
    const std::string pci = sysfs::pci_address(chip / "device");
    if (sysfs::text_or_empty(chip / "name") != "amdgpu" || pci.empty()) continue;
    const std::string domain = "amdgpu:" + pci;
    std::vector<FileChannel> files;
    const auto add = [&](const char* quantity, const fs::path& file, double factor) {
      if (sysfs::number_or_none(file)) files.push_back({{domain, quantity, false}, {file}, factor});
    };
    const fs::path average = chip / "power1_average";
    add("power_w", sysfs::number_or_none(average) ? average : chip / "power1_input", 1e-6);  // µW
    add("temperature_c", labelled(chip, "temp", "junction", true), 1e-3);                    // millidegrees
    add("sm_clock_mhz", labelled(chip, "freq", "sclk", false), 1e-6);                        // Hz
    add("memory_clock_mhz", labelled(chip, "freq", "mclk", false), 1e-6);
    add("utilisation", chip / "device" / "gpu_busy_percent", 1e-2);
    add("memory_used_bytes", chip / "device" / "mem_info_vram_used", 1);
    if (files.empty())
      findings.push_back({domain, nullptr, "unsupported", chip.string() + " has none of the files"});
    else
      findings.push_back({domain, std::make_unique<FileTelemetry>(files), "", ""});
  }
  if (findings.empty()) findings.push_back({"amdgpu", nullptr, "no_driver", hwmon.string() + " has no chip amdgpu"});
  return findings;
}

std::vector<TelemetryFinding> amdgpu_find_telemetry() { return amdgpu::find_telemetry_in("/sys/class/hwmon"); }

}  // namespace tw::power
