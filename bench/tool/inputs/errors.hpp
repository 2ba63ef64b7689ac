// How a command fails: UsageError for bad usage or an unreadable file (exit code 2), EnvironmentError for what the
// machine lacks or does not permit (3).
#pragma once

#include <stdexcept>
#include <string>

#include "bench/plan/options/usage_error.hpp"
#include "bench/terminal/error_line.hpp"

namespace tw::bench::tool {

struct EnvironmentError : std::runtime_error {
  EnvironmentError(const std::string& code, const std::string& text) : std::runtime_error(with_code(code, text)) {}
};

}  // namespace tw::bench::tool
