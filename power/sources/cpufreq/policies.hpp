// The CPU frequency policies of a node, as the two knobs ask for them; sysfs answers (source.cpp), or a test.
#pragma once

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "power/knob/knob.hpp"

namespace tw::power::cpufreq {

struct Limits {
  unsigned long min_khz = 0, max_khz = 0;
  std::string governor;
};

class Policies {
 public:
  virtual ~Policies() = default;
  /// One CPU of each policy that has a CPU online, ascending.
  virtual std::vector<unsigned> cpus() = 0;
  /// These throw std::system_error.
  virtual Limits limits(unsigned cpu) = 0;    ///< scaling_min_freq, scaling_max_freq, scaling_governor
  virtual Limits hardware(unsigned cpu) = 0;  ///< cpuinfo_min_freq, cpuinfo_max_freq
  virtual std::vector<unsigned long> available_khz(unsigned cpu) = 0;       ///< empty if the driver lists none
  virtual std::vector<std::string> available_governors(unsigned cpu) = 0;   ///< likewise
  virtual std::optional<unsigned long> current_khz(unsigned cpu) = 0;       ///< scaling_cur_freq
  virtual int set_min(unsigned cpu, unsigned long khz) = 0;                 ///< 0 or an errno; verifies nothing
  virtual int set_max(unsigned cpu, unsigned long khz) = 0;                 ///< 0 or an errno
  virtual int set_governor(unsigned cpu, const std::string& governor) = 0;  ///< 0 or an errno
};

/// The frequency of all CPUs of a node as one knob: min = max = value on every policy. The governor is not needed for
/// that (each keeps between the two), and is the other knob. Source of the order of writes: Linux
/// Documentation/admin-guide/pm/cpufreq.rst (scaling_min_freq must not exceed scaling_max_freq).
std::unique_ptr<Knob> make_cpu_knob(std::unique_ptr<Policies> policies);
/// The governor of all CPUs, the same on every policy. Its range is empty if the policies have none in common that
/// names_of(cpu_governor) knows.
std::unique_ptr<Knob> make_governor_knob(std::unique_ptr<Policies> policies);

inline std::string name_of(unsigned cpu) { return "cpu" + std::to_string(cpu); }

/// Throws NotApplied for an errno of a setter.
inline void check(unsigned cpu, const char* file, int error) {
  if (error == 0) return;
  const bool permission = error == EACCES || error == EPERM || error == EROFS;
  throw NotApplied(permission ? "permission" : "unsupported",
                   name_of(cpu) + "/cpufreq/" + file + ": " + std::strerror(error));
}

/// Calls function(cpu, name) for each policy that a saved state names by `key` ("cpu2" + key). One that is gone or
/// throws does not keep the others from theirs; the first failure is thrown at the end, as NotApplied.
template <typename Function>
void each_policy(Policies& policies, const KnobState& found, const std::string& key, const Function& function) {
  const std::vector<unsigned> cpus = policies.cpus();
  std::optional<NotApplied> failure;
  for (const auto& [entry, text] : found) {
    if (!entry.ends_with(key)) continue;
    const std::string name = entry.substr(0, entry.size() - key.size());
    try {
      const unsigned* cpu = nullptr;
      for (const unsigned& one : cpus)
        if (name_of(one) == name) cpu = &one;
      if (!cpu) throw NotApplied("unsupported", name + " has no frequency policy any more");
      function(*cpu, name);
    } catch (const NotApplied& error) {
      if (!failure) failure = error;
    } catch (const std::system_error& error) {
      if (!failure) failure = NotApplied("unsupported", error.what());
    }
  }
  if (failure) throw NotApplied(*failure);
}

}  // namespace tw::power::cpufreq
