// GPT-2 (Radford et al. 2019): learned positions, pre-norm, tanh GELU, tied output head.
#pragma once

#include "models/catalog/description.hpp"

namespace tw::models {

struct Gpt2Description {
  int layers = 12, width = 768, heads = 12;
  std::int64_t vocabulary = 50257, max_seq = 1024;
};

namespace family::gpt2 {

constexpr float norm_epsilon = 1e-5f;

std::shared_ptr<const NetworkShape> shape(const Gpt2Description& sizes);

}  // namespace family::gpt2
}  // namespace tw::models
