// Names of parameters are NAME.weight and NAME.bias, as PyTorch calls those of its layers. Linear layers start as
// normal(0, 1/sqrt(inputs)) (LeCun et al. 1998), convolutions as normal(0, sqrt(2/inputs)) (He et al., arXiv
// 1502.01852, fan-in), tables and losses as normal(0, 0.02) (GPT-2), biases at 0, norms at 1 and 0. Weight decay is for
// matrices, kernels and tables.
#include "models/families/custom/work.hpp"

#include <cmath>
#include <map>

#include "models/layers/blocks.hpp"

namespace tw::models::family::custom {
namespace {

using Kind = Operation::Kind;

PerAxis of(const Product::PerAxis& both) { return {both.height, both.width}; }

/// With what all of them know.
class Known : public Work {
 public:
  Known(const CustomDescription& network, const Operation& operation, const Batch& batch)
      : o_(operation), in_(network.in(operation)), batch_(batch) {}
  void build(Device& device, std::vector<Parameter> own, std::vector<Tensor> statistics) override {
    device_ = &device;
    own_ = std::move(own);
    statistics_ = std::move(statistics);
    build_plans(device);
  }

 protected:
  virtual void build_plans(Device&) {}
  ParameterSpec matrix(const char* suffix, Dims dims, double stddev) const {
    return {o_.name + suffix, dims, normal(stddev), true, false, ParameterSpec::Export::as_is};
  }
  ParameterSpec vector_of(const char* suffix, float value, bool keep_float32 = false) const {
    return {o_.name + suffix, {o_.out.channels}, constant(value), false, keep_float32, ParameterSpec::Export::as_is};
  }
  const Tensor& weight(std::size_t index) const { return own_[index].weight; }
  const Tensor& gradient(std::size_t index) const { return own_[index].gradient; }
  Tensor bias(std::size_t index) const { return o_.bias ? own_[index].weight : Tensor{}; }
  Tensor bias_gradient(std::size_t index) const { return o_.bias ? own_[index].gradient : Tensor{}; }
  std::int64_t rows() const { return Dims{batch_.samples, in_.positions(batch_.seq_len)}.count(); }
  DType dtype() const { return batch_.dtype(); }

  Operation o_;
  Extent in_;
  Batch batch_;
  Device* device_ = nullptr;
  std::vector<Parameter> own_;
  std::vector<Tensor> statistics_;
};

class Embedding final : public Known {
 public:
  using Known::Known;
  std::vector<ParameterSpec> parameters() const override {
    std::vector<ParameterSpec> specs = {table(".weight", o_.rows)};
    if (o_.positions > 0) specs.push_back(table(".positions", o_.positions));
    return specs;
  }
  void forward(BlockRun& run, const Values& v) override {
    device_->embedding_forward(run.stream, {v.in[0], weight(0), o_.positions > 0 ? weight(1) : Tensor{}, v.out});
  }
  void backward(BlockRun& run, const Values& v, const Tensor& d_out, const std::vector<Tensor>&) override {
    if (!run.accumulate) device_->fill(run.stream, {gradient(0), 0});
    device_->embedding_backward(
        run.stream, {v.in[0], d_out, gradient(0), o_.positions > 0 ? gradient(1) : Tensor{}, run.accumulate});
  }

 private:
  ParameterSpec table(const char* suffix, std::int64_t count) const {
    ParameterSpec spec = matrix(suffix, {count, o_.out.channels}, 0.02);
    spec.looked_up = true;
    return spec;
  }
};

class Linear final : public Known {
 public:
  using Known::Known;
  std::vector<ParameterSpec> parameters() const override {
    std::vector<ParameterSpec> specs = {
        matrix(".weight", {o_.out.channels, in_.channels}, 1 / std::sqrt(static_cast<double>(in_.channels)))};
    if (o_.bias) specs.push_back(vector_of(".bias", 0));
    return specs;
  }
  std::vector<ActivationSpec> saved() const override {
    std::vector<ActivationSpec> specs;
    save_rounded(specs, o_.name + ".input", shape());
    return specs;
  }
  std::vector<LinearShape> layers() const override { return {shape()}; }
  std::vector<NamedPlan> plans() const override { return {{"linear", plan_}}; }
  void forward(BlockRun& run, const Values& v) override {
    plan_->forward(run.stream, {rows_of(v.in[0]), bias(1), {}, {}, rows_of(v.out), run.update_statistics, rounded(v)});
  }
  void backward(BlockRun& run, const Values& v, const Tensor& d_out, const std::vector<Tensor>& d_in) override {
    const Tensor left = rounded(v);
    const Tensor operand =
        weights_backward(run, *plan_, left ? left : rows_of(v.in[0]), rows_of(d_out), gradient(0), bias_gradient(1));
    if (d_in[0]) plan_->backward_input(run.stream, {operand, {}, rows_of(d_in[0])});
  }

