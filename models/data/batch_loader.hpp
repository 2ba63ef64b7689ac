// Micro-batches in device memory, made while they are wanted.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/compute/device.hpp"
#include "models/data/synthetic_data.hpp"

namespace tw::models {

/// One micro-batch's room in device memory, filled in the order of a stream: by the device itself where it generates
/// samples (tokens and images with one label), else by the host, which copies them. On an asynchronous device it does
/// so in two buffers and waits only for the older one. The numbers are the same.
class BatchLoader {
 public:
  BatchLoader(Device& device, const NetworkDescription& network, DType precision, std::int64_t micro_batch,
              std::int64_t seq_len, std::uint64_t seed, DataShare share = {});
  /// Enqueues samples [first_sample, first_sample + micro_batch).
  void load(Stream& stream, Split split, std::uint64_t first_sample);
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
  Device& device_;
  SyntheticData samples_;
  Buffer input_memory_, target_memory_;
  Tensor inputs_, targets_;
  std::vector<Staging> staging_;  // empty where the device makes the samples
  Buffer table_;                  // of the device's own source
  std::size_t next_ = 0;
};

}  // namespace tw::models
