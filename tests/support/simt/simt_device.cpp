#include "tests/support/simt/simt_device.hpp"

#include <cstring>

#include "models/compute/cuda/kernels/kernels.hpp"
#include "models/compute/error.hpp"
#include "models/compute/reference/reference_device.hpp"
#include "models/compute/registry.hpp"
#include "tests/support/simt/simt.hpp"

namespace tw {
namespace simt {
namespace {

class SimtStream final : public Stream {
 public:
  void synchronize() override {}
};

/// Scratch of exactly the bytes asked for, full of NaN.
class Scratch {
 public:
  explicit Scratch(std::size_t bytes) : data_(allocate(bytes)) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { simt::free(data_); }
  void* get() const { return data_; }

 private:
  void* data_;
};

class SimtDevice final : public Device {
 public:
  DeviceInfo info() const override {
    DeviceInfo info;
    info.kind = DeviceKind::cuda;
    info.name = "kernels of the cuda device on the host";
    return info;
  }
  bool supports(Op op, DType dtype) const override {
    switch (op) {
      case Op::layer_norm_forward:
      case Op::layer_norm_backward:
      case Op::add:
      case Op::cast:
      case Op::fill:
      case Op::copy:
      case Op::global_norm:
      case Op::adamw:
      case Op::sgd:
        return dtype == DType::float32 || dtype == DType::bf16;
      default:
        return false;
    }
  }
  std::string why_unsupported(DType) const override { return "it is a library's, not a kernel of our own"; }

  void* allocate(std::size_t bytes) override { return simt::allocate(bytes); }
  void free(void* data) noexcept override { simt::free(data); }
  void copy_from_host(Stream&, void* data, const void* host, std::size_t bytes) override {
    std::memmove(data, host, bytes);
  }
  void copy_to_host(Stream&, void* host, const void* data, std::size_t bytes) override {
    std::memmove(host, data, bytes);
  }
  void copy(Stream&, void* destination, const void* source, std::size_t bytes) override {
    std::memmove(destination, source, bytes);
  }
  std::size_t allocated_bytes() const override { return 0; }
  std::size_t peak_allocated_bytes() const override { return 0; }
  std::unique_ptr<Stream> create_stream() override { return std::make_unique<SimtStream>(); }
  std::unique_ptr<Event> create_event() override { refuse(); }
  std::unique_ptr<LinearPlan> plan(const LinearShape&) override { refuse(); }
  std::unique_ptr<ConvolutionPlan> plan(const ConvolutionShape&) override { refuse(); }
  std::unique_ptr<AttentionPlan> plan(const AttentionShape&) override { refuse(); }
  std::unique_ptr<ClassifierPlan> plan(const ClassifierShape&) override { refuse(); }

 protected:
  void do_embedding_forward(Stream&, const EmbeddingForward&) override { refuse(); }
  void do_embedding_backward(Stream&, const EmbeddingBackward&) override { refuse(); }
  void do_layer_norm_forward(Stream&, const LayerNormForward& args) override {
    cuda::layer_norm_forward(nullptr, args);
  }
  void do_layer_norm_backward(Stream&, const LayerNormBackward& args) override {
    cuda::layer_norm_backward(nullptr, args, Scratch(cuda::layer_norm_backward_scratch(args)).get());
  }
  void do_batch_norm_forward(Stream&, const BatchNormForward&) override { refuse(); }
  void do_batch_norm_backward(Stream&, const BatchNormBackward&) override { refuse(); }
  void do_max_pool_forward(Stream&, const MaxPoolForward&) override { refuse(); }
  void do_max_pool_backward(Stream&, const MaxPoolBackward&) override { refuse(); }
  void do_average_pool_forward(Stream&, const AveragePoolForward&) override { refuse(); }
  void do_average_pool_backward(Stream&, const AveragePoolBackward&) override { refuse(); }
  void do_add(Stream&, const Add& args) override { cuda::add(nullptr, args); }
  void do_cast(Stream&, const Cast& args) override { cuda::cast(nullptr, args); }
  void do_fill(Stream&, const Fill& args) override { cuda::fill(nullptr, args); }
  void do_global_norm(Stream&, const GlobalNorm& args) override {
    cuda::global_norm(nullptr, args, Scratch(cuda::global_norm_scratch(args)).get());
  }
  void do_adamw(Stream&, const AdamW& args) override { cuda::adamw(nullptr, args); }
  void do_sgd(Stream&, const Sgd& args) override { cuda::sgd(nullptr, args); }

 private:
  [[noreturn]] static void refuse() { throw Error(Failure::unsupported, "the simt device has kernels only"); }
};

}  // namespace

std::unique_ptr<Device> make_device() { return std::make_unique<SimtDevice>(); }

}  // namespace simt

// In place of models/compute/registry.cpp: the kernels are the device under test, and the reference is their oracle.
const std::vector<Backend>& backends() {
  static const std::vector<Backend> list = {{DeviceKind::cuda, "simt",
                                             [](const DeviceOptions&) { return simt::make_device(); }, [] { return 1; },
                                             [] { return std::string(); }}};
  return list;
}

std::unique_ptr<Device> create_device(const std::string& name, const DeviceOptions& options) {
  return name == "simt" ? simt::make_device() : make_reference_device(options);
}

}  // namespace tw
