// The frequency of all CPUs of a node as one knob: min = max = value on every policy.
//
// The governor is not needed for that (each keeps between the two) and is not written by set(); it belongs to the state
// that is saved and restored all the same. Source of the order of writes: Linux
// Documentation/admin-guide/pm/cpufreq.rst (scaling_min_freq must not exceed scaling_max_freq).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "power/knob.hpp"

namespace tw::cpufreq {

struct Limits {
  unsigned long min_khz = 0, max_khz = 0;
  std::string governor;
};

/// What the knob asks of the system; libcpupower answers (source.cpp), or a test.
class Policies {
 public:
  virtual ~Policies() = default;
  /// One CPU of each policy that has a CPU online, ascending.
  virtual std::vector<unsigned> cpus() = 0;
  /// These throw std::system_error.
  virtual Limits limits(unsigned cpu) = 0;    ///< scaling_min_freq, scaling_max_freq, scaling_governor
  virtual Limits hardware(unsigned cpu) = 0;  ///< cpuinfo_min_freq, cpuinfo_max_freq
  virtual std::vector<unsigned long> available_khz(unsigned cpu) = 0;       ///< empty where the driver lists none
  virtual std::optional<unsigned long> current_khz(unsigned cpu) = 0;       ///< scaling_cur_freq
  virtual int set_min(unsigned cpu, unsigned long khz) = 0;                 ///< 0 or an errno; verifies nothing
  virtual int set_max(unsigned cpu, unsigned long khz) = 0;                 ///< 0 or an errno
  virtual int set_governor(unsigned cpu, const std::string& governor) = 0;  ///< 0 or an errno
};

std::unique_ptr<Knob> make_cpu_knob(std::unique_ptr<Policies> policies);

}  // namespace tw::cpufreq
