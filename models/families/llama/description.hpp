// Llama 3 (Grattafiori et al., arXiv 2407.21783): RMS norm, rotary positions, grouped queries, SwiGLU, no biases.
#pragma once

#include <vector>

#include "models/catalog/description.hpp"

namespace tw::models {

struct LlamaDescription {
  int layers = 16, width = 2048, heads = 32, kv_heads = 8, hidden = 8192;  ///< hidden: of the MLP
  std::int64_t vocabulary = 128256;
  bool tied_head = true;  ///< the token table is the output head's weight
  int rope_factor = 32;   ///< by which the lowest frequencies of the rotary positions are divided
  int rope_original_seq = 8192;
  std::int64_t max_seq = 131072;

  int head_dim() const { return width / heads; }
  int qkv_width() const { return (heads + 2 * kv_heads) * head_dim(); }
};

namespace family::llama {

constexpr float norm_epsilon = 1e-5f;
constexpr float rope_theta = 500000, rope_low_factor = 1, rope_high_factor = 4;

std::shared_ptr<const NetworkShape> shape(const LlamaDescription& sizes);

/// Radians a position of each pair of a head, head_dim / 2 of them: theta^(−2i / head_dim), slowed down by the `llama3`
/// rule, at every sequence length: a frequency with more than original / high factor positions in its wavelength is
/// blended with its rope_factor-th part, one with more than original / low factor is that part (Llama 3.1's released
/// code, apply_scaling; transformers' rope_type "llama3").
std::vector<double> rotary_frequencies(const LlamaDescription& sizes);

}  // namespace family::llama
}  // namespace tw::models
