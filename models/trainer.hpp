// One rank's training: parameters, executor, optimizer, synthetic data. The bench room calls it; comm hooks in by
// callback.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "models/network/network.hpp"

namespace tw::models {

struct TrainerConfig {
  NetworkDescription network;
  Precision precision = Precision::float32;
  std::int64_t micro_batch = 1;  ///< samples of this rank that are computed together
  std::int64_t seq_len = 0;      ///< positions of a sample; 0 if samples have none
  std::int64_t accumulate = 1;   ///< micro-batches of a step; the global batch is micro_batch · accumulate · ranks
  OptimizerConfig optimizer;
  std::uint64_t seed = 1;
  bool graphs = true;  ///< record the step once and launch it as a whole, where the device can; else call by call
  /// Layers (catalog's layer_count), the first ones, of which inputs alone are kept: forward runs again in backward.
  int recomputed_layers = 0;
  int rank = 0, ranks = 1;  ///< which part of the global batch is ours
};

/// Bytes a rank needs, known before anything is allocated.
struct MemoryPlan {
  std::size_t parameters = 0, gradients = 0, optimizer_state = 0, activations = 0, packed_weights = 0, workspace = 0,
              data = 0;
  std::size_t total() const {
    return parameters + gradients + optimizer_state + activations + packed_weights + workspace + data;
  }
};
/// Packed weights and workspace are upper estimates for a cpu device of `threads` threads (0: as many as there are CPUs
/// that this process may use); the rest is exact. Throws Error{usage} for sizes that no memory holds.
MemoryPlan plan_memory(const TrainerConfig& config, int threads = 0);

/// Seconds of one optimizer step on this rank.
struct PhaseSeconds {
  double data = 0, forward = 0, backward = 0, communication = 0, optimizer = 0;
};
struct StepResult {
  double loss = 0;                 ///< mean over this rank's micro-batches; the caller averages over ranks
  double gradient_norm = 0;        ///< of the global gradient without tables, before clipping
  double loss_scale = 1;           ///< after it; 1 where the loss is not scaled
  std::int64_t skipped_steps = 0;  ///< of all so far, those whose gradients were not finite: they changed nothing
  double seconds = 0;              ///< from its first sample to its last result, by the device's events
  PhaseSeconds phases{};
};

/// What a network makes of held-out samples, without learning from them.
struct EvaluationResult {
  double loss = 0;               ///< mean over the predictions, as in training (label smoothing included)
  std::int64_t correct = 0;      ///< predictions whose greatest logit is the target's; the first of equal ones counts.
                                 ///< 0 where targets are numbers, which have no right answer
  std::int64_t predictions = 0;  ///< a token each (of masked tokens, a masked one), an image, a click or a number
};

/// A range of the flat gradient buffer, in elements.
struct GradientRange {
  std::int64_t begin = 0, end = 0;
};

/// Where gradients leave for other ranks. `ready` is called on the last micro-batch of a step, once per parameter, in
/// the order of the flat buffer (reverse of forward); `finish` must leave the sum over ranks in the buffer.
struct GradientSync {
  /// `ready` may be called once for neighbouring parameters together, of this many bytes or more: where a graph ends.
  std::int64_t piece_bytes = 0;
  std::function<void(Stream&, Tensor flat_gradients, GradientRange)> ready;
  std::function<void(Stream&, Tensor flat_gradients)> finish;
};

class Trainer {
 public:
  Trainer(Device& device, TrainerConfig config);
  ~Trainer();
  /// Before the first step and evaluation of a network whose tables lie on several ranks (Block::connect); of no effect
  /// elsewhere. The exchange outlives the trainer.
  void connect(Exchange& exchange);
  /// One optimizer step: `accumulate` micro-batches of synthetic data, gradients summed and synchronised, update.
  StepResult step(const GradientSync& sync);
  /// The same, enqueued: on an asynchronous device the host goes on, and waits only for the oldest step in flight once
  /// most_ahead, or as many as set_ahead() says, are there. `sync` must not wait for the stream either.
  void enqueue_step(const GradientSync& sync);
  /// Waits for all steps; the results of those enqueued since the last call, in their order.
  std::vector<StepResult> collect();
  void set_ahead(int steps);
  /// Whether enqueue_step() returns before the step is done.
  bool runs_ahead() const;
  /// Whether steps but the first go through graphs.
  bool uses_graphs() const;
  static constexpr int most_ahead = 32;
  /// Held-out samples [batch_index · micro_batch, (batch_index + 1) · micro_batch); weights, gradients, optimizer state
  /// and running statistics stay as they are. The same on every rank, whatever the number of ranks. Batch norms
  /// normalise by the statistics of the micro-batch here too, so that the result does not depend on which rank saw what
  /// before. Where tables lie on several ranks, it is collective, and rank r asks for a batch_index of r modulo ranks,
  /// in the same group of as many for all; Error{internal} elsewhere.
  EvaluationResult evaluate(std::uint64_t batch_index);
  std::int64_t steps_done() const;
  std::int64_t parameter_count() const;
  const std::vector<Parameter>& parameters() const;  ///< in the order of the flat buffers
  const std::vector<Table>& tables() const;          ///< of the network; none in most
  Tensor flat_gradients() const;                     ///< float32 (padded count)
  const TrainerConfig& config() const;
  /// As really allocated; `workspace` is all scratch memory of the device, which may have served larger plans before.
  MemoryPlan memory() const;
  /// What the plans chose, for the report: by product and shape ("linear 128 > 384, 64 rows"), each description once.
  std::map<std::string, std::vector<std::string>> implementations() const;

  /// Writes initial weights, batch, loss, gradients and the weights after one step as safetensors into an existing
  /// folder, and step.json, which describes them. For networks with ReLUs also which side of zero each took, or in
  /// step.json why not. Throws Error{usage} where tables lie on several ranks.
  void export_step(const std::string& folder, const GradientSync& sync);
  /// Why export_step() leaves out the sides of the ReLUs; empty where it writes them, and where the network has none.
  std::string why_no_relu_sides() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw::models
