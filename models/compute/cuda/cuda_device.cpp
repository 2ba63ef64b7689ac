// NVIDIA GPUs through the CUDA runtime: memory, streams, events and graphs, all operators, and the plans: products by
// cuBLASLt, convolutions and fused attention by cuDNN, the rest by own kernels. What a library that is missing would
// do, or this GPU cannot, supports() denies and plan() throws as Error{unsupported}.
#include "models/compute/registry.hpp"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "models/compute/cuda/kernels/check.hpp"
#include "models/compute/cuda/kernels/kernels.hpp"
#include "models/compute/cuda/plans.hpp"

namespace tw::models {
namespace {

/// "13.0" from 13000
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// "00000000:c1:00"
std::string pci_text(const cudaDeviceProp& properties) {
  char text[32];
  std::snprintf(text, sizeof text, "%08x:%02x:%02x", static_cast<unsigned>(properties.pciDomainID),
                static_cast<unsigned>(properties.pciBusID), static_cast<unsigned>(properties.pciDeviceID));
  return text;
}

/// "GPU-1b2c3d4e-…", as nvidia-smi and NVML write it; of a MIG instance they write "MIG-…", which the runtime does not
/// tell.
std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    char hex[3];
    std::snprintf(hex, sizeof hex, "%02x", static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += hex;
  }
  return text;
}

class CudaStream final : public Stream {
 public:
  CudaStream(int index, bool is_urgent) : index_(index) {
    TW_CUDA(cudaSetDevice(index_));
    int least = 0, greatest = 0;  // as numbers the other way round: greatest is at most 0, the default's
    TW_CUDA(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    TW_CUDA(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, is_urgent ? greatest : 0));
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;
  ~CudaStream() override { TW_CUDA_NOTHROW(cudaStreamDestroy(stream_)); }
  void synchronize() override { TW_CUDA(cudaStreamSynchronize(stream_)); }
  void wait(Event& event) override;
  void* native() const override { return stream_; }
  cudaStream_t get() const { return stream_; }

 private:
  int index_;
  cudaStream_t stream_ = nullptr;
};

cudaStream_t native(Stream& stream) { return static_cast<CudaStream&>(stream).get(); }

class CudaEvent final : public Event {
 public:
  CudaEvent(int index, unsigned flags) : index_(index) {
    TW_CUDA(cudaSetDevice(index_));
    TW_CUDA(cudaEventCreateWithFlags(&event_, flags));
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent() override { TW_CUDA_NOTHROW(cudaEventDestroy(event_)); }
  void record(Stream& stream) override { TW_CUDA(cudaEventRecord(event_, native(stream))); }
  void synchronize() override { TW_CUDA(cudaEventSynchronize(event_)); }
  bool is_done() override {
    TW_CUDA(cudaSetDevice(index_));  // another thread's own would be the first one, on which it would make a context
    const cudaError_t code = cudaEventQuery(event_);
    if (code == cudaErrorNotReady) {
      cudaGetLastError();  // no error
      return false;
    }
    TW_CUDA(code);
    return true;
  }
  double seconds_since(Event& earlier) override {
    earlier.synchronize();
    synchronize();
    float milliseconds = 0;
    TW_CUDA(cudaEventElapsedTime(&milliseconds, static_cast<CudaEvent&>(earlier).event_, event_));
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  friend class CudaStream;
  int index_;
  cudaEvent_t event_ = nullptr;
};

void CudaStream::wait(Event& event) { TW_CUDA(cudaStreamWaitEvent(stream_, static_cast<CudaEvent&>(event).event_)); }

/// Work that was recorded from a stream of the device; empty, it launches nothing.
class CudaGraph final : public Graph {
 public:
  /// `memory` lives as long as the graph: what the recorded calls used of a workspace that may grow.
  CudaGraph(cudaGraph_t recorded, std::shared_ptr<const void> memory) : memory_(std::move(memory)) {
    const cudaError_t code = cudaGraphInstantiate(&graph_, recorded, 0);
    TW_CUDA_NOTHROW(cudaGraphDestroy(recorded));
    check_cuda(code, "cudaGraphInstantiate", __FILE__, __LINE__);
  }
  CudaGraph(const CudaGraph&) = delete;
  CudaGraph& operator=(const CudaGraph&) = delete;
  ~CudaGraph() override { TW_CUDA_NOTHROW(cudaGraphExecDestroy(graph_)); }
  void launch(Stream& stream) override { TW_CUDA(cudaGraphLaunch(graph_, native(stream))); }

 private:
  std::shared_ptr<const void> memory_;
  cudaGraphExec_t graph_ = nullptr;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(const DeviceOptions& options)
      : index_(options.index),
        threads_(std::max(1, options.threads)),
        context_(
            std::make_unique<cuda::Context>(*this, options.index, options.time_algorithms, options.deterministic)) {}
  ~CudaDevice() override {
    context_.reset();  // its memory is of this device
    for (const auto& [data, bytes] : blocks_) TW_CUDA_NOTHROW(cudaFree(data));
  }

  DeviceInfo info() const override {
    cudaDeviceProp properties{};
    TW_CUDA(cudaGetDeviceProperties(&properties, index_));
    int runtime = 0, driver = 0;
    TW_CUDA(cudaRuntimeGetVersion(&runtime));
    TW_CUDA(cudaDriverGetVersion(&driver));
    DeviceInfo info;
    info.kind = DeviceKind::cuda;
    info.index = index_;
    info.name = properties.name;
    info.uuid = uuid_text(properties.uuid);
    info.pci = pci_text(properties);
    info.instruction_set = "sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
    info.threads = threads_;
    info.memory_bytes = properties.totalGlobalMem;
    info.libraries = {"CUDA runtime " + version_text(runtime), "CUDA driver " + version_text(driver)};
    if (context_->why_no_blas().empty()) info.libraries.push_back("cuBLASLt " + context_->blas().library().version());
    std::string why;
    if (const std::string version = cuda::dnn_version(*context_, &why); !version.empty()) {
      info.libraries.push_back(version);
    }
    return info;
  }

  bool is_asynchronous() const override { return true; }
  bool generates_samples() const override { return true; }
  bool has_graphs() const override { return true; }
  void begin_capture(Stream& stream) override {
    use();
    // Other threads go on as they like (a watch over a communicator asks its library all the time).
    TW_CUDA(cudaStreamBeginCapture(native(stream), cudaStreamCaptureModeThreadLocal));
  }
  std::unique_ptr<Graph> end_capture(Stream& stream) override {
    use();
    std::shared_ptr<const void> memory = context_->take_captured_workspace();
    cudaGraph_t recorded = nullptr;
    TW_CUDA(cudaStreamEndCapture(native(stream), &recorded));
    return std::make_unique<CudaGraph>(recorded, std::move(memory));
  }
  bool supports(Op op, DType dtype) const override {
    if (!is_float(dtype)) return false;
    std::string why;
    switch (op) {
      case Op::linear_forward:
      case Op::linear_backward_input:
      case Op::linear_backward_weights:
      case Op::classifier:
      case Op::attention_forward:
      case Op::attention_backward:
        return (!is_half(dtype) || context_->architecture() >= 80) && context_->why_no_blas().empty();
      case Op::convolution_forward:
      case Op::convolution_backward_input:
      case Op::convolution_backward_weights:
        return !cuda::dnn_version(*context_, &why).empty();
      default:
        return true;
    }
  }
  using Device::why_unsupported;
  std::string why_unsupported(DType dtype) const override {
    if (!is_float(dtype)) return "activations are floating-point numbers";
    if (is_half(dtype) && context_->architecture() < 80) return needs("bf16 and fp16 products", 80);
    if (const std::string why = context_->why_no_blas(); !why.empty()) return "products need cuBLASLt: " + why;
    return {};
  }
  bool rounds_ahead() const override { return true; }
  std::string why_no_math(Math math) const override {
    if (math == Math::tf32 && context_->architecture() < 80) return needs("tf32 products", 80);
    if (math == Math::bf16) return "this device multiplies float32 in tf32 instead";
    if (math == Math::fp8 && context_->architecture() < 89) return needs("fp8 products", 89);
    return {};
  }

  void* allocate(std::size_t bytes) override {
    use();
    {
      const std::lock_guard lock(mutex_);
      release_refused();
    }
    void* data = nullptr;
    const cudaError_t code = cudaMalloc(&data, std::max<std::size_t>(bytes, 1));
    if (code == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      std::size_t free_bytes = 0, total_bytes = 0;
      TW_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
      throw Error(Failure::environment,
                  "cuda:" + std::to_string(index_) + ": cannot allocate " + std::to_string(bytes) + " bytes, " +
                      std::to_string(free_bytes) + " of " + std::to_string(total_bytes) + " are free, and with the " +
                      std::to_string(allocated_bytes()) + " held so far at least " +
                      std::to_string(allocated_bytes() + bytes) + " are needed; use a smaller micro-batch");
    }
    TW_CUDA(code);
    const std::lock_guard lock(mutex_);
    blocks_[data] = bytes;
    allocated_ += bytes;
    peak_ = std::max(peak_, allocated_);
    return data;
  }
  void free(void* data) noexcept override {
    const std::lock_guard lock(mutex_);
    release_refused();
    if (blocks_.count(data) != 0 && !release(data)) refused_.push_back(data);
  }
  void copy_from_host(Stream& stream, void* device_data, const void* host, std::size_t bytes) override {
    use();
    TW_CUDA(cudaMemcpyAsync(device_data, host, bytes, cudaMemcpyHostToDevice, native(stream)));
  }
  void copy_to_host(Stream& stream, void* host, const void* device_data, std::size_t bytes) override {
    use();
    TW_CUDA(cudaMemcpyAsync(host, device_data, bytes, cudaMemcpyDeviceToHost, native(stream)));
  }
  void copy(Stream& stream, void* destination, const void* source, std::size_t bytes) override {
    use();
    TW_CUDA(cudaMemcpyAsync(destination, source, bytes, cudaMemcpyDeviceToDevice, native(stream)));
  }
  void* allocate_host(std::size_t bytes) override {
    use();
    void* data = nullptr;
    const cudaError_t code = cudaMallocHost(&data, std::max<std::size_t>(bytes, 1));
    if (code == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      throw Error(Failure::environment, "cuda:" + std::to_string(index_) + ": cannot allocate " +
                                            std::to_string(bytes) + " bytes of page-locked host memory");
    }
    TW_CUDA(code);
    return data;
  }
  void free_host(void* data) noexcept override { TW_CUDA_NOTHROW(cudaFreeHost(data)); }
  std::size_t allocated_bytes() const override {
    const std::lock_guard lock(mutex_);
    return allocated_;
  }
  std::size_t peak_allocated_bytes() const override {
    const std::lock_guard lock(mutex_);
    return peak_;
  }
  void reset_peak_allocated_bytes() override {
    const std::lock_guard lock(mutex_);
    peak_ = allocated_;
  }

  std::unique_ptr<Stream> create_stream() override { return std::make_unique<CudaStream>(index_, false); }
  std::unique_ptr<Stream> create_urgent_stream() override { return std::make_unique<CudaStream>(index_, true); }
  std::unique_ptr<Event> create_event() override { return std::make_unique<CudaEvent>(index_, cudaEventDefault); }
  std::unique_ptr<Event> create_waited_event() override {
    return std::make_unique<CudaEvent>(index_, cudaEventBlockingSync);
  }

  std::size_t arena_bytes() const override { return context_->workspace_bytes(); }
  void trim() override { context_->trim(); }

  std::unique_ptr<LinearPlan> plan(const LinearShape& shape) override {
    require(Op::linear_forward, shape.dtype);
    return cuda::make_linear(*context_, shape);
  }
  std::unique_ptr<ConvolutionPlan> plan(const ConvolutionShape& shape) override {
    std::string why;
    std::unique_ptr<ConvolutionPlan> plan = cuda::make_dnn_convolution(*context_, shape, &why);
    if (!plan) throw Error(Failure::unsupported, "device cuda: convolution: " + why);
    return plan;
  }
  std::unique_ptr<AttentionPlan> plan(const AttentionShape& shape) override {
    std::string why;
    if (std::unique_ptr<AttentionPlan> fused = cuda::make_dnn_attention(*context_, shape, &why)) return fused;
    require(Op::attention_forward, shape.dtype);
    return cuda::make_attention(*context_, shape, why);
  }
  std::unique_ptr<ClassifierPlan> plan(const ClassifierShape& shape) override {
    require(Op::classifier, shape.dtype);
    return cuda::make_classifier(*context_, shape);
  }
  std::vector<LibraryProduct> library_products(const LinearShape& shape, Op pass) override {
    require(pass, shape.dtype);
    return cuda::library_products(*context_, shape, pass);
  }
  std::vector<LibraryProduct> library_products(const ConvolutionShape& shape, Op pass) override {
    return cuda::dnn_products(*context_, shape, pass);
  }

 protected:
#define TW_OPERATOR(op, name, Arguments) \
  void do_##name(Stream& on, const Arguments& args) override { enqueue(on, args, cuda::name); }
#include "models/compute/operators.def"

 private:
  /// Whether the block is gone: while a graph is recorded the driver does not take it back. With a device that has
  /// failed its memory is gone too. Under the lock.
  bool release(void* data) noexcept {
    const cudaError_t code = cudaFree(data);
    warn_cuda(code, "cudaFree", __FILE__, __LINE__);
    if (code == cudaErrorStreamCaptureUnsupported) return false;
    const auto found = blocks_.find(data);
    allocated_ -= found->second;
    blocks_.erase(found);
    return true;
  }
  void release_refused() noexcept {
    std::erase_if(refused_, [this](void* data) { return release(data); });
  }
  void require(Op op, DType dtype) const {
    if (supports(op, dtype)) return;
    throw Error(Failure::unsupported, "device cuda: " + std::string(to_string(dtype)) + ": " + why_unsupported(dtype));
  }
  std::string needs(const char* what, int architecture) const {
    return std::string(what) + " need sm_" + std::to_string(architecture) + " or later, this GPU is sm_" +
           std::to_string(context_->architecture());
  }
  /// The current device is a property of the calling thread.
  void use() const { TW_CUDA(cudaSetDevice(index_)); }
  template <class Arguments>
  void enqueue(Stream& on, const Arguments& args, void (*kernels)(cudaStream_t, const Arguments&)) const {
    use();
    kernels(native(on), args);
  }
  template <class Arguments>
  void enqueue(Stream& on, const Arguments& args,
               void (*kernels)(cudaStream_t, const Arguments&, void* scratch)) const {
    use();
    kernels(native(on), args, context_->workspace(native(on), cuda::scratch_bytes(args)));
  }

  int index_, threads_;
  mutable std::mutex mutex_;  // guards what follows
  std::unordered_map<void*, std::size_t> blocks_;
  std::vector<void*> refused_;  // of them, those given back in vain so far
  std::size_t allocated_ = 0, peak_ = 0;
  std::unique_ptr<cuda::Context> context_;
};

/// Devices, or 0 and the reason.
int count_devices(std::string& why) {
  int driver = 0;
  if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0) {
    cudaGetLastError();
    why = "no NVIDIA driver is loaded on this machine";
    return 0;
  }
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess && count > 0) return count;
  cudaGetLastError();
  if (code == cudaErrorInsufficientDriver) {
    int runtime = 0;
    cudaRuntimeGetVersion(&runtime);
    why = "the driver offers CUDA " + version_text(driver) + ", this program needs " + version_text(runtime) +
          "; update the driver, or build with that toolkit";
  } else if (code == cudaSuccess) {
    why = "the driver shows no device";
  } else {
    why = std::string(cudaGetErrorName(code)) + ": " + cudaGetErrorString(code);
    if (const char* const helps = what_helps(code)) why += std::string(": ") + helps;
  }
  return 0;
}

}  // namespace

int count_cuda_devices() {
  std::string why;
  return count_devices(why);
}

std::string why_no_cuda_device() {
  std::string why;
  count_devices(why);
  return why;
}

std::unique_ptr<Device> make_cuda_device(const DeviceOptions& options) {
  std::string why;
  const int count = count_devices(why);
  if (count == 0) throw Error(Failure::environment, "device cuda: " + why);
  if (options.index < 0 || options.index >= count) {
    throw Error(Failure::environment, "device cuda: there is no index " + std::to_string(options.index) + ", " +
                                          std::to_string(count) + " visible");
  }
  auto device = std::make_unique<CudaDevice>(options);
  const cudaError_t code = cuda::find_kernel_image();
  if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction) {
    cudaGetLastError();
    const DeviceInfo info = device->info();
    throw Error(Failure::environment, "device cuda: " + info.name + " is " + info.instruction_set +
                                          ", this program has code for " TW_CUDA_ARCHITECTURES
                                          "; configure with -DCMAKE_CUDA_ARCHITECTURES=" +
                                          info.instruction_set.substr(3));
  }
  TW_CUDA(code);
  return device;
}

}  // namespace tw::models
