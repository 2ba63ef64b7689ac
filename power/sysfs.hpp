// Small text files of the kernel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "power/energy_meter.hpp"

namespace tw::sysfs {

/// The content without white space at its end. Throws std::system_error naming the file.
std::string read_text(const std::filesystem::path& file);
/// A decimal number; further words (a unit, a time stamp) may follow. Throws std::system_error naming the file, also
/// where it holds no number (EINVAL).
double read_number(const std::filesystem::path& file);
/// The same without a detour over floating point, and without a sign.
std::uint64_t read_integer(const std::filesystem::path& file);
/// "0,18-19" → 0, 18, 19. Throws std::system_error (EINVAL) where it is no such list.
std::vector<int> read_list(const std::filesystem::path& file);

/// Fills reason and detail: "permission" for EACCES and EPERM, else "unsupported".
void explain(const std::system_error& error, MeterFinding& finding);

}  // namespace tw::sysfs
