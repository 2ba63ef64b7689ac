#include "models/compute/cpu/context.hpp"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "models/compute/error.hpp"

namespace tw::models::cpu {

using dnnl::memory;

void throw_api_error(const dnnl::error& error, const char* expression, const char* file, int line) {
  throw ApiError("oneDNN", static_cast<int>(error.status), error.what(), expression, file, line);
}

memory::data_type library_type(DType dtype) {
  return dtype == DType::bf16 ? memory::data_type::bf16 : memory::data_type::f32;
}
memory::desc matrix(DType dtype, Index rows, Index columns) {
  return memory::desc({rows, columns}, library_type(dtype), memory::format_tag::ab);
}
memory::desc transposed_matrix(DType dtype, Index rows, Index columns) {
  return memory::desc({rows, columns}, library_type(dtype), memory::format_tag::ba);
}
memory::desc strided_matrix(DType dtype, Index rows, Index columns, Index ld) {
  return memory::desc({rows, columns}, library_type(dtype), memory::dims{ld, 1});
}
memory::desc any_matrix(DType dtype, Index rows, Index columns) {
  return memory::desc({rows, columns}, library_type(dtype), memory::format_tag::any);
}

onednn::ConvolutionLayouts convolution_layouts(const ConvolutionShape& s, memory::format_tag activations) {
  const memory::data_type type = library_type(s.dtype);
  return {memory::desc({s.batch, s.in_channels, s.height, s.width}, type, activations),
          memory::desc(convolution_weight(s), type, memory::format_tag::any),
          memory::desc({s.batch, s.out_channels, s.out_height(), s.out_width()}, type, activations),
          {s.stride.height, s.stride.width},
          {s.padding.height, s.padding.width},
          {(s.out_height() - 1) * s.stride.height + s.kernel.height - s.height - s.padding.height,
           (s.out_width() - 1) * s.stride.width + s.kernel.width - s.width - s.padding.width}};
}

memory::dims convolution_weight(const ConvolutionShape& s) {
  const memory::dim in = s.in_channels / s.groups, out = s.out_channels / s.groups;
  if (s.groups == 1) return {out, in, s.kernel.height, s.kernel.width};
  return {s.groups, out, in, s.kernel.height, s.kernel.width};
}
memory::format_tag plain_weight(const ConvolutionShape& s) {
  return s.groups == 1 ? memory::format_tag::ohwi : memory::format_tag::gohwi;
}

std::string library_fault(int major, int minor) {
  if (major == DNNL_VERSION_MAJOR && minor >= DNNL_VERSION_MINOR) return {};
  const auto named = [](int first, int second) { return std::to_string(first) + "." + std::to_string(second); };
  const std::string built = named(DNNL_VERSION_MAJOR, DNNL_VERSION_MINOR);
  return "oneDNN " + named(major, minor) + " was loaded, but this program was built with " + built +
         ": make the loader find oneDNN " + built + " or a later " + std::to_string(DNNL_VERSION_MAJOR) +
         ".x (LD_LIBRARY_PATH, LD_PRELOAD, modules), or build again";
}

InstructionSet detect_instruction_set() {
  InstructionSet set{&baseline::table, false, "baseline"};
#if defined(__x86_64__)
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  const auto has = [&](dnnl_cpu_isa_t wanted) {
    return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
  };
  if (has(dnnl_cpu_isa_avx2) && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    set = {&avx2::table, false, "avx2"};
  }
  if (has(dnnl_cpu_isa_avx512_core) && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
    set = {&avx512::table, false, "avx512"};
    if (has(dnnl_cpu_isa_avx512_core_bf16)) set = {&avx512::table, true, "avx512_bf16"};
    if (has(dnnl_cpu_isa_avx512_core_amx)) set = {&avx512::table, true, "avx512_bf16+amx"};
  }
#endif
  return set;
}

Context::Context(Device& device, int threads, bool times)
    : device_(&device),
      threads_(threads),
      times_(times),
      engine_(TW_DNNL(dnnl::engine(dnnl::engine::kind::cpu, 0))),
      stream_(TW_DNNL(dnnl::stream(engine_))),
      kernels_(detect_instruction_set().kernels) {
  if (!times_) omp_set_dynamic(0);
  for (int thread = 0; thread < threads; ++thread) thread_streams_.push_back(TW_DNNL(dnnl::stream(engine_)));
}

void Context::reserve(Buffer& arena, std::size_t bytes) {
  if (bytes <= arena.bytes()) return;
  arena = Buffer();  // first, so that both are never held at once
  arena = Buffer(*device_, bytes);
}

int Context::fastest(const std::string& key, int fixed,
                     const std::function<std::vector<std::function<void()>>()>& make) {
  if (!times_) return fixed;
  if (const auto known = choices_.find(key); known != choices_.end()) return known->second;
  const std::vector<std::function<void()>> candidates = make();
  std::vector<double> best(candidates.size(), std::numeric_limits<double>::infinity());
  for (const auto& run : candidates) run();
  // Rounds over all candidates, so that a disturbance of the machine hits them alike; at least 3 and 4 ms each. A long
  // one that is far behind is not run again: large shapes would take most of a minute to choose for.
  constexpr double far_behind = 1.5, long_seconds = 3e-3;
  double spent = 0;
  for (int round = 0; round < 20 && (round < 3 || spent < 4e-3 * static_cast<double>(candidates.size())); ++round) {
    const double ahead = *std::ranges::min_element(best);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (round > 0 && best[i] > long_seconds && best[i] > far_behind * ahead) continue;
      const auto start = std::chrono::steady_clock::now();
      candidates[i]();
      const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
      best[i] = std::min(best[i], seconds.count());
      spent += seconds.count();
    }
  }
  const int choice = static_cast<int>(std::ranges::min_element(best) - best.begin());
  choices_.emplace(key, choice);
  return choice;
}

