#include "models/compute/cuda/dnn/search.hpp"

#include "models/compute/error.hpp"

namespace tw::models::cuda::dnn {
namespace {

constexpr std::int64_t most_proposals = 64;

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

}  // namespace

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
      if (candidate.compiled_at_run_time && compiled == wish.most_compiled) continue;
      int status = 0;
      std::shared_ptr<const ExecutionPlan> plan = ExecutionPlan::make(graph.target(), candidate, &status, &refusal);
      if (!plan) {
        complaints.add(engine + "fails: " + refusal);
        continue;
      }
      if (plan->workspace_bytes() > wish.most_workspace_bytes) {
        complaints.add(engine + "wants " + std::to_string(plan->workspace_bytes()) + " bytes of workspace");
        continue;
      }
      if (!timer) return plan;
      try {
        const double seconds = timer(plan);
        compiled += candidate.compiled_at_run_time ? 1 : 0;
        if (!best || seconds < best_seconds) best = std::move(plan), best_seconds = seconds;
        if (++tried == wish.most_plans) break;
      } catch (const ApiError& error) {
        complaints.add(engine + "fails: " + error.what());
      }
    }
    if (best) return best;
  }
  *why = complaints.text();
  return nullptr;
}

}  // namespace tw::models::cuda::dnn
