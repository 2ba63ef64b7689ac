// How much memory training a network takes at least, by arithmetic alone. models/trainer.hpp has the exact plan, which
// needs the operators.
#pragma once

#include <cstdint>
#include <string>

#include "models/catalog/description.hpp"

namespace tw::models {

/// Bytes that a rank takes at least.
struct LeastMemory {
  double parameters = 0;   ///< as computed with, float32 masters where these have two bytes, and float32 gradients; of
                           ///< tables the mean share of a rank, without gradients
  double optimizer = 0;    ///< float32 moments
  double activations = 0;  ///< the inputs of products that backward needs, of one micro-batch; of recomputed layers
                           ///< what these hand on, and what one of them saves
  double total() const { return parameters + optimizer + activations; }
};

/// Of a micro-batch at a precision of bench's --precision; the first `recomputed_layers` layers are recomputed.
/// Outputs of norms, scratch, packed weights and the batch itself are not counted. Throws std::invalid_argument where
/// the tokens of the micro-batch overflow.
LeastMemory least_memory(const NetworkDescription& network, const std::string& precision, std::int64_t micro_batch,
                         std::int64_t seq_len, int recomputed_layers, int ranks = 1);

}  // namespace tw::models
