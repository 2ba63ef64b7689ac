#include "bench/train/job/crash.hpp"

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <string_view>

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
  _exit(128 + signal);  // the first process of a container is not ended by a signal without a handler
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

/// By the file that its code is in; those of tools that recover from their own faults, and of sanitizers, are not.
bool is_of_mpi(const struct sigaction& handler) {
  Dl_info found{};
  if (dladdr(reinterpret_cast<const void*>(handler.sa_sigaction), &found) == 0 || found.dli_fname == nullptr)
    return false;
  std::string_view file = found.dli_fname;
  file.remove_prefix(file.rfind('/') + 1);
  return std::ranges::any_of(std::array{"libucs", "libopen-pal", "libmpi", "libpmix"},
                             [&](const char* name) { return file.starts_with(name); });
}

/// The user has asked UCX to wait for a debugger.
bool waits_on_purpose() {
  const char* value = std::getenv("UCX_HANDLE_ERRORS");
  const std::string_view asked = value == nullptr ? "" : value;
  return asked.find("freeze") != asked.npos || asked.find("debug") != asked.npos;
}

}  // namespace

void bound_crash_handlers() {
  if (waits_on_purpose()) return;
  for (const int signal : crashes) {
    struct sigaction found {};
    if (sigaction(signal, nullptr, &found) != 0) continue;
    if ((found.sa_flags & SA_SIGINFO) == 0 && (found.sa_handler == SIG_DFL || found.sa_handler == SIG_IGN)) continue;
    if (!is_of_mpi(found)) continue;
    handler_of[static_cast<std::size_t>(signal)] = found;
    struct sigaction bounded = found;
    bounded.sa_sigaction = on_crash;
    bounded.sa_flags |= SA_SIGINFO;
    sigaction(signal, &bounded, nullptr);
  }
}

}  // namespace tw::bench
