#include "models/compute/cuda/dnn/dnn.hpp"

#include <algorithm>
#include <cstring>
#include <functional>

#include "models/compute/cuda/kernels/check.hpp"
#include "models/compute/error.hpp"

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
      TW_CHECK_DEVICE();  // one that has failed is not taken for a missing library
      *why = error.what();
      return nullptr;
    }
  }
  return context.dnn;
}

namespace {

/// Bytes of numbers in (−1, 1): power, and with it the clock, depends on values.
std::vector<unsigned char> pattern(DType dtype, std::size_t bytes) {
  std::vector<unsigned char> data(bytes);
  std::uint32_t state = 12345;
  for (std::size_t i = 0; i + size_of(dtype) <= bytes; i += size_of(dtype)) {
    state = state * 1664525u + 1013904223u;
    const float value = static_cast<float>(static_cast<std::int32_t>(state)) * 0x1p-31f;
    if (dtype == DType::bf16) {
      const bf16 rounded = to_bf16(value);
      std::memcpy(&data[i], &rounded, sizeof rounded);
    } else if (dtype == DType::fp16) {
      const fp16 rounded = to_fp16(value);
      std::memcpy(&data[i], &rounded, sizeof rounded);
    } else {
      std::memcpy(&data[i], &value, sizeof value);
    }
  }
  return data;
}

/// Runs plans on tensors of its own.
class Stopwatch {
 public:
  Stopwatch(Context& context, const std::vector<Need>& needs, const std::vector<Operand>& scalars)
      : device_(context.device()),
        stream_(device_.create_stream()),
        begin_(device_.create_event()),
        end_(device_.create_event()),
        operands_(scalars) {
    for (const Need& need : needs) {
      const std::size_t bytes = static_cast<std::size_t>(need.dims.count()) * size_of(need.dtype);
      buffers_.emplace_back(device_, bytes);
      char* const data = static_cast<char*>(buffers_.back().data());
      const std::vector<unsigned char> first = pattern(need.dtype, std::min<std::size_t>(bytes, 1 << 20));
      device_.copy_from_host(*stream_, data, first.data(), first.size());
      stream_->synchronize();  // before `first` goes
      for (std::size_t done = first.size(); done < bytes;) {
        const std::size_t more = std::min(done, bytes - done);
        device_.copy(*stream_, data + done, data, more);
        done += more;
      }
      operands_.push_back({need.uid, data});
    }
  }

  double operator()(const std::shared_ptr<const ExecutionPlan>& plan) {
    constexpr int rounds = 3, runs = 3;
    const Buffer workspace(device_, plan->workspace_bytes());
    Runner runner(plan);
    const auto run = [&] { runner.run(stream_->native(), operands_.data(), operands_.size(), workspace.data()); };
    run();
    double best = 0;
    for (int round = 0; round < rounds; ++round) {
      begin_->record(*stream_);
      for (int i = 0; i < runs; ++i) run();
      end_->record(*stream_);
      const double seconds = end_->seconds_since(*begin_) / runs;
      best = round == 0 ? seconds : std::min(best, seconds);
    }
    return best;
  }

 private:
  Device& device_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<Event> begin_, end_;
  std::vector<Operand> operands_;
  std::vector<Buffer> buffers_;
};

/// Seconds of one run; throws Refused where the plan is one that does not run.
using Timer = std::function<double(const std::shared_ptr<const ExecutionPlan>&)>;

/// What was wrong with candidates, each thing once.
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

/// As find_measured(), by `timer`; an empty one takes the first. Passes over what the library refuses; any other error
/// is thrown: memory, the driver or the device is broken, and would be for the other engines and the next search too.
std::shared_ptr<const ExecutionPlan> find_plan(const Graph& graph, const Wish& wish, const Timer& timer,
                                               std::string* why) {
  Complaints complaints;
  for (const Heuristics mode : {Heuristics::a, Heuristics::fallback}) {
    std::shared_ptr<const ExecutionPlan> best;
    double best_seconds = 0;
    int tried = 0, compiled = 0;
    std::string refusal;
    const std::vector<Candidate> proposals = candidates(graph, mode, most_proposals, &refusal);
    if (proposals.empty()) complaints.add(refusal);
    for (const Candidate& candidate : proposals) {
      const std::string engine = "engine " + std::to_string(candidate.engine) + " ";
      if (const std::string wrong = why_not(candidate, wish.demands); !wrong.empty()) {
        complaints.add(engine + wrong);
        continue;
      }
      const auto is_too_much = [&](std::size_t bytes) {
        if (bytes <= wish.most_workspace_bytes) return false;
        complaints.add(engine + "wants " + std::to_string(bytes) + " bytes of workspace");
        return true;
      };
      if (is_too_much(candidate.workspace_bytes)) continue;  // before it is compiled
      if (candidate.compiled_at_run_time && compiled == wish.most_compiled) continue;
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
      if (is_too_much(plan->workspace_bytes())) continue;
      if (!timer) return plan;
      try {
        const double seconds = timer(plan);
        compiled += candidate.compiled_at_run_time ? 1 : 0;
        if (!best || seconds < best_seconds) best = std::move(plan), best_seconds = seconds;
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
      stopwatch = std::make_unique<Stopwatch>(context, needs, scalars);
      found.plan = find_plan(graph, wish, std::ref(*stopwatch), &found.why);
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
