#include "power/knob/journal.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <thread>
#include <utility>

namespace tw::power {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int schema_version = 1;
constexpr const char *journal_file = "settings.json", *temporary_file = "settings.json.new", *lock_file = "lock",
                     *door_file = "door";
constexpr std::size_t largest_bytes = 16 << 20, largest_of_others = 64 << 10;

[[noreturn]] void fail(const fs::path& path) { throw std::system_error(errno, std::generic_category(), path.string()); }

/// What root has set concerns everybody on the node.
mode_t file_mode() { return geteuid() == 0 ? 0644 : 0600; }

/// Ours alone: of this user, written by no other user, and not under a second name somewhere.
void check_trust(int fd, const fs::path& path, bool folder) {
  struct stat status {};
  if (fstat(fd, &status) != 0) fail(path);
  const char* wrong = folder != S_ISDIR(status.st_mode)     ? "is of the wrong type"
                      : !folder && !S_ISREG(status.st_mode) ? "is not a regular file"
                      : status.st_uid != geteuid()          ? "belongs to another user"
                      : (status.st_mode & 022) != 0         ? "may be written by others"
                      : !folder && status.st_nlink > 1      ? "has another hard link"
                                                            : nullptr;
  if (wrong)
    throw JournalError(path.string() + " " + wrong +
                       "; its settings are not trusted: check it, remove it if it is not yours, or name another "
                       "folder in TRAINWATT_RUN_DIR");
}

std::string read_all(int fd, const fs::path& path, std::size_t most = largest_bytes) {
  std::string text;
  char part[4096];
  for (ssize_t count; (count = read(fd, part, sizeof part)) != 0;) {
    if (count < 0) fail(path);
    text.append(part, static_cast<std::size_t>(count));
    if (text.size() > most)
      throw JournalError(path.string() + " is larger than " + std::to_string(most >> 10) + " KiB, and is not read");
  }
  return text;
}

void write_all(int fd, const std::string& text, const fs::path& path) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t count = ::write(fd, text.data() + done, text.size() - done);
    if (count < 0) fail(path);
    done += static_cast<std::size_t>(count);
  }
}

Json to_json(const Owner& owner) {
  return {{"pid", owner.pid},
          {"start_time", owner.start_time},
          {"uid", owner.uid},
          {"program", owner.program},
          {"pid_namespace", owner.pid_namespace}};
}
Owner owner_from(const Json& json) {
  return {json.at("pid").get<pid_t>(), json.at("start_time").get<unsigned long long>(), json.at("uid").get<uid_t>(),
          json.at("program").get<std::string>(), json.value("pid_namespace", std::string())};
}

/// A text; of one that is not UTF-8, which a path may be but JSON may not, the bytes.
Json json_of_path(const std::string& path) {
  Json text = path;
  try {
    text.dump();
    return text;
  } catch (const Json::type_error&) {
    Json bytes = Json::array();
    for (const char c : path) bytes.push_back(static_cast<unsigned char>(c));
    return bytes;
  }
}

std::string path_of(const Json& json) {
  if (!json.is_array()) return json.get<std::string>();
  std::string path;
  for (const Json& byte : json) path += static_cast<char>(byte.get<unsigned char>());
  return path;
}

struct Process {
  unsigned long long start_time = 0;  ///< 0: it is not there, or hidden
  char state = '?';
};
Process look_at(const std::string& process) {
  std::ifstream file("/proc/" + process + "/stat");
  std::string text;
  std::getline(file, text, '\0');                // iterators would throw of a process that ends meanwhile
  const std::size_t name_end = text.rfind(')');  // a name may hold blanks and brackets
  if (name_end == std::string::npos) return {};
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  Process seen;
  fields >> seen.state;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  fields >> seen.start_time;
  return seen;
}

/// Of this process; empty if /proc is another PID namespace's, so that its numbers name others.
std::string pid_namespace() {
  std::error_code error;
  if (fs::read_symlink("/proc/self", error) != std::to_string(getpid())) return {};
  return fs::read_symlink("/proc/self/ns/pid", error).string();
}

std::string beginning(const std::string& text) {
  constexpr std::size_t most = 100;
  return text.size() <= most ? text : text.substr(0, most) + "...";
}

[[noreturn]] void fail_to_keep(const fs::path& path) {
  const int error = errno;
  const char* named = std::getenv("TRAINWATT_RUN_DIR");
  throw std::system_error(
      error, std::generic_category(),
      path.string() + ": the journal of settings cannot be written here: " +
          (named && named[0] != '\0' ? "create the parent folder, or set TRAINWATT_RUN_DIR to another folder"
                                     : "set TRAINWATT_RUN_DIR to a folder on this node"));
}

/// False if another has it for longer than so long.
bool lock_file_of(int fd, const fs::path& path, std::chrono::milliseconds wait) {
  const auto deadline = std::chrono::steady_clock::now() + wait;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) fail(path);
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

