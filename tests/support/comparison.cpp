#include "tests/support/comparison.hpp"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace tw::test {

using namespace models;

namespace {

struct Row {
  Op op;
  double float32;      ///< with float32 activations
  int half_roundings;  ///< how often an intermediate value may be rounded to bf16 or fp16 when activations are that
};

// float32. Rounding a value errs by u/√3·0.72 ≈ 2.5e-8 rms (u = 2^-24, mantissas spread evenly). A sum of k products
// with random signs, added one after the other, errs by that · sqrt(k/2) of the sum's own rms: 5e-7 for k = 768, 2e-6
// for k = 12 000. Hence 2e-6 for what sums products; the backward passes of attention chain three of them.
// The exponential is good to 2e-7. Sums of two numbers, maxima and conversions are exact.
//
// bf16. Devices accumulate in float32, so that both results round the same number; they differ where it lies near a
// tie: 2^-10 allows one last place (2^-7 · 0.72 relative) in 3 % of the elements, while truncation instead of rounding
// (0.004) fails. Where a device may round an intermediate value (the stored pre-activation in front of GELU, softmax's
// probabilities in front of a matrix product), each rounding adds 2^-8/√3·0.72 = 0.0016 rms; 2^-8 = 0.0039 is allowed.
// Over fewer than 32 elements the error is not an rms but a sample or two: there each bf16 rounding, the final one
// included, may reach its worst case 2^-8 (a flipped last place: 2^-7), and float32 gets four times the rms.
// fp16. The same with 2^-11 in place of 2^-8.
// Math::bf16. The reference rounds the operands of float32 products to bf16; a library may leave them as they are. Two
// rounded operands err by √2 · 0.0016 = 0.0023 rms: as one rounding to bf16 more, which the 0.0039 above allow.
// float32 outputs with no such rounding (gradients of weights, the loss) keep the float32 tolerance.
constexpr Row table[] = {
    {Op::linear_forward, 2e-6, 1},         // pre-activation as stored, or a residual added to a stored product
    {Op::linear_backward_input, 2e-6, 1},  // GELU's derivative times a stored product
    {Op::linear_backward_weights, 2e-6, 0},
    {Op::convolution_forward, 2e-6, 0},
    {Op::convolution_backward_input, 2e-6, 0},
    {Op::convolution_backward_weights, 2e-6, 0},
    {Op::attention_forward, 2e-6, 1},   // probabilities
    {Op::attention_backward, 4e-6, 3},  // out as stored by forward, probabilities, their gradient
    {Op::classifier, 2e-6, 1},          // the gradient of the logits
    {Op::embedding_forward, 0, 0},
    {Op::embedding_backward, 2e-6, 0},
    {Op::layer_norm_forward, 1e-6, 1},  // the sum as stored
    {Op::layer_norm_backward, 2e-6, 0},
    {Op::rms_norm_forward, 1e-6, 1},  // the sum as stored
    {Op::rms_norm_backward, 2e-6, 0},
    {Op::batch_norm_forward, 1e-6, 0},
    {Op::batch_norm_backward, 2e-6, 0},
    {Op::max_pool_forward, 0, 0},
    {Op::max_pool_backward, 5e-7, 0},
    {Op::average_pool_forward, 1e-6, 0},
    {Op::average_pool_backward, 5e-7, 0},  // windows that overlap: sums as of max pooling
    {Op::copy_channels, 0, 0},
    {Op::rotary, 1e-7, 0},  // three roundings of a sum of two products
    {Op::swiglu_forward, 5e-7, 0},
    {Op::swiglu_backward, 5e-7, 0},
    {Op::gather_rows, 0, 0},
    {Op::scatter_rows, 0, 0},
    {Op::embedding_bag_forward, 5e-7, 0},
    {Op::embedding_bag_update, 2e-6, 0},
    {Op::interaction_forward, 2e-6, 0},
    {Op::interaction_backward, 2e-6, 0},
    {Op::binary_cross_entropy, 5e-7, 0},
    {Op::mean_squared_error, 5e-7, 0},
    {Op::add_bias, 0, 0},  // a sum of two
    {Op::bias_backward, 2e-6, 0},
    {Op::activation_forward, 5e-7, 0},   // erf is good to 4e-7
    {Op::activation_backward, 5e-7, 0},  // and so is the exponential
    {Op::add, 0, 0},
    {Op::cast, 0, 0},
    {Op::fill, 0, 0},
    {Op::global_norm, 1e-7, 0},
    {Op::adamw, 5e-7, 0},
    {Op::sgd, 5e-7, 0},
    {Op::loss_scale, 1e-7, 0},
};

}  // namespace

double normalised_error(const Floats& a, const Floats& b) {
  if (a.size() != b.size()) throw std::logic_error("normalised_error: counts differ");
  double difference = 0, norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - b[i];
    difference += d * d;
    norm += static_cast<double>(b[i]) * b[i];
  }
  if (difference == 0) return 0;
  if (!std::isfinite(difference) || norm == 0) return std::numeric_limits<double>::infinity();
  return std::sqrt(difference / norm);
}

float as_stored(DType dtype, float value) {
  return dtype == DType::bf16 ? to_float(to_bf16(value)) : dtype == DType::fp16 ? to_float(to_fp16(value)) : value;
}

double tolerance(Op op, DType activations, DType output, std::size_t count, int roundings, bool bf16_operands) {
  const bool few = count < 32;
  for (const Row& row : table) {
    if (row.op != op) continue;
    const double float32 = few ? 4 * row.float32 : row.float32;
    if (!is_half(activations) && !bf16_operands) return float32;
    const int steps = (roundings >= 0 ? roundings : row.half_roundings) + (bf16_operands ? 1 : 0);
    const double unit = unit_roundoff(bf16_operands ? DType::bf16 : activations);
    if (steps > 0) return (few ? steps + 1 : steps) * unit;
    return output == activations ? (few ? 2 * unit : unit / 4) : float32;
  }
  throw std::logic_error("tolerance: no row for this operator");
}

}  // namespace tw::test
