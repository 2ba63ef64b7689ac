#include "models/catalog/memory.hpp"

namespace tw::models {
namespace {

/// Elements of the inputs of all these products. An attention's are the queries, keys and values.
double input_elements(const std::vector<Product>& products) {
  const auto number = [](std::int64_t value) { return static_cast<double>(value); };
  double all = 0;
  for (const Product& p : products) {
    double one = 0;
    switch (p.kind) {
      case Product::Kind::linear:
      case Product::Kind::classifier:
        one = number(p.rows) * number(p.in_features);
        break;
      case Product::Kind::convolution:
        one = number(p.batch) * number(p.height) * number(p.width) * number(p.in_channels);
        break;
      case Product::Kind::attention:
        one = number(p.batch) * number(p.seq) * number(p.head_dim) *
              (number(p.heads) + 2 * number(p.kv_heads > 0 ? p.kv_heads : p.heads));
        break;
      case Product::Kind::interaction:
        one = number(p.batch) * number(p.heads) * number(p.head_dim);
        break;
    }
    all += one * p.count;
  }
  return all;
}

}  // namespace

LeastMemory least_memory(const NetworkDescription& network, const std::string& precision, std::int64_t micro_batch,
                         std::int64_t seq_len, int recomputed_layers, int ranks) {
  // fp8 is computed from what is stored in bf16.
  const double element = precision == "bf16" || precision == "fp16" || precision == "fp8" ? 2 : 4;
  constexpr double float32 = 4;
  const auto parameters = static_cast<double>(count_dense_parameters(network));
  LeastMemory least;
  least.parameters = parameters * (element + (element < float32 ? float32 : 0) + float32);
  const Tables tables = network.shape->tables();
  least.parameters += static_cast<double>(tables.elements()) / ranks * float32;
  least.optimizer = parameters * float32 * default_optimizer(network).moments();
  least.activations = input_elements(products(network, micro_batch, seq_len));
  if (recomputed_layers > 0)
    least.activations -= input_elements(network.shape->products(micro_batch, seq_len, recomputed_layers));
  // Where all layers are recomputed, the head alone is left.
  if (recomputed_layers > 0 && recomputed_layers >= layer_count(network)) least.activations = 0;
  least.activations *= precision == "fp8" ? 1 : element;  // of which backward keeps what is rounded to it
  return least;
}

}  // namespace tw::models
