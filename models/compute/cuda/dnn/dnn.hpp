// cuDNN on one device: the library, its handle, and the plans found so far. Private to models/compute/cuda.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/compute/cuda/context.hpp"
#include "models/compute/cuda/dnn/graph.hpp"

namespace tw::models::cuda {

struct Dnn {
  /// What a search has found; it takes seconds, above all where nothing is good enough.
  struct Found {
    std::shared_ptr<const dnn::ExecutionPlan> plan;
    std::string why;  ///< there is none
  };
  std::shared_ptr<const dnn::Library> library;  ///< null where it is not there
  std::string no_library;                       ///< why
  std::unique_ptr<dnn::Target> target;          ///< made with the first plan
  std::map<std::string, Found> found;           ///< by what it does, in words
};

namespace dnn {

/// With a handle; null where there is no library or no handle, and `why` says so.
std::shared_ptr<Dnn> open(Context& context, std::string* why);

/// Memory that a plan is measured on.
struct Need {
  std::int64_t uid = 0;
  Dims dims;
  DType dtype = DType::float32;
};

struct Wish {
  Demands demands;
  int most_plans = 8;  ///< that are measured
  /// Of these, how many that are compiled at run time. One takes 1.4 to 1.9 s of a processor (cuDNN 9.19 for sm_90),
  /// and all of ResNet-50's 22 gradients of weights in 16 bits have no others. Threads would not give all of that back,
  /// since the library does part of it under a lock. So another one is compiled only while the fastest so far takes at
  /// least worth_compiling_ms.
  int most_compiled = 1;
  /// ResNet-50's gradients of weights take that long from a micro-batch of about 128 on (an H200's rates of memory and
  /// products, calculated): the sizes below that --micro-batch auto tries start as quickly as with one candidate.
  static constexpr float worth_compiling_ms = 0.05f;
};

/// Which engine runs a graph: the first of those that the heuristics propose unless another is faster by more than
/// noise (Fastest, bench.hpp). Measured once by the device's own clock, in memory of its own that is given back at
/// once; kept under `name`, a refusal too. Where that memory is not there, or nothing is to be measured, the first of
/// them. Null where no engine obeys the wish; `why` then names what was wrong with the first few. Throws ApiError for
/// what is no refusal of an engine.
std::shared_ptr<const ExecutionPlan> find_measured(Context& context, Dnn& dnn, const std::string& name,
                                                   const Graph& graph, const Wish& wish, const std::vector<Need>& needs,
                                                   const std::vector<Operand>& scalars, std::string* why);

}  // namespace dnn
}  // namespace tw::models::cuda
