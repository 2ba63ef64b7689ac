#include "models/data/segmented_source.hpp"

#include <cstring>

#include "models/compute/philox.hpp"

namespace tw::models {

SegmentedSource::SegmentedSource(int size, int channels, std::int64_t classes, std::uint64_t seed)
    : source_(size, channels, classes, seed), size_(size), seed_(seed) {}

SegmentedSource::Disc SegmentedSource::disc(Split split, std::uint64_t sample) const {
  const char* const purpose = split == Split::training ? "discs.training" : "discs.held_out";
  const PhiloxWords words = random_block(seed_, random_stream(purpose, sample), 0);
  const std::int64_t least = size_ / 6, radius = least + to_uniform_below(words.word[2], size_ / 2 - least + 1);
  return {to_uniform_below(words.word[0], size_), to_uniform_below(words.word[1], size_), radius * radius};
}

void SegmentedSource::fill(Split split, std::uint64_t first_sample, const Tensor& shape, void* images,
                           std::int32_t* labels, int threads) {
  const std::int64_t count = shape.dims[0], pixels = size_ * size_;
  const std::size_t pixel_bytes = shape.bytes() / static_cast<std::size_t>(count * pixels);
  gratings_.resize(2 * shape.bytes());
  noisy_.resize(static_cast<std::size_t>(2 * count));
  classes_.resize(noisy_.size());
  source_.fill(split, 2 * first_sample, 2 * count, shape.dtype, gratings_.data(), noisy_.data(), threads,
               classes_.data());
  for (std::int64_t i = 0; i < count; ++i) {
    const Disc d = disc(split, first_sample + static_cast<std::uint64_t>(i));
    for (std::int64_t pixel = 0; pixel < pixels; ++pixel) {
      const std::int64_t row = pixel / size_ - d.row, column = pixel % size_ - d.column;
      const std::int64_t from = 2 * i + (row * row + column * column <= d.squared_radius ? 1 : 0);
      std::memcpy(static_cast<std::byte*>(images) + static_cast<std::size_t>(i * pixels + pixel) * pixel_bytes,
                  gratings_.data() + static_cast<std::size_t>(from * pixels + pixel) * pixel_bytes, pixel_bytes);
      labels[i * pixels + pixel] = classes_[static_cast<std::size_t>(from)];
    }
  }
}

}  // namespace tw::models
