#include "models/catalog/fp8.hpp"

namespace tw::models {

std::string why_no_fp8_batch(const NetworkDescription& network, std::int64_t micro_batch, std::int64_t seq_len) {
  if (const std::string why = why_no_fp8(network); !why.empty()) return why + ": choose bf16";
  constexpr std::int64_t unit = 16;
  for (const Product& p : products(network, micro_batch, seq_len)) {
    if (p.kind != Product::Kind::linear || p.beside_fp8) continue;
    const bool fits = p.in_features % unit == 0 && p.out_features % unit == 0;
    if (fits && p.rows % unit == 0) continue;
    return "fp8 needs rows and features that are multiples of 16, and a linear layer has " + std::to_string(p.rows) +
           " rows of " + std::to_string(p.in_features) + " to " + std::to_string(p.out_features) +
           " features: choose " + (fits ? "another micro-batch or bf16" : "bf16");
  }
  return {};
}

}  // namespace tw::models
