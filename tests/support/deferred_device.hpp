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

class DeferredDevice final : public models::Device {
 public:
  /// `inner` computes.
  explicit DeferredDevice(std::unique_ptr<models::Device> inner, bool has_graphs = true);
  ~DeferredDevice() override;

  models::Device& inner() { return *inner_; }
  /// Makes its samples itself; for trainers built from then on.
  bool makes_samples = false;
  bool generates_samples() const override { return makes_samples; }
  /// Throws when this many notes of a graph have been taken; below 0: never.
  long fails_recording_after = -1;
  /// How often the host has waited for work that had not run.
  int waits = 0;
  /// Notes of work that have run, and graphs that were recorded and launched.
  long executed = 0, recorded = 0, launched = 0;

  models::DeviceInfo info() const override { return inner_->info(); }
  bool supports(models::Op op, models::DType dtype) const override { return inner_->supports(op, dtype); }
  using models::Device::why_unsupported;
  std::string why_unsupported(models::DType dtype) const override { return inner_->why_unsupported(dtype); }
  std::string why_no_math(models::Math math) const override { return inner_->why_no_math(math); }
  bool is_asynchronous() const override { return true; }
  bool has_graphs() const override { return has_graphs_; }
  void begin_capture(models::Stream& stream) override;
  std::unique_ptr<models::Graph> end_capture(models::Stream& stream) override;

  void* allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  void free(void* data) noexcept override { inner_->free(data); }
  void copy_from_host(models::Stream& stream, void* device_data, const void* host, std::size_t bytes) override;
  void copy_to_host(models::Stream& stream, void* host, const void* device_data, std::size_t bytes) override;
  void copy(models::Stream& stream, void* destination, const void* source, std::size_t bytes) override;
  std::size_t allocated_bytes() const override { return inner_->allocated_bytes(); }
  std::size_t peak_allocated_bytes() const override { return inner_->peak_allocated_bytes(); }
  void reset_peak_allocated_bytes() override { inner_->reset_peak_allocated_bytes(); }
  std::size_t arena_bytes() const override { return inner_->arena_bytes(); }
  std::unique_ptr<models::Stream> create_stream() override;
  std::unique_ptr<models::Event> create_event() override;
  std::unique_ptr<models::LinearPlan> plan(const models::LinearShape& shape) override;
  std::unique_ptr<models::ConvolutionPlan> plan(const models::ConvolutionShape& shape) override;
  std::unique_ptr<models::AttentionPlan> plan(const models::AttentionShape& shape) override;
  std::unique_ptr<models::ClassifierPlan> plan(const models::ClassifierShape& shape) override;

  /// Notes `work(inner stream)`.
  void defer(models::Stream& stream, std::function<void(models::Stream&)> work);

 protected:
#define TW_OPERATOR(op, name, Arguments)                                           \
  void do_##name(models::Stream& stream, const models::Arguments& args) override { \
    defer(stream, [this, args](models::Stream& on) { inner_->name(on, args); });   \
  }
#include "models/compute/operators.def"

 private:
  friend class DeferredStream;
  std::unique_ptr<models::Device> inner_;
  std::unique_ptr<models::Stream> inner_stream_;
  bool has_graphs_;
};

}  // namespace tw::test
