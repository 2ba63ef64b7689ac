// Small text files of the kernel.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "power/meter/descriptor.hpp"
#include "power/meter/energy_meter.hpp"

namespace tw::power::sysfs {

/// The content without white space at its end. Throws std::system_error naming the file.
std::string read_text(const std::filesystem::path& file);
/// A decimal number; further words (a unit, a time stamp) may follow. Throws std::system_error naming the file, also
/// where it holds no number (EINVAL).
double read_number(const std::filesystem::path& file);
/// The same without a detour over floating point, and without a sign.
std::uint64_t read_integer(const std::filesystem::path& file);
/// "0,18-19" → 0, 18, 19. Throws std::system_error (EINVAL) if it is no such list.
std::vector<int> read_list(const std::filesystem::path& file);

/// The same where a file may be missing or unreadable.
std::string text_or_empty(const std::filesystem::path& file);
std::optional<double> number_or_none(const std::filesystem::path& file);

/// A file of one number that is read again and again. It stays open: reading at offset 0 makes the kernel evaluate the
/// attribute anew (sysfs, Linux Documentation/filesystems/sysfs.rst), and to look a path up costs several times that.
/// A reading allocates nothing unless it fails. One that fails, or finds nothing, opens the file once more: a device
/// that went and came back has a new file under the old name. Not for files that are replaced by rename.
class NumberFile {
 public:
  explicit NumberFile(std::filesystem::path file) : file_(std::move(file)) {}
  /// As the functions above, from a file that is opened at the first reading.
  double read_number();
  std::uint64_t read_integer();
  std::optional<double> number_or_none() noexcept;
  /// Gives the descriptor back until the next reading.
  void close() noexcept { descriptor_.close(); }
  const std::filesystem::path& path() const { return file_; }

 private:
  struct Text;
  int read_text(Text& text) noexcept;  // 0 or the errno; ENODATA where there is nothing
  template <typename Number>
  int read(Number& number, Text& text) noexcept;  // EINVAL where it is no number
  template <typename Number>
  Number read_or_throw();

  std::filesystem::path file_;
  Descriptor descriptor_;
};

/// A folder's entries in a fixed order; none where it cannot be read.
std::vector<std::filesystem::path> sorted_entries(const std::filesystem::path& folder);
/// "0000:c1:00.0" where `device`, a link such as hwmon3/device, leads to a PCI device; else empty.
std::string pci_address(const std::filesystem::path& device);

/// Fills reason and detail: "permission" for EACCES and EPERM, else "unsupported".
void explain(const std::system_error& error, MeterFinding& finding);

}  // namespace tw::power::sysfs
