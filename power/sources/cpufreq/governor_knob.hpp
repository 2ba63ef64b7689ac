// The frequency governor of all CPUs of a node as one knob: the same on every policy.
#pragma once

#include <memory>

#include "power/sources/cpufreq/policies.hpp"

namespace tw::power::cpufreq {

/// Its range is empty where the policies have no governor in common that names_of(cpu_governor) knows.
std::unique_ptr<Knob> make_governor_knob(std::unique_ptr<Policies> policies);

}  // namespace tw::power::cpufreq
