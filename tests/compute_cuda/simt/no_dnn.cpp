// In place of models/compute/cuda/dnn: the device without cuDNN.
#include "models/compute/cuda/context.hpp"

namespace tw::models::cuda {
namespace {

void say(std::string* why) { *why = "this program was built without cuDNN"; }

}  // namespace

std::unique_ptr<AttentionPlan> make_dnn_attention(Context&, const AttentionShape&, std::string* why) {
  say(why);
  return nullptr;
}
std::unique_ptr<ConvolutionPlan> make_dnn_convolution(Context&, const ConvolutionShape&, std::string* why) {
  say(why);
  return nullptr;
}
std::vector<LibraryProduct> dnn_products(Context&, const ConvolutionShape&, Op) { return {}; }
std::string dnn_version(Context&, std::string* why) {
  say(why);
  return {};
}

}  // namespace tw::models::cuda