 private:
  LinearShape shape() const {
    return {rows(), in_.channels, o_.out.channels, dtype(), Activation::none, math(batch_.precision)};
  }
  /// In fp8, of saved().
  Tensor rounded(const Values& v) const { return shape().math == Math::fp8 ? v.saved[0] : Tensor{}; }
  void build_plans(Device& device) override {
    plan_ = device.plan(shape());
    plan_->bind(weight(0));
  }
  std::shared_ptr<LinearPlan> plan_;
};

/// A transposed one is the convolution of its output, run backwards.
class Convolution final : public Known {
 public:
  using Known::Known;
  std::vector<ParameterSpec> parameters() const override {
    const ConvolutionShape s = shape();
    const auto inputs = static_cast<double>(in_.channels / o_.groups * o_.kernel.area());
    ParameterSpec kernel = matrix(".weight", s.weight(), std::sqrt(2 / inputs));
    kernel.export_layout = ParameterSpec::Export::nhwc_to_nchw;
    if (!o_.bias) return {kernel};
    return {kernel, vector_of(".bias", 0)};
  }
  std::vector<NamedPlan> plans() const override { return {{"convolution", plan_}}; }
  void forward(BlockRun& run, const Values& v) override {
    if (is_plain())
      plan_->forward(run.stream, {v.in[0], v.out});
    else
      plan_->backward_input(run.stream, {v.in[0], v.out});
    if (o_.bias) device_->add_bias(run.stream, {v.out, v.out, bias(1)});
  }
  void backward(BlockRun& run, const Values& v, const Tensor& d_out, const std::vector<Tensor>& d_in) override {
    const Tensor &x = is_plain() ? v.in[0] : d_out, &dy = is_plain() ? d_out : v.in[0];
    plan_->backward_weights(run.stream, {x, dy, gradient(0), run.accumulate});
    if (o_.bias) device_->bias_backward(run.stream, {d_out, bias_gradient(1), run.accumulate});
    if (!d_in[0]) return;
    if (is_plain())
      plan_->backward_input(run.stream, {d_out, d_in[0]});
    else
      plan_->forward(run.stream, {d_out, d_in[0]});
  }

 private:
  bool is_plain() const { return o_.kind == Kind::convolution; }
  ConvolutionShape shape() const {
    const Extent &large = is_plain() ? in_ : o_.out, &small = is_plain() ? o_.out : in_;
    ConvolutionShape s;
    s.batch = batch_.samples, s.height = large.height, s.width = large.width;
    s.in_channels = large.channels, s.out_channels = small.channels;
    s.kernel = of(o_.kernel), s.stride = of(o_.stride), s.padding = of(o_.padding), s.groups = o_.groups;
    s.dtype = dtype(), s.math = math_beside_linear(batch_.precision);
    return s;
  }
  void build_plans(Device& device) override {
    plan_ = device.plan(shape());
    plan_->bind(weight(0));
  }
  std::shared_ptr<ConvolutionPlan> plan_;
};

/// The sum over windows that neither overlap nor leave gaps, backwards.
class Upsample final : public Known {
 public:
  using Known::Known;
  void forward(BlockRun& run, const Values& v) override {
    device_->average_pool_backward(run.stream, {v.in[0], v.out, factor(), factor(), 0, true});
  }
  void backward(BlockRun& run, const Values&, const Tensor& d_out, const std::vector<Tensor>& d_in) override {
    if (d_in[0]) device_->average_pool_forward(run.stream, {d_out, d_in[0], factor(), factor(), 0, true});
  }

