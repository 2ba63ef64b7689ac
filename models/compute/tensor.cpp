#include "models/compute/tensor.hpp"

#include "models/compute/error.hpp"

namespace tw::models {

std::string Dims::str() const {
  std::string text = "(";
  for (int axis = 0; axis < rank_; ++axis) {
    if (axis > 0) text += ", ";
    text += std::to_string(extent_[axis]);
  }
  return text + ")";
}

void Dims::refuse_rank(std::size_t rank) {
  throw Error(Failure::internal, "a tensor of " + std::to_string(rank) + " extents: at most " +
                                     std::to_string(max_rank) + " are provided for");
}

void Dims::refuse_count() const {
  throw Error(Failure::usage,
              "a shape of " + str() + " has more elements than any memory holds: choose a smaller batch");
}

}  // namespace tw::models
