#include "tests/support/deferred_device.hpp"

#include <chrono>
#include <stdexcept>
#include <utility>

namespace tw::test {

using namespace models;

using Work = std::function<void()>;

class DeferredStream final : public Stream {
 public:
  explicit DeferredStream(DeferredDevice& the_device) : device(the_device) {}
  void synchronize() override {
    refuse_capture("synchronize()");
    run_to(noted_);
  }
  void wait(Event& event) override;
  /// Returns the number of the note, from 1.
  long note(Work work) {
    if (capture) {
      if (device.fails_recording_after >= 0 && device.fails_recording_after-- == 0)
        throw std::runtime_error("a call that fails while it is recorded");
      capture->push_back(std::move(work));
      return 0;
    }
    queue_.push_back(std::move(work));
    return ++noted_;
  }
  /// Runs notes up to this number.
  void run_to(long number) {
    if (run_ < number) ++device.waits;
    while (run_ < number) {
      const Work work = std::move(queue_.front());
      queue_.pop_front();
      ++run_;
      ++device.executed;
      work();
    }
  }
  bool has_run(long number) const { return run_ >= number; }
  void refuse_capture(const char* what) const {
    if (capture) throw std::logic_error(std::string(what) + " inside a recorded graph");
  }

  DeferredDevice& device;
  std::unique_ptr<std::vector<Work>> capture;

 private:
  std::deque<Work> queue_;
  long noted_ = 0, run_ = 0;
};

namespace {

DeferredStream& own(Stream& stream) { return dynamic_cast<DeferredStream&>(stream); }

class DeferredEvent final : public Event {
 public:
  void record(Stream& stream) override {
    stream_ = &own(stream);
    stream_->refuse_capture("an event");
    number_ = stream_->note([this] { time_ = std::chrono::steady_clock::now(); });
  }
  void synchronize() override {
    if (stream_ == nullptr) throw std::logic_error("an event that was never recorded");
    stream_->refuse_capture("waiting for an event");
    stream_->run_to(number_);
  }
  bool is_done() override { return stream_ == nullptr || stream_->has_run(number_); }
  double seconds_since(Event& earlier) override {
    earlier.synchronize();
    synchronize();
    return std::chrono::duration<double>(time_ - dynamic_cast<DeferredEvent&>(earlier).time_).count();
  }
  /// What a stream waits for: that record, whatever the event is used for afterwards.
  Work as_of_now() const {
    if (stream_ == nullptr) throw std::logic_error("a stream waits for an event that was never recorded");
    return [stream = stream_, number = number_] {
      const int waits = stream->device.waits;
      stream->run_to(number);
      stream->device.waits = waits;  // it is not the host that waits
    };
  }

 private:
  DeferredStream* stream_ = nullptr;
  long number_ = 0;
  std::chrono::steady_clock::time_point time_;
};

class DeferredGraph final : public Graph {
 public:
  DeferredGraph(DeferredDevice& device, std::vector<Work> work) : device_(device), work_(std::move(work)) {}
  void launch(Stream& stream) override {
    own(stream).refuse_capture("a graph");
    ++device_.launched;
    for (const Work& work : work_) own(stream).note(work);
  }

