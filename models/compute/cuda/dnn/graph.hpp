// Graphs of cuDNN's backend API: tensors and operations, the engines that can run them, and plans. Private to
// models/compute/cuda. Errors: ApiError where the library refuses a call; what may be refused says so.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "models/compute/cuda/dnn/library.hpp"

namespace tw::models::cuda::dnn {

constexpr Type type_of(std::int64_t) { return Type::int64; }
constexpr Type type_of(Handle) { return Type::handle; }
constexpr Type type_of(DataType) { return Type::data_type; }
constexpr Type type_of(bool) { return Type::boolean; }
constexpr Type type_of(float) { return Type::float32; }
constexpr Type type_of(void*) { return Type::pointer; }
constexpr Type type_of(ConvolutionMode) { return Type::convolution_mode; }
constexpr Type type_of(Heuristics) { return Type::heuristic_mode; }
constexpr Type type_of(Knob) { return Type::knob_type; }
constexpr Type type_of(Pointwise) { return Type::pointwise_mode; }
constexpr Type type_of(Reduction) { return Type::reduction_operator; }

/// Owns one descriptor: create, set, finalize, then read or use. Errors are ApiError. Move-only.
class Descriptor {
 public:
  Descriptor() = default;
  Descriptor(const Library* library, Kind kind) : library_(library) {
    TW_DNN(library_, cudnnBackendCreateDescriptor(static_cast<int>(kind), &raw_));
  }
  Descriptor(Descriptor&& other) noexcept
      : library_(std::exchange(other.library_, nullptr)), raw_(std::exchange(other.raw_, nullptr)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(library_, other.library_);
    std::swap(raw_, other.raw_);
    return *this;
  }
  ~Descriptor() {
    if (raw_) TW_DNN_NOTHROW(library_, cudnnBackendDestroyDescriptor(raw_));
  }

  void set(Attribute attribute, Type type, std::int64_t count, const void* values) {
    TW_DNN(library_,
           cudnnBackendSetAttribute(raw_, static_cast<int>(attribute), static_cast<int>(type), count, values));
  }
  template <class T>
  void set(Attribute attribute, const T& value) {
    set(attribute, type_of(value), 1, &value);
  }
  template <class T>
  void set(Attribute attribute, const std::vector<T>& values) {
    set(attribute, type_of(T{}), static_cast<std::int64_t>(values.size()), values.data());
  }
  void set(Attribute attribute, const Descriptor& other) { set(attribute, Type::descriptor, 1, &other.raw_); }

  /// Attributes and their values, one behind the other.
  template <class T, class... Rest>
  void set_all(Attribute attribute, const T& value, const Rest&... rest) {
    set(attribute, value);
    if constexpr (sizeof...(rest) > 0) set_all(rest...);
  }

  void finalize() { TW_DNN(library_, cudnnBackendFinalize(raw_)); }
  /// The status: for what may be refused.
  int try_finalize() { return library_->cudnnBackendFinalize(raw_); }

  template <class T>
  T get(Attribute attribute) const {
    T value{};
    std::int64_t count = 0;
    TW_DNN(library_, cudnnBackendGetAttribute(raw_, static_cast<int>(attribute), static_cast<int>(type_of(T{})), 1,
                                              &count, &value));
    return value;
  }
  /// At most `most` values.
  template <class T>
  std::vector<T> get_all(Attribute attribute, Type type, std::int64_t most) const {
    std::vector<T> values(static_cast<std::size_t>(most));
    std::int64_t count = 0;
    TW_DNN(library_, cudnnBackendGetAttribute(raw_, static_cast<int>(attribute), static_cast<int>(type), most, &count,
                                              values.data()));
    values.resize(static_cast<std::size_t>(count < most ? count : most));
    return values;
  }
  RawDescriptor raw() const { return raw_; }
  explicit operator bool() const { return raw_ != nullptr; }

