// Learnable samples whose targets are numbers.
//
// Restored and measured images are those of the image source (image_source.hpp): a grating in noise. The targets of a
// restored one are the grating alone, in one channel and `scale` times as high and wide: value (row, column) is
// A·cos(2π(fx·column + fy·row)/(size·scale) + phase). Those of a measured one are the cosine and the sine of its phase.
// A series has independent variables, each an autoregression of its own (series_process() of
// models/catalog/floors.hpp); the targets are the values of the next time. The error of the best forecast is known
// exactly, those of the others are not.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "models/catalog/floors.hpp"
#include "models/compute/tensor.hpp"
#include "models/data/image_source.hpp"

namespace tw::models {

class ValueSource {
 public:
  /// Throws Error{usage} as ImageSource.
  ValueSource(const DataDescription& data, std::uint64_t seed);
  /// Samples from first_sample on, as many as `shape` has: images (count, size, size, channels) or series (count, time,
  /// variables) of its dtype. Targets: restored (count, size·scale, size·scale, 1), measured (count, measured_values),
  /// series as the inputs.
  void fill(Split split, std::uint64_t first_sample, const Tensor& shape, void* inputs, float* targets, int threads);

 private:
  void restore(Split split, std::uint64_t sample, float* targets) const;
  void measure(Split split, std::uint64_t sample, float* targets) const;
  void fill_series(Split split, std::uint64_t sample, const Tensor& series, float* targets) const;

  DataDescription data_;
  std::uint64_t seed_;
  std::optional<ImageSource> images_;
  std::vector<Autoregression> processes_;  // of the variables
  std::vector<std::int32_t> labels_;       // of the images, which nobody wants
};

}  // namespace tw::models
