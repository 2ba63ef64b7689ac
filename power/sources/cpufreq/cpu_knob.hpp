// The frequency of all CPUs of a node as one knob: min = max = value on every policy.
//
// The governor is not needed for that (each keeps between the two), and is a knob of its own (governor_knob.hpp). Source of
// the order of writes: Linux Documentation/admin-guide/pm/cpufreq.rst (scaling_min_freq must not exceed scaling_max_freq).
#pragma once

#include <memory>

#include "power/sources/cpufreq/policies.hpp"

namespace tw::power::cpufreq {

std::unique_ptr<Knob> make_cpu_knob(std::unique_ptr<Policies> policies);

}  // namespace tw::power::cpufreq
