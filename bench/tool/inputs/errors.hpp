// How a subcommand fails.
#pragma once

#include <stdexcept>

namespace tw::tool {

/// Bad usage or an unreadable file: main prints the text as one line and ends with exit code 2.
struct UsageError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// What the machine lacks, or does not permit: exit code 3.
struct EnvironmentError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace tw::tool
