// One operator at one shape, ready to run: what a micro-benchmark repeats.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "bench/ceiling/operands.hpp"
#include "models/catalog/description.hpp"
#include "models/compute/device.hpp"
#include "models/compute/precision.hpp"

namespace tw::bench::ops {

/// Owns the operands and the plan that `run` uses. Made outside the timed region, by a function that gets an empty one.
class Case {
 public:
  explicit Case(models::Device& device) : device_(device), stream_(device.create_stream()) {}
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  /// Random values in ±1; zeros for int32 and byte; no tensor without extents.
  models::Tensor tensor(models::DType dtype, models::Dims dims);
  models::Tensor float32(models::Dims dims) { return tensor(models::DType::float32, dims); }
  models::Tensor indices(models::Dims dims, std::int64_t end);  ///< int32 in [0, end)
  template <class T>
  T* host_values(const std::vector<T>& values) {  ///< a copy in device memory
    models::Buffer buffer(device_, values.size() * sizeof(T));
    device_.copy_from_host(*stream_, buffer.data(), values.data(), buffer.bytes());
    stream_->synchronize();
    buffers_.push_back(std::move(buffer));
    return static_cast<T*>(buffers_.back().data());
  }

  /// `run` enqueues this operator of the device, or this pass of the plan, with these arguments.
  template <class Args>
  void runs(void (models::Device::*op)(models::Stream&, const Args&), const std::type_identity_t<Args>& args) {
    run = [this, op, args] { (device_.*op)(*stream_, args); };
  }
  template <class Plan, class Args>
  void runs(const std::shared_ptr<Plan>& plan, void (Plan::*pass)(models::Stream&, const Args&),
            const std::type_identity_t<Args>& args) {
    run = [this, plan, pass, args] { (*plan.*pass)(*stream_, args); };
  }

  models::Device& device() { return device_; }
  models::Stream& stream() { return *stream_; }

  std::function<void()> run;  ///< enqueues the operator once
  double flops = 0;           ///< of one run: model FLOPs of the pass; 0 if none are counted
  double bytes = 0;           ///< of one run: operands read and written once each
  std::string label;          ///< shape, and the plan's choice

 private:
  models::Device& device_;
  std::unique_ptr<models::Stream> stream_;
  std::vector<models::Buffer> buffers_;
};

/// In which precisions an operator does something else than in the one that it is stored in: none, all but fp8, all.
enum class Multiplies : std::uint8_t { nothing, not_in_fp8, in_all };

/// A benchmark: its name without the precision ("linear_forward/gpt2-124m/qkv"), what it needs, and how to make it.
struct Entry {
  std::string name;
  models::Op op;
  std::function<void(Case&, models::Precision)> make;
  Multiplies multiplies = Multiplies::nothing;

  /// Whether it does in `precision` what it does in float32 or bf16 too, under whose name it is listed.
  bool repeats(models::Precision precision) const {
    if (precision == models::Precision::fp8) return multiplies != Multiplies::in_all;
    return models::math(precision) != models::Math::standard && multiplies == Multiplies::nothing;
  }
};

/// Matrix products, convolutions, attention and the output head of a network.
std::vector<Entry> product_entries(const models::NetworkDescription& network, std::int64_t micro_batch,
                                   std::int64_t seq_len);
/// A pass of a product with nothing around it: no bias, no activation.
void make_bare(Case& c, const models::LinearShape& shape, models::Op pass);
void make_bare(Case& c, const models::ConvolutionShape& shape, models::Op pass);
/// The library's own products at the same shapes in its layouts ("library/linear_forward/gpt2-124m/qkv/packed"), and
/// the device's plan beside them, as bare as they ("…/plan"): how far a plan is from the best that the library can do.
/// For devices with a library.
std::vector<Entry> library_entries(const models::NetworkDescription& network, std::int64_t micro_batch,
                                   std::int64_t seq_len);
/// Norms, the optimizer and the gradient's norm.
std::vector<Entry> elementwise_entries(const models::NetworkDescription& network, std::int64_t micro_batch,
                                       std::int64_t seq_len);
/// STREAM's triad a = b + s·c on host memory (McCalpin): three arrays of 64 MiB, no write-allocate counted.
void make_triad(Case& c);

/// "qkv", "attention_out", "mlp_up", "mlp_down", "head", "3x3s2_h56_64to64".
std::string product_name(const models::Product& product);

}  // namespace tw::bench::ops
