// Learnable clicks with a known Bayes error: dense features and indices of a power law that each say a little.
//
// The label y is 1 or 0, each half of the time. Given it, everything else is independent:
// - dense features are ±m/√D + z, z standard normal, + for y = 1: together as good as one N(±m, 1);
// - an index is drawn in two parts. Its pair of rows follows a power law: rank r of P pairs lies in the octave
//   [2^L − 1, 2^{L+1} − 1) with a weight of (ranks there)·2^{−1.05·L}, and is uniform within the octave, so that a rank
//   is drawn about as often as (r + 1)^−1.05 (the exponent of Zipf's law in Criteo's data, near 1). A bijection of the
//   table's own scatters ranks over the pairs. Which of the two rows of the pair it is votes for y, and is wrong with
//   probability q. Which row of a pair means what is hidden: a network learns it row by row.
// The error of the best classifier is therefore exact (click_error() of models/catalog/floors.hpp). In a table with an
// odd number of rows the last one is never drawn. Held-out samples are drawn alike.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "models/catalog/table_placement.hpp"
#include "models/compute/operators.hpp"
#include "models/data/token_source.hpp"  // Split

namespace tw::models {

/// A rank's part of a micro-batch: dense features of its own samples, and for the tables that it holds the indices of
/// all ranks' samples, rank by rank. All lie in one int32 tensor.
struct ClickLayout {
  std::int64_t batch = 0, dense = 0, slots = 0, hot = 0;
  int ranks = 1;
  std::int64_t dense_values() const { return batch * dense; }
  std::int64_t index_values() const { return ranks * batch * slots * hot; }
  std::int64_t inputs() const { return dense_values() + index_values(); }
  /// float32 (batch, dense)
  Tensor dense_of(const Tensor& in) const { return {in.data, DType::float32, {batch, dense}}; }
  /// int32 (ranks · batch, slots, hot); 0 in an empty slot
  Tensor indices_of(const Tensor& in) const { return in.slice(dense_values(), {ranks * batch, slots, hot}); }
};

class ClickSource {
 public:
  static constexpr double exponent = 1.05;

  /// Throws Error{usage} for a table of fewer than 2 rows or more than 2^31 − 1, and without dense features or indices.
  ClickSource(std::vector<std::int64_t> table_rows, std::int64_t dense_features, std::int64_t hot, std::uint64_t seed);
  /// Samples [first_sample, first_sample + layout.batch) and their labels (batch); indices of the tables of `rank`, of
  /// samples from first_sample − rank · batch on.
  void fill(Split split, std::uint64_t first_sample, const ClickLayout& layout, const TablePlacement& placement,
            int rank, std::int32_t* inputs, std::int32_t* labels, int threads) const;
  /// The same samples by a device: all but the tensors and the tables, which are slots().
  GenerateClicks on_device(Split split, std::uint64_t first_sample, const ClickLayout& layout, int rank) const;
  /// The tables that a rank holds, by slot, and empty slots.
  std::vector<ClickTable> slots(const TablePlacement& placement, int rank) const;
  /// Pairs of a table, by rank of frequency.
  std::int64_t pairs(std::size_t table) const { return tables_[table].pairs; }
  /// How often rank r of a table is drawn.
  double share(std::size_t table, std::int64_t rank) const;
  /// The rows of rank r that vote for a click and against it.
  std::array<std::int32_t, 2> rows_of(std::size_t table, std::int64_t rank) const;

 private:
  std::vector<ClickTable> tables_;  // factor and pairs are coprime
  std::int64_t dense_;
  std::uint64_t seed_;
};

}  // namespace tw::models
