// How a test plays the kernel: one file whose content changes, not one file after another under the same name.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

namespace tw {

/// Writes a line over what is there, as a reader with an open descriptor sees it. A number is padded with newlines to
/// one length and written by one call, so that its reader sees the old or the new one, never a half. Anybody may write
/// it: the threads of a test share the effective user id.
inline void write_in_place(const std::filesystem::path& file, std::string text) {
  constexpr std::size_t number_size = 32;
  const bool is_number = !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) != 0;
  text += '\n';
  if (is_number && text.size() < number_size) text.resize(number_size, '\n');
  const auto is_as_long = [&](int descriptor) {  // then its reader sees no moment in which it is cut
    struct stat status {};
    return fstat(descriptor, &status) == 0 && status.st_size == static_cast<off_t>(text.size());
  };
  const bool is_new = !std::filesystem::exists(file);
  const int descriptor = open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  const bool written = descriptor >= 0 && (!is_new || fchmod(descriptor, 0666) == 0) &&
                       pwrite(descriptor, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()) &&
                       (is_as_long(descriptor) || ftruncate(descriptor, static_cast<off_t>(text.size())) == 0);
  const int error = errno;
  if (descriptor >= 0) close(descriptor);
  if (!written) throw std::system_error(error, std::generic_category(), file.string());
}

/// Takes a file or folder away, also from those who hold a file open: they find nothing in it.
inline void take_away(const std::filesystem::path& path) {
  namespace fs = std::filesystem;
  std::error_code none;
  const auto empty = [&](const fs::path& one) {
    if (fs::symlink_status(one, none).type() == fs::file_type::regular) fs::resize_file(one, 0, none);
  };
  empty(path);
  if (!fs::is_symlink(path, none))
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path, none)) empty(entry.path());
  fs::remove_all(path, none);
}

}  // namespace tw
