#include "models/ledger/counting_device.hpp"

#include <cstdint>

#include "models/compute/host_stream.hpp"

namespace tw::models {
namespace {

std::string text(std::int64_t number) { return std::to_string(number); }
std::string shape_of(const LinearShape& s) {
  return text(s.rows) + " x " + text(s.in_features) + " -> " + text(s.out_features);
}
std::string shape_of(const ConvolutionShape& s) {
  return text(s.batch) + " x " + text(s.height) + " x " + text(s.width) + " x " + text(s.in_channels) + " -> " +
         text(s.out_channels) + ", kernel " + text(s.kernel) + ", stride " + text(s.stride);
}
std::string shape_of(const AttentionShape& s) {
  return text(s.batch) + " x " + text(s.seq) + " tokens, " + text(s.heads) + " heads of " + text(s.head_dim) +
         (s.group() > 1 ? ", " + text(s.key_heads()) + " of keys and values" : "");
}
std::string shape_of(const ClassifierShape& s) {
  return text(s.rows) + " x " + text(s.in_features) + " -> " + text(s.classes);
}

/// What an operator writes first, which is how large it is.
template <class Arguments>
std::string extents(const Arguments& a) {
  if constexpr (requires { a.d_token_table; })
    return a.dy.dims.str();
  else if constexpr (requires {
                       a.y;
                       a.x;
                     })
    return a.y.dims.str();
  else if constexpr (requires { a.dx; })
    return a.dx.dims.str();
  else if constexpr (requires { a.y; })
    return a.y.dims.str();
  else if constexpr (requires { a.master; })
    return a.master.dims.str();
  else if constexpr (requires { a.gradient; })
    return a.gradient.dims.str();
  else if constexpr (requires { a.x; })
    return a.x.dims.str();
  else if constexpr (requires { a.inputs; })
    return a.inputs.dims.str();
  else
    return {};
}

class CountingLinear final : public LinearPlan {
 public:
  CountingLinear(CountingDevice& device, const LinearShape& s) : LinearPlan(device, s), device_(device) {}

 protected:
  void do_refresh(Stream&) override {
    if (shape().math == Math::fp8) count(Op::refresh, rounded_weight(weight()));
  }
  void do_forward(Stream&, const LinearForward& a) override {
    count(Op::linear_forward, traffic(shape(), a, weight()));
  }
  void do_backward_input(Stream&, const LinearBackwardInput& a) override {
    count(Op::linear_backward_input, traffic(shape(), a, weight()));
  }
  void do_backward_weights(Stream&, const LinearBackwardWeights& a) override {
    count(Op::linear_backward_weights, traffic(shape(), a));
  }

 private:
  void count(Op op, const Traffic& traffic) { device_.count(op, shape().math, shape_of(shape()), traffic); }
  CountingDevice& device_;
};

class CountingConvolution final : public ConvolutionPlan {
 public:
  CountingConvolution(CountingDevice& device, const ConvolutionShape& s)
      : ConvolutionPlan(device, s), device_(device) {}

 protected:
  void do_forward(Stream&, const ConvolutionForward& a) override {
    count(Op::convolution_forward, traffic(shape(), a, weight()));
  }
  void do_backward_input(Stream&, const ConvolutionBackwardInput& a) override {
    count(Op::convolution_backward_input, traffic(shape(), a, weight()));
  }
  void do_backward_weights(Stream&, const ConvolutionBackwardWeights& a) override {
    count(Op::convolution_backward_weights, traffic(shape(), a));
  }

 private:
  void count(Op op, const Traffic& traffic) { device_.count(op, shape().math, shape_of(shape()), traffic); }
  CountingDevice& device_;
};

class CountingAttention final : public AttentionPlan {
 public:
  CountingAttention(CountingDevice& device, const AttentionShape& s) : AttentionPlan(device, s), device_(device) {}

 protected:
  void do_forward(Stream&, const AttentionForward& a) override { count(Op::attention_forward, traffic(shape(), a)); }
  void do_backward(Stream&, const AttentionBackward& a) override { count(Op::attention_backward, traffic(shape(), a)); }

 private:
  void count(Op op, const Traffic& traffic) { device_.count(op, shape().math, shape_of(shape()), traffic); }
  CountingDevice& device_;
};

class CountingClassifier final : public ClassifierPlan {
 public:
  CountingClassifier(CountingDevice& device, const ClassifierShape& s) : ClassifierPlan(device, s), device_(device) {}

 protected:
  void do_forward_backward(Stream&, const ClassifierForwardBackward& a) override {
    device_.count(Op::classifier, shape().math, shape_of(shape()), traffic(shape(), a, weight()));
  }

 private:
  CountingDevice& device_;
};

}  // namespace

DeviceInfo CountingDevice::info() const {
  DeviceInfo info;
  info.name = "ledger";
  return info;
}

void* CountingDevice::allocate(std::size_t bytes) {
  constexpr std::size_t first = std::size_t{1} << 40, alignment = 256;
  void* const address = reinterpret_cast<void*>(first + allocated_);
  allocated_ += (bytes + alignment) / alignment * alignment;
  return address;
}

void CountingDevice::copy(Stream&, void*, const void*, std::size_t bytes) {
  const auto moved_bytes = static_cast<double>(bytes);
  count(Op::copy, Math::standard, std::to_string(bytes) + " bytes", {moved_bytes, moved_bytes, 0});
}

std::unique_ptr<Stream> CountingDevice::create_stream() { return std::make_unique<HostStream>(); }
std::unique_ptr<Event> CountingDevice::create_event() { return std::make_unique<HostEvent>(); }

std::unique_ptr<LinearPlan> CountingDevice::plan(const LinearShape& shape) {
  return std::make_unique<CountingLinear>(*this, shape);
}
std::unique_ptr<ConvolutionPlan> CountingDevice::plan(const ConvolutionShape& shape) {
  return std::make_unique<CountingConvolution>(*this, shape);
}
std::unique_ptr<AttentionPlan> CountingDevice::plan(const AttentionShape& shape) {
  return std::make_unique<CountingAttention>(*this, shape);
}
std::unique_ptr<ClassifierPlan> CountingDevice::plan(const ClassifierShape& shape) {
  return std::make_unique<CountingClassifier>(*this, shape);
}

void CountingDevice::count(Op op, Math math, const std::string& shape, const Traffic& traffic) {
  const auto [place, is_new] = row_of_.try_emplace({op, shape}, rows_.size());
  if (is_new) rows_.push_back({.op = op, .shape = shape, .math = math});
  LedgerRow& row = rows_[place->second];
  row.calls += times_;
  row.flops += times_ * traffic.flops;
  row.read += times_ * traffic.read;
  row.written += times_ * traffic.written;
}

#define TW_OPERATOR(op, name, Arguments)                           \
  void CountingDevice::do_##name(Stream&, const Arguments& args) { \
    count(Op::op, Math::standard, extents(args), traffic(args));   \
  }
#include "models/compute/operators.def"

}  // namespace tw::models