 private:
  const Library* library_ = nullptr;
  RawDescriptor raw_ = nullptr;
};

using Extents = std::vector<std::int64_t>;

/// For which GPU plans are made: that of a handle, or, where there is none, one described by cuDNN's device properties
/// (JSON, as DEVICEPROP_JSON_REPRESENTATION gives it). Owns the handle.
class Target {
 public:
  /// The calling thread's current device. Throws ApiError without a GPU.
  explicit Target(std::shared_ptr<const Library> library);
  Target(std::shared_ptr<const Library> library, const std::string& device_json);
  ~Target();
  const Library* library() const { return library_.get(); }
  Handle handle() const { return handle_; }  ///< null without a GPU
  const Descriptor& device() const { return device_; }
  /// The GPU's properties, for tests on machines without it.
  std::string device_json() const;

 private:
  std::shared_ptr<const Library> library_;
  Handle handle_ = nullptr;
  Descriptor device_;  // empty with a handle
};

/// An engine by the library's number of it, and its settings.
struct EngineChoice {
  std::int64_t engine = -1;
  std::vector<std::pair<Knob, std::int64_t>> knobs;
};

/// Operations in the order in which they were added. A tensor's id is the uid under which its address is given.
class Graph {
 public:
  explicit Graph(const Target& target) : target_(&target) {}

  // ---- tensors; extents and strides in elements, NCHW order for images ----
  /// In device memory, 16-byte aligned.
  std::int64_t memory(std::int64_t uid, DataType type, const Extents& extents, const Extents& strides);
  /// Between operations only.
  std::int64_t between(DataType type, const Extents& extents, const Extents& strides);
  /// One float32 on the host, read when the plan runs.
  std::int64_t scalar(std::int64_t uid, std::size_t rank);

  // ---- operations ----
  struct PointwiseOperands {
    std::int64_t x = 0, b = 0, t = 0, y = 0;  ///< b and t: 0 for none
    std::int64_t axis = -1;                   ///< of gen_index
  };
  void pointwise(Pointwise mode, DataType math, const PointwiseOperands& operands);
  void reduce(Reduction mode, std::int64_t x, std::int64_t y);
  void matmul(std::int64_t a, std::int64_t b, std::int64_t c);
  void reshape(std::int64_t x, std::int64_t y);
  struct ConvolutionOperands {
    Kind pass = Kind::operation_convolution_forward;
    std::int64_t x = 0, w = 0, y = 0;     ///< or their gradients
    Extents stride{1, 1}, padding{0, 0};  ///< height, width
    float beta = 0;
  };
  void convolution(const ConvolutionOperands& operands);

  void finalize();
  /// Makes this engine the graph's only candidate: the heuristics are not asked.
  void ask_for(EngineChoice choice) { choice_ = std::move(choice); }
  const std::optional<EngineChoice>& choice() const { return choice_; }
  const Target& target() const { return *target_; }
  const Descriptor& descriptor() const { return graph_; }

 protected:  // for tests, which ask about an operation that no plan has
  const Descriptor& tensor(std::int64_t uid) const;
  /// Appends one that is finalized.
  void append(Descriptor operation) { operations_.push_back(std::move(operation)); }

 private:
  std::int64_t add(Descriptor tensor, std::int64_t uid, DataType type, const Extents& extents, const Extents& strides);
  /// A finished descriptor with these attributes, each followed by its value.
  template <class... Settings>
  Descriptor make(Kind kind, const Settings&... settings) const;
  Descriptor& keep(Descriptor descriptor) { return kept_.emplace_back(std::move(descriptor)); }

