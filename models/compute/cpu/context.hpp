// What the plans of the cpu device share: the library's engine, the kernels chosen, scratch memory, measured choices;
// and Call, a primitive with its arguments. Private to models/compute/cpu.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/compute/cpu/kernels.hpp"
#include "models/compute/cpu/onednn.hpp"
#include "models/compute/device.hpp"

namespace tw::models::cpu {

/// Runs `body`; a dnnl::error becomes ApiError with the expression and place.
[[noreturn]] void throw_api_error(const dnnl::error& error, const char* expression, const char* file, int line);
#define TW_DNNL(...)                                                               \
  [&]() -> decltype(auto) {                                                        \
    try {                                                                          \
      return __VA_ARGS__;                                                          \
    } catch (const dnnl::error& error) {                                           \
      ::tw::models::cpu::throw_api_error(error, #__VA_ARGS__, __FILE__, __LINE__); \
    }                                                                              \
  }()

dnnl::memory::data_type library_type(DType dtype);
/// Dense row-major or, with strides, any view.
dnnl::memory::desc matrix(DType dtype, Index rows, Index columns);
dnnl::memory::desc transposed_matrix(DType dtype, Index rows,
                                     Index columns);  // (rows, columns) stored column by column
dnnl::memory::desc strided_matrix(DType dtype, Index rows, Index columns, Index ld);
dnnl::memory::desc any_matrix(DType dtype, Index rows, Index columns);
/// x and y as `activations`, the weight (of x's type) as the library likes it.
onednn::ConvolutionLayouts convolution_layouts(const ConvolutionShape& shape, dnnl::memory::format_tag activations);
/// Extents of the weight as the library counts them, with the groups in front where there are several, and the layout
/// in which the network holds it.
dnnl::memory::dims convolution_weight(const ConvolutionShape& shape);
dnnl::memory::format_tag plain_weight(const ConvolutionShape& shape);

class Context {
 public:
  /// `times`: choices are measured; else each is the one that the caller has fixed, and the number of threads does not
  /// follow the machine's load (OMP_DYNAMIC), which would change the order of sums.
  Context(Device& device, int threads, bool times = true);
  Device& device() { return *device_; }
  int threads() const { return threads_; }
  const dnnl::engine& engine() const { return engine_; }
  dnnl::stream& stream() { return stream_; }
  /// A stream of its own for each thread of a parallel region.
  dnnl::stream& stream_of(int thread) { return thread_streams_[static_cast<std::size_t>(thread)]; }
  const Kernels& kernels() const { return *kernels_; }

  /// Called while plans are built: the arenas grow to the largest need. Their address may change until the next plan.
  void reserve_scratchpad(std::size_t bytes) { reserve(scratchpad_, bytes); }
  void reserve_workspace(std::size_t bytes) { reserve(workspace_, bytes); }
  void* scratchpad() const { return scratchpad_.data(); }  ///< the library's, in a primitive that uses all threads
  char* workspace() const { return static_cast<char*>(workspace_.data()); }
  std::size_t scratchpad_bytes() const { return scratchpad_.bytes(); }
  std::size_t workspace_bytes() const { return workspace_.bytes(); }

  /// Index of the fastest candidate under `key`: candidates() makes them all runnable and is only called for a new key;
  /// `fixed` where choices are not measured, and nothing is run.
  int fastest(const std::string& key, int fixed, const std::function<std::vector<std::function<void()>>()>& candidates);

 private:
  void reserve(Buffer& arena, std::size_t bytes);

  Device* device_;
  int threads_;
  bool times_;
  dnnl::engine engine_;
  dnnl::stream stream_;
  std::vector<dnnl::stream> thread_streams_;
  const Kernels* kernels_;
  Buffer scratchpad_, workspace_;
  std::map<std::string, int> choices_;
};

/// A primitive with its memory objects and argument list, made once; a run only sets addresses.
class Call {
 public:
  Call() = default;
  /// `arguments` in the order in which run() takes their addresses. The scratchpad comes from the caller.
  Call(const Context& context, const dnnl::primitive& primitive, const dnnl::memory::desc& scratchpad,
       std::vector<std::pair<int, dnnl::memory::desc>> arguments);
  std::size_t scratchpad_bytes() const { return scratchpad_bytes_; }
  explicit operator bool() const { return static_cast<bool>(primitive_); }

  template <class... Pointers>
  void run(dnnl::stream& stream, void* scratchpad, Pointers... pointers) {
    const void* addresses[] = {pointers...};
    execute(stream, scratchpad, addresses, sizeof...(pointers));
  }

 private:
  void execute(dnnl::stream& stream, void* scratchpad, const void* const* addresses, std::size_t count);

  dnnl::primitive primitive_;
  std::vector<dnnl::memory> memories_;
  std::vector<dnnl_exec_arg_t> arguments_;
  std::size_t scratchpad_bytes_ = 0;
};

/// Attributes with the scratchpad left to the caller. Float32 is multiplied as `math` says, whatever the environment
/// (ONEDNN_DEFAULT_FPMATH_MODE) says.
dnnl::primitive_attr plan_attributes(Math math = Math::standard);
/// Whether float32 products that may multiply in bf16 do: by the result of one whose operands bf16 does not have. Time
/// would tell less: on a busy machine either way can come out ahead, and the ranks of a job must agree.
bool multiplies_float32_in_bf16(const Context& context);

/// Sets the number of threads that primitives are made for, and puts the old one back.
class ThreadScope {
 public:
  explicit ThreadScope(int threads);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
};

/// One matrix product c(m,n) [+]= a(m,k)·b(k,n) with an optional bias row.
struct Product {
  dnnl::memory::desc a, b, c, bias;
  enum class Sum { none, into_c, other } sum = Sum::none;  // other: + a tensor like c
  float scale = 1;                                         // of a·b
  Math math = Math::standard;
};
struct MadeProduct {
  Call call;             // addresses: a, b, c [, bias] [, other]
  dnnl::memory::desc b;  // the layout taken where b was `any`
  std::string implementation;
};
/// oneDNN 3.7.2 computes these products wrong (3.2 and 2.6.3 do not): of several rows into one column, those with gaps
/// between them; and of one row, a by columns with gaps. No version is asked for them.
bool is_miscomputed(const Product& product);
/// Error{internal} where is_miscomputed. Where only the library's slow reference can do it, `implementation` says so
/// ("ref:any"), and the report repeats it.
MadeProduct make_product(const Context& context, const Product& product);

/// Copies with a change of layout, optionally adding to the destination: whole blocks of a 16-bit matrix that is packed
/// for a product by a kernel of the device (the library's takes up to three times as long), all else by the library.
class Reorder {
 public:
  Reorder() = default;
  Reorder(const Context& context, const dnnl::memory::desc& from, const dnnl::memory::desc& to, bool add = false);
  std::size_t scratchpad_bytes() const { return call_.scratchpad_bytes(); }
  bool is_own() const { return width_ != 0; }  ///< not the library's
  Index width() const { return width_; }       ///< of the packed blocks, where it is our own
  void run(Context& context, const void* from, void* to);

 private:
  Call call_;
  Index rows_ = 0, columns_ = 0, ld_ = 0, width_ = 0;  // as pack_row_pairs takes them
  bool by_columns_ = false;
};

std::unique_ptr<LinearPlan> make_linear(Context& context, const LinearShape& shape);
std::unique_ptr<ConvolutionPlan> make_convolution(Context& context, const ConvolutionShape& shape);
std::unique_ptr<AttentionPlan> make_attention(Context& context, const AttentionShape& shape);
std::unique_ptr<ClassifierPlan> make_classifier(Context& context, const ClassifierShape& shape);

std::vector<LibraryProduct> library_products(const Context& context, const LinearShape& shape, Op pass);
std::vector<LibraryProduct> library_products(const Context& context, const ConvolutionShape& shape, Op pass);

/// What the CPU (capped by ONEDNN_MAX_CPU_ISA) can do.
struct InstructionSet {
  const Kernels* kernels;
  bool has_bf16;
  std::string name;  // "avx512_core_bf16+amx"
};
InstructionSet detect_instruction_set();

/// Why the oneDNN that was loaded, major.minor, does not serve this program: it is of another major version than the
/// one that the program was built with, or older, and a call would crash. Empty if it serves.
std::string library_fault(int major, int minor);

}  // namespace tw::models::cpu
