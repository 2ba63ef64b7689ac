#include "models/data/synthetic_data.hpp"

#include <algorithm>
#include <string>

#include "models/compute/error.hpp"
#include "models/data/image_source.hpp"
#include "models/data/masked_source.hpp"
#include "models/data/segmented_source.hpp"
#include "models/data/value_source.hpp"

namespace tw::models {
namespace {

ClickLayout layout_of(const DataDescription& data, std::int64_t micro_batch, int ranks) {
  const auto tables = static_cast<std::int64_t>(data.table_rows.size());
  return {micro_batch, data.dense_features, (tables + ranks - 1) / ranks, data.hot, ranks};
}

}  // namespace

Tensor SyntheticData::inputs_shape(const NetworkDescription& network, DType precision, std::int64_t micro_batch,
                                   std::int64_t seq_len, int ranks) {
  const DataDescription data = network.data();
  switch (data.kind) {
    case DataKind::tokens:
      break;
    case DataKind::masked_tokens:
      return Tensor{nullptr, DType::int32, {MaskedLayout{micro_batch, seq_len}.inputs()}};
    case DataKind::clicks:
      return Tensor{nullptr, DType::int32, {layout_of(data, micro_batch, ranks).inputs()}};
    case DataKind::images:
    case DataKind::segmented_images:
    case DataKind::restored_images:
    case DataKind::measured_images:
      return Tensor{nullptr, precision, {micro_batch, data.image_size, data.image_size, data.image_channels}};
    case DataKind::series:
      return Tensor{nullptr, precision, {micro_batch, seq_len, data.variables}};
  }
  return Tensor{nullptr, DType::int32, {micro_batch, seq_len}};
}

Tensor SyntheticData::targets_shape(const NetworkDescription& network, std::int64_t micro_batch, std::int64_t seq_len) {
  const DataDescription data = network.data();
  switch (data.kind) {
    case DataKind::tokens:
      return Tensor{nullptr, DType::int32, {Dims{micro_batch, seq_len}.count()}};
    case DataKind::masked_tokens:
      return Tensor{nullptr, DType::int32, {MaskedLayout{micro_batch, seq_len}.gathered()}};
    case DataKind::segmented_images: {
      const std::int64_t size = data.image_size;
      return Tensor{nullptr, DType::int32, {Dims{micro_batch, size, size}.count()}};
    }
    case DataKind::restored_images: {
      const std::int64_t size = std::int64_t{data.image_size} * data.scale;
      return Tensor{nullptr, DType::float32, {micro_batch, size, size, 1}};
    }
    case DataKind::measured_images:
      return Tensor{nullptr, DType::float32, {micro_batch, measured_values}};
    case DataKind::series:
      return Tensor{nullptr, DType::float32, {micro_batch, seq_len, data.variables}};
    case DataKind::images:
    case DataKind::clicks:
      break;
  }
  return Tensor{nullptr, DType::int32, {micro_batch}};
}

std::int64_t SyntheticData::predictions(const NetworkDescription& network, std::int64_t micro_batch,
                                        std::int64_t seq_len) {
  if (network.data().kind == DataKind::masked_tokens) return MaskedLayout{micro_batch, seq_len}.predicted();
  return targets_shape(network, micro_batch, seq_len).count();
}

SyntheticData::SyntheticData(const NetworkDescription& network, DType precision, std::int64_t micro_batch,
                             std::int64_t seq_len, std::uint64_t seed, int threads, DataShare share)
    : inputs_(inputs_shape(network, precision, micro_batch, seq_len, share.ranks)),
      targets_(targets_shape(network, micro_batch, seq_len)),
      seq_len_(seq_len),
      threads_(threads),
      share_(share) {
  const DataDescription data = network.data();
  if (data.drawn_tokens > data.vocabulary)
    throw Error(Failure::usage, network.name + " has " + std::to_string(data.vocabulary) + " tokens, not the " +
                                    std::to_string(data.drawn_tokens) + " that its samples would have");
  switch (data.kind) {
    case DataKind::tokens:
      tokens_ = std::make_unique<TokenSource>(data.different_tokens(), seed);
      sequence_.resize(static_cast<std::size_t>(seq_len + 1));
      break;
    case DataKind::masked_tokens:
      masked_ = std::make_unique<MaskedSource>(data.different_tokens(), seed);
      break;
    case DataKind::clicks:
      clicks_ = std::make_unique<ClickSource>(data.table_rows, data.dense_features, data.hot, seed);
      placement_ = place_tables(data.table_rows, share.ranks);
      layout_ = layout_of(data, micro_batch, share.ranks);
      break;
    case DataKind::images:
      images_ = std::make_unique<ImageSource>(data.image_size, data.image_channels, data.classes, seed);
      break;
    case DataKind::segmented_images:
      segmented_ = std::make_unique<SegmentedSource>(data.image_size, data.image_channels, data.classes, seed);
      break;
    case DataKind::restored_images:
    case DataKind::measured_images:
    case DataKind::series:
      values_ = std::make_unique<ValueSource>(data, seed);
      break;
  }
}

SyntheticData::~SyntheticData() = default;

void SyntheticData::generate(Split split, std::uint64_t first_sample) {
  input_memory_.resize(inputs_.bytes());
  target_memory_.resize(static_cast<std::size_t>(targets_.count()));
  inputs_.data = input_memory_.data();
  targets_.data = target_memory_.data();
  generate(split, first_sample, inputs_.data, target_memory_.data());
}

void SyntheticData::generate(Split split, std::uint64_t first_sample, void* inputs, void* targets) {
  if (values_) {
    values_->fill(split, first_sample, inputs_, inputs, static_cast<float*>(targets), threads_);
    return;
  }
  auto* const labels = static_cast<std::int32_t*>(targets);
  if (images_) {
    images_->fill(split, first_sample, targets_.count(), inputs_.dtype, inputs, labels, threads_);
    return;
  }
  if (clicks_) {
    clicks_->fill(split, first_sample, layout_, placement_, share_.rank, static_cast<std::int32_t*>(inputs), labels,
                  threads_);
    return;
  }
  if (segmented_) {
    segmented_->fill(split, first_sample, inputs_, inputs, labels, threads_);
    return;
  }
  if (masked_) {
    const std::int64_t micro_batch = targets_.count() / (masked_positions(seq_len_) + 1);
    masked_->fill(split, first_sample, {micro_batch, seq_len_}, static_cast<std::int32_t*>(inputs), labels);
    return;
  }
  for (std::int64_t b = 0; b < inputs_.dims[0]; ++b) {
    tokens_->fill(split, first_sample + static_cast<std::uint64_t>(b), sequence_.data(), seq_len_ + 1);
    std::copy(sequence_.begin(), sequence_.end() - 1, static_cast<std::int32_t*>(inputs) + b * seq_len_);
    std::copy(sequence_.begin() + 1, sequence_.end(), labels + b * seq_len_);
  }
}

}  // namespace tw::models
