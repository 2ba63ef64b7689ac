#include "models/ledger/ledger.hpp"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "models/compute/device.hpp"
#include "models/compute/host_stream.hpp"
#include "models/data/synthetic_data.hpp"
#include "models/families/build_blocks.hpp"
#include "models/ledger/traffic.hpp"
#include "models/network/executor.hpp"
#include "models/network/parameters.hpp"
#include "models/optimizers/optimizer.hpp"

namespace tw::models {
namespace {

std::string text(std::int64_t number) { return std::to_string(number); }
std::string shape_of(const LinearShape& s) {
  return text(s.rows) + " x " + text(s.in_features) + " -> " + text(s.out_features);
}
std::string shape_of(const ConvolutionShape& s) {
  return text(s.batch) + " x " + text(s.height) + " x " + text(s.width) + " x " + text(s.in_channels) + " -> " +
         text(s.out_channels) + ", kernel " + s.kernel.str() + ", stride " + s.stride.str() +
         (s.groups > 1 ? ", " + text(s.groups) + " groups" : "");
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
  if constexpr (requires { a.rounded; })
    if (a.rounded && !a.y) return Dims{a.x.dims[0], a.rounded.straight.count() / a.x.dims[0]}.str();
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
  else if constexpr (requires { a.logits; })
    return a.logits.dims.str();
  else if constexpr (requires { a.predictions; })
    return a.predictions.dims.str();
  else if constexpr (requires { a.dy; })
    return a.dy.dims.str();
  else if constexpr (requires { a.inputs; })
    return a.inputs.dims.str();
  else
    return {};
}

/// Adds up what is counted.
class Tally {
 public:
  /// How often each call from here on counts.
  void repeat(double times) { times_ = times; }
  void count(Op op, Math math, const std::string& shape, const Traffic& traffic, const char* kernel = "") {
    const auto [place, is_new] = row_of_.try_emplace({op, kernel, shape}, rows_.size());
    if (is_new) rows_.push_back({.op = op, .kernel = kernel, .shape = shape, .math = math});
    LedgerRow& row = rows_[place->second];
    row.calls += times_;
    row.flops += times_ * traffic.flops;
    row.read += times_ * traffic.read;
    row.written += times_ * traffic.written;
  }
  /// Forgets all calls so far.
  void clear() { rows_.clear(), row_of_.clear(); }
  const std::vector<LedgerRow>& rows() const { return rows_; }

 private:
  std::vector<LedgerRow> rows_;
  std::map<std::tuple<Op, std::string, std::string>, std::size_t> row_of_;  // kernel, shape
  double times_ = 1;
};

/// A plan of this base, whose passes are counted.
template <class Base, class Shape>
class Counting : public Base {
 public:
  Counting(Device& device, Tally& tally, const Shape& s) : Base(device, s), tally_(tally) {}

 protected:
  void count(Op op, const Traffic& traffic) { tally_.count(op, this->shape().math, shape_of(this->shape()), traffic); }
  /// A pass with these arguments.
  void pass(Op op, const auto& a) {
    [[maybe_unused]] const auto count_kernels = [&](const Kernels& all) {
      for (const Kernel& one : all)
        tally_.count(op, this->shape().math, shape_of(this->shape()), one.traffic, one.name);
    };
    if constexpr (requires { kernels(this->shape(), a, this->weight()); })
      count_kernels(kernels(this->shape(), a, this->weight()));
    else if constexpr (requires { kernels(this->shape(), a); })
      count_kernels(kernels(this->shape(), a));
    else if constexpr (requires { traffic(this->shape(), a, this->weight()); })
      count(op, traffic(this->shape(), a, this->weight()));
    else
      count(op, traffic(this->shape(), a));
  }

 private:
  Tally& tally_;
};

class CountingLinear final : public Counting<LinearPlan, LinearShape> {
 public:
  using Counting::Counting;

 protected:
  /// As in a step that is not the first; nobody may read or write there. Of extents that no device takes, nothing.
  Fp8Scale* do_round_ahead(Stream&, bool) override {
    const bool fits = shape().rows % 16 == 0 && shape().in_features % 16 == 0;
    return fits ? reinterpret_cast<Fp8Scale*>(std::size_t{256}) : nullptr;
  }
  void do_refresh(Stream&) override {
    if (shape().math == Math::fp8) count(Op::refresh, rounded_weight(weight()));
  }
  void do_forward(Stream&, const LinearForward& a) override { pass(Op::linear_forward, a); }
  void do_backward_input(Stream&, const LinearBackwardInput& a) override { pass(Op::linear_backward_input, a); }
  void do_backward_weights(Stream&, const LinearBackwardWeights& a) override { pass(Op::linear_backward_weights, a); }
};

class CountingConvolution final : public Counting<ConvolutionPlan, ConvolutionShape> {
 public:
  using Counting::Counting;

 protected:
  void do_forward(Stream&, const ConvolutionForward& a) override { pass(Op::convolution_forward, a); }
  void do_backward_input(Stream&, const ConvolutionBackwardInput& a) override {
    pass(Op::convolution_backward_input, a);
  }
  void do_backward_weights(Stream&, const ConvolutionBackwardWeights& a) override {
    pass(Op::convolution_backward_weights, a);
  }
};

class CountingAttention final : public Counting<AttentionPlan, AttentionShape> {
 public:
  using Counting::Counting;

 protected:
  void do_forward(Stream&, const AttentionForward& a) override { pass(Op::attention_forward, a); }
  void do_backward(Stream&, const AttentionBackward& a) override { pass(Op::attention_backward, a); }
};

class CountingClassifier final : public Counting<ClassifierPlan, ClassifierShape> {
 public:
  using Counting::Counting;

