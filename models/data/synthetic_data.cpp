#include "models/data/synthetic_data.hpp"

#include <algorithm>

#include "models/data/image_source.hpp"

namespace tw::models {

Tensor SyntheticData::inputs_shape(const NetworkDescription& network, DType precision, std::int64_t micro_batch,
                                   std::int64_t seq_len) {
  const DataDescription data = network.data();
  switch (data.kind) {
    case DataKind::tokens:
      break;
    case DataKind::images:
      return Tensor{nullptr, precision, {micro_batch, data.image_size, data.image_size, data.image_channels}};
  }
  return Tensor{nullptr, DType::int32, {micro_batch, seq_len}};
}

Tensor SyntheticData::targets_shape(const NetworkDescription& network, std::int64_t micro_batch, std::int64_t seq_len) {
  const bool each_token = network.data().kind == DataKind::tokens;
  return Tensor{nullptr, DType::int32, {each_token ? Dims{micro_batch, seq_len}.count() : micro_batch}};
}

SyntheticData::SyntheticData(const NetworkDescription& network, DType precision, std::int64_t micro_batch,
                             std::int64_t seq_len, std::uint64_t seed, int threads)
    : inputs_(inputs_shape(network, precision, micro_batch, seq_len)),
      targets_(targets_shape(network, micro_batch, seq_len)),
      seq_len_(seq_len),
      threads_(threads) {
  const DataDescription data = network.data();
  switch (data.kind) {
    case DataKind::tokens:
      tokens_ = std::make_unique<TokenSource>(data.vocabulary, seed);
      sequence_.resize(static_cast<std::size_t>(seq_len + 1));
      break;
    case DataKind::images:
      images_ = std::make_unique<ImageSource>(data.image_size, data.image_channels, data.classes, seed);
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

void SyntheticData::generate(Split split, std::uint64_t first_sample, void* inputs, std::int32_t* targets) {
  if (images_) {
    images_->fill(split, first_sample, targets_.count(), inputs_.dtype, inputs, targets, threads_);
    return;
  }
  for (std::int64_t b = 0; b < inputs_.dims[0]; ++b) {
    tokens_->fill(split, first_sample + static_cast<std::uint64_t>(b), sequence_.data(), seq_len_ + 1);
    std::copy(sequence_.begin(), sequence_.end() - 1, static_cast<std::int32_t*>(inputs) + b * seq_len_);
    std::copy(sequence_.begin() + 1, sequence_.end(), targets + b * seq_len_);
  }
}

}  // namespace tw::models
