// BERT (Devlin et al., arXiv 1810.04805) as it is pre-trained: post-norm encoder, GELU by erf, learned positions,
// segments, heads for masked tokens and for the next sentence.
#pragma once

#include "models/catalog/description.hpp"

namespace tw::models {

struct BertDescription {
  int layers = 24, width = 1024, heads = 16, hidden = 4096;  ///< hidden: of the MLP
  std::int64_t vocabulary = 30522, max_seq = 512;
  int segments = 2;
};

namespace family::bert {

constexpr float norm_epsilon = 1e-12f;

std::shared_ptr<const NetworkShape> shape(const BertDescription& sizes);

}  // namespace family::bert
}  // namespace tw::models
