#include "models/catalog/memory.hpp"

#include <algorithm>
#include <stdexcept>

#include "models/catalog/families.hpp"

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

const Family& family_of(const NetworkDescription& network) {
  for (const auto& [name, family] : families())
    if (name == network.shape->family()) return family;
  throw std::logic_error("no family is called " + network.shape->family());
}

/// Bytes of activations where the first `recomputed` layers keep only what they hand on.
double kept_bytes(const NetworkDescription& network, std::int64_t micro_batch, std::int64_t seq_len, int recomputed,
                  double element, double input_element) {
  const Family& family = family_of(network);
  const auto inputs = [&](int layers) {  // of the products up to there
    return family.read_by_products != nullptr ? family.read_by_products(network, micro_batch, seq_len, layers)
                                              : input_elements(network.shape->products(micro_batch, seq_len, layers));
  };
  const int count = layer_count(network);
  const double all = inputs(count);
  if (recomputed <= 0) return all * input_element;
  const std::vector<BlockElements> blocks = family.blocks(network, micro_batch, seq_len);
  double handed_on = 0, largest = 0;  // to the recomputed layers; of the saved tensors that lie in one region
  for (int i = 0; i <= recomputed; ++i) {
    const BlockElements& block = blocks.at(static_cast<std::size_t>(i));
    if (i < recomputed || recomputed == count) handed_on += block.output;
    largest = std::max(largest, block.saved);
  }
  // The next layer has its saved tensors in the same region. Its products are among the rest.
  const double rest = all - inputs(recomputed), behind = recomputed < count ? all - inputs(recomputed + 1) : 0;
  return handed_on * element + std::max(rest, behind + largest) * input_element;
}

}  // namespace

std::vector<BlockElements> equal_blocks(const NetworkDescription& network, std::int64_t micro_batch,
                                        std::int64_t seq_len, std::int64_t width) {
  const auto inputs = [&](int layers) { return input_elements(network.shape->products(micro_batch, seq_len, layers)); };
  const int count = layer_count(network);
  const double output = static_cast<double>(micro_batch) * static_cast<double>(seq_len) * static_cast<double>(width);
  // The products of all layers come with those of the head.
  const double saved = count > 1 ? inputs(1) - inputs(0) : 0;
  std::vector<BlockElements> blocks(static_cast<std::size_t>(count) + 1, BlockElements{output, saved});
  blocks.front().saved = 0;
  return blocks;
}

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
  products(network, micro_batch, seq_len);  // throws
  // Backward keeps what is rounded to fp8, and the blocks hand on what is stored.
  least.activations =
      kept_bytes(network, micro_batch, seq_len, recomputed_layers, element, precision == "fp8" ? 1 : element);
  return least;
}

}  // namespace tw::models
