// Learnable batches for masked tokens and next sentences (BERT; Devlin et al., arXiv 1810.04805, §3.1):
//
//   [CLS] segment A [SEP] segment B [SEP]      all sequences have their full length: no padding and no mask of it
//
// Each of 4 topics is a cycle through a quarter of the ordinary tokens. A segment walks along the cycle of its topic from
// a uniform place on. B goes on where A ends in half of the sequences (label 0, "is next"), and walks along another
// topic from a uniform place on in the others (label 1). Each token is then replaced by a uniform ordinary one with
// probability masked_noise (models/catalog/floors.hpp). Of the ordinary tokens, masked_positions(seq_len) at random are
// to be predicted: 80 % of them are replaced by [MASK], 10 % by a uniform ordinary token, 10 % are left.
//
// A masked token follows from its neighbours, on either side, up to the noise; the label from the topics of both
// segments. The least possible loss is masked_entropy() of floors.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "models/catalog/description.hpp"
#include "models/catalog/floors.hpp"
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
  static constexpr int topics = 4;
  static constexpr std::int64_t least_vocabulary = 16, shortest_sequence = 8;

  /// Throws Error{usage} for a vocabulary below least_vocabulary or above TokenSource::most_tokens.
  MaskedSource(std::int64_t vocabulary, std::uint64_t seed);
  /// Samples [first_sample, first_sample + layout.batch). Throws Error{usage} where sequences are too short.
  void fill(Split split, std::uint64_t first_sample, const MaskedLayout& layout, std::int32_t* inputs,
            std::int32_t* targets) const;
  /// The token at a place of a topic's cycle; places count modulo cycle_length().
  std::int32_t token(int topic, std::int64_t place) const;
  std::int64_t cycle_length() const { return ordinary_ / topics; }

 private:
  void fill_one(std::uint64_t stream, std::int64_t b, const MaskedLayout& layout, std::int32_t* inputs,
                std::int32_t* targets) const;
  std::int64_t ordinary_;  // tokens that are not special
  std::uint64_t seed_;
  std::vector<std::int32_t> permutation_;  // (ordinary): the cycles one after the other, then up to 3 tokens of none
};

}  // namespace tw::models
