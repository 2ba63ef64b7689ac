#include "models/layers/blocks.hpp"

namespace tw::models {
namespace {

// Global average pool and the classifier.
class PooledHead final : public Block {
 public:
  PooledHead(Dims input, std::int64_t classes, float label_smoothing, Precision precision,
             const PooledHeadOptions& options)
      : input_(input), options_(options), shape_{input[0],        input[3],           classes,
                                                 label_smoothing, storage(precision), math_beside_linear(precision)} {}
  std::string name() const override { return "head"; }
  std::vector<ParameterSpec> parameters() const override {
    return {of_head(matrix("fc.weight", {shape_.classes, shape_.in_features}, options_.stddev)),
            vector_of("fc.bias", shape_.classes, 0)};
  }
  ActivationSpec output() const override { return {}; }
  std::vector<ActivationSpec> saved() const override { return {{"pooled", pooled(), shape_.dtype}}; }
  std::vector<ActivationSpec> scratch() const override {
    return {{"d_pooled", pooled(), shape_.dtype}, {"loss", {1}, DType::float32}};
  }
  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>&,
             const std::vector<Tensor>&) override {
    device_ = &device;
    weight_ = own[0];
    bias_ = own[1];
    ClassifierShape shape = shape_;
    shape.reserved_classes = weight_.spec.reserved_rows;
    classifier_ = device.plan(shape);
    classifier_->bind(weight_.weight);
  }
  std::vector<NamedPlan> plans() const override { return {{"classifier", classifier_}}; }
  void forward(BlockRun& run, Tensor x, Tensor) override {
    device_->average_pool_forward(run.stream, {x, run.saved[0]});
    if (run.backward_follows) return;
    classify(run, options_.other_losses ? run.scratch[1] : run.loss);
    if (options_.other_losses) device_->add(run.stream, {run.loss, run.scratch[1], run.loss});
  }
  void backward(BlockRun& run, Tensor, Tensor, Tensor, Tensor dx) override {
    classify(run, run.loss);
    announce(run, 1, 0);
    device_->average_pool_backward(run.stream, {run.scratch[0], dx});
  }

 private:
  Dims pooled() const { return {input_[0], input_[3]}; }
  void classify(BlockRun& run, const Tensor& loss) {
    tw::models::classify(run, *classifier_, run.saved[0], bias_.weight,
                         {run.scratch[0], weight_.gradient, bias_.gradient}, {run.targets, loss, run.correct});
  }
  Dims input_;
  PooledHeadOptions options_;
  ClassifierShape shape_;
  Device* device_ = nullptr;
  Parameter weight_, bias_;
  std::shared_ptr<ClassifierPlan> classifier_;
};

}  // namespace

std::unique_ptr<Block> pooled_head(Dims input, std::int64_t classes, float label_smoothing, Precision precision,
                                   const PooledHeadOptions& options) {
  return std::make_unique<PooledHead>(input, classes, label_smoothing, precision, options);
}

}  // namespace tw::models
