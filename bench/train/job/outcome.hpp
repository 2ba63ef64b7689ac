// How a run ends early: an exit code and one line, agreed upon by all ranks.
#pragma once

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "bench/plan/options/usage_error.hpp"
#include "bench/terminal/error_line.hpp"
#include "comm/job.hpp"
#include "models/compute/error.hpp"
#include "power/knob/site.hpp"

namespace tw::bench {

/// Exit codes (README.md).
enum ExitCode : int { exit_good, exit_missed, exit_usage, exit_environment, exit_no_measurement, exit_interrupted };

/// Thrown on all ranks alike, so that all leave by the same way.
class Stop : public std::runtime_error {
 public:
  /// `what` may carry an error code (bench/terminal/error_line.hpp).
  Stop(int code, const std::string& what) : std::runtime_error(what), code_(code) {}
  Stop(int code, std::string_view error_code, std::string_view text) : Stop(code, with_code(error_code, text)) {}
  int code() const { return code_; }

 private:
  int code_;
};

/// The exit code for an exception.
inline int exit_code_of(const std::exception& error) {
  if (const auto* stop = dynamic_cast<const Stop*>(&error)) return stop->code();
  if (dynamic_cast<const UsageError*>(&error) || dynamic_cast<const power::site::SiteError*>(&error)) return exit_usage;
  if (dynamic_cast<const std::system_error*>(&error)) return exit_environment;
  if (dynamic_cast<const std::bad_alloc*>(&error)) return exit_environment;
  if (const auto* known = dynamic_cast<const models::Error*>(&error)) {
    if (known->failure() == models::Failure::usage) return exit_usage;
    if (known->failure() == models::Failure::internal) return exit_no_measurement;
  }
  return exit_environment;
}

/// Runs `work` on this rank and learns how all ranks fared; throws the same Stop on every rank if one failed.
/// `work` must not call collectives: a rank that fails would leave the others waiting.
template <class Work>
void together(comm::Job& job, Work&& work) {
  std::string failure;
  double code = 0;
  try {
    work();
  } catch (const std::exception& error) {
    failure = coded(error);
    code = exit_code_of(error);
  }
  const std::vector<std::string> failures = job.gather(failure);
  const auto first = std::ranges::find_if(failures, [](const std::string& text) { return !text.empty(); });
  if (first == failures.end()) return;
  code = job.maximum({code}).front();
  // A fault of all ranks alike, such as a misspelt option, is reported without a rank.
  if (std::ranges::all_of(failures, [&](const std::string& text) { return text == *first; }))
    throw Stop(static_cast<int>(code), *first);
  throw Stop(static_cast<int>(code), code_of(*first), job.agree(std::string(without_code(failure))));
}

/// The same of work that only the first rank does.
template <class Work>
void on_root(comm::Job& job, Work&& work) {
  together(job, [&] {
    if (job.is_root()) work();
  });
}

}  // namespace tw::bench
