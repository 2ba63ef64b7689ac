// A device that runs ahead: calls note their work with copies of their arguments and return; it runs, in order, when
// the host waits for a stream or an event. So what the host changes too early, reads too early or waits for needlessly
// shows on a machine without a GPU. Graphs record and replay the same notes.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "models/compute/device.hpp"

namespace tw::test {

class DeferredStream;

class DeferredDevice final : public Device {
 public:
  /// `inner` computes.
  explicit DeferredDevice(std::unique_ptr<Device> inner, bool has_graphs = true);
  ~DeferredDevice() override;

  Device& inner() { return *inner_; }
  /// Makes its samples itself; for trainers built from then on.
  bool makes_samples = false;
  bool generates_samples() const override { return makes_samples; }
  /// Throws when this many notes of a graph have been taken; below 0: never.
  long fails_recording_after = -1;
  /// How often the host has waited for work that had not run.
  int waits = 0;
  /// Notes of work that have run, and graphs that were recorded and launched.
  long executed = 0, recorded = 0, launched = 0;

  DeviceInfo info() const override { return inner_->info(); }
  bool supports(Op op, DType dtype) const override { return inner_->supports(op, dtype); }
  using Device::why_unsupported;
  std::string why_unsupported(DType dtype) const override { return inner_->why_unsupported(dtype); }
  std::string why_no_math(Math math) const override { return inner_->why_no_math(math); }
  bool is_asynchronous() const override { return true; }
  bool has_graphs() const override { return has_graphs_; }
  void begin_capture(Stream& stream) override;
  std::unique_ptr<Graph> end_capture(Stream& stream) override;

  void* allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  void free(void* data) noexcept override { inner_->free(data); }
  void copy_from_host(Stream& stream, void* device_data, const void* host, std::size_t bytes) override;
  void copy_to_host(Stream& stream, void* host, const void* device_data, std::size_t bytes) override;
  void copy(Stream& stream, void* destination, const void* source, std::size_t bytes) override;
  std::size_t allocated_bytes() const override { return inner_->allocated_bytes(); }
  std::size_t peak_allocated_bytes() const override { return inner_->peak_allocated_bytes(); }
  void reset_peak_allocated_bytes() override { inner_->reset_peak_allocated_bytes(); }
  std::size_t arena_bytes() const override { return inner_->arena_bytes(); }
  std::unique_ptr<Stream> create_stream() override;
  std::unique_ptr<Event> create_event() override;
  std::unique_ptr<LinearPlan> plan(const LinearShape& shape) override;
  std::unique_ptr<ConvolutionPlan> plan(const ConvolutionShape& shape) override;
  std::unique_ptr<AttentionPlan> plan(const AttentionShape& shape) override;
  std::unique_ptr<ClassifierPlan> plan(const ClassifierShape& shape) override;

  /// Notes `work(inner stream)`.
  void defer(Stream& stream, std::function<void(Stream&)> work);

 protected:
#define TW_DEFERRED(name, Args)                                          \
  void do_##name(Stream& stream, const Args& args) override {            \
    defer(stream, [this, args](Stream& on) { inner_->name(on, args); }); \
  }
  TW_DEFERRED(embedding_forward, EmbeddingForward)
  TW_DEFERRED(embedding_backward, EmbeddingBackward)
  TW_DEFERRED(layer_norm_forward, LayerNormForward)
  TW_DEFERRED(layer_norm_backward, LayerNormBackward)
  TW_DEFERRED(batch_norm_forward, BatchNormForward)
  TW_DEFERRED(batch_norm_backward, BatchNormBackward)
  TW_DEFERRED(max_pool_forward, MaxPoolForward)
  TW_DEFERRED(max_pool_backward, MaxPoolBackward)
  TW_DEFERRED(average_pool_forward, AveragePoolForward)
  TW_DEFERRED(average_pool_backward, AveragePoolBackward)
  TW_DEFERRED(add, Add)
  TW_DEFERRED(cast, Cast)
  TW_DEFERRED(fill, Fill)
  TW_DEFERRED(global_norm, GlobalNorm)
  TW_DEFERRED(adamw, AdamW)
  TW_DEFERRED(sgd, Sgd)
  TW_DEFERRED(update_loss_scale, UpdateLossScale)
  TW_DEFERRED(generate_tokens, GenerateTokens)
  TW_DEFERRED(generate_images, GenerateImages)
#undef TW_DEFERRED

 private:
  friend class DeferredStream;
  std::unique_ptr<Device> inner_;
  std::unique_ptr<Stream> inner_stream_;
  bool has_graphs_;
};

}  // namespace tw::test
