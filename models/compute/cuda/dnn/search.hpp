// Which engine runs a graph: the fastest of those that the heuristics propose, measured once, or the first of them
// where nothing can be measured. Private to models/compute/cuda.
#pragma once

#include <functional>

#include "models/compute/cuda/dnn/graph.hpp"

namespace tw::models::cuda::dnn {

/// Seconds of one run; throws ApiError where the plan does not run.
using Timer = std::function<double(const std::shared_ptr<const ExecutionPlan>&)>;

struct Wish {
  Demands demands;
  std::size_t most_workspace_bytes = 0;
  int most_plans = 8;  ///< that are measured
  /// Of these, how many that are compiled at run time. One takes 1.4 to 1.9 s of a processor (cuDNN 9.19 for sm_90), and all
  /// of ResNet-50's 22 gradients of weights in 16 bits have no others: a second candidate each doubles what a start takes.
  /// Threads would not give all of that back, since the library does part of it under a lock.
  int most_compiled = 1;
};

/// Null where no engine obeys the wish; `why` then names what was wrong with the first few. An empty timer takes the
/// first.
std::shared_ptr<const ExecutionPlan> find_plan(const Graph& graph, const Wish& wish, const Timer& timer,
                                               std::string* why);

}  // namespace tw::models::cuda::dnn
