// A bundle's files as one archive: tar, compressed with zstd, in memory.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include "results/export/bundle.hpp"

namespace tw::bench::tool {

/// Not an archive of ours, for whatever cause, or larger than one may be.
struct ArchiveError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Bounds on what is unpacked: whoever sends a bundle decides neither memory nor names.
inline constexpr std::size_t most_archive_files = 32;
inline constexpr std::size_t most_archive_bytes = std::size_t{512} << 20;  ///< of all files together, unpacked

/// All inside one folder `trainwatt-offer`, in order of name, with a fixed time and owner: the same files make the same
/// archive (with the same libzstd).
std::string pack(const results::BundleFiles& files);
/// Whether bytes begin as zstd's do, so that they can only be a bundle.
bool is_packed(std::string_view bytes);
/// Throws ArchiveError for anything but plain files inside `trainwatt-offer/`, each once, within the bounds.
results::BundleFiles unpack(std::string_view bytes);

}  // namespace tw::bench::tool
