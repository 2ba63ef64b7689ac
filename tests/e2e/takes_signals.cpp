// Preloaded, it does what UCX does in its constructor (ucs_debug_init): takes SIGHUP and SIGSEGV before main(). Its
// handler of SIGSEGV never ends, as UCX's where the fault came while the process held a lock that the backtrace needs.
#include <unistd.h>

#include <csignal>

namespace {

[[gnu::constructor]] void take() {
  std::signal(SIGHUP, [](int) {});
  std::signal(SIGSEGV, [](int) {
    while (true) pause();
  });
}

}  // namespace
