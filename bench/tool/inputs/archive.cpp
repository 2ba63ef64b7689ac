#include "bench/tool/inputs/archive.hpp"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <array>
#include <memory>

#include "results/record/text.hpp"

namespace tw::bench::tool {
namespace {

constexpr std::string_view folder = "trainwatt-offer/";
constexpr const char* compression_level = "9";
constexpr std::int64_t fixed_time = 315532800;  // 1980-01-01, the earliest that all archive formats know

template <auto free>
struct Free {
  void operator()(auto* owned) const { free(owned); }
};

std::string why(archive* a) {
  const char* text = archive_error_string(a);
  return text != nullptr ? text : "unknown error";
}

std::string incomplete(const std::string& cause) {
  return fmt::format("incomplete or damaged tar.zst file ({}), probably because a copy was interrupted: copy it again",
                     cause);
}

la_ssize_t append(archive*, void* out, const void* bytes, std::size_t size) {
  static_cast<std::string*>(out)->append(static_cast<const char*>(bytes), size);
  return static_cast<la_ssize_t>(size);
}

/// The name inside the folder; throws where it is none of a plain file there.
std::string checked_name(archive_entry* entry) {
  const char* path = archive_entry_pathname(entry);
  const std::string_view name = path != nullptr ? path : "";
  const auto refuse = [&](const char* what) {
    throw ArchiveError(
        fmt::format("contains \"{}\", {}", results::text::printable(std::string(name.substr(0, 200))), what));
  };
  if (archive_entry_hardlink(entry) != nullptr || archive_entry_symlink(entry) != nullptr ||
      archive_entry_filetype(entry) != AE_IFREG)
    refuse("which is not a regular file");
  if (!name.starts_with(folder)) refuse("which is not in trainwatt-offer/: not a bundle");
  const std::string_view rest = name.substr(folder.size());
  constexpr std::size_t longest = 80;
  if (rest.empty() || rest.size() > longest || rest.front() == '.' ||
      rest.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") != rest.npos)
    refuse("which is not a valid file name in a bundle");
  return std::string(rest);
}

}  // namespace

std::string pack(const results::BundleFiles& files) {
  std::string out;
  const std::unique_ptr<archive, Free<archive_write_free>> a(archive_write_new());
  const auto check = [&](int result) {
    if (result != ARCHIVE_OK) throw std::runtime_error("cannot pack: " + why(a.get()));
  };
  if (!a) throw std::bad_alloc();
  check(archive_write_set_format_ustar(a.get()));
  check(archive_write_add_filter_zstd(a.get()));
  check(archive_write_set_filter_option(a.get(), "zstd", "compression-level", compression_level));
  check(archive_write_set_bytes_in_last_block(a.get(), 1));
  check(archive_write_open(a.get(), &out, nullptr, append, nullptr));
  for (const auto& [name, bytes] : files) {
    const std::unique_ptr<archive_entry, Free<archive_entry_free>> entry(archive_entry_new());
    if (!entry) throw std::bad_alloc();
    archive_entry_set_pathname(entry.get(), (std::string(folder) + name).c_str());
    archive_entry_set_filetype(entry.get(), AE_IFREG);
    archive_entry_set_perm(entry.get(), 0644);
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(bytes.size()));
    archive_entry_set_mtime(entry.get(), fixed_time, 0);
    check(archive_write_header(a.get(), entry.get()));
    if (archive_write_data(a.get(), bytes.data(), bytes.size()) != static_cast<la_ssize_t>(bytes.size()))
      throw std::runtime_error("cannot pack " + name + ": " + why(a.get()));
  }
  check(archive_write_close(a.get()));
  return out;
}

bool is_packed(std::string_view bytes) { return bytes.starts_with("\x28\xb5\x2f\xfd"); }

results::BundleFiles unpack(std::string_view bytes) {
  const std::unique_ptr<archive, Free<archive_read_free>> a(archive_read_new());
  if (!a) throw std::bad_alloc();
  // Nothing but what bundles are made of: fewer parsers meet what strangers send.
  archive_read_support_filter_zstd(a.get());
  archive_read_support_format_tar(a.get());
  if (archive_read_open_memory(a.get(), bytes.data(), bytes.size()) != ARCHIVE_OK)
    throw ArchiveError(incomplete(why(a.get())));
  results::BundleFiles files;
  std::size_t total = 0;
  while (true) {
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(a.get(), &entry);
    if (result == ARCHIVE_EOF) break;
    if (result != ARCHIVE_OK) throw ArchiveError(incomplete(why(a.get())));
    const std::string name = checked_name(entry);
    if (files.size() == most_archive_files)
      throw ArchiveError(fmt::format("too many files for a bundle (maximum {})", most_archive_files));
    const auto [file, is_new] = files.try_emplace(name);
    if (!is_new) throw ArchiveError(fmt::format("contains {} twice", name));
    std::array<char, 65536> block;
    for (la_ssize_t got; (got = archive_read_data(a.get(), block.data(), block.size())) != 0;) {
      if (got < 0) throw ArchiveError(incomplete(name + ": " + why(a.get())));
      total += static_cast<std::size_t>(got);
      if (total > most_archive_bytes)
        throw ArchiveError(fmt::format("too large for a bundle (maximum {} MiB)", most_archive_bytes >> 20));
      file->second.append(block.data(), static_cast<std::size_t>(got));
    }
  }
  if (files.empty()) throw ArchiveError("empty: not a bundle");
  return files;
}

}  // namespace tw::bench::tool
