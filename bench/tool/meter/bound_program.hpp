// Starts a program that does not outlive the process that started it.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>
#include <vector>

namespace tw::bench::tool {

/// Starts the words as a program, the first looked up in PATH, and returns its pid. `output`: becomes its standard
/// output if it is not −1. `default_signals` are set to their defaults, and `blocked_signals` is its mask; call this
/// with all signals blocked.
///
/// It gets SIGTERM when the calling thread ends, however that ends: SIGKILL and a crash leave no other way to tell it
/// (prctl PR_SET_PDEATHSIG). Call it from the main thread. Linux does not pass this on to what the program itself
/// starts, and drops it when the program is set-user-ID or has capabilities of its file (prctl(2)). Throws
/// std::system_error, which names the first word, if it cannot be started.
pid_t start_bound_program(const std::vector<std::string>& words, int output, const sigset_t& default_signals,
                          const sigset_t& blocked_signals);

}  // namespace tw::bench::tool