 private:
  PerAxis factor() const { return of(o_.kernel); }
};

class BatchNorm final : public Known {
 public:
  using Known::Known;
  std::vector<ParameterSpec> parameters() const override {
    return {vector_of(".weight", 1, true), vector_of(".bias", 0, true)};
  }
  std::vector<ParameterSpec> statistics() const override {
    return {vector_of(".running_mean", 0, true), vector_of(".running_var", 1, true)};
  }
  std::vector<ActivationSpec> saved() const override {
    return {{o_.name + ".mean", {o_.out.channels}, DType::float32},
            {o_.name + ".rstd", {o_.out.channels}, DType::float32}};
  }
  void forward(BlockRun& run, const Values& v) override {
    const Tensor none;
    const Tensor &mean = run.update_statistics ? statistics_[0] : none,
                 &variance = run.update_statistics ? statistics_[1] : none;
    device_->batch_norm_forward(run.stream, {image_of(v.in[0]), weight(0), weight(1), mean, variance, norm_momentum,
                                             o_.epsilon, none, o_.relu, image_of(v.out), v.saved[0], v.saved[1]});
  }
  void backward(BlockRun& run, const Values& v, const Tensor& d_out, const std::vector<Tensor>& d_in) override {
    BatchNormBackward args;
    args.dy = image_of(d_out), args.x = image_of(v.in[0]);
    args.gamma = weight(0), args.beta = weight(1), args.mean = v.saved[0], args.rstd = v.saved[1];
    args.relu = o_.relu;
    args.dx = image_of(d_in[0]), args.d_gamma = gradient(0), args.d_beta = gradient(1);
    args.accumulate = run.accumulate;
    device_->batch_norm_backward(run.stream, args);
  }
  bool always_writes() const override { return true; }
};

class RowNorm final : public Known {
 public:
  using Known::Known;
  std::vector<ParameterSpec> parameters() const override {
    std::vector<ParameterSpec> specs = {vector_of(".weight", 1)};
    if (is_layer()) specs.push_back(vector_of(".bias", 0));
    return specs;
  }
  std::vector<ActivationSpec> saved() const override {
    std::vector<ActivationSpec> specs = {{o_.name + ".rstd", {rows()}, DType::float32}};
    if (is_layer()) specs.push_back({o_.name + ".mean", {rows()}, DType::float32});
    return specs;
  }
  void forward(BlockRun& run, const Values& v) override {
    const Tensor x = rows_of(v.in[0]), y = rows_of(v.out), none;
    if (is_layer())
      device_->layer_norm_forward(run.stream,
                                  {x, none, none, weight(0), weight(1), o_.epsilon, y, v.saved[1], v.saved[0]});
    else
      device_->rms_norm_forward(run.stream, {x, none, none, weight(0), o_.epsilon, y, v.saved[0]});
  }
  void backward(BlockRun& run, const Values& v, const Tensor& d_out, const std::vector<Tensor>& d_in) override {
    const Tensor x = rows_of(v.in[0]), dy = rows_of(d_out), dx = rows_of(d_in[0]), none;
    if (is_layer())
      device_->layer_norm_backward(
          run.stream, {dy, x, weight(0), v.saved[1], v.saved[0], none, dx, gradient(0), gradient(1), run.accumulate});
    else
      device_->rms_norm_backward(run.stream, {dy, x, weight(0), v.saved[0], none, dx, gradient(0), run.accumulate});
  }
  bool always_writes() const override { return true; }

 private:
  bool is_layer() const { return o_.kind == Kind::layer_norm; }
};

class ActivationWork final : public Known {
 public:
  using Known::Known;
  void forward(BlockRun& run, const Values& v) override {
    device_->activation_forward(run.stream, {v.in[0], v.out, function()});
  }
  void backward(BlockRun& run, const Values& v, const Tensor& d_out, const std::vector<Tensor>& d_in) override {
    if (d_in[0]) device_->activation_backward(run.stream, {d_out, v.in[0], d_in[0], function()});
  }

