// What the blocks of this family share, and the auxiliary head, a part of one of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/families/inception/description.hpp"
#include "models/layers/convolution_norm.hpp"

namespace tw::models::family::inception {

constexpr double stddev = 0.1;  ///< of the weights at the start

/// What all blocks need.
struct Sizes {
  Precision precision;
  std::int64_t batch;
  DType dtype() const { return storage(precision); }
  ActivationSpec activation(std::string name, std::int64_t size, std::int64_t channels) const {
    return {std::move(name), {batch, size, size, channels}, dtype()};
  }
};

/// Named `prefix` and the unit's name.
ConvolutionNorm layer_of(const Sizes& sizes, const Unit& unit, const std::string& prefix, double deviation = stddev);

/// Average pool, two convolutions, global average pool and a classifier on the input of its block. Its loss,
/// times its weight, is a part of the network's, in evaluation too.
class AuxiliaryHead {
 public:
  AuxiliaryHead(const Sizes& sizes, const Auxiliary& auxiliary, const InceptionDescription& d);
  std::vector<ParameterSpec> parameters() const;
  std::vector<ParameterSpec> statistics() const { return layers_.statistics(); }
  std::vector<ActivationSpec> saved() const;
  std::vector<ActivationSpec> scratch() const;
  /// Its parameters are the last of `own`.
  void build(Device& device, const std::vector<Parameter>& own, std::size_t first_parameter,
             const std::vector<Tensor>& statistics, std::size_t first_statistic);
  void add_plans(std::vector<NamedPlan>& plans) const;
  /// `saved` points at the tensors of saved(), `scratch` at those of scratch().
  void forward(BlockRun& run, const Tensor* saved, const Tensor& x);
  /// Adds to the gradient of x.
  void backward(BlockRun& run, const Tensor* saved, const Tensor* scratch, GradientSum& dx);

 private:
  struct Saved {
    Tensor pooled, relu0, relu1, features;
  };
  Saved saved_of(const Tensor* saved) const;
  void classify(BlockRun& run, const Tensor& features, const Tensor& d_features, const Tensor& loss);
  Dims windows() const;   ///< behind the average pool
  Dims features() const;  ///< behind the global one

  Sizes sizes_;
  std::vector<Unit> units_;
  ClassifierShape classifier_shape_;
  ConvolutionNorms layers_;
  std::size_t first_parameter_ = 0;
  Device* device_ = nullptr;
  Parameter weight_, bias_;
  std::shared_ptr<ClassifierPlan> classifier_;
};

}  // namespace tw::models::family::inception
