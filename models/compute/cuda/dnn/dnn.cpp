#include "models/compute/cuda/dnn/dnn.hpp"

#include <functional>

#include "models/compute/cuda/bench.hpp"
#include "models/compute/cuda/kernels/check.hpp"
#include "models/compute/error.hpp"
#include "models/compute/machine_fault.hpp"

namespace tw::models::cuda {
namespace {

/// The library alone: asked for by info(), which must not cost a handle's memory.
Dnn& library_of(Context& context) {
  if (!context.dnn) {
    context.dnn = std::make_shared<Dnn>();
    context.dnn->library = dnn::Library::open(&context.dnn->no_library);
  }
  return *context.dnn;
}

}  // namespace

std::string dnn_version(Context& context, std::string* why) {
  const Dnn& dnn = library_of(context);
  if (dnn.library) return "cuDNN " + dnn.library->version_text();
  *why = dnn.no_library;
  return {};
}

namespace dnn {

std::shared_ptr<Dnn> open(Context& context, std::string* why) {
  Dnn& dnn = library_of(context);
  if (!dnn.library) {
    *why = dnn.no_library;
    return nullptr;
  }
  if (!dnn.target) {
    context.use();
    try {
      dnn.target = std::make_unique<Target>(dnn.library);
    } catch (const ApiError& error) {
      if (error.failure() == Failure::environment) throw;  // too little memory
      TW_CHECK_DEVICE();                                   // one that has failed is not taken for a missing library
      *why = error.what();
      return nullptr;
    }
  }
  return context.dnn;
}

namespace {

/// Runs plans on tensors of its own.
class Stopwatch {
 public:
  Stopwatch(const std::vector<Need>& needs, const std::vector<Operand>& scalars) : operands_(scalars) {
    for (const Need& need : needs) {
      operands_.push_back(
          {need.uid, bench_.operand(cuda_type(need.dtype), static_cast<std::size_t>(need.dims.count()))});
    }
    require_memory();
  }

  float operator()(const std::shared_ptr<const ExecutionPlan>& plan) {
    void* const workspace = bench_.workspace(plan->workspace_bytes());
    require_memory();
    Runner runner(plan);
    return bench_.milliseconds_of([&] { runner.run(bench_.stream(), operands_.data(), operands_.size(), workspace); });
  }

 private:
  void require_memory() const {
    if (!bench_.is_complete()) throw Error(Failure::environment, "cuDNN: no memory to time engines in");
  }

  Bench bench_;
  std::vector<Operand> operands_;
};

/// Milliseconds of one run; throws Refused where the plan is one that does not run.
using Timer = std::function<float(const std::shared_ptr<const ExecutionPlan>&)>;

/// As find_measured(), by `timer`; an empty one takes the first. Passes over what the library refuses; any other error
/// is thrown: memory, the driver or the device is broken, and would be for the other engines and the next search too.
std::shared_ptr<const ExecutionPlan> find_plan(const Graph& graph, const Wish& wish, const Timer& timer,
                                               std::string* why) {
  Complaints complaints;
  for (const Heuristics mode : {Heuristics::a, Heuristics::fallback}) {
    std::shared_ptr<const ExecutionPlan> best;
    Fastest fastest;
    int tried = 0, compiled = 0;
    std::string refusal;
    const std::vector<Candidate> proposals = candidates(graph, mode, most_proposals, &refusal);
    if (proposals.empty()) complaints.add(refusal);
    for (const Candidate& candidate : proposals) {
      const std::string engine = "engine " + std::to_string(candidate.engine) + " ";
      if (const std::string wrong = why_not(candidate, wish.demands); !wrong.empty()) {  // before it is compiled
        complaints.add(engine + wrong);
        continue;
      }
      if (candidate.compiled_at_run_time && compiled > 0 &&
          (compiled == wish.most_compiled || fastest.milliseconds() < Wish::worth_compiling_ms)) {
        continue;
      }
      int status = 0;
      std::shared_ptr<const ExecutionPlan> plan = ExecutionPlan::make(graph.target(), candidate, &status, &refusal);
      if (!plan) {
        if (!is_refusal(status)) {
          TW_CHECK_DEVICE();
          graph.target().library()->check(status, "cudnnBackendFinalize of a plan", __FILE__, __LINE__);
        }
        complaints.add(engine + "fails: " + refusal);
        continue;
      }
      if (const std::string wrong = why_not(plan->workspace_bytes(), wish.demands); !wrong.empty()) {
        complaints.add(engine + wrong);
        continue;
      }
      if (!timer) return plan;
      try {
        const float milliseconds = timer(plan);
        compiled += candidate.compiled_at_run_time ? 1 : 0;
        if (fastest.takes(milliseconds)) best = std::move(plan);
        if (++tried == wish.most_plans) break;
      } catch (const Refused& error) {
        complaints.add(engine + "fails: " + error.what());
      }
    }
    if (best) return best;
  }
  *why = complaints.text();
  return nullptr;
}

}  // namespace

std::shared_ptr<const ExecutionPlan> find_measured(Context& context, Dnn& dnn, const std::string& name,
                                                   const Graph& graph, const Wish& wish, const std::vector<Need>& needs,
                                                   const std::vector<Operand>& scalars, std::string* why) {
  if (const auto known = dnn.found.find(name); known != dnn.found.end()) {
    *why = known->second.why;
    return known->second.plan;
  }
  context.use();
  Dnn::Found found;
  if (context.times_algorithms()) {
    std::unique_ptr<Stopwatch> stopwatch;
    try {
      stopwatch = std::make_unique<Stopwatch>(needs, scalars);
      found.plan = find_plan(graph, wish, std::ref(*stopwatch), &found.why);
    } catch (const MachineFault&) {  // of the environment too, but no memory would help
      throw;
    } catch (const Error& error) {
      if (error.failure() != Failure::environment) throw;
      stopwatch.reset();  // its memory may be what the plan wants
      found.plan = find_plan(graph, wish, {}, &found.why);
    }
  } else {
    found.plan = find_plan(graph, wish, {}, &found.why);
  }
  *why = found.why;
  return dnn.found.emplace(name, std::move(found)).first->second.plan;
}

}  // namespace dnn
}  // namespace tw::models::cuda
