// Inception-v3 (Szegedy et al., arXiv 1512.00567): stem, modules, head, and the auxiliary head beside the first module
// behind it. Names are torchvision's. All convolutions start as normal(0, 0.1), the auxiliary head's second one as
// normal(0, 0.01), the classifiers as normal(0, 0.1) and normal(0, 0.001) with biases 0 (the authors' code, TensorFlow
// models; torchvision truncates at 20 deviations and forgets the 0.01), batch norms at 1 and 0. Weight decay on
// convolutions and the classifiers' weights only. There is no dropout, as in the other networks. Batch norm runs on the
// statistics of the micro-batch, in evaluation too.
#include <algorithm>

#include "models/compute/error.hpp"
#include "models/families/build_blocks.hpp"
#include "models/families/inception/auxiliary_head.hpp"

namespace tw::models::family::inception {
namespace {

// Convolutions one behind the other, with a max pool behind some.
class Stem final : public ConvolutionBlock {
 public:
  Stem(const Sizes& sizes, const Layout& all) : sizes_(sizes), units_(all.stem), pools_(all.stem_pools) {
    for (const Unit& unit : units_) layers_.add(layer_of(sizes, unit, ""));
  }
  std::string name() const override { return "stem"; }
  ActivationSpec output() const override { return {"stem", after(units_.size() - 1), sizes_.dtype()}; }
  std::vector<ActivationSpec> saved() const override {
    std::vector<ActivationSpec> specs = layers_.saved();
    for (std::size_t i = 0; i < units_.size(); ++i) {
      if (!is_last(i) || pools_[i]) specs.push_back({"relu." + units_[i].name, layers_[i].output(), sizes_.dtype()});
      if (!pools_[i]) continue;
      specs.push_back({"argmax." + units_[i].name, after(i), DType::int32});
      if (!is_last(i)) specs.push_back({"pooled." + units_[i].name, after(i), sizes_.dtype()});
    }
    return specs;
  }
  std::vector<ActivationSpec> scratch() const override {
    std::vector<ActivationSpec> specs;  // the gradients of what saved() has
    for (std::size_t i = 0; i < units_.size(); ++i) {
      if (!is_last(i) || pools_[i]) specs.push_back({"d_relu", layers_[i].output(), sizes_.dtype()});
      if (pools_[i] && !is_last(i)) specs.push_back({"d_pooled", after(i), sizes_.dtype()});
    }
    return specs;
  }
  void forward(BlockRun& run, Tensor, Tensor y) override {
    Tensor x = run.tokens_or_images;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      const Places at = places(run, i, y, {});
      layers_[i].forward(run, ConvolutionNorms::saved_of(run.saved.data(), i), x, {}, true, at.relu);
      if (pools_[i]) device_->max_pool_forward(run.stream, {at.relu, max_kernel, max_stride, 0, at.pooled, at.argmax});
      x = pools_[i] ? at.pooled : at.relu;
    }
  }
  void backward(BlockRun& run, Tensor, Tensor y, Tensor dy, Tensor) override {
    for (std::size_t i = units_.size(); i-- > 0;) {
      const Places at = places(run, i, y, dy);
      const bool first = i == 0;
      const Places before = first ? Places{} : places(run, i - 1, y, dy);
      const bool from_pool = !first && pools_[i - 1];
      const Tensor x = first       ? run.tokens_or_images
                       : from_pool ? before.pooled
                                   : before.relu,
                   dx = from_pool ? before.d_pooled : before.d_relu;
      if (pools_[i])
        device_->max_pool_backward(run.stream, {at.d_pooled, at.argmax, max_kernel, max_stride, 0, at.d_relu});
      layers_[i].norm_backward(run, ConvolutionNorms::saved_of(run.saved.data(), i), true, at.d_relu);
      layers_[i].convolution_backward(run, x, at.d_relu, dx);
      ConvolutionNorms::announce_layer(run, i);
    }
  }

