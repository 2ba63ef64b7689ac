#include "power/meter/program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

extern char** environ;

namespace tw::power {

Pipe open_pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::size_t kept_bytes = 32 << 10;  // of the begin, and of the end

struct Actions {
  posix_spawn_file_actions_t value;
  Actions() { posix_spawn_file_actions_init(&value); }
  ~Actions() { posix_spawn_file_actions_destroy(&value); }
};
void close_others(posix_spawn_file_actions_t& actions) {
#if __GLIBC_PREREQ(2, 34)
  posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
#else
  std::error_code none;  // without /proc they stay open
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", none))
    if (const int file = std::stoi(entry.path().filename()); file > STDERR_FILENO)
      posix_spawn_file_actions_addclose(&actions, file);
#endif
}
struct Attributes {
  posix_spawnattr_t value;
  Attributes() { posix_spawnattr_init(&value); }
  ~Attributes() { posix_spawnattr_destroy(&value); }
};

std::array<std::pair<int, int>, 3> standard_files(const ProgramStart& start) {
  return {{{start.input, STDIN_FILENO}, {start.output, STDOUT_FILENO}, {start.error, STDERR_FILENO}}};
}

int spawn_program(pid_t& child, char* const* argv, const ProgramStart& start) {
  Actions actions;
  for (const auto& [from, to] : standard_files(start))
    if (from >= 0) posix_spawn_file_actions_adddup2(&actions.value, from, to);
  if (start.closes_others) close_others(actions.value);
  Attributes attributes;
  short flags = 0;
  if (start.default_signals) {
    posix_spawnattr_setsigdefault(&attributes.value, &*start.default_signals);
    flags |= POSIX_SPAWN_SETSIGDEF;
  }
  if (start.blocked_signals) {
    posix_spawnattr_setsigmask(&attributes.value, &*start.blocked_signals);
    flags |= POSIX_SPAWN_SETSIGMASK;
  }
  if (start.leads_group) {
    posix_spawnattr_setpgroup(&attributes.value, 0);
    flags |= POSIX_SPAWN_SETPGROUP;
  }
  posix_spawnattr_setflags(&attributes.value, flags);
  return posix_spawnp(&child, argv[0], &actions.value, &attributes.value, argv, environ);
}

/// Becomes the program, or returns an error number. Runs behind fork(), where other threads may have held locks: only
/// async-signal-safe calls (signal-safety(7); execvp() of glibc allocates nothing).
int become(char* const* argv, const ProgramStart& start, pid_t parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) return errno;
  if (getppid() != parent) _exit(128 + SIGTERM);  // it ended before the line above: no signal will come
  for (const auto& [from, to] : standard_files(start))
    if (from >= 0 && dup2(from, to) < 0) return errno;
  if (start.leads_group && setpgid(0, 0) != 0) return errno;
  struct sigaction to_default {};
  to_default.sa_handler = SIG_DFL;
  for (int signal = 1; start.default_signals && signal < NSIG; ++signal)
    if (sigismember(&*start.default_signals, signal) == 1) sigaction(signal, &to_default, nullptr);
  if (start.blocked_signals) sigprocmask(SIG_SETMASK, &*start.blocked_signals, nullptr);
  execvp(argv[0], argv);
  return errno;
}

/// posix_spawn() cannot bind a program to this process: the child itself has to ask for the signal, between fork and
/// exec. Other programs are spawned, because fork() copies the page tables of a process that holds a large network.
int fork_program(pid_t& child, char* const* argv, const ProgramStart& start) {
  Pipe faults = open_pipe();  // closed by exec
  const pid_t parent = getpid();
  child = fork();
  if (child < 0) return errno;
  if (child == 0) {
    const int fault = become(argv, start, parent);
    [[maybe_unused]] const ssize_t written = write(faults.to.get(), &fault, sizeof fault);
    _exit(127);
  }
  faults.to.close();
  int fault = 0;
  ssize_t got = 0;
  do got = read(faults.from.get(), &fault, sizeof fault);
  while (got < 0 && errno == EINTR);
  if (got != sizeof fault) return 0;
  waitpid(child, nullptr, 0);
  return fault;
}

}  // namespace

pid_t start_program(const std::vector<std::string>& words, const ProgramStart& start) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = -1;
  if (const int error =
          start.ends_with_this ? fork_program(child, argv.data(), start) : spawn_program(child, argv.data(), start))
    throw std::system_error(error, std::generic_category(), words.front());
  return child;
}

int exit_code_of(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

ProgramResult run_program(const std::vector<std::string>& words, std::chrono::milliseconds limit) {
  Pipe pipe = open_pipe();
  const Descriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  const pid_t child = start_program(words, {.input = nothing.get(),
                                            .output = pipe.to.get(),
                                            .error = pipe.to.get(),
                                            .closes_others = true,
                                            .leads_group = true,
                                            .default_signals = all,  // the guardian ignores some
                                            .blocked_signals = none});
  pipe.to.close();

  // Until the program has ended, not until its output has: something it started may keep that open.
  ProgramResult result;
  const Clock::time_point deadline = Clock::now() + limit;
  bool is_open = true, ended = false, was_cut = false;
  int status = 0;
  rusage used{};
  const auto drain = [&](int wait_ms) {
    pollfd ready{pipe.from.get(), POLLIN, 0};
    if (!is_open || poll(&ready, 1, wait_ms) <= 0) return false;
    char text[4096];
    const ssize_t count = read(pipe.from.get(), text, sizeof text);
    if (count <= 0) return is_open = false;
    result.output.append(text, static_cast<std::size_t>(count));
    if (result.output.size() > 4 * kept_bytes) {
      result.output.erase(kept_bytes, result.output.size() - 2 * kept_bytes);
      was_cut = true;
    }
    return true;
  };
  while (!ended) {
    drain(20);
    if (!is_open) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ended = wait4(child, &status, WNOHANG, &used) == child;
    if (!ended && Clock::now() > deadline) {
      result.timed_out = true;
      kill(-child, SIGKILL);
      ended = wait4(child, &status, 0, &used) == child;
    }
  }
  while (drain(0)) {
  }
  if (result.output.size() > 2 * kept_bytes) {
    result.output.erase(kept_bytes, result.output.size() - 2 * kept_bytes);
    was_cut = true;
  }
  if (was_cut) result.output.insert(kept_bytes, "\n");
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  result.cpu_seconds = seconds(used.ru_utime) + seconds(used.ru_stime);
  result.exit_code = exit_code_of(status);
  return result;
}

}  // namespace tw::power
