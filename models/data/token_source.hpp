// Learnable token streams with an exactly known floor: a sparse second-order Markov source.
//
//   next = (permutation[s₋₁] + offset[(k + group(s₋₂)) mod 4]) mod V,  k ~ (1/2, 1/4, 1/8, 1/8)
//
// Four distinct offsets, so each context permutes the same four probabilities: the entropy rate is exactly H(k) =
// 1.75·ln 2 = 1.2130 nats for every vocabulary V ≥ 4. Of the second token of a sequence, whose context is one token,
// nobody knows more than H(mixture of the four groups) (= ln 4 where 4 divides V). Both are formulas of
// models/catalog/floors.hpp. A model that sees one token only stays over 0.109 nats worse than one that sees two.
#pragma once

#include <cstdint>
#include <vector>

#include "models/compute/operators.hpp"

namespace tw::models {

/// Training samples and held-out ones never share random numbers.
enum class Split : std::uint8_t { training, held_out };

class TokenSource {
 public:
  static constexpr std::int64_t most_tokens = std::int64_t{1} << 28;
  /// Throws Error{usage} for a vocabulary below 4 or above most_tokens.
  TokenSource(std::int64_t vocabulary, std::uint64_t seed);
  /// `count` successive tokens of sequence `sample`. The first is uniform; the second follows a hidden,
  /// uniform predecessor.
  void fill(Split split, std::uint64_t sample, std::int32_t* tokens, std::int64_t count) const;
  std::int32_t next(std::int32_t previous, std::int32_t before_previous, int k) const;
  std::int64_t vocabulary() const { return vocabulary_; }
  /// The same samples by a device: all but the tensors, and the values of `table` (vocabulary).
  GenerateTokens on_device(Split split, std::uint64_t first_sample) const;
  const std::vector<std::int32_t>& table() const { return table_; }

 private:
  static std::uint64_t purpose(Split split);
  std::int64_t vocabulary_;
  std::uint64_t seed_;
  std::vector<std::int32_t> table_;  // (vocabulary): 4 · permutation + group; groups 0…3, sizes equal within one
  std::int32_t offset_[4] = {};
};

}  // namespace tw::models
