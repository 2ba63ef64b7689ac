// Which matrix products and convolutions a training step is made of, and their model FLOPs.
#include <algorithm>
#include <stdexcept>
#include <string>

#include "models/catalog/description.hpp"
#include "models/catalog/families.hpp"

namespace tw::models {
namespace {

bool same_shape(const Product& a, const Product& b) {
  return a.kind == b.kind && a.rows == b.rows && a.in_features == b.in_features && a.out_features == b.out_features &&
         a.batch == b.batch && a.height == b.height && a.width == b.width && a.in_channels == b.in_channels &&
         a.out_channels == b.out_channels && a.groups == b.groups && a.kernel == b.kernel && a.stride == b.stride &&
         a.padding == b.padding && a.seq == b.seq && a.heads == b.heads && a.kv_heads == b.kv_heads &&
         a.head_dim == b.head_dim && a.causal == b.causal && a.beside_fp8 == b.beside_fp8 &&
         a.backward_input == b.backward_input;
}

}  // namespace

const char* to_string(Product::Kind kind) {
  static constexpr const char* names[] = {"linear", "convolution", "classifier", "attention", "interaction"};
  return names[static_cast<std::size_t>(kind)];
}

void add_product(std::vector<Product>& list, const Product& product) {
  const auto same = std::ranges::find_if(list, [&](const Product& p) { return same_shape(p, product); });
  if (same == list.end()) {
    list.push_back(product);
  } else {
    same->count += product.count;
  }
}

std::vector<Norm> batch_norms(const std::vector<Product>& products) {
  std::vector<Norm> list;
  for (const Product& p : products) {
    if (p.kind != Product::Kind::convolution) continue;
    Norm norm{.kind = Norm::Kind::batch, .batch = p.batch, .channels = p.out_channels};
    norm.height = p.out_height(), norm.width = p.out_width();
    norm.name = "h" + std::to_string(norm.height) + "_" + std::to_string(norm.channels);
    if (std::ranges::find(list, norm.name, &Norm::name) == list.end()) list.push_back(std::move(norm));
  }
  return list;
}

double Product::forward_flops() const {
  double forward = 0;
  switch (kind) {
    case Kind::linear:
    case Kind::classifier:
      forward = 2.0 * static_cast<double>(rows) * static_cast<double>(in_features) * static_cast<double>(out_features);
      break;
    case Kind::convolution:
      forward = 2.0 * static_cast<double>(batch) * static_cast<double>(out_height() * out_width() * kernel.area()) *
                static_cast<double>(in_channels / groups * out_channels);
      break;
    case Kind::attention:
      // q·kᵀ and p·v are 2·T²·C each; a causal mask leaves half of both.
      forward = (causal ? 2.0 : 4.0) * static_cast<double>(batch) * static_cast<double>(heads * head_dim) *
                static_cast<double>(seq) * static_cast<double>(seq);
      break;
    case Kind::interaction:
      // 2 for each pair and column
      forward = static_cast<double>(batch * heads * (heads - 1)) * static_cast<double>(head_dim);
      break;
  }
  return forward * count;
}

double Product::flops() const { return forward_flops() * (backward_input ? 3 : 2); }

std::vector<Product> products(const NetworkDescription& network, std::int64_t micro_batch, std::int64_t seq_len) {
  std::int64_t tokens = micro_batch;
  if (network.has_sequence() && __builtin_mul_overflow(micro_batch, seq_len, &tokens)) {
    throw std::invalid_argument("a micro-batch of " + std::to_string(micro_batch) + " × " + std::to_string(seq_len) +
                                " tokens is too large to be counted");
  }
  return network.shape->products(micro_batch, seq_len, layer_count(network));
}

bool has_products(const NetworkDescription& network, Product::Kind kind) {
  const std::vector<Product> all = products(network, 1, network.default_seq_len);
  return std::ranges::any_of(all, [kind](const Product& product) { return product.kind == kind; });
}

std::string why_no_fp8(const NetworkDescription& network) {
  if (has_products(network, Product::Kind::linear)) return {};
  return "fp8 is for linear layers, and this network has none but its output head";
}

double model_flops_per_sample(const NetworkDescription& network, std::int64_t seq_len) {
  double total = 0;
  for (const Product& product : products(network, 1, seq_len)) total += product.flops();
  return total;
}

double recomputed_flops_per_sample(const NetworkDescription& network, std::int64_t seq_len, int layers) {
  if (layers == 0) return 0;
  double total = 0;
  for (const Product& product : network.shape->products(1, seq_len, layers))
    if (product.kind != Product::Kind::classifier) total += product.forward_flops();
  return total;
}

const char* flops_rule() {
  return "model FLOPs: 3x forward, less the first layer's input gradient, of matmuls (6*N a row), convolutions, "
         "attention (6*L*C*T a token if causal, else 12*L*C*T) and dot products of pairs (DLRM)";
}

}  // namespace tw::models
