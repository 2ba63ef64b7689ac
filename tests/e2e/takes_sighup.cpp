// Preloaded, it does what UCX does in its constructor (ucs_debug_init): takes SIGHUP before main().
#include <csignal>

namespace {

[[gnu::constructor]] void take() {
  std::signal(SIGHUP, [](int) {});
}

}  // namespace
