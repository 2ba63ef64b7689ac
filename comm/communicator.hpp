// How ranks exchange gradients: collectives enqueued on a stream.
#pragma once

#include <cstdint>
#include <string>

#include "models/compute/device.hpp"
#include "models/compute/exchange.hpp"

namespace tw::comm {

enum class Reduction : std::uint8_t { sum, maximum };

/// Collectives over one group of ranks. All ranks call the same functions in the same order with equal counts.
/// Tensors are contiguous and of equal dtype; float32 and bf16 (bf16 sums are accumulated in float32 over MPI; NCCL
/// rounds at every hop). A failing peer or library call throws ApiError on the rank that sees it; main then aborts the
/// job.
class Communicator : public models::Exchange {
 public:
  /// "self", "mpi", "nccl"
  virtual std::string name() const = 0;
  /// How the data go, for the report: "host memory", "device memory, staged in host memory", "NCCL 2.28.9", …
  virtual std::string route() const = 0;
  /// A stream of its own, where collectives run beside the computation; null if they are done when a call returns.
  virtual models::Stream* side_stream() { return nullptr; }

  virtual void all_reduce(models::Stream&, models::Tensor values, Reduction) = 0;  // in place, (count)
  virtual void reduce_scatter(models::Stream&, models::Tensor input, models::Tensor output,
                              Reduction) = 0;                                                 // (size × n) → (n)
  virtual void all_gather(models::Stream&, models::Tensor input, models::Tensor output) = 0;  // (n) → (size × n)
  virtual void broadcast(models::Stream&, models::Tensor values, int root) = 0;               // in place
  void all_reduce_sum(models::Stream& stream, models::Tensor values) override {
    all_reduce(stream, values, Reduction::sum);
  }
  /// All ranks have arrived (host side); the stream is synchronised first.
  virtual void barrier(models::Stream&) = 0;
};

}  // namespace tw::comm
