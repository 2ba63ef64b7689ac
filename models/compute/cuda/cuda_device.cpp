#include "models/compute/cuda/cuda_device.hpp"

#include <algorithm>
#include <cstdio>
#include <mutex>
#include <unordered_map>

#include "models/compute/cuda/check.hpp"
#include "models/compute/cuda/kernels/kernels.hpp"

namespace tw {
namespace {

const char* const not_there = "the cuda device cannot train yet: it has memory, copies, streams, events, fill and cast";

/// "13.0" from 13000
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// "GPU-1b2c3d4e-…", as nvidia-smi and NVML write it.
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
  explicit CudaStream(int index) : index_(index) {
    TW_CUDA(cudaSetDevice(index_));
    TW_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
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
  explicit CudaEvent(int index) {
    TW_CUDA(cudaSetDevice(index));
    TW_CUDA(cudaEventCreate(&event_));
  }
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;
  ~CudaEvent() override { TW_CUDA_NOTHROW(cudaEventDestroy(event_)); }
  void record(Stream& stream) override { TW_CUDA(cudaEventRecord(event_, native(stream))); }
  void synchronize() override { TW_CUDA(cudaEventSynchronize(event_)); }
  double seconds_since(Event& earlier) override {
    earlier.synchronize();
    synchronize();
    float milliseconds = 0;
    TW_CUDA(cudaEventElapsedTime(&milliseconds, static_cast<CudaEvent&>(earlier).event_, event_));
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  friend class CudaStream;
  cudaEvent_t event_ = nullptr;
};

void CudaStream::wait(Event& event) { TW_CUDA(cudaStreamWaitEvent(stream_, static_cast<CudaEvent&>(event).event_)); }

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index) : index_(index) { use(); }
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice() override {
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
    info.instruction_set = "sm_" + std::to_string(properties.major) + std::to_string(properties.minor);
    info.memory_bytes = properties.totalGlobalMem;
    info.libraries = {"CUDA runtime " + version_text(runtime), "CUDA driver " + version_text(driver)};
    return info;
  }

  bool supports(Op op, DType dtype) const override {
    return (op == Op::fill || op == Op::cast || op == Op::copy) && (dtype == DType::float32 || dtype == DType::bf16);
  }
  std::string why_unsupported(DType) const override { return not_there; }

  void* allocate(std::size_t bytes) override {
    use();
    void* data = nullptr;
    const cudaError_t code = cudaMalloc(&data, std::max<std::size_t>(bytes, 1));
    if (code == cudaErrorMemoryAllocation) {
      cudaGetLastError();
      std::size_t free_bytes = 0, total_bytes = 0;
      TW_CUDA(cudaMemGetInfo(&free_bytes, &total_bytes));
      throw Error(Failure::environment, "cuda:" + std::to_string(index_) + ": cannot allocate " + std::to_string(bytes) +
                                            " bytes, " + std::to_string(free_bytes) + " of " +
                                            std::to_string(total_bytes) + " are free; take a smaller micro-batch");
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
    const auto found = blocks_.find(data);
    if (found == blocks_.end()) return;
    allocated_ -= found->second;
    blocks_.erase(found);
    TW_CUDA_NOTHROW(cudaFree(data));
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
  std::size_t allocated_bytes() const override {
    const std::lock_guard lock(mutex_);
    return allocated_;
  }
  std::size_t peak_allocated_bytes() const override {
    const std::lock_guard lock(mutex_);
    return peak_;
  }

  std::unique_ptr<Stream> create_stream() override { return std::make_unique<CudaStream>(index_); }
  std::unique_ptr<Event> create_event() override { return std::make_unique<CudaEvent>(index_); }

  std::unique_ptr<LinearPlan> plan(const LinearShape&) override { refuse("linear plan"); }
  std::unique_ptr<ConvolutionPlan> plan(const ConvolutionShape&) override { refuse("convolution plan"); }
  std::unique_ptr<AttentionPlan> plan(const AttentionShape&) override { refuse("attention plan"); }
  std::unique_ptr<ClassifierPlan> plan(const ClassifierShape&) override { refuse("classifier plan"); }

 protected:
  void do_fill(Stream& stream, const Fill& args) override {
    use();
    cuda::fill(native(stream), args);
  }
  void do_cast(Stream& stream, const Cast& args) override {
    use();
    cuda::cast(native(stream), args);
  }
  // supports() denies these, so the public functions throw before they get here.
  void do_embedding_forward(Stream&, const EmbeddingForward&) override { refuse(to_string(Op::embedding_forward)); }
  void do_embedding_backward(Stream&, const EmbeddingBackward&) override { refuse(to_string(Op::embedding_backward)); }
  void do_layer_norm_forward(Stream&, const LayerNormForward&) override { refuse(to_string(Op::layer_norm_forward)); }
  void do_layer_norm_backward(Stream&, const LayerNormBackward&) override { refuse(to_string(Op::layer_norm_backward)); }
  void do_batch_norm_forward(Stream&, const BatchNormForward&) override { refuse(to_string(Op::batch_norm_forward)); }
  void do_batch_norm_backward(Stream&, const BatchNormBackward&) override { refuse(to_string(Op::batch_norm_backward)); }
  void do_max_pool_forward(Stream&, const MaxPoolForward&) override { refuse(to_string(Op::max_pool_forward)); }
  void do_max_pool_backward(Stream&, const MaxPoolBackward&) override { refuse(to_string(Op::max_pool_backward)); }
  void do_average_pool_forward(Stream&, const AveragePoolForward&) override { refuse(to_string(Op::average_pool_forward)); }
  void do_average_pool_backward(Stream&, const AveragePoolBackward&) override { refuse(to_string(Op::average_pool_backward)); }
  void do_add(Stream&, const Add&) override { refuse(to_string(Op::add)); }
  void do_global_norm(Stream&, const GlobalNorm&) override { refuse(to_string(Op::global_norm)); }
  void do_adamw(Stream&, const AdamW&) override { refuse(to_string(Op::adamw)); }
  void do_sgd(Stream&, const Sgd&) override { refuse(to_string(Op::sgd)); }

 private:
  [[noreturn]] static void refuse(const char* what) {
    throw Error(Failure::unsupported, std::string(what) + ": " + not_there);
  }
  /// The current device is a property of the calling thread.
  void use() const { TW_CUDA(cudaSetDevice(index_)); }

  int index_;
  mutable std::mutex mutex_;  // guards what follows
  std::unordered_map<void*, std::size_t> blocks_;
  std::size_t allocated_ = 0, peak_ = 0;
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
  } else {
    why = code == cudaSuccess ? "the driver shows no device"
                              : std::string(cudaGetErrorName(code)) + ": " + cudaGetErrorString(code);
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
  auto device = std::make_unique<CudaDevice>(options.index);
  const cudaError_t code = cuda::find_kernel_image();
  if (code == cudaErrorNoKernelImageForDevice || code == cudaErrorInvalidDeviceFunction) {
    cudaGetLastError();
    const DeviceInfo info = device->info();
    throw Error(Failure::environment, "device cuda: " + info.name + " is " + info.instruction_set +
                                          ", this program has code for " TW_CUDA_ARCHITECTURES
                                          "; configure with -DCMAKE_CUDA_ARCHITECTURES=" + info.instruction_set.substr(3));
  }
  TW_CUDA(code);
  return device;
}

}  // namespace tw
