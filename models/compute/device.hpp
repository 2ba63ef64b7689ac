// What a device can do: memory, streams, events, the operators of operators.def, and plans for the heavy ones.
//
// Public functions are not virtual: they check shapes and dtypes (once, for every device), charge the operator's clock
// when profiling is on, and call the `do_` twin that a device implements. All operators enqueue on a stream and may
// return before they have run; data they read must not change until the stream has passed them. Nothing here allocates
// after the plans are built. Errors: Error{usage} for shapes that do not fit, Error{unsupported} for what `supports()`
// denies, ApiError for a failing library.
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/compute/operators.hpp"
#include "models/compute/precision.hpp"
#include "models/compute/tensor.hpp"

namespace tw::models {

class Device;
class Event;

/// Ordered queue of work. On the CPU and the reference device work is done before the call returns.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void synchronize() = 0;
  /// What is enqueued from here on runs after the event, which has been recorded; the host does not wait.
  virtual void wait(Event&) {}
  /// The library's own handle (cudaStream_t), for libraries that enqueue by themselves; null where there is none.
  virtual void* native() const { return nullptr; }
};

/// A point in a stream.
class Event {
 public:
  virtual ~Event() = default;
  virtual void record(Stream& stream) = 0;
  virtual void synchronize() = 0;
  /// Whether the recorded point is behind; the host does not wait. From any thread.
  virtual bool is_done() = 0;
  /// Seconds between `earlier` and this; both recorded, on the same device. Waits for both.
  virtual double seconds_since(Event& earlier) = 0;
};

/// Work that was recorded from a stream once and is enqueued as one piece whenever it is launched, with the arguments
/// it was recorded with: what changes between launches lies in device memory.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual void launch(Stream& stream) = 0;
};

/// Owns a block of memory: of the device, or of the host. Move-only; freeing never throws.
template <bool of_host>
class OwnedMemory {
 public:
  OwnedMemory() = default;
  OwnedMemory(Device& device, std::size_t bytes);
  OwnedMemory(OwnedMemory&& other) noexcept { swap(other); }
  OwnedMemory& operator=(OwnedMemory other) noexcept {
    swap(other);
    return *this;
  }
  ~OwnedMemory();
  void* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  void swap(OwnedMemory& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
  }

  Device* device_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};
using Buffer = OwnedMemory<false>;  ///< aligned to at least 128 bytes
using HostBuffer =
    OwnedMemory<true>;  ///< that a device copies from and to while the host goes on (Device::allocate_host)

enum class DeviceKind : std::uint8_t { reference, cpu, cuda };
const char* to_string(DeviceKind kind);

struct DeviceInfo {
  DeviceKind kind = DeviceKind::reference;
  int index = 0;
  std::string name;                    ///< "Intel(R) Xeon(R) …", "NVIDIA H200"
  std::string uuid;                    ///< "GPU-…", also of a MIG instance; empty where there is none
  std::string pci;                     ///< its place on the PCI buses: "00000000:c1:00"; empty where there is none
  std::string instruction_set;         ///< the kernels in use: "avx512_bf16+amx", "sm_90"; empty for reference
  int threads = 1;                     ///< of the host: that compute (CPU), or make weights (CUDA)
  std::size_t memory_bytes = 0;        ///< of the device or the node
  std::vector<std::string> libraries;  ///< "oneDNN 2.6.3", …
};

/// Seconds and calls per operator since the last reset; only filled while profiling is on.
struct OpProfile {
  std::array<double, static_cast<std::size_t>(Op::count_)> seconds{};
  std::array<long, static_cast<std::size_t>(Op::count_)> calls{};
};

/// Base of all plans: belongs to a device, may hold a packed copy of its weight.
class Plan {
 public:
  explicit Plan(Device& device) : device_(&device) {}
  virtual ~Plan() = default;
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;
  /// Bytes this plan keeps for itself (packed weights, private workspace).
  virtual std::size_t bytes() const { return 0; }
  /// The implementation chosen, for the report: "packed", "brg:avx512_core_amx_bf16", …; may be empty.
  virtual std::string description() const { return {}; }

 protected:
  Device& device() const { return *device_; }

 private:
  Device* device_;
};

/// A plan with a weight of dtype T. `bind` once; `refresh` after that, after each change of the weight's values and
/// before the next use (weights may arrive from an optimizer or from an all-gather). Error{usage} where a plan that was
/// never refreshed is used.
class WeightPlan : public Plan {
 public:
  using Plan::Plan;
  void bind(Tensor weight);
  void refresh(Stream& stream);

 protected:
  const Tensor& weight() const { return weight_; }
  virtual void check_weight(const Tensor& weight) const = 0;
  virtual void do_bind() {}
  virtual void do_refresh(Stream&) {}
  void check_ready(Op op) const;  // bound and refreshed

 private:
  Tensor weight_;
  bool refreshed_ = false;
};

