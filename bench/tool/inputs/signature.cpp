#include "bench/tool/inputs/signature.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include "bench/tool/inputs/errors.hpp"
#include "results/export/bundle.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"

extern char** environ;

namespace tw::tool {
namespace {

namespace fs = std::filesystem;

constexpr const char* space = "trainwatt";

/// A folder that only this user reads, gone with its object.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "trainwatt-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), "cannot make " + name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::string file(const char* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

std::string text_of(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

struct Answer {
  int code = 0;
  std::string out, err;
  /// The first line of what it says is wrong.
  std::string what() const {
    const std::string& text = err.empty() ? out : err;
    const std::string line = text.substr(0, text.find_first_of("\r\n"));
    return text::printable(line.empty() ? fmt::format("ssh-keygen ended with {}", code) : line);
  }
};

/// Runs ssh-keygen with a file as its standard input.
Answer ssh_keygen(std::vector<std::string> words, const std::string& input, const TemporaryFolder& folder) {
  words.insert(words.begin(), "ssh-keygen");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string out = folder.file("out"), err = folder.file("err");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, input.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  pid_t child = 0;
  const int error = posix_spawnp(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error == ENOENT)
    throw EnvironmentError(
        "ssh-keygen is not here: signatures are OpenSSH's; install its client, or leave out --sign and --signers");
  if (error != 0) throw std::system_error(error, std::generic_category(), "ssh-keygen");
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), text_of(out), text_of(err)};
}

}  // namespace

std::string sign(const std::string& text, const std::string& key) {
  if (!fs::is_regular_file(key)) throw UsageError(fmt::format("--sign {}: is no key's file", key));
  const TemporaryFolder folder;
  const std::string file = folder.file(sums_file);
  write_atomically(file, text);
  const Answer answer = ssh_keygen({"-Y", "sign", "-f", key, "-n", space, file}, "/dev/null", folder);
  const std::string signature = text_of(folder.file(signature_file));
  if (answer.code != 0 || signature.empty()) throw UsageError(fmt::format("--sign {}: {}", key, answer.what()));
  return signature;
}

Signed verify(const std::string& text, const std::string& signature, const std::string& signers) {
  if (!std::ifstream(signers) || fs::is_directory(signers))
    throw UsageError(
        fmt::format("--signers {}: cannot be read: give a file with a line NAME KEY for each who may sign", signers));
  const TemporaryFolder folder;
  const std::string file = folder.file(sums_file), signature_path = folder.file(signature_file);
  write_atomically(file, text), write_atomically(signature_path, signature);
  const Answer good = ssh_keygen({"-Y", "check-novalidate", "-n", space, "-s", signature_path}, file, folder);
  if (good.code != 0) return {"", "is not good: " + good.what()};
  const Answer found = ssh_keygen({"-Y", "find-principals", "-s", signature_path, "-f", signers}, "/dev/null", folder);
  const std::string who = found.out.substr(0, found.out.find_first_of("\r\n"));
  const std::string key = text::printable(good.out.substr(0, good.out.find_first_of("\r\n")));
  if (found.code != 0 || who.empty())
    return {"", fmt::format("is by nobody whom {} lists: {}", text::printable(signers), key)};
  const Answer answer =
      ssh_keygen({"-Y", "verify", "-f", signers, "-I", who, "-n", space, "-s", signature_path}, file, folder);
  if (answer.code != 0) return {"", fmt::format("is not good for {}: {}", text::printable(who), answer.what())};
  return {who, text::printable(answer.out.substr(0, answer.out.find_first_of("\r\n")))};
}

}  // namespace tw::tool