Call::Call(const Context& context, const dnnl::primitive& primitive, const memory::desc& scratchpad,
           std::vector<std::pair<int, memory::desc>> arguments)
    : primitive_(primitive), scratchpad_bytes_(scratchpad.get_size()) {
  arguments.emplace_back(DNNL_ARG_SCRATCHPAD, scratchpad);
  for (const std::pair<int, memory::desc>& one : arguments) {  // clang captures no structured binding with OpenMP
    memories_.push_back(TW_DNNL(memory(one.second, context.engine(), DNNL_MEMORY_NONE)));
    arguments_.push_back({one.first, memories_.back().get()});
  }
}

void Call::execute(dnnl::stream& stream, void* scratchpad, const void* const* addresses, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i)
    dnnl_memory_set_data_handle(memories_[i].get(), const_cast<void*>(addresses[i]));
  dnnl_memory_set_data_handle(memories_.back().get(), scratchpad);
  const dnnl_status_t status =
      dnnl_primitive_execute(primitive_.get(), stream.get(), static_cast<int>(arguments_.size()), arguments_.data());
  if (status != dnnl_success) {
    throw ApiError("oneDNN", status, "execution failed", "dnnl_primitive_execute", __FILE__, __LINE__);
  }
}

dnnl::primitive_attr plan_attributes(Math math) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  attributes.set_fpmath_mode(math == Math::bf16 ? dnnl::fpmath_mode::bf16 : dnnl::fpmath_mode::strict);
  return attributes;
}

bool multiplies_float32_in_bf16(const Context& context) {
  const ThreadScope scope(1);
  constexpr Index size = 256;  // small products stay in float32
  const memory::desc square = matrix(DType::float32, size, size);
  Product product{square, square, square, memory::desc()};
  product.math = Math::bf16;
  MadeProduct made = make_product(context, product);
  std::vector<float> operand(size * size, 1 + 1.0f / 1024), result(size * size);  // 1 in bf16
  std::vector<char> scratchpad(made.call.scratchpad_bytes() + 64);
  dnnl::stream stream(context.engine());
  made.call.run(stream, scratchpad.data(), operand.data(), operand.data(), result.data());
  return result[0] == static_cast<float>(size);
}