 private:
  DeferredDevice& device_;
  std::vector<Work> work_;
};

#define TW_DEFERRED(name, Args)                                                          \
  void do_##name(models::Stream& stream, const Args& args) override {                    \
    device_.defer(stream, [this, args](models::Stream& on) { inner_->name(on, args); }); \
  }
#define TW_DEFERRED_PLAN(Base)                                               \
  std::size_t bytes() const override { return inner_->bytes(); }             \
  std::string description() const override { return inner_->description(); } \
                                                                             \
 private:                                                                    \
  DeferredDevice& device_;                                                   \
  std::unique_ptr<Base> inner_;
#define TW_DEFERRED_WEIGHT                                                      \
  void do_bind() override { inner_->bind(weight()); }                           \
  void do_refresh(models::Stream& stream) override {                            \
    device_.defer(stream, [this](models::Stream& on) { inner_->refresh(on); }); \
  }

class DeferredLinear final : public LinearPlan {
 public:
  DeferredLinear(DeferredDevice& device, const LinearShape& shape)
      : LinearPlan(device, shape), device_(device), inner_(device.inner().plan(shape)) {}
  TW_DEFERRED(forward, LinearForward)
  TW_DEFERRED(backward_input, LinearBackwardInput)
  TW_DEFERRED(backward_weights, LinearBackwardWeights)
  TW_DEFERRED_WEIGHT
  TW_DEFERRED_PLAN(LinearPlan)
};
class DeferredConvolution final : public ConvolutionPlan {
 public:
  DeferredConvolution(DeferredDevice& device, const ConvolutionShape& shape)
      : ConvolutionPlan(device, shape), device_(device), inner_(device.inner().plan(shape)) {}
  TW_DEFERRED(forward, ConvolutionForward)
  TW_DEFERRED(backward_input, ConvolutionBackwardInput)
  TW_DEFERRED(backward_weights, ConvolutionBackwardWeights)
  TW_DEFERRED_WEIGHT
  TW_DEFERRED_PLAN(ConvolutionPlan)
};
class DeferredAttention final : public AttentionPlan {
 public:
  DeferredAttention(DeferredDevice& device, const AttentionShape& shape)
      : AttentionPlan(device, shape), device_(device), inner_(device.inner().plan(shape)) {}
  TW_DEFERRED(forward, AttentionForward)
  TW_DEFERRED(backward, AttentionBackward)
  TW_DEFERRED_PLAN(AttentionPlan)
};
class DeferredClassifier final : public ClassifierPlan {
 public:
  DeferredClassifier(DeferredDevice& device, const ClassifierShape& shape)
      : ClassifierPlan(device, shape), device_(device), inner_(device.inner().plan(shape)) {}
  TW_DEFERRED(forward_backward, ClassifierForwardBackward)
  TW_DEFERRED_WEIGHT
  TW_DEFERRED_PLAN(ClassifierPlan)
};
#undef TW_DEFERRED
#undef TW_DEFERRED_PLAN
#undef TW_DEFERRED_WEIGHT

}  // namespace

void DeferredStream::wait(Event& event) { note(dynamic_cast<DeferredEvent&>(event).as_of_now()); }

DeferredDevice::DeferredDevice(std::unique_ptr<Device> inner, bool has_graphs)
    : inner_(std::move(inner)), inner_stream_(inner_->create_stream()), has_graphs_(has_graphs) {}
DeferredDevice::~DeferredDevice() = default;

void DeferredDevice::defer(Stream& stream, std::function<void(Stream&)> work) {
  own(stream).note([this, work = std::move(work)] { work(*inner_stream_); });
}

void DeferredDevice::begin_capture(Stream& stream) {
  if (!has_graphs_) return Device::begin_capture(stream);
  own(stream).refuse_capture("begin_capture()");
  own(stream).capture = std::make_unique<std::vector<Work>>();
}

std::unique_ptr<Graph> DeferredDevice::end_capture(Stream& stream) {
  if (!own(stream).capture) throw std::logic_error("end_capture() without begin_capture()");
  ++recorded;
  return std::make_unique<DeferredGraph>(*this, std::move(*std::exchange(own(stream).capture, nullptr)));
}

void DeferredDevice::copy_from_host(Stream& stream, void* device_data, const void* host, std::size_t bytes) {
  own(stream).refuse_capture("a copy from the host");
  defer(stream, [=, this](Stream& on) { inner_->copy_from_host(on, device_data, host, bytes); });
}
void DeferredDevice::copy_to_host(Stream& stream, void* host, const void* device_data, std::size_t bytes) {
  own(stream).refuse_capture("a copy to the host");
  defer(stream, [=, this](Stream& on) { inner_->copy_to_host(on, host, device_data, bytes); });
}
void DeferredDevice::copy(Stream& stream, void* destination, const void* source, std::size_t bytes) {
  defer(stream, [=, this](Stream& on) { inner_->copy(on, destination, source, bytes); });
}

std::unique_ptr<Stream> DeferredDevice::create_stream() { return std::make_unique<DeferredStream>(*this); }
std::unique_ptr<Event> DeferredDevice::create_event() { return std::make_unique<DeferredEvent>(); }

std::unique_ptr<LinearPlan> DeferredDevice::plan(const LinearShape& shape) {
  return std::make_unique<DeferredLinear>(*this, shape);
}
std::unique_ptr<ConvolutionPlan> DeferredDevice::plan(const ConvolutionShape& shape) {
  return std::make_unique<DeferredConvolution>(*this, shape);
}
std::unique_ptr<AttentionPlan> DeferredDevice::plan(const AttentionShape& shape) {
  return std::make_unique<DeferredAttention>(*this, shape);
}
std::unique_ptr<ClassifierPlan> DeferredDevice::plan(const ClassifierShape& shape) {
  return std::make_unique<DeferredClassifier>(*this, shape);
}

}  // namespace tw::test
