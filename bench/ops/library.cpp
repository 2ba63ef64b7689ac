#include "bench/ops/case.hpp"
#include "models/compute/error.hpp"
#if defined(TW_HAVE_CPU)
#include "models/compute/cpu/library_probe.hpp"
#endif

namespace tw::ops {

#if defined(TW_HAVE_CPU)

namespace {

template <class Shape>
std::unique_ptr<Case> make_library_case(Device& device, const Shape& shape, Op pass, const std::string& layout,
                                        double flops) {
  for (const cpu::LibraryProduct& product : cpu::library_products(shape, pass, device.info().threads)) {
    if (product.layout != layout) continue;
    auto made = std::make_unique<Case>(device);
    made->flops = flops;
    made->label = product.implementation;
    made->run = product.run;
    return made;
  }
  throw Error(Failure::unsupported, "the library has no fast implementation for this layout");
}

}  // namespace

std::vector<Entry> library_entries(const NetworkDescription& network, std::int64_t micro_batch, std::int64_t seq_len) {
  std::vector<Entry> entries;
  for (const Product& p : products(network, micro_batch, seq_len)) {
    if (p.kind == Product::Kind::attention) continue;
    const bool convolution = p.kind == Product::Kind::convolution;
    const double flops = p.flops() / p.count / (p.backward_input ? 3 : 2);
    const std::string name = network.name + "/" + product_name(p, network);
    const auto passes =
        convolution
            ? std::vector{Op::convolution_forward, Op::convolution_backward_input, Op::convolution_backward_weights}
            : std::vector{Op::linear_forward, Op::linear_backward_input, Op::linear_backward_weights};
    for (const Op pass : passes) {
      if (!p.backward_input && pass == Op::convolution_backward_input) continue;
      for (const char* layout : {"plain", "packed", "any"}) {
        if (convolution && std::string(layout) == "packed") continue;  // convolution weights always are
        entries.push_back(
            {std::string("library/") + to_string(pass) + "/" + name + "/" + layout, pass,
             [=](Device& device, DType dtype) {
               if (!convolution)
                 return make_library_case(device, LinearShape{p.rows, p.in_features, p.out_features, dtype}, pass,
                                          layout, flops);
               return make_library_case(device,
                                        ConvolutionShape{p.batch, p.height, p.width, p.in_channels, p.out_channels,
                                                         p.kernel, p.stride, p.padding, dtype},
                                        pass, layout, flops);
             }});
      }
    }
  }
  return entries;
}

#else

std::vector<Entry> library_entries(const NetworkDescription&, std::int64_t, std::int64_t) { return {}; }

#endif

}  // namespace tw::ops
