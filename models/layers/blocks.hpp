// The blocks that networks are made of, and what they share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/network.hpp"

namespace tw {

std::vector<std::unique_ptr<Block>> build_gpt2_blocks(const Gpt2Description& shape, Precision precision,
                                                      std::int64_t micro_batch, std::int64_t seq_len);
std::vector<std::unique_ptr<Block>> build_resnet_blocks(const ResnetDescription& shape, Precision precision,
                                                        std::int64_t micro_batch);

inline Initialiser normal(double stddev) { return {Initialiser::Kind::normal, static_cast<float>(stddev)}; }
inline Initialiser constant(float value) { return {Initialiser::Kind::constant, value}; }

/// Announces parameters first … last, backwards.
inline void announce(const BlockRun& run, int last, int first) {
  if (!run.gradient_ready) return;
  for (int index = last; index >= first; --index) run.gradient_ready(index);
}

}  // namespace tw
