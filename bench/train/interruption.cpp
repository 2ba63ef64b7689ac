#include "bench/train/interruption.hpp"

#include <csignal>

#include "bench/train/outcome.hpp"

namespace tw {
namespace {

volatile std::sig_atomic_t interruption = 0;
void on_signal(int) { interruption = 1; }

}  // namespace

bool interruption_requested() { return interruption != 0; }

void install_signal_handlers() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
}

void stop_if_interrupted(Job& job) {
  if (job.maximum({interruption ? 1.0 : 0.0}).front() > 0) throw Stop(exit_interrupted, interrupted_by_signal);
}

}  // namespace tw
