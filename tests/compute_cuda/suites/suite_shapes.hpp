// What the built-in suites, and the launches of scripts/gpu-validate, ask a GPU to plan: from their plans, by the
// blocks that a trainer runs.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "models/ledger/ledger.hpp"

namespace tw::test {

/// The names of --suite, and "gpu-validate".
std::vector<std::string> planning_suites();

/// The shapes of all points of a suite for `device` ("cpu", "cuda"), each once. Where the micro-batch is left to the
/// run, those of each size that its search may try: 1, 2, 4, … while they divide the global batch, and what a rank
/// needs for certain (all but workspace and packed weights) is at most `memory_bytes`. Precisions that a network is
/// never trained in are left out.
models::PlannedShapes suite_shapes(const std::string& suite, const std::string& device, std::size_t memory_bytes);

/// Appends those of `more` that are not in `list`.
void add(models::PlannedShapes& list, const models::PlannedShapes& more);

/// "32768 x 1600 -> 4800, bf16, GELU", "128 x 56 x 56 x 64 -> 64, kernel 3x3, stride 1x1, padding 1x1, bf16",
/// "32 x 1024, 25 heads of 64, causal, bf16", "32768 x 1600 -> 50257, 50304 reserved, bf16". Equal for equal shapes.
std::string text_of(const models::LinearShape& shape);
std::string text_of(const models::ConvolutionShape& shape);
std::string text_of(const models::AttentionShape& shape);
std::string text_of(const models::ClassifierShape& shape);

}  // namespace tw::test
