// Runs that have measured all their points.
#pragma once

#include <optional>

#include "bench/train/sweep/sweep.hpp"
#include "results/record/record.hpp"

namespace tw::bench {

/// The error, with its code, if set points kept every point from being measured; empty otherwise.
std::string why_refused(const results::Report& report);
/// What the points of a finished run come to.
int exit_code_of(const results::Report& report);
/// The exit code of a run whose points are all measured and reported, and says so; nullopt where there is something to
/// do (collective).
std::optional<int> code_of_complete(const Sweep& sweep);

}  // namespace tw::bench
