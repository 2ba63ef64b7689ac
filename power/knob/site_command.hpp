// Runs a program without a shell and keeps what it says.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace tw::site {

struct CommandResult {
  int exit_code = -1;      ///< 128 + signal where a signal ended it
  bool timed_out = false;  ///< then it was killed, with everything in its process group
  std::string
      output;  ///< stdout and stderr together; of a long one the first and last 32 KiB, with a line's end between
};

/// The first word is looked up in PATH; stdin is empty; no other file of ours stays open in it. Throws
/// std::system_error where it cannot be started.
CommandResult run_command(const std::vector<std::string>& words, std::chrono::milliseconds limit);

}  // namespace tw::site
