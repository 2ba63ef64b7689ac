#include "bench/train/job/crash.hpp"

#include <pthread.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>

namespace tw::bench {
namespace {

constexpr std::array crashes{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr unsigned seconds_for_a_handler = 10;

// What a library had installed, by signal.
std::array<struct sigaction, NSIG> handler_of{};
std::atomic<int> crashed_by = 0;
static_assert(std::atomic<int>::is_always_lock_free);

void unblock(int signal) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
}

/// In whichever thread it arrives.
void end_now(int) {
  const int signal = crashed_by;
  std::signal(signal, SIG_DFL);
  unblock(signal);
  std::raise(signal);
}

void on_crash(int signal, siginfo_t* info, void* context) {
  int none = 0;
  if (crashed_by.compare_exchange_strong(none, signal)) {
    std::signal(SIGALRM, end_now);
    unblock(SIGALRM);
    alarm(seconds_for_a_handler);
  }
  const struct sigaction& handler = handler_of[static_cast<std::size_t>(signal)];
  if ((handler.sa_flags & SA_SIGINFO) != 0)
    handler.sa_sigaction(signal, info, context);
  else
    handler.sa_handler(signal);
}

}  // namespace

void bound_crash_handlers() {
  for (const int signal : crashes) {
    struct sigaction found {};
    if (sigaction(signal, nullptr, &found) != 0) continue;
    if ((found.sa_flags & SA_SIGINFO) == 0 && (found.sa_handler == SIG_DFL || found.sa_handler == SIG_IGN)) continue;
    if (found.sa_sigaction == on_crash) continue;
    handler_of[static_cast<std::size_t>(signal)] = found;
    struct sigaction bounded = found;
    bounded.sa_sigaction = on_crash;
    bounded.sa_flags |= SA_SIGINFO;
    sigaction(signal, &bounded, nullptr);
  }
}

}  // namespace tw::bench
