// The cpu device: oneDNN for products and convolutions, OpenMP loops with AVX2 or AVX-512 for everything else.
// ONEDNN_MAX_CPU_ISA (oneDNN's own variable: SSE41, AVX2, AVX512_CORE, AVX512_CORE_BF16, …) caps the instruction set of
// both; bf16 is there where the capped instruction set has AVX512-BF16 or AMX. One device serves one thread at a time.
#include "models/compute/registry.hpp"

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "models/compute/cpu/context.hpp"
#include "models/compute/error.hpp"
#include "models/compute/host_stream.hpp"

namespace tw::models {

namespace cpu {

namespace {

int allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());  // more CPUs than cpu_set_t holds
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name") && line.find(": ") != std::string::npos) return line.substr(line.find(": ") + 2);
  }
  return "CPU";
}

std::size_t node_memory_bytes() {
  const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  return pages > 0 && page > 0 ? static_cast<std::size_t>(pages) * static_cast<std::size_t>(page) : 0;
}

constexpr std::size_t huge_page = std::size_t{2} << 20;

class CpuDevice final : public Device {
 public:
  explicit CpuDevice(const DeviceOptions& options)
      : instruction_set_(detect_instruction_set()), context_(*this, threads_of(options), options.time_algorithms) {
    // Scratch of the loops that need no plan: grown where a wider call comes, which planning forestalls in a network.
    norm_scratch_ = Buffer(*this, norm_scratch_bytes(4096));
    sums_.resize(static_cast<std::size_t>(context_.threads()));
  }

  DeviceInfo info() const override {
    DeviceInfo info;
    info.kind = DeviceKind::cpu;
    info.name = cpu_name();
    info.instruction_set = instruction_set_.name;
    info.threads = context_.threads();
    info.memory_bytes = node_memory_bytes();
    info.libraries = {library_name()};
    return info;
  }
  bool supports(Op op, DType dtype) const override {
    return dtype == DType::float32 || (dtype == DType::bf16 && (instruction_set_.has_bf16 || op == Op::cast));
  }
  using Device::why_unsupported;
  std::string why_unsupported(DType dtype) const override {
    if (!is_float(dtype)) return "activations are floating-point numbers";
    if (dtype == DType::fp16) return "the cpu device computes in float32 and bf16";
    if (dtype != DType::bf16 || instruction_set_.has_bf16) return {};
    return "this CPU has neither AMX nor AVX512-BF16 (kernels in use: " + instruction_set_.name +
           (std::getenv("ONEDNN_MAX_CPU_ISA") != nullptr ? ", capped by ONEDNN_MAX_CPU_ISA)" : ")");
  }

  std::string why_no_math(Math math) const override {
    if (math == Math::standard) return {};
    if (math != Math::bf16) return std::string("only GPUs multiply in ") + to_string(math);
    if (!has_bf16_products_) has_bf16_products_ = multiplies_float32_in_bf16(context_);
    if (*has_bf16_products_) return {};
    return library_name() + " multiplies float32 as float32 on this CPU even if bf16 is allowed; bf16 needs oneDNN 3 " +
           "and AMX (kernels in use: " + instruction_set_.name + ")";
  }

  std::size_t arena_bytes() const override {
    return context_.scratchpad_bytes() + context_.workspace_bytes() + norm_scratch_.bytes();
  }

  void* allocate(std::size_t bytes) override;
  void free(void* data) noexcept override;
  void copy_from_host(Stream&, void* device_data, const void* host, std::size_t bytes) override {
    kernels().copy(threads(), host, device_data, static_cast<Index>(bytes));
  }
  void copy_to_host(Stream&, void* host, const void* device_data, std::size_t bytes) override {
    kernels().copy(threads(), device_data, host, static_cast<Index>(bytes));
  }
  void copy(Stream&, void* destination, const void* source, std::size_t bytes) override {
    kernels().copy(threads(), source, destination, static_cast<Index>(bytes));
  }
  std::size_t allocated_bytes() const override { return allocated_; }
  std::size_t peak_allocated_bytes() const override { return peak_; }
  void reset_peak_allocated_bytes() override { peak_ = allocated_.load(); }

  std::unique_ptr<Stream> create_stream() override { return std::make_unique<HostStream>(); }
  std::unique_ptr<Event> create_event() override { return std::make_unique<HostEvent>(); }