 private:
  Activation function() const {
    using enum Operation::Function;
    return o_.function == relu ? Activation::relu : o_.function == tanh ? Activation::tanh : Activation::gelu_erf;
  }
};

class Swiglu final : public Known {
 public:
  using Known::Known;
  void forward(BlockRun& run, const Values& v) override {
    device_->swiglu_forward(run.stream, {rows_of(v.in[0]), rows_of(v.out)});
  }
  void backward(BlockRun& run, const Values& v, const Tensor& d_out, const std::vector<Tensor>& d_in) override {
    if (d_in[0]) device_->swiglu_backward(run.stream, {rows_of(v.in[0]), rows_of(d_out), rows_of(d_in[0])});
  }
};

class MaxPool final : public Known {
 public:
  using Known::Known;
  std::vector<ActivationSpec> saved() const override {
    return {{"argmax." + o_.name, batch_.dims(o_.out), DType::int32}};
  }
  void forward(BlockRun& run, const Values& v) override {
    device_->max_pool_forward(run.stream, {v.in[0], of(o_.kernel), of(o_.stride), of(o_.padding), v.out, v.saved[0]});
  }
  void backward(BlockRun& run, const Values& v, const Tensor& d_out, const std::vector<Tensor>& d_in) override {
    if (d_in[0])
      device_->max_pool_backward(run.stream,
                                 {d_out, v.saved[0], of(o_.kernel), of(o_.stride), of(o_.padding), d_in[0]});
  }
};

class AveragePool final : public Known {
 public:
  using Known::Known;
  void forward(BlockRun& run, const Values& v) override {
    device_->average_pool_forward(run.stream, {image(v.in[0]), v.out, kernel(), of(o_.stride), of(o_.padding)});
  }
  void backward(BlockRun& run, const Values&, const Tensor& d_out, const std::vector<Tensor>& d_in) override {
    if (d_in[0])
      device_->average_pool_backward(run.stream, {d_out, image(d_in[0]), kernel(), of(o_.stride), of(o_.padding)});
  }

 private:
  /// A global one also takes sequences.
  bool is_global() const { return o_.kind == Kind::global_average_pool; }
  Tensor image(const Tensor& values) const { return is_global() ? image_of(values) : values; }
  PerAxis kernel() const { return is_global() ? PerAxis(0) : of(o_.kernel); }
};

class Attention final : public Known {
 public:
  using Known::Known;
  std::vector<ActivationSpec> saved() const override {
    return {{o_.name + ".log_sum_exp", shape().row_values(), DType::float32}};
  }
  std::vector<NamedPlan> plans() const override { return {{"attention", plan_}}; }
  void forward(BlockRun& run, const Values& v) override {
    plan_->forward(run.stream, {packed(v.in[0]), unpacked(v.out), v.saved[0]});
  }
  void backward(BlockRun& run, const Values& v, const Tensor& d_out, const std::vector<Tensor>& d_in) override {
    if (d_in[0])
      plan_->backward(run.stream, {unpacked(d_out), packed(v.in[0]), unpacked(v.out), v.saved[0], packed(d_in[0])});
  }

 private:
  AttentionShape shape() const {
    return {batch_.samples, in_.positions(batch_.seq_len),        o_.heads,   o_.out.channels / o_.heads, o_.causal,
            dtype(),        math_beside_linear(batch_.precision), o_.kv_heads};
  }
  Tensor packed(const Tensor& t) const { return t.reshaped(shape().packed()); }
  Tensor unpacked(const Tensor& t) const { return t.reshaped(shape().unpacked()); }
  void build_plans(Device& device) override { plan_ = device.plan(shape()); }
  std::shared_ptr<AttentionPlan> plan_;
};

class AddWork final : public Known {
 public:
  using Known::Known;
  void forward(BlockRun& run, const Values& v) override { device_->add(run.stream, {v.in[0], v.in[1], v.out}); }
  void backward(BlockRun& run, const Values&, const Tensor& d_out, const std::vector<Tensor>& d_in) override {
    for (const Tensor& d : d_in)
      if (d) device_->copy(run.stream, d.data, d_out.data, d_out.bytes());
  }
};

class Concatenation final : public Known {
 public:
  using Known::Known;
  void forward(BlockRun& run, const Values& v) override {
    std::int64_t to = 0;
    for (const Tensor& x : v.in) {
      const std::int64_t count = x.dims[x.dims.rank() - 1];
      device_->copy_channels(run.stream, {x, v.out, 0, to, count});
      to += count;
    }
  }
  void backward(BlockRun& run, const Values& v, const Tensor& d_out, const std::vector<Tensor>& d_in) override {
    std::int64_t from = 0;
    for (std::size_t i = 0; i < d_in.size(); ++i) {
      const std::int64_t count = v.in[i].dims[v.in[i].dims.rank() - 1];
      if (d_in[i]) device_->copy_channels(run.stream, {d_out, d_in[i], from, 0, count});
      from += count;
    }
  }
};

class Loss final : public Known {
 public:
  using Known::Known;
  std::vector<ParameterSpec> parameters() const override {
    std::vector<ParameterSpec> specs = {of_head(matrix(".weight", {o_.out.channels, in_.channels}, 0.02))};
    if (o_.bias) specs.push_back(vector_of(".bias", 0));
    return specs;
  }
  std::vector<NamedPlan> plans() const override { return {{"classifier", plan_}}; }
  void forward(BlockRun& run, const Values& v) override {
    if (!run.backward_follows) classify(run, *plan_, rows_of(v.in[0]), bias(1), {});
  }
  void backward(BlockRun& run, const Values& v, const Tensor&, const std::vector<Tensor>& d_in) override {
    classify(run, *plan_, rows_of(v.in[0]), bias(1), {rows_of(d_in[0]), gradient(0), bias_gradient(1)});
  }
  bool always_writes() const override { return true; }

