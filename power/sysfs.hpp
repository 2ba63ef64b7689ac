// Small text files of the kernel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
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

/// The same where a file may be missing or unreadable.
std::string text_or_empty(const std::filesystem::path& file);
std::optional<double> number_or_none(const std::filesystem::path& file) noexcept;

/// A folder's entries in a fixed order; none where it cannot be read.
std::vector<std::filesystem::path> sorted_entries(const std::filesystem::path& folder);
/// "0000:c1:00.0" where `device`, a link such as hwmon3/device, leads to a PCI device; else empty.
std::string pci_address(const std::filesystem::path& device);

/// Fills reason and detail: "permission" for EACCES and EPERM, else "unsupported".
void explain(const std::system_error& error, MeterFinding& finding);

}  // namespace tw::sysfs
