// AdamW and SGD with momentum over the flat buffers, the learning-rate schedule and clipping by global norm.
#pragma once

#include <cstddef>
#include <cstdint>

#include "models/catalog/description.hpp"
#include "models/network/parameters.hpp"

namespace tw::models {

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
  /// `scales_loss`: with dynamic loss scaling, by the device alone. `gradient_scale` turns the summed gradients into
  /// their mean.
  Optimizer(Device& device, const OptimizerConfig& config, const ParameterStore& store, bool scales_loss,
            double gradient_scale);

  /// Sets moments to zero and device_scalars() to those of the first step.
  void initialise(Stream& stream);
  /// What device_scalars() must hold before the update of step number `step` (from 0), in its first given_bytes(). With
  /// a scaled loss that is the learning rate: the rest follows from which steps were taken, which the host does not
  /// know.
  StepScalars scalars(std::int64_t step) const;
  std::size_t given_bytes() const { return scales_loss_ ? sizeof(float) : offsetof(StepScalars, clip_factor); }
  /// Global norm and clip factor, then the update by what device_scalars() holds: master weights and their rounded
  /// copy.
  void update(Stream& stream);
  /// Behind update() and all else that device_scalars() decides on in this step: the loss scale of the next one, where
  /// the loss is scaled.
  void update_loss_scale(Stream& stream);
  /// Device memory. The norm is there once the stream has passed update().
  StepScalars* device_scalars() const { return static_cast<StepScalars*>(scalars_.data()); }

  static std::size_t state_bytes(const ParameterLayout& layout, const OptimizerConfig& config);
  std::size_t state_bytes() const {
    return first_moment_.bytes() + second_moment_.bytes() + scalars_.bytes() + segments_.bytes();
  }

 private:
  Tensor flat(const Buffer& buffer) const { return {buffer.data(), DType::float32, {store_.layout().count}}; }

  Device& device_;
  OptimizerConfig config_;
  const ParameterStore& store_;
  bool scales_loss_;
  double gradient_scale_;
  int segment_count_ = 0;
  Buffer first_moment_, second_moment_, scalars_, segments_;  // SGD: the first is the momentum, no second
  std::vector<DecaySegment> host_segments_;
};

}  // namespace tw::models
