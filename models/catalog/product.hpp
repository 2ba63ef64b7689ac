// What a training step is made of: matrix products and convolutions, and the norms between them. Plain data.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tw::models {

/// One matrix product or convolution of forward, backward-input or backward-weights, with how often a micro-batch runs
/// it.
struct Product {
  enum class Kind { linear, convolution, classifier, attention } kind = Kind::linear;
  // linear/classifier: rows × in → out. convolution: as ConvolutionShape. attention: batch, seq, heads, head_dim.
  std::int64_t rows = 0, in_features = 0, out_features = 0;
  std::int64_t batch = 0, height = 0, width = 0, in_channels = 0, out_channels = 0;
  int kernel = 1, stride = 1, padding = 0;
  std::int64_t seq = 0, heads = 0, head_dim = 0;
  bool backward_input = true;  ///< false for the first layer
  int count = 1;
  // How a network uses it, for trainwatt-ops; no part of the shape by which equal ones are merged.
  std::string name{};  ///< of a linear layer: "qkv"; empty: by its shape
  /// What forward of a linear layer adds behind the product; its backward-weights has a bias where this one has.
  enum class Epilogue { none, bias, bias_gelu, bias_residual } epilogue = Epilogue::none;
  bool input_from_gelu = false;  ///< a linear layer's input gradient passes the GELU in front of it
  float label_smoothing = 0;     ///< of a classifier
  /// FLOPs of forward of all `count` of them for one micro-batch.
  double forward_flops() const;
  /// Model FLOPs of forward + backward of all `count` of them for one micro-batch (2 per multiply-add).
  double flops() const;
  std::int64_t out_height() const { return (height + 2 * padding - kernel) / stride + 1; }
  std::int64_t out_width() const { return (width + 2 * padding - kernel) / stride + 1; }
};
/// "linear", "convolution", "classifier", "attention".
const char* to_string(Product::Kind kind);
/// Appends a product, or raises the count of the one of equal shape.
void add_product(std::vector<Product>& list, const Product& product);

/// A norm of forward and backward. layer: over the last axis of rows × channels; batch: (batch, height, width,
/// channels) with a ReLU behind it.
struct Norm {
  enum class Kind { layer, batch } kind = Kind::layer;
  std::string name{};     ///< "h56_64"; empty where the network has one shape
  std::int64_t rows = 0;  ///< layer
  std::int64_t batch = 0, height = 0, width = 0;
  std::int64_t channels = 0;
};

}  // namespace tw::models
