#include "models/optimizers/optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/compute/formulas.hpp"

namespace tw {
namespace {

constexpr int loss_scale_growth_interval = 2000;  // of PyTorch's GradScaler

}  // namespace

OptimizerConfig default_optimizer(const NetworkDescription& network) {
  OptimizerConfig config;
  if (network.is_tokens()) {
    // β, decay and clipping of GPT-3 (Brown et al., arXiv 2005.14165, appendix B), its learning rates by size
    // (table 2.1); GPT-2's own were not published. Narrower networks train faster at more (anchor: 3e-3 at width 128).
    config.kind = OptimizerConfig::Kind::adamw;
    const int width = network.gpt2().width;
    config.learning_rate = width < 768    ? 3e-3f
                           : width < 1024 ? 6e-4f
                           : width < 1280 ? 3e-4f
                           : width < 1600 ? 2.5e-4f
                                          : 2e-4f;
    return config;
  }
  // He et al., arXiv 1512.03385, §3.4: SGD, 0.1 at batch 256, momentum 0.9, decay 1e-4, never clipped. The rate is
  // scaled linearly (Goyal et al., arXiv 1706.02677) to the network's default micro-batch, once: it does not follow
  // the batch of a run. The tiny network's rate was found by trial.
  config.kind = OptimizerConfig::Kind::sgd;
  const bool tiny = network.resnet().stem_width < 64;
  config.learning_rate = tiny ? 0.05f : 0.1f * static_cast<float>(network.default_micro_batch) / 256.0f;
  config.momentum = 0.9f;
  config.weight_decay = 1e-4f;
  config.clip_norm = 0;
  return config;
}

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
  if (scales_loss_)
    device_.update_loss_scale(stream, {scalars, loss_scale_growth_interval, config_.beta1, config_.beta2});
}

std::size_t Optimizer::state_bytes(const ParameterLayout& layout, const OptimizerConfig& config) {
  const std::size_t moments = config.kind == OptimizerConfig::Kind::adamw ? 2 : 1;
  return moments * static_cast<std::size_t>(layout.count) * sizeof(float) + sizeof(StepScalars) +
         layout.entries.size() * sizeof(DecaySegment);
}

}  // namespace tw
