// Signals that end a run: SIGINT, SIGTERM and SIGUSR1 are looked at between steps.
#pragma once

#include "comm/job.hpp"

namespace tw {

inline constexpr const char* interrupted_by_signal = "interrupted by a signal";

void install_signal_handlers();
/// Whether this rank got one.
bool interruption_requested();
/// Throws Stop{exit_interrupted} on all ranks where a signal asked for the end on any of them (collective).
void stop_if_interrupted(Job& job);

}  // namespace tw
