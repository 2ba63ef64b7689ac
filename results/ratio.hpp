// From logarithms to what is claimed of two systems. Internal to the comparison.
#pragma once

#include <string>
#include <vector>

#include "results/comparison.hpp"
#include "results/comparison_words.hpp"
#include "results/contrast.hpp"

namespace tw {

/// Turns are taken where each block's runs are over before the next block's begin. `note`: what was found, in words.
Replicates replicates_of(const std::vector<SystemInput>& systems, std::string& note);

/// b less a. Of runs that took turns the n-th of one belongs to the n-th of the other.
Contrast contrast_of(const LogSample& a, const LogSample& b, Replicates replicates);
/// The weighted mean over rows; those of weight 0 may have no samples. Weights add up to 1.
Contrast contrast_of(const std::vector<const LogSample*>& a, const std::vector<const LogSample*>& b,
                     const std::vector<double>& weights, Replicates replicates);
/// Below least_replicates, and of one run each where something else was at work on the machine, a range and no claim;
/// `trials` says how one is had.
Ratio judged(const Contrast& contrast, bool more_is_better, Replicates replicates, const words::Trials& trials);

}  // namespace tw
