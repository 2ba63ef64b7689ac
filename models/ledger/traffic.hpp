// Bytes and FLOPs of one call of an operator (ledger.hpp says what counts).
#pragma once

#include <initializer_list>
#include <vector>

#include "models/compute/operators.hpp"
#include "models/compute/tensor.hpp"

namespace tw::models {

struct Traffic {
  double read = 0, written = 0;  ///< bytes
  double flops = 0;
  Traffic operator+(const Traffic& other) const {
    return {read + other.read, written + other.written, flops + other.flops};
  }
};

/// Each of these tensors once. Absent ones are empty.
Traffic moved(std::initializer_list<Tensor> read, std::initializer_list<Tensor> written);
/// Gradients that are overwritten, or read and added to.
Traffic gradients(std::initializer_list<Tensor> of_parameters, bool accumulate);

#define TW_OPERATOR(op, name, Arguments) Traffic traffic(const Arguments& args);
#include "models/compute/operators.def"

/// One of an operator's kernels, which run one after another because each needs all of what the one in front writes.
struct Kernel {
  const char* name;  ///< "product"; what runs beside it: "round", "gelu", "softmax"
  Traffic traffic;
};
using Kernels = std::vector<Kernel>;
Traffic total(const Kernels& kernels);

Kernels kernels(const LinearShape& shape, const LinearForward& args, const Tensor& weight);
Kernels kernels(const LinearShape& shape, const LinearBackwardInput& args, const Tensor& weight);
Kernels kernels(const LinearShape& shape, const LinearBackwardWeights& args);
Kernels kernels(const ClassifierShape& shape, const ClassifierForwardBackward& args, const Tensor& weight);

Traffic traffic(const ConvolutionShape& shape, const ConvolutionForward& args, const Tensor& weight);
Traffic traffic(const ConvolutionShape& shape, const ConvolutionBackwardInput& args, const Tensor& weight);
Traffic traffic(const ConvolutionShape& shape, const ConvolutionBackwardWeights& args);
Traffic traffic(const AttentionShape& shape, const AttentionForward& args);
Traffic traffic(const AttentionShape& shape, const AttentionBackward& args);
/// A weight that is rounded to fp8 in both layouts.
Traffic rounded_weight(const Tensor& weight);

}  // namespace tw::models