class LinearPlan : public WeightPlan {
 public:
  LinearPlan(Device& device, const LinearShape& shape);  // throws Error{usage} for an impossible shape
  const LinearShape& shape() const { return shape_; }
  /// For the operator that writes x of the next forward(), which takes what this returns as x_rounded; to be called in
  /// front of that operator, with nothing of this plan in between. `memory` holds the elements until forward() has
  /// run: at least rows · in_features bytes on 16 bytes, of any dtype; x_for_weights and follows as in LinearForward.
  /// Absent, so that the operator writes x as it is, where the math is not fp8, the device does not round ahead, or the
  /// scale has nothing to go by yet.
  RoundedInput round_ahead(Stream& stream, const Tensor& memory, const Tensor& x_for_weights, bool follows);
  void forward(Stream& stream, const LinearForward& args);
  void backward_input(Stream& stream, const LinearBackwardInput& args);
  void backward_weights(Stream& stream, const LinearBackwardWeights& args);

 protected:
  void check_weight(const Tensor& weight) const override;  // T (out, in)
  /// The scale under which the next x is to be rounded, as it is then; null as of round_ahead().
  virtual Fp8Scale* do_round_ahead(Stream&, bool /*follows*/) { return nullptr; }
  virtual void do_forward(Stream&, const LinearForward&) = 0;
  virtual void do_backward_input(Stream&, const LinearBackwardInput&) = 0;
  virtual void do_backward_weights(Stream&, const LinearBackwardWeights&) = 0;

 private:
  LinearShape shape_;
};

class ConvolutionPlan : public WeightPlan {
 public:
  ConvolutionPlan(Device& device, const ConvolutionShape& shape);  // throws Error{usage} for an impossible shape
  const ConvolutionShape& shape() const { return shape_; }
  void forward(Stream& stream, const ConvolutionForward& args);
  void backward_input(Stream& stream, const ConvolutionBackwardInput& args);
  void backward_weights(Stream& stream, const ConvolutionBackwardWeights& args);

 protected:
  void check_weight(const Tensor& weight) const override;  // T, as shape().weight()
  virtual void do_forward(Stream&, const ConvolutionForward&) = 0;
  virtual void do_backward_input(Stream&, const ConvolutionBackwardInput&) = 0;
  virtual void do_backward_weights(Stream&, const ConvolutionBackwardWeights&) = 0;

 private:
  ConvolutionShape shape_;
};

class AttentionPlan : public Plan {
 public:
  AttentionPlan(Device& device, const AttentionShape& shape);  // throws Error{usage} for an impossible shape
  const AttentionShape& shape() const { return shape_; }
  void forward(Stream& stream, const AttentionForward& args);
  void backward(Stream& stream, const AttentionBackward& args);

 protected:
  virtual void do_forward(Stream&, const AttentionForward&) = 0;
  virtual void do_backward(Stream&, const AttentionBackward&) = 0;

 private:
  AttentionShape shape_;
};

/// The output head: logits never leave it.
class ClassifierPlan : public WeightPlan {
 public:
  ClassifierPlan(Device& device, const ClassifierShape& shape);  // throws Error{usage} for an impossible shape
  const ClassifierShape& shape() const { return shape_; }
  void forward_backward(Stream& stream, const ClassifierForwardBackward& args);

 protected:
  void check_weight(const Tensor& weight) const override;  // T (classes, in)
  virtual void do_forward_backward(Stream&, const ClassifierForwardBackward&) = 0;

 private:
  ClassifierShape shape_;
};

/// One pass of a product alone, as the device's library runs it in one of its own layouts: what the library's own
/// benchmark times. The measured ceiling rests on it; no step uses it.
struct LibraryProduct {
  std::string layout;          ///< "plain": as the network holds the operands (but a convolution's weight packed);
                               ///< "packed": W, or x in a weight gradient, as the library likes it; "any": all of them
  std::string implementation;  ///< the library's name of its kernel
  /// Of x or dx, W or dW (float32), y or dy in that layout; the caller's memory, whatever it holds.
  std::array<std::size_t, 3> bytes{};
  std::function<void(Stream&, void* x, void* weight, void* y)> run;
};

class Device {
 public:
  virtual ~Device() = default;
  virtual DeviceInfo info() const = 0;
  /// Whether `op` runs on activations of `dtype` here. A whole network needs all its operators.
  virtual bool supports(Op op, DType dtype) const = 0;
  /// Why `dtype` is not there ("this CPU has neither AMX nor AVX512-BF16"); empty where it is.
  virtual std::string why_unsupported(DType dtype) const = 0;
  /// Why linear layers do not multiply by `math` here; empty where they do.
  virtual std::string why_no_math(Math math) const {
    return math == Math::standard ? std::string() : std::string("this device has no ") + to_string(math);
  }
  /// Whether operators take a RoundedInput (LinearPlan::round_ahead).
  virtual bool rounds_ahead() const { return false; }
  /// Why a network does not train in `precision` here: its storage, then its math; empty where it does. Convolutions
  /// have no fp8: their plans say so.
  std::string why_unsupported(Precision precision) const;

