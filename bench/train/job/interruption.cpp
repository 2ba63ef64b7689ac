#include "bench/train/job/interruption.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "bench/train/job/outcome.hpp"
#include "results/record/known_texts.hpp"

namespace tw::bench {
namespace {

static_assert(std::string_view(interrupted_by_signal).starts_with(results::interrupted.wordings.front()));

volatile std::sig_atomic_t interruption = 0;
std::atomic<int> note_fd = -1;
std::atomic<const char*> note_line = "";
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<const char*>::is_always_lock_free);

void on_signal(int number) {
  const int fd = interruption == 0 && number != SIGTERM ? note_fd.load() : -1;
  interruption = 1;
  if (fd < 0) return;
  const int before = errno;
  const char* line = note_line;
  [[maybe_unused]] const ssize_t written = write(fd, line, std::strlen(line));
  errno = before;
}

// Read before the constructors of libraries run: that of UCX (ucs_debug_init), which Debian 13's Open MPI links,
// handles SIGHUP, which undoes nohup. A program's functions in .preinit_array run before those constructors (System V
// gABI, "Initialization and Termination Functions").
bool sighup_was_ignored = false;

void look_at_sighup() {
  struct sigaction found {};
  sighup_was_ignored = sigaction(SIGHUP, nullptr, &found) == 0 && found.sa_handler == SIG_IGN;
}

[[gnu::section(".preinit_array"), gnu::used]] void (*const first_of_all)() = look_at_sighup;

}  // namespace

bool interruption_requested() { return interruption != 0; }

void set_interruption(bool requested) { interruption = requested ? 1 : 0; }

void note_signals_in(int fd, const char* line) {
  note_fd = -1;
  note_line = line;
  note_fd = fd;
}

void install_signal_handlers() {
  struct sigaction action {};
  action.sa_handler = on_signal;
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) sigaction(signal, &action, nullptr);
  if (sighup_was_ignored) action.sa_handler = SIG_IGN;
  sigaction(SIGHUP, &action, nullptr);
}

void stop_if_interrupted(comm::Job& job) {
  if (job.maximum({interruption ? 1.0 : 0.0}).front() > 0) throw Stop(exit_interrupted, interrupted_by_signal);
}

std::optional<double> Lookout::look(std::int64_t steps, double elapsed) {
  if (steps < next_) return std::nullopt;
  const std::vector<double> now = job_.maximum({elapsed, interruption ? 1.0 : 0.0, step_seconds_});
  if (now[1] > 0) throw Stop(exit_interrupted, interrupted_by_signal);
  constexpr double longest = 10000;
  const double each = std::max(now[0] / static_cast<double>(steps), now[2]);
  const double stride = each > 0 ? std::clamp(seconds_ / each, 1.0, longest) : 1;
  next_ = steps + static_cast<std::int64_t>(stride);
  return now[0];
}

}  // namespace tw::bench
