// A knob whose hardware is a file, for processes that are killed: its value outlives them.
#pragma once

#include <filesystem>
#include <string>

#include "power/knob/restore.hpp"

namespace tw {

/// Knobs whose files lie in a folder: "cpu_frequency_mhz", 1000 to 3000 (get, set, restore), and "gpu_clock_mhz", 300
/// to 2000, without a getter: the file holds "reset" where nothing is set. A file "locked" makes set() say so, after it
/// has written. A file "clamp" makes set() of the former write the value that stands in it, and say so. A file "hold"
/// makes restore() wait until it is gone, "hold-set" makes set() of the former wait so after it has written.
power::KnobFinder file_knobs(const std::filesystem::path& folder);

/// Makes both as found: 2500 and "reset".
void make_file_knobs(const std::filesystem::path& folder);
std::string file_text(const std::filesystem::path& file);
void write_file_text(const std::filesystem::path& file, const std::string& text);

}  // namespace tw