  std::unique_ptr<LinearPlan> plan(const LinearShape& shape) override { return make_linear(context_of(shape), shape); }
  std::unique_ptr<ConvolutionPlan> plan(const ConvolutionShape& shape) override {
    return make_convolution(context_of(shape), shape);
  }
  std::unique_ptr<AttentionPlan> plan(const AttentionShape& shape) override {
    return make_attention(context_of(shape), shape);
  }
  std::unique_ptr<ClassifierPlan> plan(const ClassifierShape& shape) override {
    return make_classifier(context_of(shape), shape);
  }
  std::vector<LibraryProduct> library_products(const LinearShape& shape, Op pass) override {
    return cpu::library_products(context_, shape, pass);
  }
  std::vector<LibraryProduct> library_products(const ConvolutionShape& shape, Op pass) override {
    return cpu::library_products(context_, shape, pass);
  }

 protected:
  // Kernels without scratch: TW_KERNEL(name, Arguments, tensor of the dtype to compute in)
#define TW_KERNEL(name, Arguments, tensor) \
  void do_##name(Stream&, const Arguments& args) override { kernels().name(threads(), args.tensor.dtype, args); }
  TW_KERNEL(embedding_forward, EmbeddingForward, y)
  TW_KERNEL(embedding_backward, EmbeddingBackward, dy)
  TW_KERNEL(layer_norm_forward, LayerNormForward, x)
  TW_KERNEL(rms_norm_forward, RmsNormForward, x)
  TW_KERNEL(rotary, Rotary, x)
  TW_KERNEL(swiglu_forward, SwigluForward, x)
  TW_KERNEL(swiglu_backward, SwigluBackward, x)
  TW_KERNEL(gather_rows, GatherRows, x)
  TW_KERNEL(scatter_rows, ScatterRows, dx)
  TW_KERNEL(embedding_bag_forward, EmbeddingBagForward, y)
  TW_KERNEL(embedding_bag_update, EmbeddingBagUpdate, dy)
  TW_KERNEL(interaction_forward, InteractionForward, y)
  TW_KERNEL(interaction_backward, InteractionBackward, dy)
  TW_KERNEL(binary_cross_entropy, BinaryCrossEntropy, logits)
  TW_KERNEL(add_bias, AddBias, x)
  TW_KERNEL(activation_forward, ActivationForward, x)
  TW_KERNEL(activation_backward, ActivationBackward, x)
  TW_KERNEL(max_pool_forward, MaxPoolForward, x)
  TW_KERNEL(max_pool_backward, MaxPoolBackward, dx)
  TW_KERNEL(average_pool_forward, AveragePoolForward, x)
  TW_KERNEL(average_pool_backward, AveragePoolBackward, dx)
#undef TW_KERNEL
  void do_copy_channels(Stream&, const CopyChannels& args) override {
    const auto element = static_cast<Index>(size_of(args.x.dtype));
    const int last = args.x.dims.rank() - 1;
    const Index x_width = args.x.dims[last] * element, y_width = args.y.dims[last] * element;
    kernels().copy_columns(threads(), args.x.as<char>() + args.from * element, x_width,
                           args.y.as<char>() + args.to * element, y_width, args.x.count() / args.x.dims[last],
                           args.count * element);
  }
  void do_layer_norm_backward(Stream&, const LayerNormBackward& args) override {
    kernels().layer_norm_backward(threads(), args.x.dtype, args, static_cast<float*>(norm_scratch(args.x.dims[1])));
  }
  void do_rms_norm_backward(Stream&, const RmsNormBackward& args) override {
    kernels().rms_norm_backward(threads(), args.x.dtype, args, static_cast<float*>(norm_scratch(args.x.dims[1])));
  }
  void do_batch_norm_forward(Stream&, const BatchNormForward& args) override {
    kernels().batch_norm_forward(threads(), args.x.dtype, args, norm_scratch(args.x.dims[3]));
  }
  void do_batch_norm_backward(Stream&, const BatchNormBackward& args) override {
    kernels().batch_norm_backward(threads(), args.x.dtype, args, norm_scratch(args.x.dims[3]));
  }
  void do_mean_squared_error(Stream&, const MeanSquaredError& args) override {
    kernels().mean_squared_error(threads(), args.predictions.dtype, args, sums_.data());
  }
  void do_bias_backward(Stream&, const BiasBackward& args) override {
    const Index channels = args.d_bias.count();
    kernels().column_sums(threads(), args.dy.dtype, args.dy.data, args.dy.count() / channels, channels, 1.0f,
                          args.d_bias.as<float>(), args.accumulate, static_cast<double*>(norm_scratch(channels)));
  }
  void do_add(Stream&, const Add& args) override {
    kernels().add(threads(), args.y.dtype, args.a.data, args.b.data, args.y.data, args.y.count());
  }
  void do_cast(Stream&, const Cast& args) override {
    kernels().cast(threads(), args.x.dtype, args.x.data, args.y.data, args.y.count());
  }
  void do_fill(Stream&, const Fill& args) override {
    kernels().fill(threads(), args.y.dtype, args.y.data, args.y.count(), args.value);
  }
  void do_global_norm(Stream&, const GlobalNorm& args) override {
    const double squares =
        kernels().sum_of_squares(threads(), args.gradient.as<float>(), args.gradient.count(), sums_.data());
    StepScalars& scalars = *args.scalars;
    const double norm = std::sqrt(squares) * std::fabs(static_cast<double>(scalars.gradient_scale)) /
                        static_cast<double>(scalars.loss_scale);
    scalars.gradient_norm = static_cast<float>(norm);
    if (args.find_non_finite) scalars.found_non_finite = std::isfinite(squares) ? 0 : 1;
    // A NaN norm compares false and leaves the factor 1: the loss shows it.
    scalars.clip_factor = args.max_norm > 0 && norm > args.max_norm ? static_cast<float>(args.max_norm / norm) : 1.0f;
  }
  void do_adamw(Stream&, const AdamW& args) override { kernels().adamw(threads(), args); }
  void do_sgd(Stream&, const Sgd& args) override { kernels().sgd(threads(), args); }
  void do_update_loss_scale(Stream&, const UpdateLossScale&) override {  // the public function has refused it
    throw Error(Failure::unsupported, "device cpu: " + why_unsupported(DType::fp16));
  }

