#include "power/journal.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <thread>

namespace tw {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr int schema_version = 1;
constexpr const char *journal_file = "settings.json", *temporary_file = "settings.json.new", *lock_file = "lock";
constexpr std::size_t largest_bytes = 16 << 20;

[[noreturn]] void fail(const fs::path& path) { throw std::system_error(errno, std::generic_category(), path.string()); }

/// Closes on every way out.
class File {
 public:
  explicit File(int fd) : fd_(fd) {}
  File(const File&) = delete;
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

/// Ours alone: of this user, written by nobody else, and not under a second name somewhere.
void check_trust(int fd, const fs::path& path, bool folder) {
  struct stat status {};
  if (fstat(fd, &status) != 0) fail(path);
  const char* wrong = folder != S_ISDIR(status.st_mode)     ? "is of the wrong type"
                      : !folder && !S_ISREG(status.st_mode) ? "is no regular file"
                      : status.st_uid != geteuid()          ? "belongs to another user"
                      : (status.st_mode & 022) != 0         ? "may be written by others"
                      : !folder && status.st_nlink > 1      ? "has a second name"
                                                            : nullptr;
  if (wrong)
    throw JournalError(path.string() + " " + wrong +
                       ", so its settings are not trusted; look at it, and remove it if it "
                       "is not yours");
}

std::string read_all(int fd, const fs::path& path) {
  std::string text;
  char part[4096];
  for (ssize_t count; (count = read(fd, part, sizeof part)) != 0;) {
    if (count < 0) fail(path);
    text.append(part, static_cast<std::size_t>(count));
    if (text.size() > largest_bytes) throw JournalError(path.string() + " is far too large");
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
  return {{"pid", owner.pid}, {"start_time", owner.start_time}, {"uid", owner.uid}, {"program", owner.program}};
}
Owner owner_from(const Json& json) {
  return {json.at("pid").get<pid_t>(), json.at("start_time").get<unsigned long long>(), json.at("uid").get<uid_t>(),
          json.at("program").get<std::string>()};
}

unsigned long long start_time(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::size_t name_end = text.rfind(')');  // a name may hold blanks and brackets
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 22; ++field) fields >> skipped;
  unsigned long long ticks = 0;
  fields >> ticks;
  return ticks;
}

fs::path own_folder_in(const char* runtime) {
  struct stat status {};
  if (!runtime || runtime[0] != '/' || stat(runtime, &status) != 0 || status.st_uid != geteuid()) return {};
  return fs::path(runtime) / "trainwatt";
}

}  // namespace

Owner this_process() {
  std::string program;
  std::getline(std::ifstream("/proc/self/comm"), program);
  return {getpid(), start_time(getpid()), geteuid(), program};
}

std::string describe(const Owner& owner) {
  return owner.program + ", process " + std::to_string(owner.pid) + " of user " + std::to_string(owner.uid);
}

std::string boot_id() {
  std::string text;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), text);
  return text;
}

namespace {

constexpr const char* rank_suffix = "-rank";

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

}  // namespace

fs::path journal_folder() { return node_folders().front(); }

fs::path journal_folder_of_rank(int rank) { return journal_folder().string() + rank_suffix + std::to_string(rank); }

std::vector<fs::path> journal_folders() {
  std::vector<fs::path> folders = node_folders();
  const std::size_t nodes = folders.size();
  for (std::size_t i = 0; i < nodes; ++i) {
    const std::string prefix = folders[i].filename().string() + rank_suffix;
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(folders[i].parent_path(), ignored)) {
      const std::string name = entry.path().filename().string();
      const bool is_rank = name.starts_with(prefix) && name.size() > prefix.size() &&
                           name.find_first_not_of("0123456789", prefix.size()) == std::string::npos;
      // In a folder of everybody's, what others put there is not even looked into.
      struct stat status {};
      if (is_rank && lstat(entry.path().c_str(), &status) == 0 && status.st_uid == geteuid())
        folders.push_back(entry.path());
    }
  }
  return folders;
}

