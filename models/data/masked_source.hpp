// Learnable batches for masked tokens and next sentences (BERT; Devlin et al., arXiv 1810.04805, §3.1):
//
//   [CLS] segment A [SEP] segment B [SEP]      all sequences have their full length: no padding and no mask of it
//
// Each segment is about one of 4 topics, each of which has a quarter of the ordinary tokens: a token is the r-th of its
// topic with r = 2^l − 1 + u, level l uniform, u uniform below 2^l. So its probability falls as 1/r, as in texts. B has
// A's topic in half of the sequences (label 0, "is next"), another in the others (label 1). Of the ordinary tokens,
// masked_positions(seq_len) at random are to be predicted: 80 % of them are replaced by [MASK], 10 % by a uniform
// ordinary token, 10 % are left.
//
// The other tokens of a segment tell its topic, both topics tell the label. The least possible loss is masked_entropy()
// of models/catalog/floors.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "models/catalog/description.hpp"
#include "models/catalog/floors.hpp"
#include "models/catalog/sequences.hpp"
#include "models/compute/tensor.hpp"
#include "models/data/token_source.hpp"  // Split

namespace tw::models {

/// How a micro-batch of masked tokens lies in its two int32 tensors.
/// Inputs: tokens (batch, seq), segments (batch, seq), and rows (gathered()) of (batch · seq): those to be predicted,
/// ascending, and then the first of each sequence. Targets: a token for each predicted row, and a label for each
/// sequence.
struct MaskedLayout {
  std::int64_t batch = 0, seq = 0;
  std::int64_t predicted() const { return batch * masked_positions(seq); }
  std::int64_t gathered() const { return predicted() + batch; }
  std::int64_t inputs() const { return 2 * Dims{batch, seq}.count() + gathered(); }
  Tensor tokens(const Tensor& inputs) const { return inputs.slice(0, {batch, seq}); }
  Tensor segments(const Tensor& inputs) const { return inputs.slice(batch * seq, {batch, seq}); }
  Tensor rows(const Tensor& inputs) const { return inputs.slice(2 * batch * seq, {gathered()}); }
  Tensor masked_targets(const Tensor& targets) const { return targets.slice(0, {predicted()}); }
  Tensor next_sentence_targets(const Tensor& targets) const { return targets.slice(predicted(), {batch}); }
};

class MaskedSource {
 public:
  /// Token 0 pads in the public definition, whose table gets no gradient from it: it does not occur.
  static constexpr std::int32_t cls = 1, sep = 2, mask = 3, first_ordinary = masked_special_tokens;
  static constexpr int topics = masked_topics;
  static constexpr std::int64_t least_vocabulary = 16, shortest_sequence = shortest_masked_sequence;

  /// Throws Error{usage} for a vocabulary below least_vocabulary or above TokenSource::most_tokens.
  MaskedSource(std::int64_t vocabulary, std::uint64_t seed);
  /// Samples [first_sample, first_sample + layout.batch). Throws Error{usage} where sequences are too short.
  void fill(Split split, std::uint64_t first_sample, const MaskedLayout& layout, std::int32_t* inputs,
            std::int32_t* targets) const;
  /// The r-th token of a topic, r < 2^levels() − 1.
  std::int32_t token(int topic, std::int64_t r) const;
  int levels() const { return levels_; }

 private:
  void fill_one(std::uint64_t stream, std::int64_t b, const MaskedLayout& layout, std::int32_t* inputs,
                std::int32_t* targets) const;
  std::int64_t ordinary_;  // tokens that are not special
  int levels_;
  std::uint64_t seed_;
  std::vector<std::int32_t> permutation_;  // (ordinary)
};

}  // namespace tw::models
