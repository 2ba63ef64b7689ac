#include "models/compute/tensor.hpp"

namespace tw {

std::string Dims::str() const {
  std::string text = "(";
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(extent_[axis]);
  }
  return text + ")";
}

}  // namespace tw