Journal journal_from(const std::string& text, const fs::path& path) {
  try {
    const Json json = Json::parse(text);
    if (json.at("schema_version").get<int>() != schema_version)
      throw JournalError(path.string() + " was written by another version of trainwatt: restore with that version");
    Journal journal;
    journal.boot_id = json.at("boot_id").get<std::string>();
    journal.owner = owner_from(json.at("owner"));
    journal.site = path_of(json.at("site"));
    if (json.contains("programs"))
      for (const Json& program : json["programs"]) journal.programs[path_of(program.at(0))] = path_of(program.at(1));
    for (const Json& one : json.at("entries")) {
      JournalEntry entry;
      const auto kind = knob_kind_from_string(one.at("kind").get<std::string>());
      if (!kind) throw JournalError(path.string() + ": unknown kind " + one.at("kind").dump());
      entry.kind = *kind;
      entry.domain = one.at("domain").get<std::string>();
      entry.found = one.at("found").get<KnobState>();
      for (const Json& attempt : one.at("attempts")) {
        Attempt made{attempt.at("requested").get<double>(), std::nullopt};
        if (!attempt.at("accepted").is_null()) made.accepted = attempt.at("accepted").get<double>();
        if (attempt.contains("refused")) made.refused = attempt.at("refused").get<KnobState>();
        if (attempt.contains("before")) made.before = attempt.at("before").get<KnobState>();
        entry.attempts.push_back(std::move(made));
      }
      journal.entries.push_back(std::move(entry));
    }
    return journal;
  } catch (const Json::exception&) {
    throw JournalError(path.string() + " is damaged; look at the node's clocks and limits, then remove it");
  }
}

Glance glance(const fs::path& path, std::optional<uid_t> user) {
  const Descriptor folder(::open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat of_folder {
  }, status{};
  if (folder.get() < 0 || fstat(folder.get(), &of_folder) != 0) return {};
  if (user && of_folder.st_uid != *user) return {};
  const fs::path name = path / journal_file;
  const Descriptor file(openat(folder.get(), journal_file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0 && errno == ELOOP && !user) return {std::nullopt, name.string() + " is a symbolic link"};
  if (file.get() < 0 || fstat(file.get(), &status) != 0) return {};
  const bool is_theirs = status.st_uid == of_folder.st_uid;
  if (user && !(is_theirs && S_ISREG(status.st_mode))) return {};
  if (!S_ISREG(status.st_mode)) return {std::nullopt, name.string() + " is not a regular file"};
  if (!is_theirs) return {std::nullopt, name.string() + " belongs to another user than its folder"};
  try {
    const bool is_limited = user && *user != 0;
    Journal journal = journal_from(read_all(file.get(), name, is_limited ? largest_of_others : largest_bytes), name);
    if (journal.owner.uid == of_folder.st_uid) return {std::move(journal), {}};
    if (user) return {};
    return {std::nullopt, name.string() + " names as its owner user " + std::to_string(journal.owner.uid) +
                              ", who does not own the file"};
  } catch (const std::exception& error) {
    return {std::nullopt, error.what()};
  }
}

}  // namespace

Owner this_process() {
  std::string program;
  std::getline(std::ifstream("/proc/self/comm"), program);
  return {getpid(), look_at("self").start_time, geteuid(), program, pid_namespace()};
}

std::string describe(const Owner& owner) {
  return beginning(owner.program) + ", process " + std::to_string(owner.pid) + " of user " + std::to_string(owner.uid);
}

Life life_of(const Owner& owner) {
  const std::string ours = pid_namespace();
  const bool is_of_ours = !ours.empty() && owner.pid_namespace == ours;
  if (ours.empty() || owner.pid <= 0 || owner.start_time == 0 || (!is_of_ours && !owner.pid_namespace.empty()))
    return Life::unknown;
  const Process seen = look_at(std::to_string(owner.pid));
  if (seen.start_time == owner.start_time)
    return seen.state == 'Z' || seen.state == 'X' ? Life::dead : Life::living;  // a zombie holds no lock and no file
  const bool is_hidden = seen.start_time == 0 && (kill(owner.pid, 0) == 0 || errno == EPERM);
  return is_of_ours && !is_hidden ? Life::dead : Life::unknown;
}

std::string values_of(const Journal& journal) {
  constexpr std::size_t most_groups = 20;
  struct Group {
    std::string what, domain;
    std::size_t devices = 0;
  };
  std::vector<Group> groups;  // by kind and value
  std::size_t others = 0;
  for (const JournalEntry& entry : journal.entries) {
    std::string what = to_string(entry.kind);
    if (!entry.attempts.empty()) {
      const Attempt& last = entry.attempts.back();
      what += " " + set_point_text(entry.kind, last.accepted.value_or(last.requested));
    }
    auto group = std::ranges::find(groups, what, &Group::what);
    if (group == groups.end() && groups.size() == most_groups) {
      ++others;
      continue;
    }
    if (group == groups.end()) group = groups.insert(groups.end(), {what, beginning(entry.domain)});
    ++group->devices;
  }
  std::string text;
  for (const Group& group : groups)
    text += (text.empty() ? "" : ", ") + group.what + " of " +
            (group.devices == 1 ? group.domain : std::to_string(group.devices) + " devices");
  if (others > 0) text += ", and " + std::to_string(others) + " more";
  return text.empty() ? "nothing" : text;
}

std::string boot_id() {
  std::string text;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), text);
  return text;
}
std::optional<JournalFolder> JournalFolder::open(const fs::path& path, bool create) {
  const mode_t mode = geteuid() == 0 ? 0755 : 0700;
  if (create && mkdir(path.c_str(), mode) != 0 && errno != EEXIST) fail_to_keep(path);
  Descriptor folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.get() < 0) {
    if (errno == ENOENT && !create) return std::nullopt;
    if (create && errno != ELOOP && errno != ENOTDIR) fail_to_keep(path);
    if (errno == ELOOP || errno == ENOTDIR)
      throw JournalError(path.string() + " is not a folder (symbolic links are not followed): not trusted");
    fail(path);
  }
  check_trust(folder.get(), path, true);
  return JournalFolder(path, std::move(folder));
}