 protected:
  void do_forward_backward(Stream&, const ClassifierForwardBackward& a) override { pass(Op::classifier, a); }
};

/// A device that computes nothing and has no memory: it counts what each operator would compute and move.
class CountingDevice final : public Device {
 public:
  explicit CountingDevice(Tally& tally) : tally_(tally) {}
  DeviceInfo info() const override {
    DeviceInfo info;
    info.name = "ledger";
    return info;
  }
  bool supports(Op, DType dtype) const override { return is_float(dtype); }
  using Device::why_unsupported;
  std::string why_unsupported(DType) const override { return {}; }
  std::string why_no_math(Math) const override { return {}; }
  bool rounds_ahead() const override { return true; }

  /// Addresses that nobody may read or write.
  void* allocate(std::size_t bytes) override {
    constexpr std::size_t first = std::size_t{1} << 40, alignment = 256;
    void* const address = reinterpret_cast<void*>(first + allocated_);
    allocated_ += (bytes + alignment) / alignment * alignment;
    return address;
  }
  void free(void*) noexcept override {}
  void copy_from_host(Stream&, void*, const void*, std::size_t) override {}
  void copy_to_host(Stream&, void*, const void*, std::size_t) override {}
  void copy(Stream&, void*, const void*, std::size_t bytes) override {
    const auto moved_bytes = static_cast<double>(bytes);
    tally_.count(Op::copy, Math::standard, std::to_string(bytes) + " bytes", {moved_bytes, moved_bytes, 0});
  }
  std::size_t allocated_bytes() const override { return allocated_; }
  std::size_t peak_allocated_bytes() const override { return allocated_; }
  void reset_peak_allocated_bytes() override {}
  std::unique_ptr<Stream> create_stream() override { return std::make_unique<HostStream>(); }
  std::unique_ptr<Event> create_event() override { return std::make_unique<HostEvent>(); }
  std::unique_ptr<LinearPlan> plan(const LinearShape& shape) override {
    keep(shapes_.linear, shape);
    return std::make_unique<CountingLinear>(*this, tally_, shape);
  }
  std::unique_ptr<ConvolutionPlan> plan(const ConvolutionShape& shape) override {
    keep(shapes_.convolution, shape);
    return std::make_unique<CountingConvolution>(*this, tally_, shape);
  }
  std::unique_ptr<AttentionPlan> plan(const AttentionShape& shape) override {
    keep(shapes_.attention, shape);
    return std::make_unique<CountingAttention>(*this, tally_, shape);
  }
  std::unique_ptr<ClassifierPlan> plan(const ClassifierShape& shape) override {
    keep(shapes_.classifier, shape);
    return std::make_unique<CountingClassifier>(*this, tally_, shape);
  }
  const PlannedShapes& shapes() const { return shapes_; }

 protected:
#define TW_OPERATOR(op, name, Arguments)                                \
  void do_##name(Stream&, const Arguments& args) override {             \
    tally_.count(Op::op, Math::standard, extents(args), traffic(args)); \
  }
#include "models/compute/operators.def"

 private:
  template <class Shape>
  static void keep(std::vector<Shape>& list, const Shape& shape) {
    if (std::ranges::find(list, shape) == list.end()) list.push_back(shape);
  }

  Tally& tally_;
  std::size_t allocated_ = 0;
  PlannedShapes shapes_;
};

}  // namespace

std::vector<LedgerRow> ledger(const LedgerStep& step) {
  const auto& [network, precision, micro_batch, seq_len, accumulate] = step;
  Tally tally;
  CountingDevice device(tally);
  const std::unique_ptr<Stream> stream = device.create_stream();
  auto blocks = build_blocks(network, precision, micro_batch, seq_len);
  const std::int64_t kept = std::min<std::int64_t>(accumulate, 2);  // micro-batches that are run
  for (const auto& block : blocks) block->use_tables({.accumulate = kept});
  const ParameterStore store(device, storage(precision), blocks);
  Optimizer optimizer(device, default_optimizer(network), store, scales_loss(precision), 1);
  store.build(blocks);
  Executor executor(device, *stream, blocks, {});

  MicroBatch batch;
  batch.inputs = SyntheticData::inputs_shape(network, storage(precision), micro_batch, seq_len);
  batch.targets = SyntheticData::targets_shape(network, micro_batch, seq_len);
  batch.loss = {nullptr, DType::float32, {1}};
  batch.correct = {nullptr, DType::int32, {1}};
  for (Tensor* tensor : {&batch.inputs, &batch.targets, &batch.loss, &batch.correct})
    tensor->data = device.allocate(tensor->bytes());
  if (scales_loss(precision)) batch.scalars = optimizer.device_scalars();

  executor.refresh();  // that a step begins with them is what the last one left
  tally.clear();
  for (const bool is_first : {true, false}) {
    if (!is_first && accumulate == 1) break;
    tally.repeat(is_first ? 1 : static_cast<double>(accumulate - 1));
    batch.accumulate = !is_first;
    executor.forward(batch);
    executor.backward(batch, {});
  }
  tally.repeat(1);
  optimizer.update(*stream);
  tally.repeat(static_cast<double>(accumulate) / static_cast<double>(kept));
  for (const auto& block : blocks) block->update_tables(*stream, store.table_rows(), optimizer.device_scalars());
  tally.repeat(1);
  optimizer.update_loss_scale(*stream);
  executor.refresh();
  return tally.rows();
}

PlannedShapes planned_shapes(const LedgerStep& step) {
  Tally tally;
  CountingDevice device(tally);
  auto blocks = build_blocks(step.network, step.precision, step.micro_batch, step.seq_len);
  for (const auto& block : blocks) block->use_tables({.accumulate = 1});
  const ParameterStore store(device, storage(step.precision), blocks);
  store.build(blocks);
  return device.shapes();
}

}  // namespace tw::models
