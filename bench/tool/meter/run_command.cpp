#include "bench/tool/meter/run_command.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>
#include <system_error>
#include <thread>

#include "bench/tool/inputs/errors.hpp"
#include "power/meter/program.hpp"

namespace tw::bench::tool {
namespace {

volatile sig_atomic_t child = 0, told = 0;
void pass_on(int signal) {
  if (child > 0)
    kill(child, signal);
  else
    told = 1;
}

/// Tells when a child has ended, by a descriptor that can be polled beside others; the child is left to be waited for.
class EndOf {
 public:
  explicit EndOf(pid_t process) {
    thread_ = std::jthread([this, process] {
      siginfo_t info{};
      while (waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOWAIT) != 0 && errno == EINTR) {
      }
      pipe_.to.close();
    });
  }
  int descriptor() const { return pipe_.from.get(); }

 private:
  power::Pipe pipe_ = power::open_pipe();
  std::jthread thread_;  // ends before the pipe does
};

/// Leaves a process behind that goes on copying to standard output.
void leave_copier(int from) {
  sigset_t defaults;
  sigemptyset(&defaults), sigaddset(&defaults, SIGPIPE);
  try {
    power::start_program({"cat"}, {.input = from, .default_signals = defaults});
  } catch (const std::system_error&) {  // then what the command has left in the background loses its reader
  }
}

/// Copies a command's output through, and looks at it, until nobody holds the pipe any more, or the command has ended
/// and what was written by then is read: what it has left in the background may hold the pipe for ever, and is no part
/// of what is measured. Its output still arrives, but is not looked at.
void copy_through(int pipe, const EndOf& command, OutputParser& parser) {
  std::array<char, 65536> buffer;
  std::optional<int> left;  // bytes, once the command has ended
  while (!left || *left > 0) {
    if (!left) {
      std::array<pollfd, 2> waiting{pollfd{pipe, POLLIN, 0}, pollfd{command.descriptor(), POLLIN, 0}};
      if (poll(waiting.data(), waiting.size(), -1) < 0) continue;
      if (waiting[1].revents != 0) {
        left = 0;
        if (ioctl(pipe, FIONREAD, &*left) != 0) return;
        continue;
      }
    }
    const std::size_t most = left ? std::min(buffer.size(), static_cast<std::size_t>(*left)) : buffer.size();
    const ssize_t got = read(pipe, buffer.data(), most);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return;
    if (left) *left -= static_cast<int>(got);
    parser.feed({buffer.data(), static_cast<std::size_t>(got)});
    for (ssize_t written = 0; written < got;) {
      const ssize_t now = write(STDOUT_FILENO, buffer.data() + written, static_cast<std::size_t>(got - written));
      if (now < 0 && errno == EINTR) continue;
      if (now <= 0) return;  // the command is to learn it as without us: its pipe is closed
      written += now;
    }
  }
  pollfd held{pipe, POLLIN, 0};
  if (poll(&held, 1, 0) == 0 || (held.revents & POLLIN) != 0) leave_copier(pipe);
}

}  // namespace

bool told_to_end() { return told != 0; }

int run_command(const std::vector<std::string>& command, OutputParser* parser) {
  power::Pipe pipe;
  if (parser) pipe = power::open_pipe();
  // What was ignored when this program started (nohup, a job in the background) stays so, for the command as well. A
  // terminal's signals reach the command itself; others are passed on. SIGPIPE is this program's to see as an error.
  sigset_t defaults, blocked, before;
  sigemptyset(&defaults), sigfillset(&blocked);
  const auto set_handler = [&](int signal, void (*handler)(int)) {
    struct sigaction action {};
    struct sigaction old {};
    sigaction(signal, nullptr, &old);
    if (old.sa_handler == SIG_IGN) return;
    action.sa_handler = handler;
    sigaction(signal, &action, nullptr);
    sigaddset(&defaults, signal);
  };
  for (const int signal : {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) set_handler(signal, pass_on);
  for (const int signal : {SIGINT, SIGQUIT, SIGPIPE}) set_handler(signal, SIG_IGN);
  sigprocmask(SIG_BLOCK, &blocked, &before);
  std::optional<std::system_error> fault;
  pid_t pid = 0;
  try {
    child = pid = power::start_program(
        command,
        {.output = pipe.to.get(), .default_signals = defaults, .blocked_signals = before, .ends_with_this = true});
  } catch (const std::system_error& error) {
    fault = error;
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  pipe.to.close();
  if (fault && command.front().empty())
    throw EnvironmentError("cannot-run", "the command after -- is empty: give the name of a program");
  if (fault) throw EnvironmentError("cannot-run", command.front() + ": cannot be started: " + fault->code().message());
  if (parser) {
    const EndOf end(pid);
    copy_through(pipe.from.get(), end, *parser);
    pipe.from.close();
    parser->finish();
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  child = 0;
  return power::exit_code_of(status);
}

}  // namespace tw::bench::tool
