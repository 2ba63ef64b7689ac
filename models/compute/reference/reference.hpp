// Private to the reference device: its classes. Each family of operators has a file of its own.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "models/compute/device.hpp"
#include "models/compute/fp8.hpp"

namespace tw::models::reference {

// ---- all tensors as float64, rounded once when they are stored; inputs are read before outputs are written, so that
// every aliasing is safe ----
using Values = std::vector<double>;

/// Nearest bf16 or fp16, ties to even, without the double rounding that a detour over the nearest float would bring:
/// the float in between is rounded to odd, which keeps on which side of a tie the value lies.
inline float round_to_odd(double value) {
  const float narrow = static_cast<float>(value);
  const double back = narrow;
  if (back == value || std::isnan(value)) return narrow;
  auto bits = std::bit_cast<std::uint32_t>(narrow);
  if (std::fabs(back) > std::fabs(value)) bits -= 1;
  return std::bit_cast<float>(bits | 1u);
}
inline bf16 round_to_bf16(double value) { return to_bf16(round_to_odd(value)); }
inline fp16 round_to_fp16(double value) { return to_fp16(round_to_odd(value)); }

inline Values load(const Tensor& tensor) {
  Values values(static_cast<std::size_t>(tensor.count()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = float_at(tensor, static_cast<std::int64_t>(i));
  }
  return values;
}

inline void store(const Tensor& tensor, const Values& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (tensor.dtype == DType::bf16) {
      tensor.as<bf16>()[i] = round_to_bf16(values[i]);
    } else if (tensor.dtype == DType::fp16) {
      tensor.as<fp16>()[i] = round_to_fp16(values[i]);
    } else {
      tensor.as<float>()[i] = static_cast<float>(values[i]);
    }
  }
}

/// What the stored dtype keeps of `values`.
inline void round_to(DType dtype, Values& values) {
  for (double& value : values) {
    value = dtype == DType::bf16   ? to_float(round_to_bf16(value))
            : dtype == DType::fp16 ? to_float(round_to_fp16(value))
                                   : static_cast<float>(value);
  }
}

/// A float32 gradient: = or +=, rounded once.
inline void store_gradient(const Tensor& tensor, Values values, bool accumulate) {
  if (accumulate) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += tensor.as<float>()[i];
  }
  store(tensor, values);
}

class ReferenceDevice : public Device {
 public:
  explicit ReferenceDevice(int threads) : threads_(threads) {}
  ~ReferenceDevice() override;

  DeviceInfo info() const override;
  bool supports(Op, DType dtype) const override { return is_float(dtype); }
  using Device::why_unsupported;
  std::string why_unsupported(DType dtype) const override;
  std::string why_no_math(Math) const override { return {}; }
  int threads() const { return threads_; }

  void* allocate(std::size_t bytes) override;
  void free(void* data) noexcept override;
  void copy_from_host(Stream& stream, void* device_data, const void* host, std::size_t bytes) override {
    copy(stream, device_data, host, bytes);
  }
  void copy_to_host(Stream& stream, void* host, const void* device_data, std::size_t bytes) override {
    copy(stream, host, device_data, bytes);
  }
  void copy(Stream&, void* destination, const void* source, std::size_t bytes) override {
    std::memmove(destination, source, bytes);
  }
  std::size_t allocated_bytes() const override { return allocated_; }
  std::size_t peak_allocated_bytes() const override { return peak_; }
  void reset_peak_allocated_bytes() override { peak_ = allocated_; }
  std::unique_ptr<Stream> create_stream() override;
  std::unique_ptr<Event> create_event() override;

  std::unique_ptr<LinearPlan> plan(const LinearShape& shape) override;
  std::unique_ptr<ConvolutionPlan> plan(const ConvolutionShape& shape) override;
  std::unique_ptr<AttentionPlan> plan(const AttentionShape& shape) override;
  std::unique_ptr<ClassifierPlan> plan(const ClassifierShape& shape) override;

 protected:
#define TW_OPERATOR(op, name, Arguments) void do_##name(Stream&, const Arguments&) override;
#include "models/compute/operators.def"

 private:
  int threads_;
  std::unordered_map<void*, std::size_t> blocks_;
  std::size_t allocated_ = 0, peak_ = 0;
};

/// c(m, n) = a(m, k) · b(k, n), each element summed over k in ascending order (threads take whole rows).
Values product(const Values& a, const Values& b, std::int64_t m, std::int64_t n, std::int64_t k, int threads);
/// What a product with `math` takes of `values`: all, or with tf32 their first 10 fraction bits (rounded, ties away
/// from zero), with bf16 their first 7 (ties to even).
Values taken(Math math, Values values);
/// (rows, columns) → (columns, rows)
Values transposed(const Values& a, std::int64_t rows, std::int64_t columns);

/// A plan of this base. One with a weight keeps a float64 copy that only refresh() renews: a network that forgets to
/// refresh goes wrong here as it would on a device that packs its weights.
template <class Base, class Shape>
class ReferencePlan : public Base {
 public:
  ReferencePlan(ReferenceDevice& device, const Shape& shape) : Base(device, shape), threads_(device.threads()) {}
  std::size_t bytes() const override { return (weight_copy_.size() + transposed_.size()) * sizeof(double); }

 protected:
  int threads_;
  Values weight_copy_, transposed_;  // as the weight, and with its outputs last
};

class ReferenceLinear final : public ReferencePlan<LinearPlan, LinearShape> {
 public:
  using ReferencePlan::ReferencePlan;

 protected:
  void do_refresh(Stream&) override;
  void do_forward(Stream&, const LinearForward&) override;
  void do_backward_input(Stream&, const LinearBackwardInput&) override;
  void do_backward_weights(Stream&, const LinearBackwardWeights&) override;

 private:
  /// What the products take of x; with fp8 rounded under a scale that follows its calls but for those that say
  /// otherwise, and left in `left` too, where that is given.
  Values operand(const Tensor& x, Fp8Scale& scale, bool gradient, const Tensor& left = {}, bool follows = true) const;
  /// What another call has left, or x where nothing is rounded.
  Values taken_over(const Tensor& x, bool gradient) const;

  Fp8Scale weight_scale_, x_scale_, dy_scale_;
};

class ReferenceConvolution final : public ReferencePlan<ConvolutionPlan, ConvolutionShape> {
 public:
  using ReferencePlan::ReferencePlan;

 protected:
  void do_refresh(Stream&) override;
  void do_forward(Stream&, const ConvolutionForward&) override;
  void do_backward_input(Stream&, const ConvolutionBackwardInput&) override;
  void do_backward_weights(Stream&, const ConvolutionBackwardWeights&) override;
};

class ReferenceAttention final : public ReferencePlan<AttentionPlan, AttentionShape> {
 public:
  using ReferencePlan::ReferencePlan;

 protected:
  void do_forward(Stream&, const AttentionForward&) override;
  void do_backward(Stream&, const AttentionBackward&) override;
};

class ReferenceClassifier final : public ReferencePlan<ClassifierPlan, ClassifierShape> {
 public:
  using ReferencePlan::ReferencePlan;

 protected:
  void do_refresh(Stream&) override;
  void do_forward_backward(Stream&, const ClassifierForwardBackward&) override;
};

}  // namespace tw::models::reference