std::optional<JournalFolder> JournalFolder::open(const fs::path& path, bool create) {
  const mode_t mode = geteuid() == 0 ? 0755 : 0700;
  if (create && mkdir(path.c_str(), mode) != 0 && errno != EEXIST) fail(path);
  File folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (folder.get() < 0) {
    if (errno == ENOENT && !create) return std::nullopt;
    if (errno == ELOOP || errno == ENOTDIR)
      throw JournalError(path.string() +
                         " is no folder (a symbolic link is not followed), so its settings are not trusted");
    fail(path);
  }
  check_trust(folder.get(), path, true);
  return JournalFolder(path, folder.release());
}

JournalFolder::JournalFolder(JournalFolder&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), lock_fd_(std::exchange(other.lock_fd_, -1)) {}

JournalFolder::~JournalFolder() {
  if (lock_fd_ >= 0) close(lock_fd_);
  if (fd_ >= 0) close(fd_);
}

namespace {

/// False where another has it for longer than so long.
bool lock_file_of(int fd, const fs::path& path, std::chrono::milliseconds wait) {
  const auto deadline = std::chrono::steady_clock::now() + wait;
  while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) fail(path);
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return true;
}

}  // namespace

bool JournalFolder::close_door(std::chrono::milliseconds wait) { return lock_file_of(fd_, path_, wait); }

bool JournalFolder::lock(std::chrono::milliseconds wait) {
  if (locked()) return true;
  const fs::path path = path_ / lock_file;
  File file(openat(fd_, lock_file, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (file.get() < 0) fail(path);
  check_trust(file.get(), path, false);
  if (!lock_file_of(file.get(), path, wait)) return false;
  const std::string text = to_json(this_process()).dump() + "\n";
  if (ftruncate(file.get(), 0) != 0) fail(path);
  write_all(file.get(), text, path);
  lock_fd_ = file.release();
  return true;
}

std::optional<Owner> JournalFolder::lock_owner() const {
  const File file(openat(fd_, lock_file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (file.get() < 0) return std::nullopt;
  const Json json = Json::parse(read_all(file.get(), path_ / lock_file), nullptr, false);
  try {
    return owner_from(json);
  } catch (const Json::exception&) {  // caught between two writes
    return std::nullopt;
  }
}

std::optional<Journal> JournalFolder::read() const {
  const fs::path path = path_ / journal_file;
  const File file(openat(fd_, journal_file, O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (file.get() < 0) {
    if (errno == ENOENT) return std::nullopt;
    if (errno == ELOOP) throw JournalError(path.string() + " is a symbolic link, so its settings are not trusted");
    fail(path);
  }
  check_trust(file.get(), path, false);
  try {
    const Json json = Json::parse(read_all(file.get(), path));
    if (json.at("schema_version").get<int>() != schema_version)
      throw JournalError(path.string() + " was written by another version of the program: restore with that one");
    Journal journal;
    journal.boot_id = json.at("boot_id").get<std::string>();
    journal.owner = owner_from(json.at("owner"));
    journal.site = json.at("site").get<std::string>();
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

void JournalFolder::write(const Journal& journal) const {
  Json json = {{"schema_version", schema_version},
               {"boot_id", journal.boot_id},
               {"owner", to_json(journal.owner)},
               {"site", journal.site.string()},
               {"entries", Json::array()}};
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
  if (unlinkat(fd_, temporary_file, 0) != 0 && errno != ENOENT) fail(temporary);
  {
    const File file(openat(fd_, temporary_file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (file.get() < 0) fail(temporary);
    write_all(file.get(), json.dump(2) + "\n", temporary);
    if (fsync(file.get()) != 0) fail(temporary);
  }
  if (renameat(fd_, temporary_file, fd_, journal_file) != 0) fail(path_ / journal_file);
  if (fsync(fd_) != 0) fail(path_);
}

void JournalFolder::remove() const {
  if (unlinkat(fd_, journal_file, 0) != 0 && errno != ENOENT) fail(path_ / journal_file);
  if (fsync(fd_) != 0) fail(path_);
}

}  // namespace tw
