// Files that are whole or absent, whatever kills the program.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>
#include <vector>

#include "results/record/report_io.hpp"

namespace tw::results {
namespace {

[[noreturn]] void fail(const char* what, const std::filesystem::path& path, int error = errno) {
  throw std::system_error(error, std::generic_category(), std::string("cannot ") + what + " " + path.string());
}

/// Owns a file descriptor.
class File {
 public:
  File(const std::filesystem::path& path, int flags, const char* what) : path_(path) {
    do fd_ = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
    while (fd_ < 0 && errno == EINTR);
    if (fd_ < 0) fail(what, path);
  }
  ~File() {
    if (fd_ >= 0) ::close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  void write(const std::string& text) {
    for (std::size_t done = 0; done < text.size();) {
      const ssize_t n = ::write(fd_, text.data() + done, text.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) fail("write", path_);
      done += static_cast<std::size_t>(n);
    }
  }
  void sync() {
    // Some file systems have nothing to flush to (EINVAL, EROFS on special files); that is not a failure to write.
    if (::fsync(fd_) != 0 && errno != EINVAL && errno != EROFS) fail("flush", path_);
  }
  void close() {
    const int fd = fd_;
    fd_ = -1;
    if (::close(fd) != 0) fail("close", path_);  // network file systems report a full disk here
  }
  int fd() const { return fd_; }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

void sync_folder_of(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  File(folder, O_RDONLY | O_DIRECTORY, "open").sync();
}

/// Those that this call has made, outermost first.
std::vector<std::filesystem::path> create_missing(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> missing, made;
  for (std::filesystem::path path = folder; !path.empty() && !std::filesystem::exists(path); path = path.parent_path())
    missing.push_back(path);
  for (; !missing.empty(); missing.pop_back()) {
    if (std::filesystem::create_directory(missing.back())) made.push_back(missing.back());
    sync_folder_of(missing.back());
  }
  return made;
}

}  // namespace

void create_folders(const std::filesystem::path& folder) { create_missing(folder); }

std::vector<std::filesystem::path> create_new_folder(const std::filesystem::path& wanted) {
  const std::filesystem::path folder =
      wanted.has_filename() ? wanted : wanted.parent_path();  // "a/b/", as a shell has it
  std::vector<std::filesystem::path> made = create_missing(folder.parent_path());
  try {
    if (::mkdir(folder.c_str(), 0777) == 0) {
      made.push_back(folder);
      sync_folder_of(folder);
      return made;
    }
    if (errno != EEXIST) fail("create", folder);
  } catch (...) {
    std::error_code ignored;
    for (; !made.empty(); made.pop_back()) std::filesystem::remove(made.back(), ignored);
    throw;
  }
  return {};
}

void write_atomically(const std::filesystem::path& path, const std::string& text) {
  const std::filesystem::path temporary = path.string() + ".tmp." + std::to_string(::getpid());
  try {
    File file(temporary, O_WRONLY | O_CREAT | O_TRUNC, "create");
    file.write(text);
    file.sync();
    file.close();
    if (::rename(temporary.c_str(), path.c_str()) != 0) fail("put a file in place at", path);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
  sync_folder_of(path);
}

void append_line(const std::filesystem::path& path, const std::string& line) {
  File file(path, O_RDWR | O_CREAT, "open");
  struct stat status {};
  if (::fstat(file.fd(), &status) != 0) fail("inspect", path);
  off_t end = status.st_size;
  // Back to just after the last newline: what follows it was torn by a kill.
  for (char c = 0; end > 0; --end) {
    if (::pread(file.fd(), &c, 1, end - 1) != 1) fail("read", path);
    if (c == '\n') break;
  }
  if (end != status.st_size && ::ftruncate(file.fd(), end) != 0) fail("cut the torn last line of", path);
  if (::lseek(file.fd(), end, SEEK_SET) < 0) fail("seek in", path);
  try {
    file.write(line + '\n');
    file.sync();
  } catch (...) {
    if (::ftruncate(file.fd(), end) != 0) {
    }  // the next append cuts what stays
    throw;
  }
  if (status.st_size == 0) sync_folder_of(path);
}

void keep_last_record(const std::filesystem::path& path, const std::vector<Record>& records, bool earlier_changed) {
  if (!earlier_changed) return append_line(path, to_json_line(records.back()));
  std::string lines;
  for (const Record& record : records) lines += to_json_line(record) + "\n";
  write_atomically(path, lines);
}

}  // namespace tw::results
