// The batches of a network: synthetic tokens, images or clicks by sample index, made by the host.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/catalog/description.hpp"
#include "models/compute/tensor.hpp"
#include "models/data/click_source.hpp"
#include "models/data/token_source.hpp"

namespace tw::models {

class ImageSource;
class MaskedSource;
class SegmentedSource;
class ValueSource;

/// Which part of a global batch a rank makes. Only clicks depend on it: indices are those of the tables that it holds.
struct DataShare {
  int rank = 0, ranks = 1;
};

class SyntheticData {
 public:
  /// `threads` make a batch; its values do not depend on them.
  SyntheticData(const NetworkDescription& network, DType precision, std::int64_t micro_batch, std::int64_t seq_len,
                std::uint64_t seed, int threads, DataShare share = {});
  ~SyntheticData();

  /// Extents and dtypes of one micro-batch. Tokens: int32 (batch, seq); images: precision (batch, size, size,
  /// channels), segmented, restored and measured ones too; series: precision (batch, seq, variables); masked tokens,
  /// clicks: int32, all of MaskedLayout's or ClickLayout's.
  static Tensor inputs_shape(const NetworkDescription& network, DType precision, std::int64_t micro_batch,
                             std::int64_t seq_len, int ranks = 1);
  /// int32 (batch·seq) or (batch); masked tokens: MaskedLayout's; segmented images: (batch·size·size). Where
  /// has_values(): float32 (batch, size·scale, size·scale, 1), (batch, measured_values) or (batch, seq, variables).
  static Tensor targets_shape(const NetworkDescription& network, std::int64_t micro_batch, std::int64_t seq_len);

  /// How many of these an evaluation's loss is the mean of: all but the labels of next sentences.
  static std::int64_t predictions(const NetworkDescription& network, std::int64_t micro_batch, std::int64_t seq_len);

  /// Samples [first_sample, first_sample + micro_batch) into memory of inputs_shape() and targets_shape().
  void generate(Split split, std::uint64_t first_sample, void* inputs, void* targets);
  /// The same into memory of its own, held from the first call on.
  void generate(Split split, std::uint64_t first_sample);
  const Tensor& inputs() const { return inputs_; }
  const Tensor& targets() const { return targets_; }
  /// The source of tokens, of images, of masked tokens, of clicks or of segmented images; the others are null, and all
  /// where the targets are numbers.
  const TokenSource* tokens() const { return tokens_.get(); }
  const ImageSource* images() const { return images_.get(); }
  const MaskedSource* masked() const { return masked_.get(); }
  const ClickSource* clicks() const { return clicks_.get(); }
  /// Of clicks: how they lie, and what the slots of this rank are drawn by.
  const ClickLayout& click_layout() const { return layout_; }
  std::vector<ClickTable> click_slots() const { return clicks_->slots(placement_, share_.rank); }
  DataShare share() const { return share_; }
  const SegmentedSource* segmented() const { return segmented_.get(); }

 private:
  Tensor inputs_, targets_;
  std::int64_t seq_len_ = 0;
  int threads_ = 1;
  std::unique_ptr<TokenSource> tokens_;
  std::unique_ptr<ImageSource> images_;
  std::unique_ptr<MaskedSource> masked_;
  std::unique_ptr<ClickSource> clicks_;
  DataShare share_;
  TablePlacement placement_;  // of clicks
  ClickLayout layout_;
  std::unique_ptr<SegmentedSource> segmented_;
  std::unique_ptr<ValueSource> values_;
  std::vector<std::byte> input_memory_;
  std::vector<std::int32_t> target_memory_, sequence_;
};

}  // namespace tw::models
