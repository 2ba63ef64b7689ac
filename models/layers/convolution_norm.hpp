// A convolution and the batch norm behind it, with a ReLU or without: what convolutional networks are made of. A part
// of a block, which holds its saved tensors.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "models/layers/blocks.hpp"

namespace tw::models {

/// What the networks of a family have in common here.
struct BatchNormSettings {
  float epsilon = 1e-5f, momentum = 0.1f;
};

/// Parameters: kernel, gamma, beta. Statistics: running mean and variance. Saved: the convolution's output, mean, rstd.
/// Batch norm keeps float32 parameters and uses the statistics of the micro-batch, in evaluation too. Only the kernel
/// decays.
class ConvolutionNorm {
 public:
  static constexpr std::size_t parameter_count = 3, statistic_count = 2, saved_count = 3;

  /// Throws Error{usage} that names the norm where a channel would have a single value, which has no variance.
  ConvolutionNorm(const ConvolutionShape& shape, std::string convolution_name, std::string norm_name,
                  Initialiser initialiser, BatchNormSettings settings);

  Dims output() const { return shape_.out(); }
  const std::string& convolution_name() const { return convolution_name_; }
  std::vector<ParameterSpec> parameters() const;
  std::vector<ParameterSpec> statistics() const;
  std::vector<ActivationSpec> saved() const;
  void build(Device& device, const std::vector<Parameter>& own, std::size_t first_parameter,
             const std::vector<Tensor>& statistics, std::size_t first_statistic);
  NamedPlan plan() const { return {"convolution", plan_}; }

  // `saved` points at the three tensors of saved().
  void forward(BlockRun& run, const Tensor* saved, const Tensor& x, const Tensor& residual, bool relu, const Tensor& y);
  /// What backward needs of a sum with a residual: y = relu(norm + residual), the second part of y's gradient
  /// (optional) and where the residual's goes.
  struct Residual {
    Tensor y, dy_more, d_residual;
  };
  /// dy becomes the gradient of the convolution's output, in place.
  void norm_backward(BlockRun& run, const Tensor* saved, bool relu, const Tensor& dy, const Residual& residual);
  void norm_backward(BlockRun& run, const Tensor* saved, bool relu, const Tensor& dy) {
    norm_backward(run, saved, relu, dy, {});
  }
  /// dx is absent for the first layer.
  void convolution_backward(BlockRun& run, const Tensor& x, const Tensor& dy, const Tensor& dx);

 private:
  ParameterSpec per_channel(const char* suffix, float value) const;

  ConvolutionShape shape_;
  std::string convolution_name_, norm_name_;
  Initialiser initialiser_;
  BatchNormSettings settings_;
  Device* device_ = nullptr;
  Parameter kernel_, gamma_, beta_;
  Tensor running_mean_, running_var_;
  std::shared_ptr<ConvolutionPlan> plan_;
};

/// Convolutions with their norms, whose parameters, statistics and saved tensors follow each other.
class ConvolutionNorms {
 public:
  void add(ConvolutionNorm layer) { layers_.push_back(std::move(layer)); }
  std::size_t size() const { return layers_.size(); }
  ConvolutionNorm& operator[](std::size_t i) { return layers_[i]; }
  const ConvolutionNorm& operator[](std::size_t i) const { return layers_[i]; }
  std::vector<ParameterSpec> parameters() const { return of_all(&ConvolutionNorm::parameters); }
  std::vector<ParameterSpec> statistics() const { return of_all(&ConvolutionNorm::statistics); }
  std::vector<ActivationSpec> saved() const { return of_all(&ConvolutionNorm::saved); }
  std::size_t saved_count() const { return layers_.size() * ConvolutionNorm::saved_count; }
  void build(Device& device, const std::vector<Parameter>& own, std::size_t first_parameter,
             const std::vector<Tensor>& statistics, std::size_t first_statistic) {
    for (std::size_t i = 0; i < layers_.size(); ++i)
      layers_[i].build(device, own, first_parameter + i * ConvolutionNorm::parameter_count, statistics,
                       first_statistic + i * ConvolutionNorm::statistic_count);
  }
  void add_plans(std::vector<NamedPlan>& plans) const {
    for (const ConvolutionNorm& layer : layers_) plans.push_back(layer.plan());
  }
  /// Of layer i, where `saved` points at those of the first.
  static const Tensor* saved_of(const Tensor* saved, std::size_t i) { return saved + i * ConvolutionNorm::saved_count; }
  /// Of layer i, where the block's are `first` and those behind.
  static void announce_layer(const BlockRun& run, std::size_t i, std::size_t first = 0) {
    const int index = static_cast<int>(first + i * ConvolutionNorm::parameter_count);
    announce(run, index + static_cast<int>(ConvolutionNorm::parameter_count) - 1, index);
  }

 private:
  template <class Specs>
  Specs of_all(Specs (ConvolutionNorm::*specs)() const) const {
    Specs all;
    for (const ConvolutionNorm& layer : layers_)
      for (auto& spec : (layer.*specs)()) all.push_back(std::move(spec));
    return all;
  }
  std::vector<ConvolutionNorm> layers_;
};

/// A block whose parameters, statistics and plans are those of its convolutions.
class ConvolutionBlock : public Block {
 public:
  std::vector<ParameterSpec> parameters() const override { return layers_.parameters(); }
  std::vector<ParameterSpec> statistics() const override { return layers_.statistics(); }
  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>&,
             const std::vector<Tensor>& statistics) override {
    device_ = &device;
    layers_.build(device, own, 0, statistics, 0);
  }
  std::vector<NamedPlan> plans() const override {
    std::vector<NamedPlan> all;
    layers_.add_plans(all);
    return all;
  }

 protected:
  ConvolutionNorms layers_;
  Device* device_ = nullptr;
};

}  // namespace tw::models
