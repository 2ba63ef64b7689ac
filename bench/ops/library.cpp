#include "bench/ops/case.hpp"
#include "models/compute/error.hpp"

namespace tw::bench::ops {
using namespace models;
namespace {

template <class Shape>
void make_library_case(Case& c, const Shape& shape, Op pass, const std::string& layout, double flops) {
  for (const LibraryProduct& product : c.device().library_products(shape, pass)) {
    if (product.layout != layout) continue;
    std::array<void*, 3> operands{};
    for (std::size_t i = 0; i < 3; ++i)
      operands[i] = c.tensor(DType::bf16, {static_cast<std::int64_t>(product.bytes[i] / size_of(DType::bf16))}).data;
    c.flops = flops;
    c.label = product.implementation;
    c.run = [&c, product, operands] { product.run(c.stream(), operands[0], operands[1], operands[2]); };
    return;
  }
  throw Error(Failure::unsupported, "the library has no fast implementation for this layout");
}

}  // namespace

std::vector<Entry> library_entries(const NetworkDescription& network, std::int64_t micro_batch, std::int64_t seq_len) {
  std::vector<Entry> entries;
  for (const Product& p : products(network, micro_batch, seq_len)) {
    if (p.kind == Product::Kind::attention) continue;
    const double flops = p.flops() / p.count / (p.backward_input ? 3 : 2);
    const auto add = [&](const auto& bare, Op pass, std::initializer_list<const char*> layouts) {
      const std::string name =
          std::string("library/") + to_string(pass) + "/" + network.name + "/" + product_name(p) + "/";
      const auto shape_of = [bare](Precision precision) {
        auto shape = bare;
        shape.dtype = storage(precision);
        shape.math = math(precision);
        return shape;
      };
      entries.push_back({name + "plan", pass,
                         [=](Case& c, Precision precision) { make_bare(c, shape_of(precision), pass); },
                         Multiplies::not_in_fp8});
      for (const std::string layout : layouts)
        entries.push_back(
            {name + layout, pass,
             [=](Case& c, Precision precision) { make_library_case(c, shape_of(precision), pass, layout, flops); },
             Multiplies::not_in_fp8});
    };
    if (p.kind == Product::Kind::convolution) {
      const ConvolutionShape shape = convolution_shape(p, DType::float32, Math::standard);
      for (const Op pass : convolution_passes)
        if (p.backward_input || pass != Op::convolution_backward_input) add(shape, pass, {"plain", "any"});
    } else {
      const LinearShape shape{p.rows, p.in_features, p.out_features, DType::float32, Activation::none};
      for (const Op pass : linear_passes) add(shape, pass, {"plain", "packed", "any"});
    }
  }
  return entries;
}

}  // namespace tw::bench::ops