  const Target* target_;
  std::int64_t next_uid_ = 1000;
  std::vector<std::pair<std::int64_t, Descriptor>> tensors_;
  std::deque<Descriptor> kept_;
  std::vector<Descriptor> operations_;
  Descriptor graph_;
  std::optional<EngineChoice> choice_;
};

/// One way of running a graph, as the heuristics propose it or the graph asks for it.
struct Candidate {
  Descriptor config;
  std::vector<Descriptor> held = {};  ///< that the configuration of an engine that is asked for refers to
  std::int64_t engine = -1;           ///< the library's number of it
  std::size_t place = 1;              ///< among the proposals, from 1: configurations of one engine differ in it
  bool notes[static_cast<std::size_t>(NumericalNote::count)] = {};
  bool compiled_at_run_time = false;
  std::size_t workspace_bytes = 0;  ///< that its plan will want; 0 also where the library does not say so yet
  bool has(NumericalNote note) const { return notes[static_cast<std::size_t>(note)]; }
  std::string description() const;  ///< "engine 34, tensor cores"
};

constexpr std::int64_t most_proposals = 64;  ///< that a search looks at

/// Best first, at most `most`; empty where the heuristics know none (`why` then holds their words). Throws ApiError
/// where they fail. Of a graph that asks for an engine: this one in mode a, empty where the library has no such engine,
/// knows no such setting or refuses it for the graph; none in mode fallback.
std::vector<Candidate> candidates(const Graph& graph, Heuristics mode, std::int64_t most, std::string* why);

/// What may run: notes that an engine must not carry, or must, and the most that it may want.
struct Demands {
  bool deterministic = true;
  bool tensor_cores = true;  ///< false: arithmetic of full float32
  std::size_t most_workspace_bytes = std::numeric_limits<std::size_t>::max();
};
/// Empty where the candidate obeys; else what is wrong with it. Winograd and FFT never pass: they do other arithmetic
/// than the FLOPs that are counted, and are inexact on integers.
std::string why_not(const Candidate& candidate, const Demands& demands);
/// Empty where a plan may want so many bytes.
std::string why_not(std::size_t workspace_bytes, const Demands& demands);
/// What the engine that wants least of those that obey wants, however much that is; 0 where there is none, or the
/// library does not say.
std::size_t least_workspace_bytes(const Graph& graph, const Demands& demands);

/// What was wrong with the first few engines that a search has passed over, each once.
class Complaints {
 public:
  void add(const std::string& text) {
    if (text_.find(text) != std::string::npos || ++count_ > 4) return;
    text_ += (text_.empty() ? "" : "; ") + text;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int count_ = 0;
};

/// A candidate made ready; runs on the handle's device. Layers of one shape share it.
class ExecutionPlan {
 public:
  /// Null where the library refuses; `status` and `why` then say how.
  static std::shared_ptr<const ExecutionPlan> make(const Target& target, const Candidate& candidate, int* status,
                                                   std::string* why);
  std::size_t workspace_bytes() const { return workspace_bytes_; }
  /// The candidate's, and its place where it is not the first: "engine 1, tensor cores, proposal 2".
  const std::string& description() const { return description_; }
  const Target& target() const { return *target_; }
  RawDescriptor raw() const { return plan_.raw(); }

 private:
  ExecutionPlan() = default;

  const Target* target_ = nullptr;
  Descriptor plan_;
  std::size_t workspace_bytes_ = 0;
  std::string description_;
};

/// The address of a tensor: device memory, or host memory of a scalar.
struct Operand {
  std::int64_t uid = 0;
  void* data = nullptr;
};

/// One layer's use of a plan. Addresses that equal the last call's cost no new descriptor.
class Runner {
 public:
  Runner() = default;
  explicit Runner(std::shared_ptr<const ExecutionPlan> plan) : plan_(std::move(plan)) {}
  explicit operator bool() const { return plan_ != nullptr; }
  const ExecutionPlan& plan() const { return *plan_; }
  /// Enqueues on the stream (cudaStream_t). `workspace`: at least plan().workspace_bytes().
  void run(CudaStream stream, std::initializer_list<Operand> operands, void* workspace) {
    run(stream, operands.begin(), operands.size(), workspace);
  }
  void run(CudaStream stream, const Operand* operands, std::size_t count, void* workspace);

 private:
  std::shared_ptr<const ExecutionPlan> plan_;
  Descriptor pack_;
  std::vector<void*> packed_;  // the addresses in pack_, and the workspace
};

}  // namespace tw::models::cuda::dnn
