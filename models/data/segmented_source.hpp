// Learnable images whose pixels have labels: two gratings in noise (image_source.hpp), the second inside a disc.
//
// Sample i is made of images 2i and 2i + 1 of the image source. The disc's centre is uniform over the pixels, its
// radius uniform in [size/6, size/2]. The label of a pixel is the class of the grating that it shows; there is no label
// noise. Neighbours say which grating a pixel shows, so that a network needs context, and at the edge of the disc a
// little is lost: an exact floor is not known.
#pragma once

#include <cstdint>
#include <vector>

#include "models/compute/tensor.hpp"
#include "models/data/image_source.hpp"

namespace tw::models {

class SegmentedSource {
 public:
  /// Throws Error{usage} as ImageSource.
  SegmentedSource(int size, int channels, std::int64_t classes, std::uint64_t seed);
  /// Samples from first_sample on, as many as `shape`, (count, size, size, channels), has: `images` of its dtype, and
  /// `labels` (count, size, size).
  void fill(Split split, std::uint64_t first_sample, const Tensor& shape, void* images, std::int32_t* labels,
            int threads);

 private:
  struct Disc {
    std::int64_t row = 0, column = 0, squared_radius = 0;
  };
  Disc disc(Split split, std::uint64_t sample) const;

  ImageSource source_;
  std::int64_t size_;
  std::uint64_t seed_;
  std::vector<std::byte> gratings_;  // twice as many images as a batch has
  std::vector<std::int32_t> noisy_, classes_;
};

}  // namespace tw::models
