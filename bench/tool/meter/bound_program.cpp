#include "bench/tool/meter/bound_program.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace tw::bench::tool {
namespace {

/// Behind fork(), where other threads may have held locks: only async-signal-safe calls (signal-safety(7); execvp() of
/// glibc allocates nothing). Does not return if the program could be started.
int become(char* const* argv, int output, const sigset_t& default_signals, const sigset_t& blocked_signals,
           pid_t parent) {
  if (prctl(PR_SET_PDEATHSIG, SIGTERM) != 0) return errno;
  if (getppid() != parent) _exit(128 + SIGTERM);  // it ended before the line above: no signal will come
  if (output >= 0 && dup2(output, STDOUT_FILENO) < 0) return errno;
  struct sigaction to_default {};
  to_default.sa_handler = SIG_DFL;
  for (int signal = 1; signal < NSIG; ++signal)
    if (sigismember(&default_signals, signal) == 1) sigaction(signal, &to_default, nullptr);
  sigprocmask(SIG_SETMASK, &blocked_signals, nullptr);
  execvp(argv[0], argv);
  return errno;
}

}  // namespace

// posix_spawn() cannot do it: the program itself has to ask for the signal, between fork and exec.
pid_t start_bound_program(const std::vector<std::string>& words, int output, const sigset_t& default_signals,
                          const sigset_t& blocked_signals) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  std::array<int, 2> faults{-1, -1};  // closed by exec
  if (pipe2(faults.data(), O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), words.front());
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    const int fault = become(argv.data(), output, default_signals, blocked_signals, parent);
    [[maybe_unused]] const ssize_t written = write(faults[1], &fault, sizeof fault);
    _exit(127);
  }
  int fault = child < 0 ? errno : 0;
  close(faults[1]);
  if (child > 0) {
    ssize_t got = 0;
    do got = read(faults[0], &fault, sizeof fault);
    while (got < 0 && errno == EINTR);
    if (got != sizeof fault) fault = 0;
    if (fault != 0) waitpid(child, nullptr, 0);
  }
  close(faults[0]);
  if (fault != 0) throw std::system_error(fault, std::generic_category(), words.front());
  return child;
}

}  // namespace tw::bench::tool
