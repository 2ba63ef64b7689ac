// The command line of trainwatt-train.
#pragma once

#include <optional>
#include <string>

#include "bench/train/plan.hpp"

namespace tw {

struct Options {
  Request request;
  std::string device = "auto";
  std::string out;                 ///< empty: out/<suite or model>-<UTC time>
  std::string export_step;         ///< folder; empty: measure
  int threads = 0;                 ///< 0: from OMP_NUM_THREADS or the affinity mask
  double bucket_mib = 25;
};

/// What parsing came to: options, or text to print and leave with.
struct ParseResult {
  std::optional<Options> options;
  int exit_code = 0;
  std::string text;                ///< help, version, or one line of error
};
ParseResult parse_options(int argc, char** argv);

}  // namespace tw