 private:
  void build_plans(Device& device) override {
    plan_ = device.plan(ClassifierShape{rows(), in_.channels, o_.out.channels, o_.label_smoothing, dtype(),
                                        math_beside_linear(batch_.precision), 1, own_[0].spec.reserved_rows});
    plan_->bind(weight(0));
  }
  std::shared_ptr<ClassifierPlan> plan_;
};

class SquaredError final : public Known {
 public:
  using Known::Known;
  void forward(BlockRun& run, const Values& v) override {
    if (!run.backward_follows) compare(run, v, {});
  }
  void backward(BlockRun& run, const Values& v, const Tensor&, const std::vector<Tensor>& d_in) override {
    compare(run, v, d_in[0]);
  }

 private:
  void compare(BlockRun& run, const Values& v, const Tensor& gradient) {
    device_->mean_squared_error(run.stream, {v.in[0], run.targets, run.loss, gradient, run.scalars});
  }
};

}  // namespace

Dims Batch::dims(const Extent& extent) const {
  if (extent.kind == Extent::Kind::vector) return {samples, extent.channels};
  if (extent.kind == Extent::Kind::sequence) return {samples, seq_len, extent.channels};
  return {samples, extent.height, extent.width, extent.channels};
}

Tensor rows_of(const Tensor& values) {
  const std::int64_t channels = values.dims[values.dims.rank() - 1];
  return values.reshaped({values.count() / channels, channels});
}

Tensor image_of(const Tensor& values) {
  const Dims& d = values.dims;
  if (d.rank() == 4) return values;
  return values.reshaped({d[0], 1, d.rank() == 3 ? d[1] : 1, d[d.rank() - 1]});
}

namespace {
template <class T>
std::unique_ptr<Work> make(const CustomDescription& network, const Operation& operation, const Batch& batch) {
  return std::make_unique<T>(network, operation, batch);
}
}  // namespace

std::unique_ptr<Work> make_work(const CustomDescription& network, int place, const Batch& batch) {
  using enum Operation::Kind;
  using Make = std::unique_ptr<Work> (*)(const CustomDescription&, const Operation&, const Batch&);
  static const std::map<Kind, Make> makers = {{embedding, make<Embedding>},
                                              {linear, make<Linear>},
                                              {convolution, make<Convolution>},
                                              {transposed_convolution, make<Convolution>},
                                              {upsample, make<Upsample>},
                                              {batch_norm, make<BatchNorm>},
                                              {layer_norm, make<RowNorm>},
                                              {rms_norm, make<RowNorm>},
                                              {activation, make<ActivationWork>},
                                              {swiglu, make<Swiglu>},
                                              {max_pool, make<MaxPool>},
                                              {average_pool, make<AveragePool>},
                                              {global_average_pool, make<AveragePool>},
                                              {concatenation, make<Concatenation>},
                                              {attention, make<Attention>},
                                              {add, make<AddWork>},
                                              {loss, make<Loss>},
                                              {squared_error, make<SquaredError>}};
  const Operation& operation = network.operations[static_cast<std::size_t>(place)];
  return makers.at(operation.kind)(network, operation, batch);
}

}  // namespace tw::models::family::custom
