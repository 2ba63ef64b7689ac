// Whether two records that train the same have the same losses.
#pragma once

#include <optional>

#include "results/record/record.hpp"

namespace tw::results {

/// The loss of one step in two records.
struct LossPair {
  std::int64_t step = 0;  ///< optimizer steps done before it
  double a = 0, b = 0;
};

/// How far apart, as a share, the losses of one step may be in two records of the same training. From the same weights
/// a loss differs by rounding alone; each step after that has weights that differ, too, and training amplifies it.
/// Measured over ranks and repetitions on a CPU: 1.8e-7 in float32, 1.0e-3 in bf16 over 200 steps of a small
/// transformer. Other instruction sets and devices are allowed far more: 0.5 % in float32, 2 % in any other precision.
double loss_tolerance(const std::string& precision);

/// The pair that is furthest apart, as a share, of the first ten steps that both have timed, where both train the same:
/// workload, seed, precision, global batch, and micro-batch where samples are normalised over it; nullopt if they do
/// not, or have no step in common among the first 200, of images the first 10. A pair of which one is not finite is
/// further apart than any other. Runs to a target have seeds of their own.
std::optional<LossPair> furthest_first_losses(const Record& a, const Record& b);
/// Whether these losses are further apart than the precision's tolerance.
bool losses_differ(const LossPair& pair, const std::string& precision);

}  // namespace tw::results
