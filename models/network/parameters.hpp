// The flat buffers: weights, master weights and gradients of a network, and how parameters lie in them; and its tables.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/network/network.hpp"

namespace tw::models {

/// Where each parameter lies. Order: as gradients become complete in backward, that is blocks from last to first, the
/// parameters of a block from last to first; a tied parameter lies with its owner. Padding behind a parameter aligns
/// the next one, or is what the parameter reserves (ParameterSpec::reserved_rows); it is 0. Needs no device.
struct ParameterLayout {
  static constexpr std::int64_t align_elements = 64;  ///< 128 bytes in bf16 as well
  struct Entry {
    ParameterSpec spec;
    std::int64_t offset = 0;
    int block = 0, index = 0;  ///< parameters()[index] of blocks[block]
  };
  std::vector<Entry> entries;
  std::int64_t count = 0;            ///< elements with padding, a multiple of ranks · align_elements: equal shards
  std::int64_t parameter_count = 0;  ///< without
  std::int64_t table_elements = 0;   ///< of all tables of the network, which lie in no flat buffer

  explicit ParameterLayout(const std::vector<std::unique_ptr<Block>>& blocks, int ranks = 1);
  /// One for each parameter; weight decay 0 where none applies. Padding lies in none.
  std::vector<DecaySegment> decay_segments(float weight_decay) const;
};

/// Flat buffers (layout.count elements): weights in the precision's storage, master weights and gradients in float32;
/// in float32 the weights are the master weights. Throws Error{internal} for blocks whose specifications contradict
/// each other, and the device's errors if memory is missing.
class ParameterStore {
 public:
  ParameterStore(Device& device, DType precision, const std::vector<std::unique_ptr<Block>>& blocks, int ranks = 1);

  /// Published initialisation from counter-based numbers keyed by (seed, name, element): equal on each device and rank.
  void initialise(Stream& stream, std::uint64_t seed);
  /// Plans of all blocks, with the weights bound.
  void build(std::vector<std::unique_ptr<Block>>& blocks) const;

  const ParameterLayout& layout() const { return layout_; }
  const std::vector<Parameter>& parameters() const { return parameters_; }  // in flat order
  struct Statistic {
    ParameterSpec spec;
    Tensor values;
  };
  const std::vector<Statistic>& statistics() const { return statistics_; }  // in the order of blocks
  const std::vector<Table>& tables() const { return tables_; }
  /// All tables of this rank, behind each other: float32 (rows, width); rank 0 without tables.
  Tensor table_rows() const { return table_rows_; }
  Tensor flat_weights() const { return flat(weights_, precision_); }  // rank 0 in float32
  Tensor flat_master() const { return flat(master_, DType::float32); }
  Tensor flat_gradients() const { return flat(gradients_, DType::float32); }

  /// Bytes of weights, master weights, statistics and tables; of gradients.
  static std::size_t parameter_bytes(const ParameterLayout& layout, DType precision,
                                     const std::vector<std::unique_ptr<Block>>& blocks);
  static std::size_t gradient_bytes(const ParameterLayout& layout);
  std::size_t parameter_bytes() const {
    return weights_.bytes() + master_.bytes() + statistic_values_.bytes() + table_memory_.bytes();
  }
  std::size_t gradient_bytes() const { return gradients_.bytes(); }

 private:
  Tensor flat(const Buffer& buffer, DType dtype) const {
    return buffer ? Tensor{buffer.data(), dtype, {layout_.count}} : Tensor{};
  }
  Device& device_;
  DType precision_;
  ParameterLayout layout_;
  void initialise_tables(Stream& stream, std::uint64_t seed);

  Buffer weights_, master_, gradients_, statistic_values_, table_memory_;
  Tensor table_rows_;
  std::vector<Table> tables_;
  std::vector<Parameter> parameters_;
  std::vector<Statistic> statistics_;
};

}  // namespace tw::models
