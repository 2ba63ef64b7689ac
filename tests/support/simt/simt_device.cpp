// The cuda device's own kernels as a Device without a GPU: each operator without a plan calls the same function of
// kernels.hpp, in memory and on threads of the harness. So the operator tests of all devices run over the kernels too.
#include <cstring>

#include "models/compute/cuda/kernels/kernels.hpp"
#include "models/compute/error.hpp"
#include "models/compute/registry.hpp"
#include "tests/support/simt/simt.hpp"

namespace tw {

using namespace models;

namespace simt {

using namespace models;

namespace {

using models::Stream;  // not stream.hpp's, which is behind a cudaStream_t

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
  explicit SimtDevice(std::size_t offset) : offset_(offset) {}
  DeviceInfo info() const override {
    DeviceInfo info;
    info.kind = DeviceKind::cuda;
    info.name = "kernels of the cuda device on the host";
    return info;
  }
  bool supports(Op op, DType dtype) const override {
    return op >= Op::embedding_forward && op <= Op::generate_clicks && is_float(dtype);
  }
  bool rounds_ahead() const override { return true; }
  using Device::why_unsupported;
  std::string why_unsupported(DType) const override { return "it is a library's, not a kernel of our own"; }

  void* allocate(std::size_t bytes) override { return static_cast<char*>(simt::allocate(bytes + offset_)) + offset_; }
  void free(void* data) noexcept override { simt::free(static_cast<char*>(data) - offset_); }
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
  void reset_peak_allocated_bytes() override {}
  std::unique_ptr<Stream> create_stream() override { return std::make_unique<SimtStream>(); }
  std::unique_ptr<Event> create_event() override { refuse(); }
  std::unique_ptr<LinearPlan> plan(const LinearShape&) override { refuse(); }
  std::unique_ptr<ConvolutionPlan> plan(const ConvolutionShape&) override { refuse(); }
  std::unique_ptr<AttentionPlan> plan(const AttentionShape&) override { refuse(); }
  std::unique_ptr<ClassifierPlan> plan(const ClassifierShape&) override { refuse(); }

 protected:
#define TW_OPERATOR(op, name, Arguments) \
  void do_##name(Stream&, const Arguments& args) override { run(args, cuda::name); }
#include "models/compute/operators.def"

 private:
  template <class Arguments>
  static void run(const Arguments& args, void (*kernels)(cudaStream_t, const Arguments&)) {
    kernels(nullptr, args);
  }
  template <class Arguments>
  static void run(const Arguments& args, void (*kernels)(cudaStream_t, const Arguments&, void* scratch)) {
    kernels(nullptr, args, Scratch(cuda::scratch_bytes(args)).get());
  }
  [[noreturn]] static void refuse() { throw Error(Failure::unsupported, "the simt device has kernels only"); }

  std::size_t offset_;  // of all memory from a 256-byte boundary
};

/// No 16-byte access is allowed where memory begins 8 bytes behind such a boundary.
constexpr std::size_t misalignment = 8;

}  // namespace
}  // namespace simt

// In place of models/compute/registry.cpp: the kernels are the devices under test, and the reference is their oracle.
const std::vector<Backend>& models::backends() {
  static const std::vector<Backend> list = [] {
    const auto one = [] { return 1; };
    const auto none = [] { return std::string(); };
    return std::vector<Backend>{
        {DeviceKind::cuda, "simt", [](const DeviceOptions& o) { return create_device("simt", o); }, one, none},
        {DeviceKind::cuda, "misaligned", [](const DeviceOptions& o) { return create_device("misaligned", o); }, one,
         none}};
  }();
  return list;
}

std::unique_ptr<Device> models::create_device(const std::string& name, const DeviceOptions& options) {
  if (name == "reference") return make_reference_device(options);
  return std::make_unique<simt::SimtDevice>(name == "misaligned" ? simt::misalignment : 0);
}

}  // namespace tw
