// An optimizer's settings, as plain data. models/optimizers runs it.
#pragma once

#include <cstdint>

namespace tw::models {

struct OptimizerConfig {
  enum class Kind { adamw, sgd } kind = Kind::adamw;
  float learning_rate = 6e-4f;             ///< the peak
  float final_learning_rate_share = 0.1f;  ///< of the peak, from decay_steps on; above 0: no step is without effect
  std::int64_t warmup_steps = 10, decay_steps = 1000;
  float beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, momentum = 0.9f;
  float weight_decay = 0.1f;
  float clip_norm = 1.0f;  ///< 0: no clipping
  /// Float32 values of state that each parameter has.
  int moments() const { return kind == Kind::adamw ? 2 : 1; }
};
inline const char* to_string(OptimizerConfig::Kind kind) {
  return kind == OptimizerConfig::Kind::adamw ? "adamw" : "sgd";
}

}  // namespace tw::models
