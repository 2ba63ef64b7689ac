#include "models/optimizers/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/compute/formulas.hpp"

namespace tw::models {
namespace {

constexpr int loss_scale_growth_interval = 2000;  // of PyTorch's GradScaler

}  // namespace

double scheduled_learning_rate(const OptimizerConfig& config, std::int64_t step) {
  const double peak = static_cast<double>(config.learning_rate),
               share = static_cast<double>(config.final_learning_rate_share);
  if (step < config.warmup_steps)
    return peak * static_cast<double>(step + 1) / static_cast<double>(config.warmup_steps);
  const auto span = static_cast<double>(std::max<std::int64_t>(1, config.decay_steps - config.warmup_steps));
  const double progress = std::min(1.0, static_cast<double>(step - config.warmup_steps) / span);
  return peak * (share + (1 - share) * 0.5 * (1 + std::cos(std::numbers::pi * progress)));
}

Optimizer::Optimizer(Device& device, const OptimizerConfig& config, const ParameterStore& store, bool scales_loss,
                     double gradient_scale)
    : device_(device),
      config_(config),
      store_(store),
      scales_loss_(scales_loss),
      gradient_scale_(gradient_scale),
      host_segments_(store.layout().decay_segments(config.weight_decay)) {
  const auto bytes = static_cast<std::size_t>(store.layout().count) * sizeof(float);
  first_moment_ = Buffer(device, bytes);
  if (config.kind == OptimizerConfig::Kind::adamw) second_moment_ = Buffer(device, bytes);
  scalars_ = Buffer(device, sizeof(StepScalars));
  segment_count_ = static_cast<int>(host_segments_.size());
  segments_ = Buffer(device, host_segments_.size() * sizeof(DecaySegment));
}

void Optimizer::initialise(Stream& stream) {
  device_.fill(stream, {flat(first_moment_), 0});
  if (second_moment_) device_.fill(stream, {flat(second_moment_), 0});
  device_.copy_from_host(stream, segments_.data(), host_segments_.data(), segments_.bytes());
  const StepScalars first = scalars(0);
  device_.copy_from_host(stream, scalars_.data(), &first, sizeof first);
  stream.synchronize();
}

StepScalars Optimizer::scalars(std::int64_t step) const {
  const auto t = static_cast<double>(step + 1);
  StepScalars scalars;
  scalars.learning_rate = static_cast<float>(scheduled_learning_rate(config_, step));
  scalars.bias_correction1 = static_cast<float>(1 - std::pow(static_cast<double>(config_.beta1), t));
  scalars.bias_correction2 = static_cast<float>(1 - std::pow(static_cast<double>(config_.beta2), t));
  scalars.gradient_scale = static_cast<float>(gradient_scale_);
  if (scales_loss_) scalars.loss_scale = formula::first_loss_scale;
  return scalars;
}

void Optimizer::update(Stream& stream) {
  StepScalars* scalars = device_scalars();
  const auto* segments = static_cast<const DecaySegment*>(segments_.data());
  device_.global_norm(stream, {store_.flat_gradients(), scalars, config_.clip_norm, scales_loss_});
  if (config_.kind == OptimizerConfig::Kind::adamw) {
    device_.adamw(stream, {store_.flat_master(), store_.flat_weights(), store_.flat_gradients(), flat(first_moment_),
                           flat(second_moment_), segments, segment_count_, scalars, config_.beta1, config_.beta2,
                           config_.epsilon});
  } else {
    device_.sgd(stream, {store_.flat_master(), store_.flat_weights(), store_.flat_gradients(), flat(first_moment_),
                         segments, segment_count_, scalars, config_.momentum});
  }
}

void Optimizer::update_loss_scale(Stream& stream) {
  StepScalars* scalars = device_scalars();
  if (scales_loss_)
    device_.update_loss_scale(stream, {scalars, loss_scale_growth_interval, config_.beta1, config_.beta2});
}

std::size_t Optimizer::state_bytes(const ParameterLayout& layout, const OptimizerConfig& config) {
  return static_cast<std::size_t>(config.moments()) * static_cast<std::size_t>(layout.count) * sizeof(float) +
         sizeof(StepScalars) + layout.entries.size() * sizeof(DecaySegment);
}

}  // namespace tw::models
