// Which matrix products and convolutions a training step is made of, and their model FLOPs.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "models/catalog/description.hpp"

namespace tw {
namespace {

bool same_shape(const Product& a, const Product& b) {
  return a.kind == b.kind && a.rows == b.rows && a.in_features == b.in_features && a.out_features == b.out_features &&
         a.batch == b.batch && a.height == b.height && a.width == b.width && a.in_channels == b.in_channels &&
         a.out_channels == b.out_channels && a.kernel == b.kernel && a.stride == b.stride && a.padding == b.padding &&
         a.seq == b.seq && a.heads == b.heads && a.head_dim == b.head_dim && a.backward_input == b.backward_input;
}

void add(std::vector<Product>& list, const Product& product) {
  const auto same = std::find_if(list.begin(), list.end(), [&](const Product& p) { return same_shape(p, product); });
  if (same == list.end()) {
    list.push_back(product);
  } else {
    same->count += product.count;
  }
}

std::vector<Product> gpt2_products(const Gpt2Description& d, std::int64_t batch, std::int64_t seq) {
  std::vector<Product> list;
  const std::int64_t rows = batch * seq, c = d.width;
  const auto linear = [&](std::int64_t in, std::int64_t out) {
    Product p;
    p.rows = rows, p.in_features = in, p.out_features = out, p.count = d.layers;
    add(list, p);
  };
  linear(c, 3 * c);
  Product attention;
  attention.kind = Product::Kind::attention;
  attention.batch = batch, attention.seq = seq, attention.heads = d.heads, attention.head_dim = c / d.heads;
  attention.count = d.layers;
  add(list, attention);
  linear(c, c);
  linear(c, 4 * c);
  linear(4 * c, c);
  Product head;
  head.kind = Product::Kind::classifier;
  head.rows = rows, head.in_features = c, head.out_features = d.vocabulary;
  add(list, head);
  return list;
}

/// Of the stem and the first `bottlenecks`; with the head behind all of them.
std::vector<Product> resnet_products(const ResnetDescription& d, std::int64_t batch, int bottlenecks) {
  std::vector<Product> list;
  // Returns the extent of the output.
  const auto convolution = [&](std::int64_t extent, std::int64_t in, std::int64_t out, int kernel, int stride) {
    Product p;
    p.kind = Product::Kind::convolution;
    p.batch = batch, p.height = p.width = extent, p.in_channels = in, p.out_channels = out;
    p.kernel = kernel, p.stride = stride, p.padding = kernel / 2;
    p.backward_input = !list.empty();
    add(list, p);
    return (extent + 2 * p.padding - kernel) / stride + 1;
  };
  std::int64_t extent = convolution(d.image_size, d.image_channels, d.stem_width, d.stem_kernel, d.stem_stride);
  if (d.stem_pool) extent = (extent + 2 - 3) / 2 + 1;
  std::int64_t in = d.stem_width, width = d.stem_width;
  for (std::size_t stage = 0; stage < d.blocks.size(); ++stage) {
    const std::int64_t out = 4 * width;
    for (int block = 0; block < d.blocks[stage]; ++block) {
      if (bottlenecks-- == 0) return list;
      const int stride = stage > 0 && block == 0 ? 2 : 1;
      if (block == 0) convolution(extent, in, out, 1, stride);
      convolution(extent, in, width, 1, 1);
      extent = convolution(extent, width, width, 3, stride);
      convolution(extent, width, out, 1, 1);
      in = out;
    }
    width *= 2;
  }
  if (bottlenecks == 0) return list;
  Product head;
  head.kind = Product::Kind::classifier;
  head.rows = batch, head.in_features = in, head.out_features = d.classes;
  add(list, head);
  return list;
}

}  // namespace

double Product::forward_flops() const {
  double forward = 0;
  switch (kind) {
    case Kind::linear:
    case Kind::classifier:
      forward = 2.0 * static_cast<double>(rows) * static_cast<double>(in_features) * static_cast<double>(out_features);
      break;
    case Kind::convolution: {
      const std::int64_t out_height = (height + 2 * padding - kernel) / stride + 1;
      const std::int64_t out_width = (width + 2 * padding - kernel) / stride + 1;
      forward = 2.0 * static_cast<double>(batch) * static_cast<double>(out_height * out_width * kernel * kernel) *
                static_cast<double>(in_channels * out_channels);
      break;
    }
    case Kind::attention:
      // q·kᵀ and p·v are 2·T²·C each; a causal mask leaves half of both.
      forward = 2.0 * static_cast<double>(batch) * static_cast<double>(heads * head_dim) * static_cast<double>(seq) *
                static_cast<double>(seq);
      break;
  }
  return forward * count;
}

double Product::flops() const { return forward_flops() * (backward_input ? 3 : 2); }

std::vector<Product> products(const NetworkDescription& network, std::int64_t micro_batch, std::int64_t seq_len) {
  std::int64_t tokens = micro_batch;
  if (network.is_tokens() && __builtin_mul_overflow(micro_batch, seq_len, &tokens)) {
    throw std::invalid_argument("a micro-batch of " + std::to_string(micro_batch) + " × " + std::to_string(seq_len) +
                                " tokens is too large to be counted");
  }
  return network.is_tokens() ? gpt2_products(network.gpt2(), micro_batch, seq_len)
                             : resnet_products(network.resnet(), micro_batch, layer_count(network) + 1);
}

double model_flops_per_sample(const NetworkDescription& network, std::int64_t seq_len) {
  double total = 0;
  for (const Product& product : products(network, 1, seq_len)) total += product.flops();
  return total;
}

double recomputed_flops_per_sample(const NetworkDescription& network, std::int64_t seq_len, int layers) {
  if (layers == 0) return 0;
  std::vector<Product> again;
  if (network.is_tokens()) {
    Gpt2Description first = network.gpt2();
    first.layers = layers;
    again = gpt2_products(first, 1, seq_len);
  } else {
    again = resnet_products(network.resnet(), 1, layers);
  }
  double total = 0;
  for (const Product& product : again)
    if (product.kind != Product::Kind::classifier) total += product.forward_flops();
  return total;
}

const char* flops_rule() {
  return "model FLOPs: matmuls and convolutions 3x forward less the first layer's input gradient, causal attention "
         "counted once (transformer: 6*N_mat + 6*L*C*T a token)";
}

}  // namespace tw
