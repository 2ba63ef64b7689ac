#include <algorithm>
#include <cstring>

#include "tests/support/cudnn/machine.hpp"
#include "tests/support/simt/stream.hpp"

#define TW_EXPORT extern "C" __attribute__((visibility("default")))

namespace tw::cudnn {

State& state() {
  static State one;
  return one;
}

namespace {

struct Handle {
  void* stream = nullptr;
  bool has_stream = false;
};

NodePointer& node_of(void* raw) { return *static_cast<NodePointer*>(raw); }

// ---- what has no engine, as with the real library ----

bool has_engine(const Node& graph) {
  const std::vector<NodePointer>& operations = graph.values.at(Attribute::graph_operations).nodes;
  for (const NodePointer& operation : operations) {
    if (operation->kind == Kind::operation_matmul) {
      const Tensor a(*operation->node(Attribute::operation_matmul_a));
      if (a.type == DataType::float32 && !a.is_virtual) return false;
      if (!a.is_virtual && a.extents[3] % 8 != 0) return false;
    }
    if (operation->kind != Kind::operation_convolution_backward_filter) continue;
    const Tensor x(*operation->node(Attribute::backward_filter_x)), w(*operation->node(Attribute::backward_filter_dw));
    if (x.type != w.type && (!w.is_virtual || x.extents[1] % 8 != 0 || w.extents[0] % 8 != 0)) return false;
  }
  return true;
}

/// Of an attention's backward graph, which has five products: batch · heads · seq². Else 0.
std::int64_t backward_scores(const Node& graph) {
  const std::vector<NodePointer>& operations = graph.values.at(Attribute::graph_operations).nodes;
  const auto is_product = [](const NodePointer& one) { return one->kind == Kind::operation_matmul; };
  if (std::count_if(operations.begin(), operations.end(), is_product) != 5) return 0;
  const NodePointer first = *std::find_if(operations.begin(), operations.end(), is_product);
  return Tensor(*first->node(Attribute::operation_matmul_c)).count();
}

template <class Body>
int guarded(Body&& body) {
  try {
    body();
    return 0;
  } catch (const Refusal& refusal) {
    state().refusal = refusal.what();
    return refusal.status;
  } catch (const std::exception& error) {
    state().refusal = error.what();
    return 4000;
  }
}

/// What an engine proposes for this graph.
Proposal on(const Node& graph, Proposal proposal) {
  proposal.workspace_bytes += proposal.bytes_each_score * backward_scores(graph);
  return proposal;
}

/// One of those that can be asked for by number.
void finalize_engine(Node& node) {
  const Node& graph = *node.node(Attribute::engine_graph);
  const auto number = node.one<std::int64_t>(Attribute::engine_index);
  for (const Proposal& one : state().engines) {
    if (one.engine != number || !has_engine(graph)) continue;
    node.proposal = on(graph, one);
    return;
  }
  throw Refusal(not_supported, "no such engine");
}

void finalize_config(Node& node) {
  const NodePointer engine = node.node(Attribute::engine_config_engine);
  require(engine->kind == Kind::engine, "an engine");
  const NodePointer graph = engine->node(Attribute::engine_graph);
  Asked asked = {engine->proposal.engine, {}, graph->values.at(Attribute::graph_operations).nodes.size()};
  for (const NodePointer& knob : node.values.at(Attribute::engine_config_knobs).nodes) {
    require(knob->kind == Kind::knob_choice, "a setting");
    asked.knobs.emplace_back(knob->one<int>(Attribute::knob_type), knob->one<std::int64_t>(Attribute::knob_value));
  }
  state().asked.push_back(asked);
  if (engine->proposal.config_status != 0) throw Refusal(engine->proposal.config_status, "made-up refusal");
  node.proposal = engine->proposal;
  node.values[Attribute::engine_graph].nodes = {graph};
}

void finalize(Node& node) {
  require(!node.final, "finalized twice");
  for (const auto& [attribute, values] : node.values) {
    for (const NodePointer& other : values.nodes) require(other->final, "a descriptor that is not finalized");
  }
  if (node.kind == Kind::tensor) Tensor{node};
  if (node.kind == Kind::operation_graph) require(node.has(Attribute::graph_operations), "operations");
  if (node.kind == Kind::heuristics) {
    ++state().questions;
    if (state().heuristics_status != 0) throw Refusal(state().heuristics_status, "made-up refusal");
    node.node(Attribute::heuristics_graph);
    node.one<int>(Attribute::heuristics_mode);
  }
  if (node.kind == Kind::engine) finalize_engine(node);
  if (node.kind == Kind::knob_choice) {
    require(node.values.at(Attribute::knob_type).type == Type::knob_type, "a setting's type");
    node.one<std::int64_t>(Attribute::knob_value);
  }
  if (node.kind == Kind::engine_config) finalize_config(node);
  if (node.kind == Kind::execution_plan) {
    const Node& config = *node.node(Attribute::plan_engine_config);
    require(node.has(Attribute::plan_handle), "a handle");
    node.proposal = config.proposal;
    if (config.proposal.status != 0) throw Refusal(config.proposal.status, "made-up refusal");
  }
  if (node.kind == Kind::variant_pack) {
    require(node.all<std::int64_t>(Attribute::pack_uids).size() == node.all<void*>(Attribute::pack_pointers).size(),
            "as many addresses as uids");
    node.one<void*>(Attribute::pack_workspace);
  }
  node.final = true;
}

std::int64_t heuristic_results(const Node& heuristics, std::int64_t most, void* slots) {
  const NodePointer graph = heuristics.node(Attribute::heuristics_graph);
  const bool is_fallback = heuristics.one<int>(Attribute::heuristics_mode) == 2;
  if (is_fallback || !has_engine(*graph)) return 0;
  std::int64_t count = 0;
  for (const Proposal& proposal : state().proposals) {
    if (count == most) break;
    Node& config = *node_of(static_cast<void**>(slots)[count++]);
    config.proposal = on(*graph, proposal);
    config.final = true;
    config.values[Attribute::engine_graph].nodes = {graph};
  }
  return count;
}

template <class T>
std::int64_t give(const std::vector<T>& values, std::int64_t most, void* out) {
  const auto count = std::min<std::int64_t>(most, static_cast<std::int64_t>(values.size()));
  std::memcpy(out, values.data(), static_cast<std::size_t>(count) * sizeof(T));
  return static_cast<std::int64_t>(values.size());
}

std::int64_t get(const Node& node, Attribute attribute, std::int64_t most, void* out) {
  require(node.final, "a descriptor that is not finalized");
  switch (attribute) {
    case Attribute::heuristics_results:
      return heuristic_results(node, most, out);
    case Attribute::engine_config_engine: {
      Node& engine = *node_of(*static_cast<void**>(out));
      engine.proposal = node.proposal;
      engine.final = true;
      return 1;
    }
    case Attribute::engine_index:
      return give<std::int64_t>({node.proposal.engine}, most, out);
    case Attribute::engine_numerical_notes:
      return give(node.proposal.notes, most, out);
    case Attribute::engine_behavior_notes:
      return give(node.proposal.compiled ? std::vector<int>{0} : std::vector<int>{}, most, out);
    case Attribute::engine_config_workspace_bytes:
    case Attribute::plan_workspace_bytes:
      return give<std::int64_t>({node.proposal.workspace_bytes}, most, out);
    default:
      throw Refusal(bad_parameter, "no such attribute to read");
  }
}

/// The values of the tensors that lie on the host.
std::shared_ptr<std::map<std::int64_t, float>> scalars_of(const std::vector<NodePointer>& operations,
                                                          const std::map<std::int64_t, void*>& memory) {
  auto values = std::make_shared<std::map<std::int64_t, float>>();
  for (const NodePointer& operation : operations) {
    for (const auto& [attribute, held] : operation->values) {
      for (const NodePointer& node : held.nodes) {
        if (node->kind != Kind::tensor || !node->flag(Attribute::tensor_is_by_value)) continue;
        const Tensor scalar(*node);
        require(scalar.type == DataType::float32 && scalar.count() == 1, "a scalar that is one float32");
        const auto at = memory.find(scalar.uid);
        require(at != memory.end(), "no address for a scalar");
        values->emplace(scalar.uid, *static_cast<const float*>(at->second));
      }
    }
  }
  return values;
}

void execute(Handle* handle, const Node& plan, const Node& pack) {
  require(handle != nullptr && handle->has_stream, "a handle with a stream");
  require(plan.final && pack.final, "a plan and a pack that are finalized");
  const auto uids = pack.all<std::int64_t>(Attribute::pack_uids);
  const auto pointers = pack.all<void*>(Attribute::pack_pointers);
  std::map<std::int64_t, void*> memory;
  for (std::size_t i = 0; i < uids.size(); ++i) {
    require(pointers[i] != nullptr, "an address that is null");
    require(memory.emplace(uids[i], pointers[i]).second, "a uid that is given twice");
  }
  void* const workspace = pack.one<void*>(Attribute::pack_workspace);
  require(workspace != nullptr || plan.proposal.workspace_bytes == 0, "a workspace");
  if (plan.proposal.run_status != 0) throw Refusal(plan.proposal.run_status, "made-up failure");
  const Node& config = *plan.node(Attribute::plan_engine_config);
  const Node& graph = *config.values.at(Attribute::engine_graph).nodes[0];
  const std::vector<NodePointer>& operations = graph.values.at(Attribute::graph_operations).nodes;
  state().runs.push_back({plan.proposal.engine, operations.size(), uids, handle->stream});
  // Descriptors and scalars on the host are read now: a CUDA graph that holds the run outlives them.
  const std::shared_ptr<std::map<std::int64_t, float>> scalars = scalars_of(operations, memory);
  const int code = tw::simt::enqueue(handle->stream, [proposal = plan.proposal, operations, memory, scalars,
                                                      workspace] {
    tw::simt::take(proposal.milliseconds);
    if (workspace) std::memset(workspace, 0xff, static_cast<std::size_t>(proposal.workspace_bytes));
    std::map<std::int64_t, void*> addresses = memory;
    for (auto& [uid, value] : *scalars) addresses[uid] = &value;
    require(run_graph(proposal, operations, addresses).size() == memory.size(), "an address that no operation takes");
  });
  if (code != 0) throw Refusal(execution_failed, "the device has failed");
}

}  // namespace
}  // namespace tw::cudnn

