// The library's own products, one primitive each and nothing around it.
#include <memory>
#include <unordered_map>

#include "models/compute/cpu/context.hpp"

namespace tw::models::cpu {
namespace {

using dnnl::memory;
using Tag = memory::format_tag;

/// A primitive made for the device's threads, and its operands' places.
class Standalone {
 public:
  explicit Standalone(const Context& context)
      : threads_(context.threads()), engine_(context.engine()), stream_(engine_) {}

  const dnnl::engine& engine() const { return engine_; }
  void take(const dnnl::primitive& primitive) { primitive_ = primitive; }
  /// Operands in the order x, weight, y.
  void add(int argument, const memory::desc& layout) {
    order_.push_back(argument);
    bytes_.push_back(layout.get_size());
    arguments_.emplace(argument, memory(layout, engine_, DNNL_MEMORY_NONE));
  }
  std::array<std::size_t, 3> bytes() const { return {bytes_.at(0), bytes_.at(1), bytes_.at(2)}; }
  void run(void* x, void* weight, void* y) {
    const ThreadScope scope(threads_);
    void* const operands[] = {x, weight, y};
    for (std::size_t i = 0; i < order_.size(); ++i) {
      memory& operand = arguments_.at(order_[i]);
      if (operand.get_data_handle() != operands[i]) operand.set_data_handle(operands[i]);
    }
    primitive_.execute(stream_, arguments_);
    stream_.wait();
  }

 private:
  int threads_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  dnnl::primitive primitive_;
  std::vector<int> order_;
  std::vector<std::size_t> bytes_;
  std::unordered_map<int, memory> arguments_;
};

/// As plan_attributes, but the scratchpad is the library's.
dnnl::primitive_attr attributes_of(Math math) {
  dnnl::primitive_attr attributes = plan_attributes(math);
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::library);
  return attributes;
}

/// Adds the product unless the library has but its slow reference for it, or none.
template <class Make>
void try_layout(std::vector<LibraryProduct>& found, const Context& context, const std::string& layout, Make make) {
  const ThreadScope scope(context.threads());
  auto alone = std::make_shared<Standalone>(context);
  std::string implementation;
  try {
    implementation = make(*alone);
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_unimplemented || error.status == dnnl_invalid_arguments) return;
    throw_api_error(error, "a product of the library alone", __FILE__, __LINE__);
  }
  if (implementation.starts_with("ref")) return;
  found.push_back({layout, implementation, alone->bytes(),
                   [alone](Stream&, void* x, void* weight, void* y) { TW_DNNL(alone->run(x, weight, y)); }});
}

}  // namespace

std::vector<LibraryProduct> library_products(const Context& context, const LinearShape& s, Op pass) {
  // The network holds x (rows, in), W (out, in), y (rows, out), all row-major. What is a, b and c of the product:
  std::int64_t m = s.rows, k = s.in_features, n = s.out_features;
  Tag a = Tag::ab, b = Tag::ba;
  std::array<int, 3> order{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};  // of x, W, y
  if (pass == Op::linear_backward_input) {
    k = s.out_features, n = s.in_features, b = Tag::ab;
    order = {DNNL_ARG_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_SRC};
  } else if (pass == Op::linear_backward_weights) {
    m = s.out_features, k = s.rows, n = s.in_features, a = Tag::ba, b = Tag::ab;
    order = {DNNL_ARG_WEIGHTS, DNNL_ARG_DST, DNNL_ARG_SRC};
  }
  const memory::data_type type = library_type(s.dtype);
  const memory::data_type result = pass == Op::linear_backward_weights ? memory::data_type::f32 : type;
  const dnnl::primitive_attr attributes = attributes_of(s.math);
  std::vector<LibraryProduct> found;
  const auto add = [&](const std::string& layout, Tag tag_a, Tag tag_b, Tag tag_c) {
    try_layout(found, context, layout, [&](Standalone& alone) {
      const auto made =
          onednn::matmul(alone.engine(), memory::desc({m, k}, type, tag_a), memory::desc({k, n}, type, tag_b), {},
                         memory::desc({m, n}, result, tag_c), attributes);
      for (const int argument : order)
        alone.add(argument, argument == DNNL_ARG_SRC       ? made.src_desc()
                            : argument == DNNL_ARG_WEIGHTS ? made.weights_desc()
                                                           : made.dst_desc());
      alone.take(dnnl::matmul(made));
      return std::string(made.impl_info_str());
    });
  };
  add("plain", a, b, Tag::ab);
  add("packed", a, Tag::any, Tag::ab);
  add("any", Tag::any, Tag::any, Tag::any);
  return found;
}

std::vector<LibraryProduct> library_products(const Context& context, const ConvolutionShape& s, Op pass) {
  const dnnl::primitive_attr attributes = attributes_of(s.math);
  std::vector<LibraryProduct> found;
  const auto add = [&](const std::string& layout, Tag activations) {
    try_layout(found, context, layout, [&](Standalone& alone) {
      onednn::ConvolutionLayouts layouts = convolution_layouts(s, activations);
      const auto forward = onednn::convolution_forward(alone.engine(), layouts, attributes);
      if (pass == Op::convolution_forward) {
        alone.add(DNNL_ARG_SRC, forward.src_desc());
        alone.add(DNNL_ARG_WEIGHTS, forward.weights_desc());
        alone.add(DNNL_ARG_DST, forward.dst_desc());
        alone.take(dnnl::convolution_forward(forward));
        return std::string(forward.impl_info_str());
      }
      if (pass == Op::convolution_backward_input) {
        using Input = dnnl::convolution_backward_data;
        const auto made = onednn::convolution_backward<Input>(alone.engine(), layouts, forward, attributes);
        alone.add(DNNL_ARG_DIFF_SRC, made.diff_src_desc());
        alone.add(DNNL_ARG_WEIGHTS, made.weights_desc());
        alone.add(DNNL_ARG_DIFF_DST, made.diff_dst_desc());
        alone.take(Input(made));
        return std::string(made.impl_info_str());
      }
      using Weights = dnnl::convolution_backward_weights;
      layouts.weight = memory::desc(convolution_weight(s), memory::data_type::f32, Tag::any);
      const auto made = onednn::convolution_backward<Weights>(alone.engine(), layouts, forward, attributes);
      alone.add(DNNL_ARG_SRC, made.src_desc());
      alone.add(DNNL_ARG_DIFF_WEIGHTS, made.diff_weights_desc());
      alone.add(DNNL_ARG_DIFF_DST, made.diff_dst_desc());
      alone.take(Weights(made));
      return std::string(made.impl_info_str());
    });
  };
  add("plain", Tag::nhwc);
  add("any", Tag::any);
  return found;
}

}  // namespace tw::models::cpu
