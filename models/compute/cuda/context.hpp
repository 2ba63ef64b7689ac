// What all plans and operators of one cuda device share: the device's index, cuBLASLt, and one growable workspace.
// Private to models/compute/cuda.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "models/compute/device.hpp"

namespace tw::models::cuda {

class Blas;  // blas.hpp: cuBLASLt, opened at run time, and its handle
struct Dnn;  // dnn/: cuDNN, likewise

/// The stream behind tw::models::Stream of this device.
inline cudaStream_t stream_of(Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

/// Lives as long as its device; plans hold a reference. One thread at a time, and one stream at a time uses the
/// workspace: what follows on another stream waits for an event.
class Context {
 public:
  Context(Device& device, int index, bool times_algorithms = true, bool deterministic = true);
  ~Context();

  Device& device() const { return device_; }
  int index() const { return index_; }
  /// Whether algorithms of a library are timed; else its first choice is taken.
  bool times_algorithms() const { return times_algorithms_; }
  /// Whether sums whose order is open are refused.
  bool deterministic() const { return deterministic_; }
  /// "sm_90" is 90.
  int architecture() const { return architecture_; }
  std::size_t memory_bytes() const { return memory_bytes_; }
  /// Makes the device the calling thread's; before each call of the runtime or of a library.
  void use() const;

  /// The workspace has at least `bytes` from now on: for whoever builds a plan. Waits for the device where it grows.
  void reserve(std::size_t bytes);
  /// The workspace, at least `bytes`, 256-byte aligned; its contents hold until the next operator. Grows where no plan
  /// has reserved as much, but throws Error{internal} where `stream` is being captured. Ask for it in each call: it
  /// moves as it grows.
  void* workspace(cudaStream_t stream, std::size_t bytes);
  std::size_t workspace_bytes() const { return workspace_ ? workspace_->bytes() : 0; }
  /// Gives the workspace back, and those of graphs that nobody has taken. Waits for the device.
  void trim();
  /// The workspace that calls under capture have used since the last call of this; null where there was none. Whoever
  /// keeps the graph keeps this, so that the block goes with the last of its graphs. One that is not taken stays with
  /// the context.
  std::shared_ptr<const void> take_captured_workspace();

  /// cuBLASLt; throws Error{environment} with why it is not there.
  Blas& blas();
  /// Empty where blas() works.
  std::string why_no_blas();

  /// cuDNN's handle: made and asked for by dnn/ alone.
  std::shared_ptr<Dnn> dnn;

 private:
  void grow(std::size_t bytes);

  Device& device_;
  int index_, architecture_ = 0;
  std::size_t memory_bytes_ = 0;
  bool times_algorithms_, deterministic_;
  std::shared_ptr<Buffer> workspace_;
  bool captured_ = false;                         // a graph that has not taken it uses workspace_
  std::vector<std::shared_ptr<Buffer>> retired_;  // such graphs use these
  std::unique_ptr<Blas> blas_;
  std::string no_blas_;
};

// ---- plans; each throws Error{unsupported} or Error{environment} with the reason ----
std::unique_ptr<LinearPlan> make_linear(Context& context, const LinearShape& shape);
std::unique_ptr<ClassifierPlan> make_classifier(Context& context, const ClassifierShape& shape);
/// By products and kernels of our own; `why_not_fused` goes into its description.
std::unique_ptr<AttentionPlan> make_attention(Context& context, const AttentionShape& shape, std::string why_not_fused);

// ---- of dnn/: null where cuDNN is not there or refuses the shape, and `why` says so ----
/// Where the context is deterministic, two runs are bitwise equal, for 2 · batch · heads · seq² bytes of workspace;
/// else backward adds to dq in any order.
std::unique_ptr<AttentionPlan> make_dnn_attention(Context& context, const AttentionShape& shape, std::string* why);
/// Convolutions likewise.
std::unique_ptr<ConvolutionPlan> make_dnn_convolution(Context& context, const ConvolutionShape& shape,
                                                      std::string* why);
/// One pass as the plan runs it; none where cuDNN is not there or refuses the shape.
std::vector<LibraryProduct> dnn_products(Context& context, const ConvolutionShape& shape, Op pass);
/// "cuDNN 9.19.0"; empty where it is not there, and `why` says so.
std::string dnn_version(Context& context, std::string* why);

}  // namespace tw::models::cuda
