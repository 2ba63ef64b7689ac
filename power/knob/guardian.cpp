#include "power/knob/guardian.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

namespace tw::power {
namespace {

constexpr int kept = 3;  // the one file besides the three standard ones
constexpr auto longest_pause = std::chrono::minutes(5);

void close_all_but_kept() {
#ifdef SYS_close_range  // its function came with glibc 2.34
  if (syscall(SYS_close_range, kept + 1U, ~0U, 0U) == 0) return;
#endif
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  for (rlim_t fd = kept + 1; fd < limit.rlim_cur && fd < 1 << 20; ++fd) close(static_cast<int>(fd));
}

[[noreturn]] void guard(int end, const Owner& run, const KnobFinder& find, std::chrono::milliseconds patience) {
  setsid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGPIPE}) std::signal(signal, SIG_IGN);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  if (end != kept) dup2(end, kept);
  fcntl(kept, F_SETFD, FD_CLOEXEC);
  const int null = open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (null >= 0) {
      dup2(null, fd);
    } else {
      close(fd);
    }
  }
  close_all_but_kept();
  (void)!chdir("/");
  prctl(PR_SET_NAME, "tw-guardian");

  char word = 0;
  (void)!send(kept, &word, 1, MSG_NOSIGNAL);  // on guard
  ssize_t count;
  do count = read(kept, &word, 1);
  while (count < 0 && errno == EINTR);
  if (count == 1) _exit(0);
  try {
    RestoreOptions options;
    options.find = find;
    options.only_of = run;
    options.wait = patience;
    for (std::chrono::milliseconds pause = patience;;
         pause = std::min<std::chrono::milliseconds>(2 * pause, longest_pause)) {
      const RestoreSummary summary = restore_journals(options);
      if (summary.complete()) _exit(0);
      if (summary.locked.empty()) _exit(1);  // a knob that failed does so again; the journal stays
      std::this_thread::sleep_for(pause);
    }
  } catch (...) {
    _exit(1);  // nobody to tell; the journal stays for `trainwatt restore`
  }
}

}  // namespace

Guardian::Guardian(KnobFinder find, std::chrono::milliseconds patience) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw std::system_error(errno, std::generic_category(), "socketpair for the guardian");
  const Owner run = this_process();
  // Blocked until the guardian ignores what it is to ignore: a signal in between would end it unseen.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_ = fork();
  if (pid_ == 0) {
    close(ends[0]);
    guard(ends[1], run, find, patience);
  }
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  close(ends[1]);
  socket_ = Descriptor(ends[0]);
  if (pid_ > 0) {
    char word = 0;  // from here on it needs nothing of ours, and holds nothing
    while (read(socket_.get(), &word, 1) < 0 && errno == EINTR) {
    }
    return;
  }
  throw std::system_error(error, std::generic_category(), "fork of the guardian");
}

Guardian::~Guardian() { dismiss(); }

bool Guardian::alive() {
  if (pid_ < 0) return false;
  if (waitpid(pid_, nullptr, WNOHANG) == 0) return true;
  pid_ = -1;
  return false;
}

void Guardian::dismiss() {
  if (socket_.get() >= 0) (void)!send(socket_.get(), "", 1, MSG_NOSIGNAL);  // fails where it was killed
  socket_.close();
  if (pid_ > 0)
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  pid_ = -1;
}

}  // namespace tw::power
