// AdamW and SGD with momentum over the flat buffers, the learning-rate schedule and clipping by global norm.
#pragma once

#include <cstdint>

#include "models/parameters.hpp"
#include "models/trainer.hpp"

namespace tw {

/// Linear warm-up that reaches the peak in its last step, then one cosine to the final share (Loshchilov & Hutter,
/// arXiv 1608.03983), which holds from then on:
///   step < warmup:  lr·(step + 1)/warmup
///   else:           lr·(share + (1 − share)·(1 + cos(π·min(1, (step − warmup)/(decay − warmup))))/2)
/// The defaults of every network are warmup 10, decay 1000, share 0.1, whatever the length of a run: a benchmark of a
/// fixed time does not know its number of steps, and every step must change the weights. The peak is a constant of the
/// network (default_optimizer); it does not follow micro-batch, accumulation or ranks.
double scheduled_learning_rate(const OptimizerConfig& config, std::int64_t step);

class Optimizer {
 public:
  Optimizer(Device& device, const OptimizerConfig& config, const ParameterStore& store);

  /// Sets moments to zero.
  void initialise(Stream& stream);
  /// Global norm and clip factor, then the update of step number `step` (from 0): master weights and their rounded
  /// copy. `gradient_scale` turns the summed gradients into their mean.
  void update(Stream& stream, std::int64_t step, double gradient_scale);
  /// What the device holds: the norm is valid once the stream has passed update().
  const StepScalars* device_scalars() const { return static_cast<const StepScalars*>(scalars_.data()); }

  static std::size_t state_bytes(const ParameterLayout& layout, const OptimizerConfig& config);
  std::size_t state_bytes() const {
    return first_moment_.bytes() + second_moment_.bytes() + scalars_.bytes() + segments_.bytes();
  }

 private:
  Tensor flat(const Buffer& buffer) const { return {buffer.data(), DType::float32, {store_.layout().count}}; }

  Device& device_;
  OptimizerConfig config_;
  const ParameterStore& store_;
  int segment_count_ = 0;
  Buffer first_moment_, second_moment_, scalars_, segments_;  // SGD: the first is the momentum, no second
  std::vector<DecaySegment> host_segments_;
  StepScalars host_scalars_;
};

}  // namespace tw
