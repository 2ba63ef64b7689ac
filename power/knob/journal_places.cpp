// Where runs journal: this user's folders, and those of others.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <string_view>
#include <system_error>

#include "power/knob/journal.hpp"

namespace tw::power {
namespace {

namespace fs = std::filesystem;

constexpr const char* rank_suffix = "-rank";

fs::path own_folder_in(const char* runtime) {
  struct stat status {};
  if (!runtime || runtime[0] != '/' || stat(runtime, &status) != 0 || status.st_uid != geteuid()) return {};
  return fs::path(runtime) / "trainwatt";
}

std::vector<fs::path> node_folders() {
  if (const char* named = std::getenv("TRAINWATT_RUN_DIR"); named && named[0] != '\0') return {fs::absolute(named)};
  if (geteuid() == 0) return {"/run/trainwatt"};
  std::vector<fs::path> folders;
  const std::string user = std::to_string(geteuid());
  for (const fs::path& folder :
       {own_folder_in(std::getenv("XDG_RUNTIME_DIR")), own_folder_in(("/run/user/" + user).c_str())})
    if (!folder.empty() && (folders.empty() || folders.front() != folder)) folders.push_back(folder);
  // Where a login session ends, its runtime folder goes: without one in the environment it is not relied on.
  const fs::path temporary = "/tmp/trainwatt-" + user;
  folders.insert(std::getenv("XDG_RUNTIME_DIR") && !folders.empty() ? folders.end() : folders.begin(), temporary);
  return folders;
}

bool are_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// nullopt for what is no user's number, or another way to write one.
std::optional<uid_t> user_of(std::string_view digits) {
  uid_t user = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), user);
  if (error != std::errc() || std::to_string(user) != digits) return std::nullopt;
  return user;
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    entries.push_back(entry->path());
  return entries;
}

bool is_folder_of(const fs::path& path, uid_t user) {
  struct stat status {};
  return lstat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == user;
}

}  // namespace

fs::path journal_folder() { return node_folders().front(); }

fs::path journal_folder_of_rank(int rank) { return journal_folder().string() + rank_suffix + std::to_string(rank); }

std::vector<fs::path> journal_folders() {
  std::vector<fs::path> folders = node_folders();
  const std::size_t nodes = folders.size();
  for (std::size_t i = 0; i < nodes; ++i) {
    const std::string prefix = folders[i].filename().string() + rank_suffix;
    for (const fs::path& path : entries_of(folders[i].parent_path())) {
      const std::string name = path.filename().string();
      const bool is_rank = name.starts_with(prefix) && are_digits(std::string_view(name).substr(prefix.size()));
      // In a folder of everybody's, what others put there is not even looked into.
      if (is_rank && is_folder_of(path, geteuid())) folders.push_back(path);
    }
  }
  return folders;
}

OtherFolders other_journal_folders() {
  constexpr std::size_t most_of_user = 64, most = 512;
  OtherFolders found;
  std::map<uid_t, std::size_t> of_user;
  const std::vector<fs::path> ours = journal_folders();
  // `user`: whose all of them are; else their names tell.
  const auto add = [&](const fs::path& parent, std::string_view prefix, std::optional<uid_t> user) {
    for (const fs::path& path : entries_of(parent)) {
      const std::string file = path.filename().string();
      std::string_view name = file;
      if (!name.starts_with(prefix)) continue;
      name.remove_prefix(prefix.size());
      if (const std::size_t rank = name.find(rank_suffix);
          rank != std::string_view::npos && are_digits(name.substr(rank + std::string_view(rank_suffix).size())))
        name = name.substr(0, rank);
      if (user && !name.empty()) continue;
      const std::optional<uid_t> whose = user ? user : user_of(name);
      if (!whose || !is_folder_of(path, *whose) || std::ranges::find(ours, path) != ours.end()) continue;
      if (found.folders.size() == most || of_user[*whose] == most_of_user) {
        ++found.left_out;
        continue;
      }
      ++of_user[*whose];
      found.folders.push_back({path, *whose});
    }
  };
  add("/run", "trainwatt", 0);
  for (const fs::path& user : entries_of("/run/user"))
    if (const auto whose = user_of(user.filename().string())) add(user, "trainwatt", whose);
  add("/tmp", "trainwatt-", std::nullopt);
  return found;
}

}  // namespace tw::power
