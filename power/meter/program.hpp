// Starts programs without a shell, and runs one for what it says.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "power/meter/descriptor.hpp"

namespace tw::power {

/// The ends of a pipe that no started program inherits.
struct Pipe {
  Descriptor from, to;
};
/// Throws std::system_error.
Pipe open_pipe();

/// How a program is started.
struct ProgramStart {
  int input = -1, output = -1, error = -1;  ///< descriptors of its standard files; −1: those of this process
  bool closes_others = false;               ///< closes all other descriptors, also those without O_CLOEXEC
  bool leads_group = false;                 ///< in a process group of its own, whose number is its pid
  std::optional<sigset_t> default_signals = {}, blocked_signals = {};  ///< absent: as in this process, without handlers
  /// It gets SIGTERM when the calling thread ends, even by SIGKILL or a crash (prctl(2), PR_SET_PDEATHSIG). Call it
  /// from the main thread, with all signals blocked, and without closes_others. Linux sends no signal to what the
  /// program itself starts, nor to a program that is set-user-ID or has capabilities of its file.
  bool ends_with_this = false;
};

/// Starts a program and returns its pid. The first word is looked up in PATH. Throws std::system_error, which names
/// that word, if the program cannot be started.
pid_t start_program(const std::vector<std::string>& words, const ProgramStart& start);

/// Of a status of waitpid: 128 + signal where a signal ended it.
int exit_code_of(int status);

struct ProgramResult {
  int exit_code = -1;      ///< 128 + signal where a signal ended it
  bool timed_out = false;  ///< then it was killed, with everything in its process group
  double cpu_seconds = 0;  ///< of it and of what it waited for
  /// stdout and stderr together; of a long one the first and last 32 KiB, with a line's end between.
  std::string output;
};

/// Runs it to its end. stdin is empty; no other file of ours stays open in it; no signal is blocked or ignored. Throws
/// std::system_error where it cannot be started.
ProgramResult run_program(const std::vector<std::string>& words, std::chrono::milliseconds limit);

}  // namespace tw::power
