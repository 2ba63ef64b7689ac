// A family of the tests: perceptrons on images. A layer is linear, GELU, linear: width → 2·width → width.
#pragma once

#include "models/catalog/description.hpp"

namespace tw {

struct MlpDescription {
  int layers = 1, width = 24, image_size = 8;
  std::int64_t classes = 5;
  std::int64_t pixels() const { return std::int64_t{3} * image_size * image_size; }
};

namespace models::family::mlp {

std::shared_ptr<const NetworkShape> shape(const MlpDescription& sizes);

}  // namespace models::family::mlp
}  // namespace tw
