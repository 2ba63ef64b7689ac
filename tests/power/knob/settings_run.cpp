// A run that holds settings, to be killed: settings_run FOLDER [end|die|announce|hasty]. FOLDER holds the knobs' files;
// "real" takes this machine's CPU knobs (a made-up tree's: never run it so on a real one). Prints "ready GUARDIAN" once
// the settings are applied (announce: before), or what kept them from it; then waits for SIGTERM, ends or kills itself.
// The guardian of a hasty one waits for a lock for a moment at a time.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>

#include "power/knob/guardian.hpp"
#include "power/knob/settings.hpp"
#include "tests/power/knob/file_knob.hpp"

namespace {
volatile std::sig_atomic_t stop = 0;
}

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const bool real = std::strcmp(argv[1], "real") == 0;
  const tw::power::KnobFinder find = real ? tw::power::KnobFinder(tw::power::find_knobs) : tw::file_knobs(argv[1]);
  std::map<tw::power::KnobKind, double> wanted = {{tw::power::KnobKind::cpu_frequency, 1500},
                                                  {tw::power::KnobKind::gpu_clock, 900}};
  if (real) wanted = {{tw::power::KnobKind::cpu_frequency, 1500}, {tw::power::KnobKind::cpu_power_limit, 120}};
  const std::string then = argc > 2 ? argv[2] : "wait";
  struct sigaction action {};
  action.sa_handler = [](int) { stop = 1; };
  sigaction(SIGTERM, &action, nullptr);
  sigset_t term, before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  sigprocmask(SIG_BLOCK, &term, &before);  // until it is waited for
  tw::power::Guardian guardian(find, then == "hasty" ? std::chrono::milliseconds(20) : std::chrono::minutes(1));
  try {
    tw::power::SettingsOptions options;
    options.find = find;
    tw::power::Settings settings(find({}), options);
    const auto ready = [&] {
      std::printf("ready %d\n", static_cast<int>(guardian.pid()));
      std::fflush(stdout);
    };
    if (then == "announce") ready();
    for (const auto& one : settings.apply(wanted))
      if (!one.accepted) std::printf("%s: %s\n", to_string(one.kind), one.reason.c_str());
    if (then != "announce") ready();
    if (then == "die") raise(SIGKILL);
    while (then != "end" && !stop) sigsuspend(&before);
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 3;
  }
  return 0;
}