 private:
  static std::string library_name() {
    const dnnl_version_t* version = dnnl_version();
    return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
           std::to_string(version->patch);
  }
  static int threads_of(const DeviceOptions& options) {
    if (options.threads < 0) {
      throw Error(Failure::usage,
                  "device cpu: threads must be 0 (all allowed) or more, not " + std::to_string(options.threads));
    }
    return options.threads > 0 ? options.threads : allowed_cpus();
  }
  /// Throws where the device does not compute in the shape's dtype.
  Context& context_of(const auto& shape) {
    const DType dtype = shape.dtype;
    if (supports(Op::linear_forward, dtype)) return context_;
    throw Error(Failure::unsupported, "device cpu: " + std::string(to_string(dtype)) + ": " + why_unsupported(dtype));
  }
  const Kernels& kernels() const { return context_.kernels(); }
  int threads() const { return context_.threads(); }
  std::size_t norm_scratch_bytes(Index channels) const {
    return static_cast<std::size_t>(channels) *
           (2 * sizeof(double) * static_cast<std::size_t>(context_.threads()) + 4 * sizeof(float));
  }
  void* norm_scratch(Index channels) {
    if (norm_scratch_bytes(channels) > norm_scratch_.bytes())
      norm_scratch_ = Buffer(*this, norm_scratch_bytes(channels));
    return norm_scratch_.data();
  }

  InstructionSet instruction_set_;
  std::mutex mutex_;
  std::unordered_map<void*, std::size_t> sizes_;
  std::atomic<std::size_t> allocated_ = 0, peak_ = 0;
  Context context_;
  Buffer norm_scratch_;
  std::vector<double> sums_;
  mutable std::optional<bool> has_bf16_products_;  // found out where it is asked for
};

void* CpuDevice::allocate(std::size_t bytes) {
  const bool large = bytes >= huge_page;
  const std::size_t alignment = large ? huge_page : 128;
  const std::size_t rounded = bytes > SIZE_MAX - alignment ? 0 : (bytes + alignment - 1) / alignment * alignment;
  void* data = rounded == 0 ? nullptr : std::aligned_alloc(alignment, rounded);
  if (data == nullptr) {
    throw Error(Failure::environment, "device cpu: cannot allocate " + std::to_string(bytes) + " bytes (" +
                                          std::to_string(allocated_) +
                                          " are allocated); use a smaller batch or a smaller network");
  }
  if (large) madvise(data, rounded, MADV_HUGEPAGE);  // advice only: smaller pages work too
  const std::lock_guard lock(mutex_);
  sizes_.emplace(data, bytes);
  allocated_ += bytes;
  if (allocated_ > peak_) peak_ = allocated_.load();
  return data;
}

void CpuDevice::free(void* data) noexcept {
  if (data == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto found = sizes_.find(data);
  if (found == sizes_.end()) return;
  allocated_ -= found->second;
  sizes_.erase(found);
  std::free(data);
}

}  // namespace
}  // namespace cpu

std::unique_ptr<Device> make_cpu_device(const DeviceOptions& options) {
  return std::make_unique<cpu::CpuDevice>(options);
}
int count_cpu_devices() { return why_no_cpu_device().empty() ? 1 : 0; }
std::string why_no_cpu_device() {
  const dnnl_version_t* loaded = dnnl_version();
  return cpu::library_fault(loaded->major, loaded->minor);
}

}  // namespace tw::models