  // ---- memory ----
  /// At least 128-byte aligned; throws Error{environment} naming the bytes wanted. Contents undefined.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void free(void* data) noexcept = 0;
  virtual void copy_from_host(Stream&, void* device_data, const void* host, std::size_t bytes) = 0;
  virtual void copy_to_host(Stream&, void* host, const void* device_data, std::size_t bytes) = 0;
  virtual void copy(Stream&, void* destination, const void* source, std::size_t bytes) = 0;
  /// Bytes held through allocate() now, and the most ever held.
  virtual std::size_t allocated_bytes() const = 0;
  virtual std::size_t peak_allocated_bytes() const = 0;
  /// The peak starts again from what is held now.
  virtual void reset_peak_allocated_bytes() = 0;
  /// Bytes of scratch memory that plans and operators share, part of allocated_bytes(): grown while plans are built,
  /// given back by trim() if at all. 0 where nothing is shared.
  virtual std::size_t arena_bytes() const { return 0; }
  /// Gives back the scratch memory that plans and operators share, so that what a network holds does not depend on what
  /// was there before. Recorded graphs of the device are gone, and nothing is being recorded; plans that are still
  /// there take what they need with their next call.
  virtual void trim() {}

  /// Host memory for asynchronous copies, at least 128-byte aligned: page-locked where that lets them run beside the
  /// host. Not part of allocated_bytes(). Throws Error{environment} naming the bytes wanted.
  virtual void* allocate_host(std::size_t bytes);
  virtual void free_host(void* data) noexcept;

  /// Whether calls return before their work is done, so that the host can enqueue steps ahead of it.
  virtual bool is_asynchronous() const { return info().kind == DeviceKind::cuda; }
  virtual std::unique_ptr<Stream> create_stream() = 0;
  /// One whose work goes first where the device has priorities: blocks of it that wait take the place of those of other
  /// streams as these end. Else like any other.
  virtual std::unique_ptr<Stream> create_urgent_stream() { return create_stream(); }
  virtual std::unique_ptr<Event> create_event() = 0;
  /// One for which the host waits while the device still has other work: where the device can wake the host, it sleeps
  /// until then. A processor that spins instead uses power, which is measured.
  virtual std::unique_ptr<Event> create_waited_event() { return create_event(); }

  // ---- graphs ----
  /// Whether work can be recorded. Without, begin_capture() and end_capture() throw Error{unsupported}.
  virtual bool has_graphs() const { return false; }
  /// From here to end_capture() operators and copies inside the device, enqueued on `stream` by this thread, are
  /// recorded and not run. Nothing else is allowed in between: no event, no copy from or to the host, no allocation, no
  /// synchronisation. All that is recorded must have run once before, so that libraries have set themselves up.
  virtual void begin_capture(Stream& stream);
  virtual std::unique_ptr<Graph> end_capture(Stream& stream);

  // ---- plans ----
  virtual std::unique_ptr<LinearPlan> plan(const LinearShape& shape) = 0;
  virtual std::unique_ptr<ConvolutionPlan> plan(const ConvolutionShape& shape) = 0;
  virtual std::unique_ptr<AttentionPlan> plan(const AttentionShape& shape) = 0;
  virtual std::unique_ptr<ClassifierPlan> plan(const ClassifierShape& shape) = 0;

  /// The library's ways of one pass of a product (linear_… or convolution_…), its slow reference implementations left
  /// out; none where the device has no library.
  virtual std::vector<LibraryProduct> library_products(const LinearShape&, Op /*pass*/) { return {}; }
  virtual std::vector<LibraryProduct> library_products(const ConvolutionShape&, Op /*pass*/) { return {}; }

  // ---- operators, by operators.def: embedding_forward(stream, EmbeddingForward), … ----
#define TW_OPERATOR(op, name, Arguments) void name(Stream& stream, const Arguments& args);
#include "models/compute/operators.def"
  /// Whether samples are made here rather than by the host, which copies them. (A device may have the operators without
  /// being faster at it.)
  virtual bool generates_samples() const { return false; }

  // ---- profile ----
  /// Profiling records an event before and one after each operator in its stream. The host does not wait for them. The
  /// time between them is the device's on an asynchronous device, and the host's on others. Operators that overlap on
  /// several streams are each charged their whole time. If the stream is idle, the time also includes the host's
  /// enqueuing; enqueue other work first to keep it out. Profiling is off by default. It must be off during a
  /// stream's capture.
  void set_profiling(bool on) { profiling_ = on; }
  bool profiling() const { return profiling_; }
  /// Since reset_profile(). Waits for the operators that were timed; their streams must still be there.
  const OpProfile& profile();
  void reset_profile();

 protected:
#define TW_OPERATOR(op, name, Arguments) virtual void do_##name(Stream&, const Arguments&) = 0;
#define TW_SAMPLE_OPERATOR(op, name, Arguments) virtual void do_##name(Stream&, const Arguments&);
#include "models/compute/operators.def"

 private:
  friend class OpClock;
  struct TimedOp {
    Op op;
    int calls;
    std::unique_ptr<Event> start, end;
  };

  bool profiling_ = false;
  OpProfile profile_;
  std::vector<TimedOp> timed_;                         // whose time has not been read yet
  std::vector<std::unique_ptr<Event>> unused_events_;  // of those that have been read
};

}  // namespace tw::models
