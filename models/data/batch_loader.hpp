// Micro-batches in device memory, made while they are wanted.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/compute/device.hpp"
#include "models/data/synthetic_data.hpp"

namespace tw::models {

/// One micro-batch's room in device memory, filled in the order of a stream: by the device itself where it generates
/// samples (tokens, images with one label, clicks), else by the host, which copies them. On an asynchronous device the
/// host does so in two buffers and waits only for the older one, and the device generates a micro-batch ahead in a
/// second room, on a stream of the loader's own. The numbers are the same.
class BatchLoader {
 public:
  BatchLoader(Device& device, const NetworkDescription& network, DType precision, std::int64_t micro_batch,
              std::int64_t seq_len, std::uint64_t seed, DataShare share = {});
  /// Enqueues samples [first_sample, first_sample + micro_batch): where load_ahead() was last called for them, a copy
  /// that waits for them, else making them. inputs() and targets() do not move: recorded graphs read them.
  void load(Stream& stream, Split split, std::uint64_t first_sample);
  /// Enqueues making the samples of a later load(), beside what is enqueued on other streams. Without effect where the
  /// host makes the samples, and on a synchronous device.
  void load_ahead(Split split, std::uint64_t first_sample);
  const Tensor& inputs() const { return inputs_; }    ///< device memory
  const Tensor& targets() const { return targets_; }  ///< device memory
  /// For what the host itself wants of the samples.
  SyntheticData& samples() { return samples_; }
  /// Held, on the device and by the host.
  std::size_t bytes() const;

 private:
  struct Staging {
    HostBuffer inputs, targets;
    std::unique_ptr<Event> is_read;
    bool in_use = false;
  };
  /// The room that the device fills beside the steps.
  struct Ahead {
    Buffer input_memory, target_memory;
    Tensor inputs, targets;
    std::unique_ptr<Stream> stream;
    std::unique_ptr<Event> made, taken;
    bool was_taken = false;  ///< `taken` has been recorded: the room may be filled again behind it
    bool is_full = false;    ///< with the samples that follow
    Split split = Split::training;
    std::uint64_t first_sample = 0;
  };
  void generate(Stream& stream, Split split, std::uint64_t first_sample, const Tensor& inputs, const Tensor& targets);

  Device& device_;
  SyntheticData samples_;
  Buffer input_memory_, target_memory_;
  Tensor inputs_, targets_;
  std::vector<Staging> staging_;  // empty where the device makes the samples
  Buffer table_;                  // of the device's own source
  std::unique_ptr<Ahead> ahead_;  // where the device makes the samples and runs behind the host
  std::size_t next_ = 0;
};

}  // namespace tw::models
