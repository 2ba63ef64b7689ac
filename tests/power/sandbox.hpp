// A made-up /sys/class/powercap under the real libpowercap, and a made-up /sys/devices/system/cpu.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace tw {

/// Why this process has no made-up tree, or empty: main() has started it inside bubblewrap with an own, empty, writable
/// /sys/class/powercap.
std::string why_no_sandbox();

/// Removes everything in the tree, and the CPUs' frequency policies.
void clear_tree();
/// Makes a zone as the kernel shows it; `path` as "intel-rapl:0" or "intel-rapl:0/intel-rapl:0:2".
void make_zone(const std::string& path, const std::string& name, std::uint64_t energy_uj, std::uint64_t range_uj);
/// Writes one file of a zone (a line), all at once.
void write_zone_file(const std::string& path, const std::string& file, const std::string& text);
std::string zone_folder(const std::string& path);

/// Makes the policy of one CPU as the kernel shows it, 1200 to 3800 MHz with `governor` "schedutil". Writers do not
/// truncate these files, so values keep their width of seven digits, and the other governor is "powersave".
void make_policy(unsigned cpu, unsigned long min_khz, unsigned long max_khz);
/// One file of it: path, and contents without the line's end.
std::string policy_file(unsigned cpu, const std::string& file);
std::string read_line(const std::string& path);

}  // namespace tw
