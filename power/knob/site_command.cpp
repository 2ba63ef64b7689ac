#include "power/knob/site_command.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

extern char** environ;

namespace tw::site {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kept_bytes = 32 << 10;  // of the begin, and of the end

struct Actions {
  posix_spawn_file_actions_t value;
  Actions() { posix_spawn_file_actions_init(&value); }
  ~Actions() { posix_spawn_file_actions_destroy(&value); }
};
struct Attributes {
  posix_spawnattr_t value;
  Attributes() { posix_spawnattr_init(&value); }
  ~Attributes() { posix_spawnattr_destroy(&value); }
};

}  // namespace

CommandResult run_command(const std::vector<std::string>& words, std::chrono::milliseconds limit) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  Actions actions;
  posix_spawn_file_actions_addopen(&actions.value, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions.value, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions.value, ends[1], STDERR_FILENO);
  posix_spawn_file_actions_addclosefrom_np(&actions.value, STDERR_FILENO + 1);
  Attributes attributes;
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes.value, &none);
  posix_spawnattr_setsigdefault(&attributes.value, &all);  // the guardian ignores some; the command must not
  posix_spawnattr_setpgroup(&attributes.value, 0);
  posix_spawnattr_setflags(&attributes.value, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = -1;
  const int error = posix_spawnp(&child, argv[0], &actions.value, &attributes.value, argv.data(), environ);
  close(ends[1]);
  if (error != 0) {
    close(ends[0]);
    throw std::system_error(error, std::generic_category(), words.front());
  }

  // Until the program has ended, not until its output has: something it started may keep that open.
  CommandResult result;
  const Clock::time_point deadline = Clock::now() + limit;
  bool open = true, ended = false, was_cut = false;
  int status = 0;
  const auto drain = [&](int wait_ms) {
    pollfd ready{ends[0], POLLIN, 0};
    if (!open || poll(&ready, 1, wait_ms) <= 0) return false;
    char text[4096];
    const ssize_t count = read(ends[0], text, sizeof text);
    if (count <= 0) return open = false;
    result.output.append(text, static_cast<std::size_t>(count));
    if (result.output.size() > 4 * kept_bytes) {
      result.output.erase(kept_bytes, result.output.size() - 2 * kept_bytes);
      was_cut = true;
    }
    return true;
  };
  while (!ended) {
    drain(20);
    if (!open) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ended = waitpid(child, &status, WNOHANG) == child;
    if (!ended && Clock::now() > deadline) {
      result.timed_out = true;
      kill(-child, SIGKILL);
      ended = waitpid(child, &status, 0) == child;
    }
  }
  while (drain(0)) {
  }
  close(ends[0]);
  if (result.output.size() > 2 * kept_bytes) {
    result.output.erase(kept_bytes, result.output.size() - 2 * kept_bytes);
    was_cut = true;
  }
  if (was_cut) result.output.insert(kept_bytes, "\n");
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return result;
}

}  // namespace tw::site