ThreadScope::ThreadScope(int threads) : before_(omp_get_max_threads()) {
  if (threads != before_) omp_set_num_threads(threads);
}
ThreadScope::~ThreadScope() {
  if (omp_get_max_threads() != before_) omp_set_num_threads(before_);
}

bool is_miscomputed(const Product& product) {
  const std::optional<onednn::Strided> a = onednn::strided(product.a), c = onednn::strided(product.c);
  if (!a || !c) return false;
  const Index rows = c->dims[0], columns = c->dims[1];
  return (columns == 1 && rows > 1 && c->strides[0] > 1) || (rows == 1 && a->strides[0] == 1 && a->strides[1] > 1);
}

MadeProduct make_product(const Context& context, const Product& product) {
  if (is_miscomputed(product)) {
    throw Error(Failure::internal,
                "device cpu: oneDNN 3.7.2 miscomputes a product of this shape; write it without gaps");
  }
  dnnl::primitive_attr attributes = plan_attributes(product.math);
  dnnl::post_ops after;
  if (product.scale != 1.0f) onednn::append_scale(after, product.scale);
  if (product.sum == Product::Sum::into_c) after.append_sum(1.0f);
  if (product.sum == Product::Sum::other) after.append_binary(dnnl::algorithm::binary_add, product.c);
  attributes.set_post_ops(after);
  const auto primitive =
      TW_DNNL(onednn::matmul(context.engine(), product.a, product.b, product.bias, product.c, attributes));
  MadeProduct made;
  made.implementation = primitive.impl_info_str();
  made.b = primitive.weights_desc();
  std::vector<std::pair<int, memory::desc>> arguments = {
      {DNNL_ARG_SRC, product.a}, {DNNL_ARG_WEIGHTS, made.b}, {DNNL_ARG_DST, product.c}};
  if (!product.bias.is_zero()) arguments.emplace_back(DNNL_ARG_BIAS, product.bias);
  if (product.sum == Product::Sum::other) {
    arguments.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(after.len() - 1) | DNNL_ARG_SRC_1, product.c);
  }
  made.call = TW_DNNL(Call(context, dnnl::matmul(primitive), primitive.scratchpad_desc(), std::move(arguments)));
  return made;
}

Reorder::Reorder(const Context& context, const memory::desc& from, const memory::desc& to, bool add) {
  using Tag = memory::format_tag;
  constexpr std::pair<Index, Tag> packed[] = {
      {16, Tag::BA16a16b2a}, {32, Tag::BA16a32b2a}, {48, Tag::BA16a48b2a}, {64, Tag::BA16a64b2a}};
  const std::optional<onednn::Strided> source = onednn::strided(from);
  if (!add && source && source->type == memory::data_type::bf16 && source->dims.size() == 2) {
    const Index rows = source->dims[0], columns = source->dims[1];
    const bool by_columns = source->strides[0] == 1;
    for (const auto& [width, tag] : packed) {
      if (rows % 32 != 0 || columns % width != 0 || source->strides[by_columns ? 0 : 1] != 1) continue;
      if (to != memory::desc({rows, columns}, memory::data_type::bf16, tag)) continue;
      rows_ = rows;
      columns_ = columns;
      ld_ = source->strides[by_columns ? 1 : 0];
      width_ = width;
      by_columns_ = by_columns;
      return;
    }
  }
  dnnl::primitive_attr attributes = plan_attributes();
  if (add) {
    dnnl::post_ops after;
    after.append_sum(1.0f);
    attributes.set_post_ops(after);
  }
  const auto primitive =
      TW_DNNL(dnnl::reorder::primitive_desc(context.engine(), from, context.engine(), to, attributes));
  call_ = TW_DNNL(
      Call(context, dnnl::reorder(primitive), primitive.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}));
}

void Reorder::run(Context& context, const void* from, void* to) {
  if (is_own()) {
    context.kernels().pack_row_pairs(context.threads(), from, by_columns_, rows_, columns_, ld_, width_, to);
  } else {
    call_.run(context.stream(), context.scratchpad(), from, to);
  }
}

}  // namespace tw::models::cpu
