// CPU frequency policies in sysfs (Linux Documentation/admin-guide/pm/cpufreq.rst).
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sstream>
#include <system_error>

#include "power/meter/sysfs.hpp"
#include "power/sources/cpufreq/policies.hpp"

namespace tw::power {
namespace {

constexpr const char* cpu_folder = "/sys/devices/system/cpu";

std::string file_of(unsigned cpu, const char* file) {
  return std::string(cpu_folder) + "/cpu" + std::to_string(cpu) + "/cpufreq/" + file;
}

class SysfsPolicies : public cpufreq::Policies {
 public:
  /// A policy's folder lists the CPUs that are online; its number need not be one of them.
  std::vector<unsigned> cpus() override {
    std::vector<unsigned> cpus;
    for (const std::filesystem::path& entry : sysfs::sorted_entries(std::filesystem::path(cpu_folder) / "cpufreq")) {
      if (!entry.filename().string().starts_with("policy")) continue;
      unsigned cpu = 0;
      if (std::istringstream(sysfs::text_or_empty(entry / "affected_cpus")) >> cpu) cpus.push_back(cpu);
    }
    std::ranges::sort(cpus);
    return cpus;
  }
  cpufreq::Limits limits(unsigned cpu) override {
    return {khz(cpu, "scaling_min_freq"), khz(cpu, "scaling_max_freq"),
            sysfs::read_text(file_of(cpu, "scaling_governor"))};
  }
  cpufreq::Limits hardware(unsigned cpu) override {
    return {khz(cpu, "cpuinfo_min_freq"), khz(cpu, "cpuinfo_max_freq"), {}};
  }
  std::vector<unsigned long> available_khz(unsigned cpu) override {
    std::vector<unsigned long> values = words<unsigned long>(cpu, "scaling_available_frequencies");
    const std::vector<unsigned long> boost = words<unsigned long>(cpu, "scaling_boost_frequencies");
    values.insert(values.end(), boost.begin(), boost.end());
    return values;
  }
  std::vector<std::string> available_governors(unsigned cpu) override {
    return words<std::string>(cpu, "scaling_available_governors");
  }
  std::optional<unsigned long> current_khz(unsigned cpu) override {
    const std::optional<double> khz = sysfs::number_or_none(file_of(cpu, "scaling_cur_freq"));
    if (!khz || *khz <= 0) return std::nullopt;
    return static_cast<unsigned long>(*khz);
  }
  int set_min(unsigned cpu, unsigned long khz) override { return write(cpu, "scaling_min_freq", std::to_string(khz)); }
  int set_max(unsigned cpu, unsigned long khz) override { return write(cpu, "scaling_max_freq", std::to_string(khz)); }
  int set_governor(unsigned cpu, const std::string& governor) override {
    return write(cpu, "scaling_governor", governor);
  }

 private:
  static unsigned long khz(unsigned cpu, const char* file) { return sysfs::read_integer(file_of(cpu, file)); }
  /// A list separated by blanks; empty where the driver has no such file.
  template <class Value>
  static std::vector<Value> words(unsigned cpu, const char* file) {
    std::istringstream text(sysfs::text_or_empty(file_of(cpu, file)));
    std::vector<Value> values;
    for (Value value; text >> value;) values.push_back(value);
    return values;
  }
  /// The kernel takes a value in one write; 0 or the errno of the file.
  static int write(unsigned cpu, const char* file, const std::string& value) {
    const Descriptor descriptor(open(file_of(cpu, file).c_str(), O_WRONLY | O_CLOEXEC));
    if (descriptor.get() < 0) return errno;
    const ssize_t written = ::write(descriptor.get(), value.data(), value.size());
    if (written < 0) return errno;
    return static_cast<std::size_t>(written) == value.size() ? 0 : EIO;
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
  SysfsPolicies policies;
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
  auto knob = cpufreq::make_cpu_knob(std::make_unique<SysfsPolicies>());
  if (const KnobRange range = knob->range(); range.minimum > range.maximum) {
    frequency.explain("unsupported", "the CPUs have no frequency in common");
  } else {
    judge(frequency, std::move(knob), cpus, {"scaling_min_freq", "scaling_max_freq"}, "scaling_{min,max}_freq",
          "--cpu-freq=MIN-MAX in kHz");
  }
  knob = cpufreq::make_governor_knob(std::make_unique<SysfsPolicies>());
  if (knob->range().values.empty()) {
    governor.explain("unsupported", "the CPUs list no governor in common in scaling_available_governors");
  } else {
    judge(governor, std::move(knob), cpus, {"scaling_governor"}, "scaling_governor", "--cpu-freq=GOVERNOR");
  }
  return findings;
}

}  // namespace tw::power
