// CPU frequency policies through libcpupower.
#include <cpufreq.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "power/cpufreq/cpu_knob.hpp"

namespace tw {
namespace {

namespace fs = std::filesystem;
constexpr const char* cpu_folder = "/sys/devices/system/cpu";

std::string file_of(unsigned cpu, const char* file) {
  return std::string(cpu_folder) + "/cpu" + std::to_string(cpu) + "/cpufreq/" + file;
}

class LibraryPolicies : public cpufreq::Policies {
 public:
  /// A policy's folder lists the CPUs that are online; its number need not be one of them.
  std::vector<unsigned> cpus() override {
    std::vector<unsigned> cpus;
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(fs::path(cpu_folder) / "cpufreq", ignored)) {
      if (entry.path().filename().string().rfind("policy", 0) != 0) continue;
      unsigned cpu = 0;
      if (std::ifstream(entry.path() / "affected_cpus") >> cpu) cpus.push_back(cpu);
    }
    std::sort(cpus.begin(), cpus.end());
    return cpus;
  }
  cpufreq::Limits limits(unsigned cpu) override {
    errno = 0;
    cpufreq_policy* policy = cpufreq_get_policy(cpu);
    if (!policy) fail(cpu, "scaling_governor");
    const cpufreq::Limits limits{policy->min, policy->max, policy->governor};
    cpufreq_put_policy(policy);
    return limits;
  }
  cpufreq::Limits hardware(unsigned cpu) override {
    cpufreq::Limits limits;
    errno = 0;
    if (cpufreq_get_hardware_limits(cpu, &limits.min_khz, &limits.max_khz) != 0) fail(cpu, "cpuinfo_max_freq");
    return limits;
  }
  std::vector<unsigned long> available_khz(unsigned cpu) override {
    std::vector<unsigned long> values;
    for (auto* list : {cpufreq_get_available_frequencies(cpu), cpufreq_get_boost_frequencies(cpu)}) {
      if (!list) continue;
      for (const auto* entry = list->first; entry; entry = entry->next) values.push_back(entry->frequency);
      cpufreq_put_available_frequencies(list->first);
    }
    return values;
  }
  std::optional<unsigned long> current_khz(unsigned cpu) override {
    const unsigned long khz = cpufreq_get_freq_kernel(cpu);
    if (khz == 0) return std::nullopt;
    return khz;
  }
  // The library says -ENODEV whatever went wrong; errno stays from the file.
  int set_min(unsigned cpu, unsigned long khz) override {
    errno = 0;
    return cpufreq_modify_policy_min(cpu, khz) == 0 ? 0 : error();
  }
  int set_max(unsigned cpu, unsigned long khz) override {
    errno = 0;
    return cpufreq_modify_policy_max(cpu, khz) == 0 ? 0 : error();
  }
  int set_governor(unsigned cpu, const std::string& governor) override {
    std::string text = governor;  // the library takes it as not const
    errno = 0;
    return cpufreq_modify_policy_governor(cpu, text.data()) == 0 ? 0 : error();
  }

 private:
  static int error() { return errno != 0 ? errno : ENODEV; }
  [[noreturn]] static void fail(unsigned cpu, const char* file) {
    throw std::system_error(error(), std::generic_category(), file_of(cpu, file));
  }
};

}  // namespace

std::vector<KnobFinding> cpufreq_find_knobs() {
  std::vector<KnobFinding> findings(1);
  KnobFinding& finding = findings.front();
  finding.kind = KnobKind::cpu_frequency;
  finding.domain = "cpu";
  auto policies = std::make_unique<LibraryPolicies>();
  const std::vector<unsigned> cpus = policies->cpus();
  if (cpus.empty()) {
    finding.reason = "no_driver";
    finding.detail =
        std::string(cpu_folder) + "/cpufreq has no policies: no cpufreq driver is loaded; virtual machines show none";
    return findings;
  }
  try {
    for (const unsigned cpu : cpus) policies->limits(cpu), policies->hardware(cpu);
  } catch (const std::system_error& error) {
    finding.reason = "unsupported";
    finding.detail = error.what();
    return findings;
  }
  for (const unsigned cpu : cpus)
    for (const char* file : {"scaling_min_freq", "scaling_max_freq"})
      if (finding.reason.empty() && eaccess(file_of(cpu, file).c_str(), W_OK) != 0) {
        finding.reason = "permission";
        finding.detail = file_of(cpu, file) + ": " + std::strerror(errno);
        finding.grant = "run as root; or have root do: chgrp GROUP " + std::string(cpu_folder) +
                        "/cpufreq/policy*/scaling_{min,max}_freq and chmod g+w on them; under Slurm: "
                        "--cpu-freq=MIN-MAX in kHz, where the site allows it";
      }
  finding.knob = cpufreq::make_cpu_knob(std::move(policies));
  if (const KnobRange range = finding.knob->range(); range.minimum > range.maximum) {
    finding.knob.reset();
    finding.reason = "unsupported";
    finding.detail = "the CPUs have no frequency in common";
  }
  return findings;
}

}  // namespace tw
