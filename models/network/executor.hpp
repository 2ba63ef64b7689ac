// Runs a chain of blocks, or a stage of it, over memory planned once.
//
// Memory: the output of each block (it is the next one's input) and its saved tensors live from forward to backward;
// of the first `recomputed` blocks only the outputs do. Their saved tensors share one region, as large as the largest
// needs, with those of the block behind them, which is the last to fill it before backward; each of the others fills it
// again by running its forward before its backward. Scratch is one region for all blocks. The gradients of outputs
// alternate between two regions; where a block leaves a gradient in two parts, the second ones share another.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/network/network.hpp"

namespace tw::models {

struct ExecutorOptions {
  int recomputed = 0;        ///< blocks of the network, from its first on, whose forward is run again
  int first = 0, last = -1;  ///< blocks [first, last); −1: to the end
};

/// Byte offsets of a stage's tensors in one region of `bytes`. Needs no device. All vectors are by block from `first`
/// on.
struct ActivationPlan {
  std::size_t bytes = 0;                          ///< of everything below
  std::size_t scratch_bytes = 0;                  ///< part of it that is scratch
  std::vector<Tensor> outputs, output_gradients;  ///< rank 0 for the last block of a network
  std::vector<Tensor> second_input_gradients;     ///< rank 0 where the block leaves one gradient of its input
  Tensor input, input_gradient;                   ///< the stage's boundary; rank 0 where first == 0
  std::vector<std::vector<Tensor>> saved, scratch;
  // Until bound, the data pointers are offsets + 1 in a region at address 0.

  ActivationPlan(const std::vector<std::unique_ptr<Block>>& blocks, const ExecutorOptions& options);
  /// Turns offsets into addresses.
  void bind(void* region);
};

/// One micro-batch: where its data lie and what it does.
struct MicroBatch {
  Tensor inputs, targets;   ///< device memory
  Tensor loss, correct;     ///< float32 (1), int32 (1)
  const StepScalars* scalars = nullptr;  ///< device memory; where the loss is scaled
  bool accumulate = false;  ///< add to the parameter gradients
};

class Executor {
 public:
  /// Called with (block, index into its parameters()) when that gradient is complete.
  using Listener = std::function<void(int block, int index)>;

  /// The blocks must have been built; they and the stream outlive the executor. Throws Error{usage} for a stage that is
  /// none of theirs. All calls are enqueued on the stream; errors of operators are those of Device.
  Executor(Device& device, Stream& stream, const std::vector<std::unique_ptr<Block>>& blocks,
           const ExecutorOptions& options);

  /// Forward of a micro-batch that backward follows.
  void forward(const MicroBatch& batch) { forward(batch, true); }
  /// Backward of the micro-batch that forward saw last. `listener` may be empty.
  void backward(const MicroBatch& batch, const Listener& listener);
  /// Loss only: running statistics and gradients stay as they are.
  void evaluate(const MicroBatch& batch) { forward(batch, false); }
  /// Weights have changed: repack them all.
  void refresh();

  /// A stage's boundary. Fill input() before forward and output_gradient() before backward; rank 0 at the network's
  /// ends.
  Tensor input() const { return plan_.input; }
  Tensor output() const { return plan_.outputs.back(); }
  Tensor output_gradient() const { return plan_.output_gradients.back(); }
  Tensor input_gradient() const { return plan_.input_gradient; }

  /// What a finished micro-batch left: each block's output as {"block/output", tensor}, and, of those whose
  /// saved tensors stay, these as {"block/tensor", tensor}. Valid until the next forward.
  std::vector<std::pair<std::string, Tensor>> kept() const;

  /// Bytes held.
  std::size_t bytes() const { return region_.bytes(); }

 private:
  void forward(const MicroBatch& batch, bool training);
  BlockRun& prepare(std::size_t i, const MicroBatch& batch, bool training);
  Tensor input_of(std::size_t i) const { return i == 0 ? plan_.input : plan_.outputs[i - 1]; }

  Device& device_;
  Stream& stream_;
  std::size_t sharing_ = 0;  ///< blocks of the stage with one region for saved tensors; all but the last are recomputed
  ActivationPlan plan_;
  Buffer region_;
  std::vector<Block*> blocks_;
  std::vector<WeightPlan*> weight_plans_;
  std::vector<std::shared_ptr<Plan>> plans_;  // keeps weight_plans_ alive
  std::vector<BlockRun> runs_;
  const Listener* listener_ = nullptr;
};

}  // namespace tw::models