 private:
  /// Of one convolution: what is behind its ReLU and its pool.
  struct Places {
    Tensor relu, argmax, pooled, d_relu, d_pooled;
  };
  bool is_last(std::size_t i) const { return i + 1 == units_.size(); }
  /// Extents behind convolution i and its pool.
  Dims after(std::size_t i) const {
    const Dims out = layers_[i].output();
    const auto pooled = [](std::int64_t size) { return (size - max_kernel) / max_stride + 1; };
    return pools_[i] ? Dims{out[0], pooled(out[1]), pooled(out[2]), out[3]} : out;
  }
  /// In the order of saved() and scratch(); the last output is y.
  Places places(const BlockRun& run, std::size_t wanted, const Tensor& y, const Tensor& dy) const {
    std::size_t saved = layers_.saved_count(), scratch = 0;
    Places at;
    for (std::size_t i = 0; i <= wanted; ++i) {
      at = {};
      const bool own_relu = !is_last(i) || pools_[i];
      at.relu = own_relu ? run.saved[saved++] : y;
      at.d_relu = own_relu ? run.scratch[scratch++] : dy;
      if (!pools_[i]) continue;
      at.argmax = run.saved[saved++];
      at.pooled = is_last(i) ? y : run.saved[saved++];
      at.d_pooled = is_last(i) ? dy : run.scratch[scratch++];
    }
    return at;
  }

  Sizes sizes_;
  std::vector<Unit> units_;
  std::vector<bool> pools_;
};

// Branches of convolutions from one input, joined along the channels; the first module behind the auxiliary head's
// place has that too.
class ModuleBlock final : public ConvolutionBlock {
 public:
  ModuleBlock(const Sizes& sizes, const Module& module, std::unique_ptr<AuxiliaryHead> auxiliary)
      : sizes_(sizes), module_(module), auxiliary_(std::move(auxiliary)) {
    for (const Unit& unit : module.units) layers_.add(layer_of(sizes, unit, module.name + "."));
  }
  std::string name() const override { return module_.name; }
  std::vector<ParameterSpec> parameters() const override {
    std::vector<ParameterSpec> specs = layers_.parameters();
    if (auxiliary_) append(specs, auxiliary_->parameters());
    return specs;
  }
  std::vector<ParameterSpec> statistics() const override {
    std::vector<ParameterSpec> specs = layers_.statistics();
    if (auxiliary_) append(specs, auxiliary_->statistics());
    return specs;
  }
  ActivationSpec output() const override {
    return sizes_.activation(module_.name, module_.out_size, module_.out_channels);
  }
  // Of a joined unit the output is in y alone.
  std::vector<ActivationSpec> saved() const override {
    std::vector<ActivationSpec> specs = layers_.saved();
    for (std::size_t i = 0; i < layers_.size(); ++i)
      if (!module_.units[i].joined)
        specs.push_back({"relu." + module_.units[i].name, layers_[i].output(), sizes_.dtype()});
    if (module_.has_average_pool()) specs.push_back(input("pooled"));
    if (module_.joins_max_pool)
      specs.push_back(
          {"argmax", {sizes_.batch, module_.out_size, module_.out_size, module_.in_channels}, DType::int32});
    if (auxiliary_) append(specs, auxiliary_->saved());
    return specs;
  }
  std::vector<ActivationSpec> scratch() const override {
    std::vector<ActivationSpec> specs;
    for (std::size_t i = 0; i < layers_.size(); ++i)
      specs.push_back({"d_" + module_.units[i].name, layers_[i].output(), sizes_.dtype()});
    specs.push_back(sizes_.activation("part", module_.out_size, widest_part()));
    specs.push_back({"spare", {largest_spare()}, sizes_.dtype()});
    specs.push_back(input("d_pooled"));
    if (auxiliary_) append(specs, auxiliary_->scratch());
    return specs;
  }
  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>& shared,
             const std::vector<Tensor>& statistics) override {
    ConvolutionBlock::build(device, own, shared, statistics);
    if (auxiliary_)
      auxiliary_->build(device, own, layers_.size() * ConvolutionNorm::parameter_count, statistics,
                        layers_.size() * ConvolutionNorm::statistic_count);
  }
  std::vector<NamedPlan> plans() const override {
    std::vector<NamedPlan> all = ConvolutionBlock::plans();
    if (auxiliary_) auxiliary_->add_plans(all);
    return all;
  }

