#include "models/compute/cuda/dnn/graph.hpp"

#include <algorithm>
#include <optional>

#include "models/compute/cuda/kernels/check.hpp"
#include "models/compute/error.hpp"

namespace tw::models::cuda::dnn {

// ---- target ----

Target::Target(std::shared_ptr<const Library> library) : library_(std::move(library)) {
  TW_DNN(library_, cudnnCreate(&handle_));
}

Target::Target(std::shared_ptr<const Library> library, const std::string& device_json) : library_(std::move(library)) {
  device_ = Descriptor(library_.get(), Kind::device_property);
  device_.set(Attribute::device_json, Type::character, static_cast<std::int64_t>(device_json.size()),
              device_json.data());
  device_.finalize();
}

Target::~Target() {
  if (handle_) TW_DNN_NOTHROW(library_, cudnnDestroy(handle_));
}

std::string Target::device_json() const {
  Descriptor own;
  if (handle_) {
    own = Descriptor(library_.get(), Kind::device_property);
    own.set(Attribute::device_handle, handle_);
    own.finalize();
  }
  const Descriptor& device = handle_ ? own : device_;
  std::int64_t bytes = 0;
  TW_DNN(library_, cudnnBackendGetAttribute(device.raw(), static_cast<int>(Attribute::device_json),
                                            static_cast<int>(Type::character), 0, &bytes, nullptr));
  const std::vector<char> text = device.get_all<char>(Attribute::device_json, Type::character, bytes);
  return std::string(text.begin(), std::ranges::find(text, '\0'));
}

// ---- tensors ----

std::int64_t Graph::add(Descriptor tensor, std::int64_t uid, DataType type, const Extents& extents,
                        const Extents& strides) {
  tensor.set_all(Attribute::tensor_data_type, type, Attribute::tensor_dims, extents, Attribute::tensor_strides, strides,
                 Attribute::tensor_uid, uid, Attribute::tensor_alignment, std::int64_t{16});
  tensor.finalize();
  tensors_.emplace_back(uid, std::move(tensor));
  return uid;
}

std::int64_t Graph::memory(std::int64_t uid, DataType type, const Extents& extents, const Extents& strides) {
  return add(Descriptor(target_->library(), Kind::tensor), uid, type, extents, strides);
}

std::int64_t Graph::between(DataType type, const Extents& extents, const Extents& strides) {
  Descriptor tensor(target_->library(), Kind::tensor);
  tensor.set(Attribute::tensor_is_virtual, true);
  return add(std::move(tensor), next_uid_++, type, extents, strides);
}

std::int64_t Graph::scalar(std::int64_t uid, std::size_t rank) {
  Descriptor tensor(target_->library(), Kind::tensor);
  tensor.set(Attribute::tensor_is_by_value, true);
  return add(std::move(tensor), uid, DataType::float32, Extents(rank, 1), Extents(rank, 1));
}

const Descriptor& Graph::tensor(std::int64_t uid) const {
  for (const auto& [known, descriptor] : tensors_) {
    if (known == uid) return descriptor;
  }
  throw Error(Failure::internal, "cuDNN graph: no tensor " + std::to_string(uid));
}

// ---- operations ----

template <class... Settings>
Descriptor Graph::make(Kind kind, const Settings&... settings) const {
  Descriptor made(target_->library(), kind);
  made.set_all(settings...);
  made.finalize();
  return made;
}

void Graph::pointwise(Pointwise mode, DataType math, const PointwiseOperands& operands) {
  Descriptor& what = keep(Descriptor(target_->library(), Kind::pointwise));
  what.set_all(Attribute::pointwise_mode, mode, Attribute::pointwise_math_type, math);
  if (operands.axis >= 0) what.set(Attribute::pointwise_axis, operands.axis);
  what.finalize();
  Descriptor& operation = operations_.emplace_back(target_->library(), Kind::operation_pointwise);
  operation.set_all(Attribute::operation_pointwise_descriptor, what, Attribute::operation_pointwise_x,
                    tensor(operands.x));
  if (operands.b) operation.set(Attribute::operation_pointwise_b, tensor(operands.b));
  if (operands.t) operation.set(Attribute::operation_pointwise_t, tensor(operands.t));
  operation.set(Attribute::operation_pointwise_y, tensor(operands.y));
  operation.finalize();
}

void Graph::reduce(Reduction mode, std::int64_t x, std::int64_t y) {
  const Descriptor& what = keep(
      make(Kind::reduction, Attribute::reduction_operator, mode, Attribute::reduction_math_type, DataType::float32));
  operations_.push_back(make(Kind::operation_reduction, Attribute::operation_reduction_descriptor, what,
                             Attribute::operation_reduction_x, tensor(x), Attribute::operation_reduction_y, tensor(y)));
}

void Graph::matmul(std::int64_t a, std::int64_t b, std::int64_t c) {
  const Descriptor& what = keep(make(Kind::matmul, Attribute::matmul_math_type, DataType::float32));
  operations_.push_back(make(Kind::operation_matmul, Attribute::operation_matmul_descriptor, what,
                             Attribute::operation_matmul_a, tensor(a), Attribute::operation_matmul_b, tensor(b),
                             Attribute::operation_matmul_c, tensor(c)));
}

void Graph::reshape(std::int64_t x, std::int64_t y) {
  operations_.push_back(make(Kind::operation_reshape, Attribute::operation_reshape_x, tensor(x),
                             Attribute::operation_reshape_y, tensor(y)));
}

void Graph::convolution(const ConvolutionOperands& operands) {
  struct Names {
    Attribute alpha, beta, convolution, x, w, y;
  };
  const Names forward = {Attribute::forward_alpha, Attribute::forward_beta, Attribute::forward_convolution,
                         Attribute::forward_x,     Attribute::forward_w,    Attribute::forward_y};
  const Names data = {Attribute::backward_data_alpha,       Attribute::backward_data_beta,
                      Attribute::backward_data_convolution, Attribute::backward_data_dx,
                      Attribute::backward_data_w,           Attribute::backward_data_dy};
  const Names filter = {Attribute::backward_filter_alpha,       Attribute::backward_filter_beta,
                        Attribute::backward_filter_convolution, Attribute::backward_filter_x,
                        Attribute::backward_filter_dw,          Attribute::backward_filter_dy};
  const Names& names = operands.pass == Kind::operation_convolution_forward         ? forward
                       : operands.pass == Kind::operation_convolution_backward_data ? data
                                                                                    : filter;
  const Extents one(2, 1);
  const Descriptor& what = keep(make(
      Kind::convolution, Attribute::convolution_spatial_dims, std::int64_t{2}, Attribute::convolution_math_type,
      DataType::float32, Attribute::convolution_mode, ConvolutionMode::cross_correlation,
      Attribute::convolution_dilations, one, Attribute::convolution_strides, operands.stride,
      Attribute::convolution_pre_padding, operands.padding, Attribute::convolution_post_padding, operands.padding));
  operations_.push_back(make(operands.pass, names.convolution, what, names.x, tensor(operands.x), names.w,
                             tensor(operands.w), names.y, tensor(operands.y), names.alpha, 1.0f, names.beta,
                             operands.beta));
}

void Graph::finalize() {
  graph_ = Descriptor(target_->library(), Kind::operation_graph);
  std::vector<RawDescriptor> raw;
  for (const Descriptor& operation : operations_) raw.push_back(operation.raw());
  graph_.set(Attribute::graph_operations, Type::descriptor, static_cast<std::int64_t>(raw.size()), raw.data());
  if (target_->handle()) graph_.set(Attribute::graph_handle, target_->handle());
  graph_.finalize();
}

// ---- engines ----

namespace {

/// What the engine and its configuration say of themselves.
void read(const Library* library, const Descriptor& engine, Candidate* candidate) {
  candidate->engine = engine.get<std::int64_t>(Attribute::engine_index);
  std::int64_t bytes = 0, one = 0;  // a library that does not know them yet leaves them to the plan
  if (library->cudnnBackendGetAttribute(candidate->config.raw(),
                                        static_cast<int>(Attribute::engine_config_workspace_bytes),
                                        static_cast<int>(Type::int64), 1, &one, &bytes) == status_success) {
    candidate->workspace_bytes = static_cast<std::size_t>(bytes);
  }
  for (const NumericalNote note : engine.get_all<NumericalNote>(Attribute::engine_numerical_notes, Type::numerical_note,
                                                                static_cast<std::int64_t>(NumericalNote::count))) {
    if (note < NumericalNote::count) candidate->notes[static_cast<std::size_t>(note)] = true;
  }
  for (const BehaviorNote note : engine.get_all<BehaviorNote>(Attribute::engine_behavior_notes, Type::behavior_note,
                                                              static_cast<std::int64_t>(BehaviorNote::count))) {
    if (note == BehaviorNote::runtime_compilation) candidate->compiled_at_run_time = true;
  }
}

/// The one candidate of a graph that asks for an engine. None, and `why` holds the library's words, where the engine or
/// a setting is not one of this library, or not one for this graph. Throws ApiError for what is wrong otherwise.
std::vector<Candidate> asked_for(const Graph& graph, const EngineChoice& choice, std::string* why) {
  const Library* library = graph.target().library();
  const auto accepts = [&](Descriptor& descriptor) {
    const int status = descriptor.try_finalize();
    if (status == status_success) return true;
    if (!is_refusal(status) && !is_bad_parameter(status))
      library->check(status, "cudnnBackendFinalize of an engine that is asked for", __FILE__, __LINE__);
    *why = "engine " + std::to_string(choice.engine) + " is refused: " + library->text(status);
    return false;
  };
  Descriptor engine(library, Kind::engine);
  engine.set_all(Attribute::engine_graph, graph.descriptor(), Attribute::engine_index, choice.engine);
  if (graph.target().device()) engine.set(Attribute::engine_device, graph.target().device());
  if (!accepts(engine)) return {};
  Candidate candidate{.config = Descriptor(library, Kind::engine_config)};
  std::vector<RawDescriptor> knobs;
  for (const auto& [knob, value] : choice.knobs) {
    Descriptor& one = candidate.held.emplace_back(library, Kind::knob_choice);
    one.set_all(Attribute::knob_type, knob, Attribute::knob_value, value);
    if (!accepts(one)) return {};
    knobs.push_back(one.raw());
  }
  candidate.config.set(Attribute::engine_config_engine, engine);
  if (!knobs.empty())
    candidate.config.set(Attribute::engine_config_knobs, Type::descriptor, static_cast<std::int64_t>(knobs.size()),
                         knobs.data());
  if (!accepts(candidate.config)) return {};
  read(library, engine, &candidate);
  candidate.held.push_back(std::move(engine));
  std::vector<Candidate> one;
  one.push_back(std::move(candidate));
  return one;
}

}  // namespace

std::vector<Candidate> candidates(const Graph& graph, Heuristics mode, std::int64_t most, std::string* why) {
  if (graph.choice()) {
    if (mode != Heuristics::a) return {};
    return asked_for(graph, *graph.choice(), why);
  }
  const Library* library = graph.target().library();
  Descriptor heuristics(library, Kind::heuristics);
  heuristics.set(Attribute::heuristics_graph, graph.descriptor());
  heuristics.set(Attribute::heuristics_mode, mode);
  if (graph.target().device()) heuristics.set(Attribute::heuristics_device, graph.target().device());
  std::vector<Candidate> found;
  if (const int status = heuristics.try_finalize(); status != status_success) {
    if (!is_refusal(status)) library->check(status, "cudnnBackendFinalize of the heuristics", __FILE__, __LINE__);
    *why = library->text(status);
    return found;
  }
  std::vector<RawDescriptor> raw;
  for (std::int64_t i = 0; i < most; ++i) {
    found.push_back(Candidate{.config = Descriptor(library, Kind::engine_config), .place = found.size() + 1});
    raw.push_back(found.back().config.raw());
  }
  std::int64_t count = 0;
  TW_DNN(library, cudnnBackendGetAttribute(heuristics.raw(), static_cast<int>(Attribute::heuristics_results),
                                           static_cast<int>(Type::descriptor), most, &count, raw.data()));
  found.resize(static_cast<std::size_t>(std::min(count, most)));
  if (found.empty()) *why = "no engine is known for this graph";
  for (Candidate& candidate : found) {
    Descriptor engine(library, Kind::engine);
    RawDescriptor slot = engine.raw();
    std::int64_t one = 0;
    TW_DNN(library, cudnnBackendGetAttribute(candidate.config.raw(), static_cast<int>(Attribute::engine_config_engine),
                                             static_cast<int>(Type::descriptor), 1, &one, &slot));
    read(library, engine, &candidate);
  }
  return found;
}

std::string Candidate::description() const {
  return "engine " + std::to_string(engine) + (has(NumericalNote::tensor_core) ? ", tensor cores" : "") +
         (compiled_at_run_time ? ", compiled at run time" : "");
}

std::string why_not(const Candidate& candidate, const Demands& demands) {
  for (const NumericalNote note : {NumericalNote::fft, NumericalNote::winograd, NumericalNote::winograd_4x4,
                                   NumericalNote::winograd_6x6, NumericalNote::winograd_13x13}) {
    if (candidate.has(note)) return "is no direct sum";
  }
  if (candidate.has(NumericalNote::reduced_precision_reduction)) return "accumulates in less than float32";
  if (candidate.has(NumericalNote::down_convert_inputs)) return "rounds its inputs";
  if (demands.deterministic && candidate.has(NumericalNote::nondeterministic)) return "is not deterministic";
  if (!demands.tensor_cores && candidate.has(NumericalNote::tensor_core)) return "rounds float32 for tensor cores";
  return why_not(candidate.workspace_bytes, demands);
}

std::string why_not(std::size_t workspace_bytes, const Demands& demands) {
  if (workspace_bytes <= demands.most_workspace_bytes) return {};
  return "wants " + std::to_string(workspace_bytes) + " bytes of workspace";
}

std::size_t least_workspace_bytes(const Graph& graph, const Demands& demands) {
  const Demands of_any_size = {.deterministic = demands.deterministic, .tensor_cores = demands.tensor_cores};
  std::string why;
  for (const Heuristics mode : {Heuristics::a, Heuristics::fallback}) {
    std::optional<std::size_t> least;
    for (const Candidate& candidate : candidates(graph, mode, most_proposals, &why)) {
      if (why_not(candidate, of_any_size).empty())
        least = std::min(least.value_or(candidate.workspace_bytes), candidate.workspace_bytes);
    }
    if (least) return *least;
  }
  return 0;
}

// ---- plans ----

std::shared_ptr<const ExecutionPlan> ExecutionPlan::make(const Target& target, const Candidate& candidate, int* status,
                                                         std::string* why) {
  std::shared_ptr<ExecutionPlan> plan(new ExecutionPlan);
  plan->target_ = &target;
  plan->plan_ = Descriptor(target.library(), Kind::execution_plan);
  plan->plan_.set(Attribute::plan_engine_config, candidate.config);
  if (target.handle()) plan->plan_.set(Attribute::plan_handle, target.handle());
  if (target.device()) plan->plan_.set(Attribute::plan_device, target.device());
  *status = plan->plan_.try_finalize();
  if (*status != status_success) {
    *why = target.library()->text(*status);
    return nullptr;
  }
  plan->workspace_bytes_ = static_cast<std::size_t>(plan->plan_.get<std::int64_t>(Attribute::plan_workspace_bytes));
  plan->description_ =
      candidate.description() + (candidate.place > 1 ? ", proposal " + std::to_string(candidate.place) : "");
  return plan;
}

void Runner::run(CudaStream stream, const Operand* operands, std::size_t count, void* workspace) {
  const Target& target = plan_->target();
  const Library* library = target.library();
  bool same = packed_.size() == count + 1 && packed_[count] == workspace;
  for (std::size_t i = 0; same && i < count; ++i) same = packed_[i] == operands[i].data;
  if (!same) {
    std::vector<std::int64_t> uids;
    packed_.clear();
    for (std::size_t i = 0; i < count; ++i) {
      uids.push_back(operands[i].uid);
      packed_.push_back(operands[i].data);
    }
    Descriptor pack(library, Kind::variant_pack);
    pack.set_all(Attribute::pack_uids, uids, Attribute::pack_pointers, packed_, Attribute::pack_workspace, workspace);
    pack.finalize();
    pack_ = std::move(pack);
    packed_.push_back(workspace);
  }
  TW_DNN(library, cudnnSetStream(target.handle(), stream));
  const int status = library->cudnnBackendExecute(target.handle(), plan_->raw(), pack_.raw());
  if (status == status_success) return;
  if (!is_refusal(status)) TW_CHECK_DEVICE();
  library->check(status, "cudnnBackendExecute", __FILE__, __LINE__);
}

}  // namespace tw::models::cuda::dnn
