// What stands in a node's journal while settings are applied, and the lock that keeps two runs from holding settings at
// once.
//
// The folder belongs to one user and is node-local: $TRAINWATT_RUN_DIR, else /run/trainwatt for root,
// $XDG_RUNTIME_DIR/trainwatt or /tmp/trainwatt-UID for others. It and its files must belong to that user and be
// writable by no other user, symbolic links are not followed: what root replays was written by root. What root has set
// everybody may read, to be told of it. The lock is one for each folder. Ranks that set what no other process of their
// node can have folders of their own, beside that one, in which the journals tell whose a device is. All of it is one
// user's: two users who both may write the same knobs are kept apart by the scheduler. Locks are files that nobody else
// can open: whoever may open one, if only to read, may hold it.
//
// Errors: std::system_error (a call failed), JournalError (something is there that we do not trust or understand).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "power/knob/knob.hpp"
#include "power/meter/descriptor.hpp"

namespace tw::power {

class JournalError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Settings are held by another run: who, and what to do.
class SettingsHeld : public JournalError {
 public:
  explicit SettingsHeld(const std::string& who)
      : JournalError(who + "; wait until it ends, or leave all settings as found") {}
};

/// A process, told from a later one with its number.
struct Owner {
  pid_t pid = 0;
  unsigned long long start_time = 0;  ///< clock ticks after boot, from /proc/PID/stat
  uid_t uid = 0;
  std::string program;
  std::string pid_namespace = {};  ///< in which that is its number, "pid:[4026531836]"; empty: not known
  bool operator==(const Owner& other) const { return pid == other.pid && start_time == other.start_time; }
};
Owner this_process();
std::string describe(const Owner& owner);  ///< "trainwatt-train, process 4711 of user 1000"

enum class Life {
  living,
  dead,    ///< of this PID namespace, and there no more; or a zombie
  unknown  ///< of another PID namespace, or hidden from this user
};
Life life_of(const Owner& owner);

struct JournalEntry {
  KnobKind kind = KnobKind::gpu_clock;
  std::string domain;
  KnobState found;
  std::vector<Attempt> attempts;  ///< what may be in force: of these the last that came through
};

struct Journal {
  std::string boot_id;  ///< settings do not survive a reboot, but for RAPL's caps where that is a kexec
  Owner owner;
  std::filesystem::path site;  ///< absolute; the file whose commands are used as knobs; empty: none
  std::vector<JournalEntry> entries;
  std::map<std::string, std::string> programs = {};  ///< what that file's programs stood for (KnobOptions)
};
/// What a journal says is in force: "gpu_clock_mhz 990 of nvml:GPU-…, cpu_governor performance of 2 devices". Of many
/// values, and of a long name, only the beginning.
std::string values_of(const Journal& journal);

std::string boot_id();

/// Where this user's settings are journalled.
std::filesystem::path journal_folder();
/// The same of one rank that sets what no other process of its node can: beside the former, "trainwatt-rank3".
std::filesystem::path journal_folder_of_rank(int rank);
/// Everywhere this user's earlier runs may have journalled theirs, that one first: the environment may differ. With the
/// folders of ranks that are there.
std::vector<std::filesystem::path> journal_folders();
/// Where other users, or this one in other environments, may have journalled theirs: folders that belong to the user
/// whom their names tell. At most 64 of a user and 512 in all: what others make in /tmp takes no run's time.
struct OtherFolders {
  struct Folder {
    std::filesystem::path path;
    uid_t user = 0;
  };
  std::vector<Folder> folders;
  std::size_t left_out = 0;
};
OtherFolders other_journal_folders();

/// What is seen of a folder's journal without the trust that JournalFolder asks for: to tell people of it, never to act
/// by it. Neither where there is none, or none that this user may read.
struct Glance {
  std::optional<Journal> journal;
  std::string unreadable;  ///< for people: why what is there tells nothing
};
/// Of one of journal_folders().
Glance glance_at_journal(const std::filesystem::path& folder);
/// Of another's: what does not say that it is that user's has no owner, and larger than 64 KiB only root's may be.
Glance glance_at_journal(const OtherFolders::Folder& folder);

/// An open folder. Its functions work on the folder that was checked, whatever its path comes to name.
class JournalFolder {
 public:
  /// Makes it where `create` is set. nullopt if it is not there. Throws JournalError if it is not ours alone.
  static std::optional<JournalFolder> open(const std::filesystem::path& path, bool create);
  const std::filesystem::path& path() const { return path_; }
  /// Takes the lock, waiting at most so long; false if another has it. Dropped when the process ends, however that
  /// is.
  bool lock(std::chrono::milliseconds wait);
  bool locked() const { return lock_fd_.get() >= 0; }
  /// A second lock, `door`, held until this goes away: for a look at other folders' journals and an entry in one's own,
  /// which nobody may do at the same time. False if another has it for longer than so long.
  bool close_door(std::chrono::milliseconds wait);
  /// Who took the lock last.
  std::optional<Owner> lock_owner() const;

  /// nullopt if there is none.
  std::optional<Journal> read() const;
  /// On disk, whole, before it returns: temporary file, fsync, rename, fsync of the folder.
  void write(const Journal& journal) const;
  void remove() const;

 private:
  JournalFolder(std::filesystem::path path, Descriptor fd) : path_(std::move(path)), fd_(std::move(fd)) {}
  /// That file, locked; none where another has it for longer than so long.
  Descriptor take(const char* file, std::chrono::milliseconds wait) const;
  std::filesystem::path path_;
  Descriptor fd_, lock_fd_, door_fd_;  // closed in the opposite order, which releases the locks
};

}  // namespace tw::power