  void forward(BlockRun& run, Tensor x, Tensor y) override {
    const Saved s = saved_of(run);
    if (s.pooled)
      device_->average_pool_forward(run.stream, {x, s.pooled, branch_pool_kernel, 1, branch_pool_kernel / 2});
    std::int64_t channel = 0;  // of y, behind what is there
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      const Unit& unit = module_.units[i];
      const Tensor out = unit.joined ? part(run, unit.out_channels) : s.relu[i];
      layers_[i].forward(run, ConvolutionNorms::saved_of(run.saved.data(), i), source(s, unit, x), {}, true, out);
      if (!unit.joined) continue;
      device_->copy_channels(run.stream, {out, y, 0, channel, unit.out_channels});
      channel += unit.out_channels;
    }
    if (module_.joins_max_pool) {
      const Tensor out = part(run, module_.in_channels);
      device_->max_pool_forward(run.stream, {x, max_kernel, max_stride, 0, out, s.argmax});
      device_->copy_channels(run.stream, {out, y, 0, channel, module_.in_channels});
    }
    if (auxiliary_) auxiliary_->forward(run, s.auxiliary, x);
  }

  void backward(BlockRun& run, Tensor x, Tensor, Tensor dy, Tensor dx) override {
    const Saved s = saved_of(run);
    const std::size_t units = layers_.size();
    const Tensor spare = run.scratch[units + 1], d_pooled = run.scratch[units + 2];
    GradientSum d_input(*device_, dx, spare);
    std::vector<GradientSum> d_units;
    for (std::size_t i = 0; i < units; ++i) d_units.emplace_back(*device_, run.scratch[i], spare);
    if (auxiliary_) auxiliary_->backward(run, s.auxiliary, run.scratch.data() + units + 3, d_input);
    std::int64_t channel = module_.out_channels;  // the parts from behind
    if (module_.joins_max_pool) {
      channel -= module_.in_channels;
      const Tensor d_part = part(run, module_.in_channels);
      device_->copy_channels(run.stream, {dy, d_part, channel, 0, module_.in_channels});
      d_input.add(run, [&](const Tensor& target) {
        device_->max_pool_backward(run.stream, {d_part, s.argmax, max_kernel, max_stride, 0, target});
      });
    }
    for (std::size_t i = units; i-- > 0;) {
      const Unit& unit = module_.units[i];
      const Tensor d_out = d_units[i].tensor();
      if (unit.joined) {
        channel -= unit.out_channels;
        device_->copy_channels(run.stream, {dy, d_out, channel, 0, unit.out_channels});
      }
      ConvolutionNorm& layer = layers_[i];
      layer.norm_backward(run, ConvolutionNorms::saved_of(run.saved.data(), i), true, d_out);
      const Tensor from = source(s, unit, x);
      if (unit.source == Unit::pooled_input) {
        layer.convolution_backward(run, from, d_out, d_pooled);
        d_input.add(run, [&](const Tensor& target) {
          device_->average_pool_backward(run.stream, {d_pooled, target, branch_pool_kernel, 1, branch_pool_kernel / 2});
        });
      } else {
        GradientSum& to = unit.source == Unit::module_input ? d_input : d_units[static_cast<std::size_t>(unit.source)];
        to.add(run, [&](const Tensor& target) { layer.convolution_backward(run, from, d_out, target); });
      }
      ConvolutionNorms::announce_layer(run, i);
    }
  }

 private:
  struct Saved {
    std::vector<Tensor> relu;  // of each unit; absent if it is joined
    Tensor pooled, argmax;
    const Tensor* auxiliary = nullptr;
  };
  Saved saved_of(const BlockRun& run) const {
    Saved s;
    std::size_t at = layers_.saved_count();
    for (const Unit& unit : module_.units) s.relu.push_back(unit.joined ? Tensor{} : run.saved[at++]);
    if (module_.has_average_pool()) s.pooled = run.saved[at++];
    if (module_.joins_max_pool) s.argmax = run.saved[at++];
    s.auxiliary = run.saved.data() + at;
    return s;
  }
  static Tensor source(const Saved& s, const Unit& unit, const Tensor& x) {
    if (unit.source == Unit::module_input) return x;
    return unit.source == Unit::pooled_input ? s.pooled : s.relu[static_cast<std::size_t>(unit.source)];
  }
  ActivationSpec input(const char* name) const { return sizes_.activation(name, module_.size, module_.in_channels); }
  std::int64_t widest_part() const {
    std::int64_t most = module_.joins_max_pool ? module_.in_channels : 0;
    for (const Unit& unit : module_.units) most = std::max(most, unit.joined ? unit.out_channels : 0);
    return most;
  }
  /// A part of y, dense.
  Tensor part(const BlockRun& run, std::int64_t channels) const {
    return run.scratch[layers_.size()].slice(0, {sizes_.batch, module_.out_size, module_.out_size, channels});
  }
  /// Elements of the input or of a unit's output.
  std::int64_t largest_spare() const {
    std::int64_t most = input("").dims.count();
    for (std::size_t i = 0; i < layers_.size(); ++i) most = std::max(most, layers_[i].output().count());
    return most;
  }

  Sizes sizes_;
  Module module_;
  std::unique_ptr<AuxiliaryHead> auxiliary_;
};

