#include "bench/ops/case.hpp"
#include "models/compute/error.hpp"

namespace tw::bench::ops {
namespace {

template <class Shape>
void make_library_case(Case& c, const Shape& shape, models::Op pass, const std::string& layout, double flops) {
  for (const models::LibraryProduct& product : c.device().library_products(shape, pass)) {
    if (product.layout != layout) continue;
    std::array<void*, 3> operands{};
    for (std::size_t i = 0; i < 3; ++i)
      operands[i] = c.tensor(models::DType::bf16,
                             {static_cast<std::int64_t>(product.bytes[i] / models::size_of(models::DType::bf16))})
                        .data;
    c.flops = flops;
    c.label = product.implementation;
    c.run = [&c, product, operands] { product.run(c.stream(), operands[0], operands[1], operands[2]); };
    return;
  }
  throw models::Error(models::Failure::unsupported, "the library has no fast implementation for this layout");
}

}  // namespace

std::vector<Entry> library_entries(const models::NetworkDescription& network, std::int64_t micro_batch,
                                   std::int64_t seq_len) {
  std::vector<Entry> entries;
  for (const models::Product& p : models::products(network, micro_batch, seq_len)) {
    if (p.kind == models::Product::Kind::attention) continue;
    const double flops = p.flops() / p.count / (p.backward_input ? 3 : 2);
    const auto add = [&](const auto& bare, models::Op pass, std::initializer_list<const char*> layouts) {
      const std::string name =
          std::string("library/") + models::to_string(pass) + "/" + network.name + "/" + product_name(p) + "/";
      const auto shape_of = [bare](models::Precision precision) {
        auto shape = bare;
        shape.dtype = models::storage(precision);
        shape.math = models::math(precision);
        return shape;
      };
      entries.push_back({name + "plan", pass,
                         [=](Case& c, models::Precision precision) { make_bare(c, shape_of(precision), pass); },
                         Multiplies::not_in_fp8});
      for (const std::string layout : layouts)
        entries.push_back({name + layout, pass,
                           [=](Case& c, models::Precision precision) {
                             make_library_case(c, shape_of(precision), pass, layout, flops);
                           },
                           Multiplies::not_in_fp8});
    };
    if (p.kind == models::Product::Kind::convolution) {
      const models::ConvolutionShape shape = convolution_shape(p, models::DType::float32, models::Math::standard);
      for (const models::Op pass : convolution_passes)
        if (p.backward_input || pass != models::Op::convolution_backward_input) add(shape, pass, {"plain", "any"});
    } else {
      const models::LinearShape shape{p.rows, p.in_features, p.out_features, models::DType::float32,
                                      models::Activation::none};
      for (const models::Op pass : linear_passes) add(shape, pass, {"plain", "packed", "any"});
    }
  }
  return entries;
}

}  // namespace tw::bench::ops
