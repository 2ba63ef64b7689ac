// The trainer's parts. Private to trainer.cpp and trainer_export.cpp.
#pragma once

#include <array>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/data/batch_loader.hpp"
#include "models/export/safetensors.hpp"
#include "models/network/executor.hpp"
#include "models/network/parameters.hpp"
#include "models/optimizers/optimizer.hpp"
#include "models/step_ring.hpp"
#include "models/trainer.hpp"

namespace tw::models {

/// Everything that is launched again and again is recorded once: forward and backward of each kind of micro-batch, and
/// the update. The cuts between graphs are where the host has something to say: phases end with an event, which inside
/// a graph would be overwritten by the next launch before it was read; the samples' numbers change; and collectives
/// stay out of graphs, so that every communicator and version of a library may be used, times its buckets and reports
/// its errors. A bucket therefore ends a graph of the last micro-batch's backward.
struct StepGraphs {
  struct Piece {
    std::unique_ptr<Graph> graph;
    std::optional<GradientRange> complete;  ///< announced behind it
  };
  struct MicroStep {
    std::unique_ptr<Graph> forward;
    std::vector<Piece> backward;
  };
  /// First or following (which accumulates), last or not.
  std::array<MicroStep, 4> micro_steps;
  std::unique_ptr<Graph> update;
  static std::size_t kind(bool is_first, bool is_last) { return (is_first ? 0u : 1u) + (is_last ? 2u : 0u); }
};

/// Records what is enqueued on a stream from here to end(). Without that, as when an exception passes, the record is
/// ended and thrown away: a stream that goes on recording can be neither waited for nor used.
class Recording {
 public:
  Recording(Device& device, Stream& stream) : device_(device), stream_(stream) { device.begin_capture(stream); }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    if (!is_open_) return;
    try {
      device_.end_capture(stream_);
    } catch (const std::exception&) {  // the one that passes says more
    }
  }
  std::unique_ptr<Graph> end() {
    is_open_ = false;
    return device_.end_capture(stream_);
  }

 private:
  Device& device_;
  Stream& stream_;
  bool is_open_ = true;
};

/// Passes everything on, and counts the host's seconds in exchanges.
class TimedExchange final : public Exchange {
 public:
  void use(Exchange& inner) { inner_ = &inner; }
  explicit operator bool() const { return inner_ != nullptr; }
  double seconds() const { return seconds_; }
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  void all_reduce_sum(Stream& stream, Tensor values) override {
    timed([&] { inner_->all_reduce_sum(stream, values); });
  }
  void all_to_all(Stream& stream, Tensor input, Tensor output) override {
    timed([&] { inner_->all_to_all(stream, input, output); });
  }
  void send(Stream& stream, Tensor values, int peer) override {
    timed([&] { inner_->send(stream, values, peer); });
  }
  void receive(Stream& stream, Tensor values, int peer) override {
    timed([&] { inner_->receive(stream, values, peer); });
  }

 private:
  template <class Work>
  void timed(Work&& work) {
    const auto start = std::chrono::steady_clock::now();
    work();
    seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  Exchange* inner_ = nullptr;
  double seconds_ = 0;
};

struct Trainer::Impl {
  Device& device;
  TrainerConfig config;
  std::unique_ptr<Stream> stream;
  std::vector<std::unique_ptr<Block>> blocks;
  ParameterStore store;
  Optimizer optimizer;
  std::unique_ptr<Executor> executor;
  BatchLoader loader;
  Buffer
      results;  // float32 loss and int32 right answers of the micro-batch in progress, then float32 (accumulate) losses
  std::vector<std::vector<int>> parameter_index;  // of parameters()[i] of a block, in flat order
  StepRing ring;
  StepGraphs graphs;
  std::int64_t steps = 0;
  const GradientSync* sync = nullptr;
  StepSlot* slot = nullptr;                             // of the step being enqueued
  std::vector<StepGraphs::Piece>* recording = nullptr;  // where backward's pieces go while they are recorded
  std::optional<Recording> open_piece;                  // the one that is recorded now
  GradientRange unannounced;                            // complete since the last cut
  Executor::Listener listener;
  TimedExchange exchange;

  Impl(Device& the_device, TrainerConfig the_config);

  std::int64_t global_batch() const { return config.micro_batch * config.accumulate * config.ranks; }
  /// Sample i of a step is the same whatever the split: micro-batch m of rank r takes the (m·ranks + r)-th group.
  std::uint64_t first_sample(std::int64_t step, std::int64_t micro, int rank) const {
    return static_cast<std::uint64_t>(step * global_batch() + (micro * config.ranks + rank) * config.micro_batch);
  }
  Tensor losses() const {
    return Tensor{results.data(), DType::float32, {2 + config.accumulate}}.slice(2, {config.accumulate});
  }
  /// Whether a forward is collective.
  bool has_split_tables() const { return config.ranks > 1 && store.layout().table_elements > 0; }
  MicroBatch micro_batch(bool accumulate) const;
  /// Whether this step's work goes through graphs. The first one does not, so that libraries set themselves up, nor
  /// does one whose operators are timed one by one.
  bool uses_graphs() const { return config.graphs && device.has_graphs() && steps > 0 && !device.profiling(); }

  void gradient_ready(int block, int index);
  void announce(GradientRange range);
  void cut();
  void forward(const MicroBatch& batch, bool is_last);
  void backward(const MicroBatch& batch, bool is_last);
  std::vector<StepGraphs::Piece> record_backward(const MicroBatch& batch, const Executor::Listener& heard);
  /// Forward and backward of all micro-batches, and the sum over ranks.
  void gradients(const GradientSync& the_sync);
  void update();
  EvaluationResult evaluate(Split split, std::uint64_t sample);

  /// `scale` times the gradient of the rows of this rank's tables, of the step whose backward ran last; empty without.
  Buffer table_gradients(float scale);
  /// Of the gradients of the step whose backward ran last.
  double loss_scale();
  std::vector<SafeTensor> exported_batch();
  std::string description(const StepResult& result, double loss) const;
};

}  // namespace tw::models