void check(const InceptionDescription& d) {
  if (d.pool_features.empty() || d.factorised_channels.empty() || d.wide_modules < 1 || d.classes < 2) {
    throw Error(Failure::usage, "an Inception network needs a module of each kind and at least two classes");
  }
  const Layout all = layout(d);
  if (all.auxiliary.size < auxiliary_pool_kernel || all.auxiliary.units.back().out_size() < 1 || all.size < 1) {
    throw Error(Failure::usage,
                "images of " + std::to_string(d.image_size) + " x " + std::to_string(d.image_size) +
                    " pixels are too small for this Inception network: its auxiliary head needs maps of " +
                    std::to_string(auxiliary_pool_kernel) + " pixels and more, and has " +
                    std::to_string(all.auxiliary.size));
  }
}

}  // namespace

std::vector<std::unique_ptr<Block>> blocks(const NetworkDescription& network, Precision precision,
                                           std::int64_t micro_batch, std::int64_t) {
  const InceptionDescription& d = network.as<InceptionDescription>();
  check(d);
  const Sizes sizes{precision, micro_batch};
  const Layout all = layout(d);
  std::vector<std::unique_ptr<Block>> chain;
  chain.push_back(std::make_unique<Stem>(sizes, all));
  for (std::size_t i = 0; i < all.modules.size(); ++i) {
    std::unique_ptr<AuxiliaryHead> auxiliary;
    if (i == all.auxiliary.module) auxiliary = std::make_unique<AuxiliaryHead>(sizes, all.auxiliary, d);
    chain.push_back(std::make_unique<ModuleBlock>(sizes, all.modules[i], std::move(auxiliary)));
  }
  chain.push_back(pooled_head(chain.back()->output().dims, d.classes, d.label_smoothing, precision,
                              {.stddev = stddev, .other_losses = true}));
  return chain;
}

}  // namespace tw::models::family::inception
