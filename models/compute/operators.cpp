#include "models/compute/operators.hpp"

#include <cstddef>

namespace tw::models {

const char* to_string(Op op) {
  static constexpr const char* names[] = {
#define TW_OP(op) #op,
#include "models/compute/operators.def"
  };
  return names[static_cast<std::size_t>(op)];
}

std::string PerAxis::str() const { return std::to_string(height) + "x" + std::to_string(width); }

const char* to_string(Math math) {
  static constexpr const char* names[] = {"standard", "tf32", "bf16", "fp8"};
  return names[static_cast<std::size_t>(math)];
}

}  // namespace tw::models
