// Whether two records that train the same have the same losses.
#pragma once

#include <optional>

#include "results/record/record.hpp"

namespace tw::results {

/// The loss of one step in two records.
struct LossPair {
  std::int64_t step = 0;  ///< optimizer steps done before it
  double a = 0, b = 0;
  double tolerance = 0;  ///< loss_tolerance() of the step
};

/// How far apart, as a share, the losses of a step may be in two records of the same training. From the same weights a
/// loss differs by rounding alone; each step after that has weights that differ, too, and training amplifies it.
///
/// float32: measured between two implementations that share no arithmetic (oneDNN's and the reference device's), for
/// each tiny network and two seeds, against bf16, in the worst of ten steps:
///                                     float32       bf16        allowed
///   tokens and clicks, to step 99     <= 2.2e-6     >= 8.4e-5   2e-5
///   from step 100 on                  <= 9.4e-5     >= 1.2e-4   1e-3
///   images, steps 0 to 2              <= 2.6e-7     >= 1.6e-4   2e-5
/// Training with batch normalisation is chaotic: rounding alone moved a float32 loss of images by 4.8 % within ten
/// steps. So of images, and of networks described by a file, which may have batch normalisation, only steps 0 to 2 are
/// compared. bf16 differs by 1.0e-3 between ranks and repetitions over 200 steps: it and all other precisions are
/// allowed 2 %.
double loss_tolerance(const Workload& workload, std::int64_t step);

/// The pair that is furthest apart, as a multiple of its tolerance, of the first ten steps of the warm-up and the first
/// ten that both have timed, where both train the same: workload, seed, precision, global batch, and micro-batch where
/// samples are normalised over it; nullopt if they do not, or if they share no step among the first 200 (images: the
/// first 3). A pair with a loss that is not finite is further apart than any other. Runs to a target have seeds of
/// their own.
std::optional<LossPair> furthest_first_losses(const Record& a, const Record& b);
/// Whether these losses are further apart than their tolerance.
bool losses_differ(const LossPair& pair);

}  // namespace tw::results
