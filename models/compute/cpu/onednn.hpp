// The interfaces of oneDNN 2.6 and 3 as one: version 3 has no operation descriptors and hides the fields of a layout.
// No other source depends on the version. Private to models/compute/cpu.
#pragma once

#include <optional>

#include <oneapi/dnnl/dnnl.hpp>

namespace tw::models::cpu::onednn {

using dnnl::memory;

/// c = a·b [+ bias, unless its layout is zero].
inline dnnl::matmul::primitive_desc matmul(const dnnl::engine& engine, const memory::desc& a, const memory::desc& b,
                                           const memory::desc& bias, const memory::desc& c,
                                           const dnnl::primitive_attr& attributes) {
#if DNNL_VERSION_MAJOR >= 3
  if (bias.is_zero()) return {engine, a, b, c, attributes};
  return {engine, a, b, bias, c, attributes};
#else
  const dnnl::matmul::desc product = bias.is_zero() ? dnnl::matmul::desc(a, b, c) : dnnl::matmul::desc(a, b, bias, c);
  return {product, attributes, engine};
#endif
}

/// The result times `scale`: before all that is appended later.
inline void append_scale(dnnl::post_ops& after, float scale) {
#if DNNL_VERSION_MAJOR >= 3
  after.append_eltwise(dnnl::algorithm::eltwise_linear, scale, 0.0f);
#else
  after.append_eltwise(1.0f, dnnl::algorithm::eltwise_linear, scale, 0.0f);
#endif
}

/// Of a convolution's forward or backward pass: x or its gradient, and so on.
struct ConvolutionLayouts {
  memory::desc x, weight, y;
  memory::dims strides, padding_begin, padding_end;
};

inline dnnl::convolution_forward::primitive_desc convolution_forward(const dnnl::engine& engine,
                                                                     const ConvolutionLayouts& l,
                                                                     const dnnl::primitive_attr& attributes) {
  constexpr auto kind = dnnl::prop_kind::forward_training;
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, kind, algorithm, l.x, l.weight, l.y, l.strides, l.padding_begin, l.padding_end, attributes};
#else
  return {{kind, algorithm, l.x, l.weight, l.y, l.strides, l.padding_begin, l.padding_end}, attributes, engine};
#endif
}

/// `Backward`: dnnl::convolution_backward_data or …_weights.
template <class Backward>
typename Backward::primitive_desc convolution_backward(const dnnl::engine& engine, const ConvolutionLayouts& l,
                                                       const dnnl::convolution_forward::primitive_desc& forward,
                                                       const dnnl::primitive_attr& attributes) {
  constexpr auto algorithm = dnnl::algorithm::convolution_direct;
#if DNNL_VERSION_MAJOR >= 3
  return {engine, algorithm, l.x, l.weight, l.y, l.strides, l.padding_begin, l.padding_end, forward, attributes};
#else
  return {{algorithm, l.x, l.weight, l.y, l.strides, l.padding_begin, l.padding_end}, attributes, engine, forward};
#endif
}

/// A layout without blocks and offset: element (i, j, …) at i·strides[0] + j·strides[1] + …
struct Strided {
  memory::data_type type;
  memory::dims dims, strides;
};
inline std::optional<Strided> strided(const memory::desc& layout) {
#if DNNL_VERSION_MAJOR >= 3
  if (layout.get_format_kind() != memory::format_kind::blocked || layout.get_inner_nblks() != 0 ||
      layout.get_submemory_offset() != 0)
    return std::nullopt;
  return Strided{layout.get_data_type(), layout.get_dims(), layout.get_strides()};
#else
  const dnnl_memory_desc_t& data = layout.data;
  const dnnl_blocking_desc_t& blocking = data.format_desc.blocking;
  if (data.format_kind != dnnl_blocked || blocking.inner_nblks != 0 || data.offset0 != 0 ||
      data.extra.flags != dnnl_memory_extra_flag_none)
    return std::nullopt;
  return Strided{layout.data_type(), layout.dims(), memory::dims(blocking.strides, blocking.strides + data.ndims)};
#endif
}

}  // namespace tw::models::cpu::onednn
