// ResNet v1.5 (He et al., arXiv 1512.03385, table 1; stride in the 3×3 of a bottleneck): NHWC, batch norm.
#pragma once

#include "models/catalog/description.hpp"

namespace tw::models {

struct ResnetDescription {
  std::vector<int> blocks = {3, 4, 6, 3};  ///< bottlenecks of each stage
  int stem_width = 64;  ///< channels of the stem; stage i has stem_width·2^i (×4 out of a bottleneck)
  int stem_kernel = 7, stem_stride = 2;
  bool stem_pool = true;  ///< 3×3 stride 2 max pool after the stem
  int image_size = 224, image_channels = 3;
  std::int64_t classes = 1000;
  float label_smoothing = 0.1f;
};

namespace family::resnet {

constexpr float norm_epsilon = 1e-5f, norm_momentum = 0.1f;
constexpr int pool_kernel = 3, pool_stride = 2, pool_padding = 1;  ///< of the stem's max pool
constexpr int expansion = 4;                                       ///< channels out of a bottleneck for each within

std::shared_ptr<const NetworkShape> shape(const ResnetDescription& sizes);

}  // namespace family::resnet
}  // namespace tw::models
