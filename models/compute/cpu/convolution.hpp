// One pass of a convolution, in one of the ways that its plan chooses from. Private to models/compute/cpu.
#pragma once

#include <memory>
#include <string>

#include "models/compute/cpu/context.hpp"

namespace tw::models::cpu {

enum class ConvolutionWay : int {
  library,  ///< its convolution
  product,  ///< a product of rows, one for each output position: kernel height × width × in elements each
};

class ConvolutionPass {
 public:
  /// Which are read and written is up to the pass: x (batch, h, w, in) or dx, y (batch, oh, ow, out) or dy.
  struct Operands {
    const void* weight = nullptr;  ///< T, as ConvolutionShape::weight(), unchanged since the last refresh
    void* x = nullptr;
    void* y = nullptr;
    void* d_weight = nullptr;  ///< float32, as weight
    bool accumulate = false;   ///< into d_weight
  };
  virtual ~ConvolutionPass() = default;
  virtual std::string description() const = 0;
  virtual std::size_t bytes() const { return 0; }
  virtual void refresh(const void* /*weight*/) {}
  /// Within a ThreadScope of the caller.
  virtual void run(const Operands& operands) = 0;
};

/// Whether `pass` (convolution_forward, …_backward_input, …_backward_weights) can go as a product here.
bool convolves_by_product(const ConvolutionShape& shape, Op pass);
std::unique_ptr<ConvolutionPass> make_convolution_pass(Context& context, const ConvolutionShape& shape, Op pass,
                                                       ConvolutionWay way);

}  // namespace tw::models::cpu
