// CPU frequency policies through libcpupower.
#include <cpufreq.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "power/sources/cpufreq/policies.hpp"

namespace tw::power {
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
      if (!entry.path().filename().string().starts_with("policy")) continue;
      unsigned cpu = 0;
      if (std::ifstream(entry.path() / "affected_cpus") >> cpu) cpus.push_back(cpu);
    }
    std::ranges::sort(cpus);
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
  std::vector<std::string> available_governors(unsigned cpu) override {
    std::vector<std::string> names;
    auto* list = cpufreq_get_available_governors(cpu);
    if (!list) return names;
    for (const auto* entry = list->first; entry; entry = entry->next) names.emplace_back(entry->governor);
    cpufreq_put_available_governors(list->first);
    return names;
  }
  std::optional<unsigned long> current_khz(unsigned cpu) override {
    const unsigned long khz = cpufreq_get_freq_kernel(cpu);
    if (khz == 0) return std::nullopt;
    return khz;
  }
  int set_min(unsigned cpu, unsigned long khz) override { return modify(cpufreq_modify_policy_min, cpu, khz); }
  int set_max(unsigned cpu, unsigned long khz) override { return modify(cpufreq_modify_policy_max, cpu, khz); }
  int set_governor(unsigned cpu, const std::string& governor) override {
    std::string text = governor;  // the library takes it as not const
    return modify(cpufreq_modify_policy_governor, cpu, text.data());
  }

 private:
  /// The library says -ENODEV whatever went wrong; errno stays from the file.
  template <class Value>
  static int modify(int (*call)(unsigned, Value), unsigned cpu, Value value) {
    errno = 0;
    return call(cpu, value) == 0 ? 0 : error();
  }
  static int error() { return errno != 0 ? errno : ENODEV; }
  [[noreturn]] static void fail(unsigned cpu, const char* file) {
    throw std::system_error(error(), std::generic_category(), file_of(cpu, file));
  }
};

/// Gives the finding its knob; where one of the files of all CPUs may not be written, with the reason and what would
/// help.
void judge(KnobFinding& finding, std::unique_ptr<Knob> knob, const std::vector<unsigned>& cpus,
           const std::vector<const char*>& files, const std::string& glob, const std::string& slurm) {
  for (const unsigned cpu : cpus)
    for (const char* file : files)
      if (finding.reason.empty() && eaccess(file_of(cpu, file).c_str(), W_OK) != 0) {
        finding.explain("permission", file_of(cpu, file) + ": " + std::strerror(errno));
        finding.grant = "run as root; or as root: chgrp GROUP " + std::string(cpu_folder) + "/cpufreq/policy*/" + glob +
                        " and chmod g+w on them; under Slurm: " + slurm + ", where the site allows it";
      }
  finding.knob = std::move(knob);
}

}  // namespace

std::vector<KnobFinding> cpufreq_find_knobs() {
  std::vector<KnobFinding> findings;
  for (const KnobKind kind : {KnobKind::cpu_frequency, KnobKind::cpu_governor})
    findings.push_back({.kind = kind, .domain = "cpu"});
  KnobFinding &frequency = findings[0], &governor = findings[1];
  const auto both = [&](const char* reason, const std::string& detail) {
    for (KnobFinding& finding : findings) finding.explain(reason, detail);
  };
  LibraryPolicies policies;
  const std::vector<unsigned> cpus = policies.cpus();
  if (cpus.empty()) {
    both("no_driver", std::string(cpu_folder) +
                          "/cpufreq has no policies: no cpufreq driver is loaded (virtual machines have none)");
    return findings;
  }
  try {
    for (const unsigned cpu : cpus) policies.limits(cpu), policies.hardware(cpu);
  } catch (const std::system_error& error) {
    both("unsupported", error.what());
    return findings;
  }
  auto knob = cpufreq::make_cpu_knob(std::make_unique<LibraryPolicies>());
  if (const KnobRange range = knob->range(); range.minimum > range.maximum) {
    frequency.explain("unsupported", "the CPUs have no frequency in common");
  } else {
    judge(frequency, std::move(knob), cpus, {"scaling_min_freq", "scaling_max_freq"}, "scaling_{min,max}_freq",
          "--cpu-freq=MIN-MAX in kHz");
  }
  knob = cpufreq::make_governor_knob(std::make_unique<LibraryPolicies>());
  if (knob->range().values.empty()) {
    governor.explain("unsupported", "the CPUs list no governor in common in scaling_available_governors");
  } else {
    judge(governor, std::move(knob), cpus, {"scaling_governor"}, "scaling_governor", "--cpu-freq=GOVERNOR");
  }
  return findings;
}

}  // namespace tw::power
