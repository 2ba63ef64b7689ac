#include "models/compute/operators.hpp"

namespace tw::models {

const char* to_string(Op op) {
  switch (op) {
    case Op::linear_forward:
      return "linear_forward";
    case Op::linear_backward_input:
      return "linear_backward_input";
    case Op::linear_backward_weights:
      return "linear_backward_weights";
    case Op::convolution_forward:
      return "convolution_forward";
    case Op::convolution_backward_input:
      return "convolution_backward_input";
    case Op::convolution_backward_weights:
      return "convolution_backward_weights";
    case Op::attention_forward:
      return "attention_forward";
    case Op::attention_backward:
      return "attention_backward";
    case Op::classifier:
      return "classifier";
    case Op::embedding_forward:
      return "embedding_forward";
    case Op::embedding_backward:
      return "embedding_backward";
    case Op::layer_norm_forward:
      return "layer_norm_forward";
    case Op::layer_norm_backward:
      return "layer_norm_backward";
    case Op::batch_norm_forward:
      return "batch_norm_forward";
    case Op::batch_norm_backward:
      return "batch_norm_backward";
    case Op::max_pool_forward:
      return "max_pool_forward";
    case Op::max_pool_backward:
      return "max_pool_backward";
    case Op::average_pool_forward:
      return "average_pool_forward";
    case Op::average_pool_backward:
      return "average_pool_backward";
    case Op::add:
      return "add";
    case Op::cast:
      return "cast";
    case Op::fill:
      return "fill";
    case Op::copy:
      return "copy";
    case Op::global_norm:
      return "global_norm";
    case Op::adamw:
      return "adamw";
    case Op::sgd:
      return "sgd";
    case Op::loss_scale:
      return "loss_scale";
    case Op::generate_tokens:
      return "generate_tokens";
    case Op::generate_images:
      return "generate_images";
    case Op::refresh:
      return "refresh";
    case Op::count_:
      break;
  }
  return "?";
}

const char* to_string(Math math) {
  switch (math) {
    case Math::standard:
      return "standard";
    case Math::tf32:
      return "tf32";
    case Math::bf16:
      return "bf16";
    case Math::fp8:
      return "fp8";
  }
  return "?";
}

}  // namespace tw::models
