// The library's own products, as its benchmark (benchdnn) times them: one primitive, nothing around it. For comparing a
// plan and the measured ceiling with what the library can do at best; no step uses it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "models/compute/operators.hpp"

namespace tw::cpu {

/// One way in which the library runs a product. Owns its memory; `run` waits for the end.
struct LibraryProduct {
  std::string layout;  ///< "plain": operands as the network holds them; "packed": weight (or second operand) in the
                       ///< library's layout; "any": all operands in the library's layouts (benchdnn's default tags)
  std::string implementation;  ///< the library's name of its kernel
  std::function<void()> run;
};

/// `pass` is linear_forward, linear_backward_input or linear_backward_weights (float32 result). Layouts that the
/// library has only a reference implementation for are left out.
std::vector<LibraryProduct> library_products(const LinearShape& shape, Op pass, int threads);
/// `pass` is one of the three of a convolution. "plain" is NHWC with a packed weight; "any" leaves all to the library.
std::vector<LibraryProduct> library_products(const ConvolutionShape& shape, Op pass, int threads);

}  // namespace tw::cpu
