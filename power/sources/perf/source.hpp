// RAPL energy through perf_event_open: the same counters as powercap, widened to 64 bits by the kernel; the way in for
// users without root where CAP_PERFMON or kernel.perf_event_paranoid ≤ 0 lets them.
//
// Source: Linux arch/x86/events/rapl.c (one event per die and domain, opened on the CPUs of `cpumask`), and
// Documentation/ABI/testing/sysfs-bus-event_source-devices-events (events/NAME, .scale, .unit).
#pragma once

#include <filesystem>
#include <vector>

#include "power/meter/energy_meter.hpp"

namespace tw::power::perf {

/// `pmu` as /sys/bus/event_source/devices/power, `cpus` as /sys/devices/system/cpu. Throws nothing for what is missing:
/// that is a finding with its reason. Reading a meter throws std::system_error with the errno of the read.
std::vector<MeterFinding> find_meters_in(const std::filesystem::path& pmu, const std::filesystem::path& cpus);

}  // namespace tw::power::perf
