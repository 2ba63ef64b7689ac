#include "models/compute/cpu/library_probe.hpp"

#include <cstdlib>
#include <memory>
#include <unordered_map>

#include "models/compute/cpu/context.hpp"

namespace tw::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

/// A primitive with memory of its own, filled with values in ±1.
class Standalone {
 public:
  explicit Standalone(int threads) : threads_(threads), engine_(dnnl::engine::kind::cpu, 0), stream_(engine_) {}

  void add(int argument, const memory::desc& layout) {
    memory held(layout, engine_);
    const std::size_t bytes = layout.get_size();
    std::uint64_t state = 0x9e3779b97f4a7c15u;
    // 0x3f00–0x3f7f and their negatives are bf16 in ±[0.5, 1); as float32 the lower half is a tail of the fraction.
    auto* halves = static_cast<std::uint16_t*>(held.get_data_handle());
    for (std::size_t i = 0; i < bytes / 2; ++i) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      halves[i] = static_cast<std::uint16_t>(((state >> 40) & 0x807f) | 0x3f00);
    }
    arguments_.insert_or_assign(argument, held);
  }
  const dnnl::engine& engine() const { return engine_; }
  void take(const dnnl::primitive& primitive) { primitive_ = primitive; }
  void run() {
    const ThreadScope scope(threads_);
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::unordered_map<int, memory> arguments_;
};

/// Adds the product unless the library has but its slow reference for it, or none.
template <class Make>
void try_layout(std::vector<LibraryProduct>& found, const std::string& layout, int threads, Make make) {
  const ThreadScope scope(threads);
  auto held = std::make_shared<Standalone>(threads);
  std::string implementation;
  try {
    implementation = make(*held);
  } catch (const dnnl::error&) {
    return;  // unimplemented here
  }
  if (implementation.rfind("ref", 0) == 0) return;
  found.push_back({layout, implementation, [held] { held->run(); }});
}

}  // namespace

std::vector<LibraryProduct> library_products(const LinearShape& s, Op pass, int threads) {
  // The network holds x (rows, in), W (out, in), y (rows, out), all row-major.
  std::int64_t m = s.rows, k = s.in_features, n = s.out_features;
  Tag a = Tag::ab, b = Tag::ba;
  if (pass == Op::linear_backward_input) {
    k = s.out_features, n = s.in_features, b = Tag::ab;
  } else if (pass == Op::linear_backward_weights) {
    m = s.out_features, k = s.rows, n = s.in_features, a = Tag::ba, b = Tag::ab;
  }
  const memory::data_type type = library_type(s.dtype);
  const memory::data_type result = pass == Op::linear_backward_weights ? memory::data_type::f32 : type;
  std::vector<LibraryProduct> found;
  const auto add = [&](const std::string& layout, Tag tag_a, Tag tag_b, Tag tag_c) {
    try_layout(found, layout, threads, [&](Standalone& alone) {
      const dnnl::matmul::desc desc(memory::desc({m, k}, type, tag_a), memory::desc({k, n}, type, tag_b),
                                    memory::desc({m, n}, result, tag_c));
      const dnnl::matmul::primitive_desc made(desc, alone.engine());
      alone.add(DNNL_ARG_SRC, made.src_desc());
      alone.add(DNNL_ARG_WEIGHTS, made.weights_desc());
      alone.add(DNNL_ARG_DST, made.dst_desc());
      alone.take(dnnl::matmul(made));
      return std::string(made.impl_info_str());
    });
  };
  add("plain", a, b, Tag::ab);
  add("packed", a, Tag::any, Tag::ab);
  add("any", Tag::any, Tag::any, Tag::any);
  return found;
}

std::vector<LibraryProduct> library_products(const ConvolutionShape& s, Op pass, int threads) {
  const memory::data_type type = library_type(s.dtype);
  const memory::dims x{s.batch, s.in_channels, s.height, s.width},
      y{s.batch, s.out_channels, s.out_height(), s.out_width()};
  const memory::dims w{s.out_channels, s.in_channels, s.kernel, s.kernel};
  const memory::dims strides{s.stride, s.stride}, padding{s.padding, s.padding};
  std::vector<LibraryProduct> found;
  const auto add = [&](const std::string& layout, Tag activations) {
    try_layout(found, layout, threads, [&](Standalone& alone) {
      const auto w_type = pass == Op::convolution_backward_weights ? memory::data_type::f32 : type;
      const memory::desc x_any(x, type, activations), y_any(y, type, activations);
      const dnnl::convolution_forward::desc forward_desc(
          dnnl::prop_kind::forward_training, dnnl::algorithm::convolution_direct, x_any,
          memory::desc(w, type, Tag::any), y_any, strides, padding, padding);
      const dnnl::convolution_forward::primitive_desc forward(forward_desc, alone.engine());
      if (pass == Op::convolution_forward) {
        alone.add(DNNL_ARG_SRC, forward.src_desc());
        alone.add(DNNL_ARG_WEIGHTS, forward.weights_desc());
        alone.add(DNNL_ARG_DST, forward.dst_desc());
        alone.take(dnnl::convolution_forward(forward));
        return std::string(forward.impl_info_str());
      }
      if (pass == Op::convolution_backward_input) {
        const dnnl::convolution_backward_data::desc desc(dnnl::algorithm::convolution_direct, x_any,
                                                         memory::desc(w, type, Tag::any), y_any, strides, padding,
                                                         padding);
        const dnnl::convolution_backward_data::primitive_desc made(desc, alone.engine(), forward);
        alone.add(DNNL_ARG_DIFF_SRC, made.diff_src_desc());
        alone.add(DNNL_ARG_WEIGHTS, made.weights_desc());
        alone.add(DNNL_ARG_DIFF_DST, made.diff_dst_desc());
        alone.take(dnnl::convolution_backward_data(made));
        return std::string(made.impl_info_str());
      }
      const dnnl::convolution_backward_weights::desc desc(dnnl::algorithm::convolution_direct, x_any,
                                                          memory::desc(w, w_type, Tag::any), y_any, strides, padding,
                                                          padding);
      const dnnl::convolution_backward_weights::primitive_desc made(desc, alone.engine(), forward);
      alone.add(DNNL_ARG_SRC, made.src_desc());
      alone.add(DNNL_ARG_DIFF_WEIGHTS, made.diff_weights_desc());
      alone.add(DNNL_ARG_DIFF_DST, made.diff_dst_desc());
      alone.take(dnnl::convolution_backward_weights(made));
      return std::string(made.impl_info_str());
    });
  };
  add("plain", Tag::nhwc);
  add("any", Tag::any);
  return found;
}

}  // namespace tw::cpu