Descriptor JournalFolder::take(const char* name, std::chrono::milliseconds wait) const {
  const fs::path path = path_ / name;
  Descriptor file(openat(fd_.get(), name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
  if (file.get() < 0 && errno == ELOOP)
    throw JournalError(path.string() + " is a symbolic link, so it is not trusted: remove it");
  if (file.get() < 0) fail(path);
  check_trust(file.get(), path, false);
  if (fchmod(file.get(), 0600) != 0) fail(path);  // versions before this one let everybody read it
  return lock_file_of(file.get(), path, wait) ? std::move(file) : Descriptor();
}

bool JournalFolder::close_door(std::chrono::milliseconds wait) {
  if (door_fd_.get() < 0) door_fd_ = take(door_file, wait);
  return door_fd_.get() >= 0;
}

bool JournalFolder::lock(std::chrono::milliseconds wait) {
  if (locked()) return true;
  Descriptor file = take(lock_file, wait);
  if (file.get() < 0) return false;
  const fs::path path = path_ / lock_file;
  const std::string text = to_json(this_process()).dump() + "\n";
  if (ftruncate(file.get(), 0) != 0) fail(path);
  write_all(file.get(), text, path);
  lock_fd_ = std::move(file);
  return true;
}

std::optional<Owner> JournalFolder::lock_owner() const {
  const Descriptor file(openat(fd_.get(), lock_file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  if (file.get() < 0 || fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  const Json json = Json::parse(read_all(file.get(), path_ / lock_file), nullptr, false);
  try {
    return owner_from(json);
  } catch (const Json::exception&) {  // caught between two writes
    return std::nullopt;
  }
}

std::optional<Journal> JournalFolder::read() const {
  const fs::path path = path_ / journal_file;
  const Descriptor file(openat(fd_.get(), journal_file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (file.get() < 0) {
    if (errno == ENOENT) return std::nullopt;
    if (errno == ELOOP) throw JournalError(path.string() + " is a symbolic link, so its settings are not trusted");
    fail(path);
  }
  check_trust(file.get(), path, false);
  return journal_from(read_all(file.get(), path), path);
}
Glance glance_at_journal(const fs::path& folder) { return glance(folder, std::nullopt); }
Glance glance_at_journal(const OtherFolders::Folder& folder) { return glance(folder.path, folder.user); }

void JournalFolder::write(const Journal& journal) const {
  Json json = {{"schema_version", schema_version}, {"boot_id", journal.boot_id},
               {"owner", to_json(journal.owner)},  {"site", json_of_path(journal.site.string())},
               {"programs", Json::array()},        {"entries", Json::array()}};
  for (const auto& [name, path] : journal.programs)
    json["programs"].push_back({json_of_path(name), json_of_path(path)});
  for (const JournalEntry& entry : journal.entries) {
    Json attempts = Json::array();
    for (const Attempt& attempt : entry.attempts) {
      attempts.push_back(
          {{"requested", attempt.requested}, {"accepted", attempt.accepted ? Json(*attempt.accepted) : Json()}});
      if (!attempt.refused.empty()) attempts.back()["refused"] = attempt.refused;
      if (attempt.before) attempts.back()["before"] = *attempt.before;
    }
    json["entries"].push_back({{"kind", to_string(entry.kind)},
                               {"domain", entry.domain},
                               {"found", entry.found},
                               {"attempts", std::move(attempts)}});
  }
  const fs::path temporary = path_ / temporary_file;
  if (unlinkat(fd_.get(), temporary_file, 0) != 0 && errno != ENOENT) fail(temporary);
  {
    const Descriptor file(
        openat(fd_.get(), temporary_file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, file_mode()));
    if (file.get() < 0) fail(temporary);
    write_all(file.get(), json.dump(2) + "\n", temporary);
    if (fsync(file.get()) != 0) fail(temporary);
  }
  if (renameat(fd_.get(), temporary_file, fd_.get(), journal_file) != 0) fail(path_ / journal_file);
  if (fsync(fd_.get()) != 0) fail(path_);
}

void JournalFolder::remove() const {
  if (unlinkat(fd_.get(), journal_file, 0) != 0 && errno != ENOENT) fail(path_ / journal_file);
  if (fsync(fd_.get()) != 0) fail(path_);
}

}  // namespace tw::power
