// The one exception type, and how each kind of failure leaves the program.
#pragma once

#include <stdexcept>
#include <string>

namespace tw::models {

/// What a failure means to the caller; bench maps it to an exit code.
enum class Failure {
  usage,        ///< bad option, model, shape or configuration: exit 2
  environment,  ///< permission, missing library, too little memory or disk: exit 3
  unsupported,  ///< this device cannot do it: the point is recorded as `unsupported`
  internal,     ///< a failing library call or a broken invariant: the point is recorded as `failed`
};

/// Carries what was wrong, where, and what to do next, as one line.
class Error : public std::runtime_error {
 public:
  Error(Failure failure, const std::string& what) : std::runtime_error(what), failure_(failure) {}
  Failure failure() const { return failure_; }

 private:
  Failure failure_;
};

/// A C or C++ library call that failed: which API, its code, the expression and the place. Failure::environment where
/// it failed for want of memory.
class ApiError : public Error {
 public:
  ApiError(const char* api, int code, const std::string& meaning, const char* expression, const char* file, int line,
           Failure failure = Failure::internal)
      : Error(failure, std::string(api) + ": " + meaning + " (code " + std::to_string(code) + ") in " + expression +
                           " at " + file + ":" + std::to_string(line)) {}
};

/// A library's answer that it does not do what it was asked for. Where there are several ways, the others remain; any
/// other ApiError means that something is broken, and no search may pass over it.
class Refused : public ApiError {
 public:
  using ApiError::ApiError;
};

}  // namespace tw::models