// ---- the library's functions ----

using namespace tw::cudnn;

TW_EXPORT std::size_t cudnnGetVersion() { return state().version; }
TW_EXPORT const char* cudnnGetErrorString(int) { return "an error of the stand-in"; }
TW_EXPORT void cudnnGetLastErrorString(char* text, std::size_t bytes) {
  if (bytes == 0) return;
  const std::size_t length = std::min(bytes - 1, state().refusal.size());
  std::memcpy(text, state().refusal.data(), length);
  text[length] = '\0';
}
TW_EXPORT int cudnnCreate(Handle** handle) {
  if (state().create_status != 0) return state().create_status;
  *handle = new Handle;
  return 0;
}
TW_EXPORT int cudnnDestroy(Handle* handle) {
  delete handle;
  return 0;
}
TW_EXPORT int cudnnSetStream(Handle* handle, void* stream) {
  handle->stream = stream;
  handle->has_stream = true;
  return 0;
}
TW_EXPORT int cudnnBackendCreateDescriptor(int kind, void** descriptor) {
  auto node = std::make_shared<Node>();
  node->kind = static_cast<Kind>(kind);
  *descriptor = new NodePointer(std::move(node));
  return 0;
}
TW_EXPORT int cudnnBackendDestroyDescriptor(void* descriptor) {
  delete static_cast<NodePointer*>(descriptor);
  return 0;
}
TW_EXPORT int cudnnBackendFinalize(void* descriptor) {
  return guarded([&] { finalize(*node_of(descriptor)); });
}
TW_EXPORT int cudnnBackendSetAttribute(void* descriptor, int attribute, int type, std::int64_t count,
                                       const void* values) {
  return guarded([&] {
    Node& node = *node_of(descriptor);
    require(!node.final, "set after it was finalized");
    Values& kept = node.values[static_cast<Attribute>(attribute)];
    kept = {static_cast<Type>(type), count, {}, {}};
    if (kept.type == Type::descriptor) {
      for (std::int64_t i = 0; i < count; ++i) kept.nodes.push_back(node_of(static_cast<void* const*>(values)[i]));
      return;
    }
    const std::size_t size = kept.type == Type::boolean || kept.type == Type::character                            ? 1
                             : kept.type == Type::int64 || kept.type == Type::pointer || kept.type == Type::handle ? 8
                                                                                                                   : 4;
    const auto* const bytes = static_cast<const unsigned char*>(values);
    kept.bytes.assign(bytes, bytes + size * static_cast<std::size_t>(count));
  });
}
TW_EXPORT int cudnnBackendGetAttribute(void* descriptor, int attribute, int, std::int64_t most, std::int64_t* count,
                                       void* values) {
  return guarded([&] { *count = get(*node_of(descriptor), static_cast<Attribute>(attribute), most, values); });
}
TW_EXPORT int cudnnBackendExecute(Handle* handle, void* plan, void* pack) {
  return guarded([&] { execute(handle, *node_of(plan), *node_of(pack)); });
}
