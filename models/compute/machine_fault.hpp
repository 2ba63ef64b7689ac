// A machine on which a device cannot be used.
#pragma once

#include <string>

#include "models/compute/error.hpp"

namespace tw::models {

/// A library call that failed because of the machine: its driver, its hardware, or a permission. No other algorithm and
/// no smaller network helps, so no search passes over it. Failure::environment, but never for want of memory.
class MachineFault : public Error {
 public:
  /// `what_helps`: what the user is to do, after the call, its code and its place.
  MachineFault(const char* api, int code, const std::string& meaning, const char* expression, const char* file,
               int line, const std::string& what_helps)
      : Error(Failure::environment, std::string(api) + ": " + meaning + " (code " + std::to_string(code) + ") in " +
                                        expression + " at " + file + ":" + std::to_string(line) + ": " + what_helps) {}
};

}  // namespace tw::models
