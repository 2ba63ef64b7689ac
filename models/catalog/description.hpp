// What a network is, as plain data and arithmetic: no devices, no operators. Also built with -DTRAINWATT_HPC=OFF.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace tw {

/// GPT-2 (Radford et al. 2019): learned positions, pre-norm, tanh GELU, tied output head.
struct Gpt2Description {
  int layers = 12, width = 768, heads = 12;
  std::int64_t vocabulary = 50257, max_seq = 1024;
};

/// ResNet v1.5 (He et al., arXiv 1512.03385, table 1; stride in the 3×3 of a bottleneck): NHWC, batch norm.
struct ResnetDescription {
  std::vector<int> blocks = {3, 4, 6, 3};   ///< bottlenecks of each stage
  int stem_width = 64;                      ///< channels of the stem; stage i has stem_width·2^i (×4 out of a bottleneck)
  int stem_kernel = 7, stem_stride = 2;
  bool stem_pool = true;                    ///< 3×3 stride 2 max pool after the stem
  int image_size = 224, image_channels = 3;
  std::int64_t classes = 1000;
  float label_smoothing = 0.1f;
};

struct NetworkDescription {
  std::string name;                         ///< "gpt2-124m"
  std::variant<Gpt2Description, ResnetDescription> shape;
  std::int64_t default_micro_batch = 1, default_seq_len = 0;   ///< 0: no sequence
  bool is_tokens() const { return std::holds_alternative<Gpt2Description>(shape); }
  const Gpt2Description& gpt2() const { return std::get<Gpt2Description>(shape); }
  const ResnetDescription& resnet() const { return std::get<ResnetDescription>(shape); }
};

/// All networks of models.def, in its order.
const std::vector<NetworkDescription>& catalog();
/// Throws std::invalid_argument that lists the names and suggests the nearest.
NetworkDescription find_network(const std::string& name);
/// `--layers N`: the first N transformer layers (GPT-2), or N bottlenecks filled stage by stage (ResNet, at least one a
/// stage). Throws std::invalid_argument where the network has fewer.
NetworkDescription cut_layers(NetworkDescription network, int layers);

/// What `--layers` counts: transformer layers, bottlenecks.
int layer_count(const NetworkDescription& network);

std::int64_t count_parameters(const NetworkDescription& network);

/// One matrix product or convolution of forward, backward-input or backward-weights, with how often a micro-batch runs it.
struct Product {
  enum class Kind { linear, convolution, classifier, attention } kind = Kind::linear;
  // linear/classifier: rows × in → out. convolution: as ConvolutionShape. attention: batch, seq, heads, head_dim.
  std::int64_t rows = 0, in_features = 0, out_features = 0;
  std::int64_t batch = 0, height = 0, width = 0, in_channels = 0, out_channels = 0;
  int kernel = 1, stride = 1, padding = 0;
  std::int64_t seq = 0, heads = 0, head_dim = 0;
  bool backward_input = true;               ///< false for the first layer
  int count = 1;
  /// FLOPs of forward of all `count` of them for one micro-batch.
  double forward_flops() const;
  /// Model FLOPs of forward + backward of all `count` of them for one micro-batch (2 per multiply-add).
  double flops() const;
};

/// All products of one micro-batch, equal shapes merged. Throws std::invalid_argument where its tokens overflow.
std::vector<Product> products(const NetworkDescription& network, std::int64_t micro_batch, std::int64_t seq_len);

/// Model FLOPs of a training step for one sample (anchors: 6·N_mat + 6·L·C·T a token, causal; convolutions 3× forward less the
/// first layer's input gradient). Equals the sum over products(…, 1, seq_len).
double model_flops_per_sample(const NetworkDescription& network, std::int64_t seq_len);
/// FLOPs of a sample that recomputing the activations of the first `layers` layers in backward adds: forward once more
/// of their products, and of the stem's in front of them. No model FLOPs.
double recomputed_flops_per_sample(const NetworkDescription& network, std::int64_t seq_len, int layers);
/// Names the rule, beside every MFU.
const char* flops_rule();

}  // namespace tw
