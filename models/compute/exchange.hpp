// What a network split over ranks calls inside a step (tensor and pipeline parallelism, tables). comm implements it.
#pragma once

#include "models/compute/tensor.hpp"

namespace tw::models {

class Stream;

/// Operations over the ranks of one group. Tensors are contiguous, float32 or bf16, in memory of the rank's device. A
/// call is enqueued on the stream (NCCL), or waits for the stream and is done when it returns (MPI): what follows on
/// the stream sees its result. A tensor of 0 elements is allowed, and nothing moves. Errors: Error{usage} for another
/// dtype, for sizes that do not fit and for a peer outside of the group; ApiError on the rank that sees a library or
/// another rank fail, after which main aborts the job.
class Exchange {
 public:
  virtual ~Exchange() = default;
  /// From 0 to size() − 1.
  virtual int rank() const = 0;
  virtual int size() const = 0;
  // Collectives: all ranks call them in the same order with equal counts.
  /// Sum over the group, in place: (count).
  virtual void all_reduce_sum(Stream& stream, Tensor values) = 0;
  /// Block r of `input` (size × n) goes to rank r, and block r of `output` (size × n) comes from there; the two do not
  /// overlap.
  virtual void all_to_all(Stream& stream, Tensor input, Tensor output) = 0;
  // Messages: from one rank to another one of the group. Those between two ranks arrive in the order in which they were
  // sent. send may wait until the other rank receives, so that of two ranks which send to each other one receives
  // first. Nobody sends to itself; the communicator of one rank throws Error{usage}.
  /// `values` (count) may change when the stream has passed the call.
  virtual void send(Stream& stream, Tensor values, int peer) = 0;
  /// Fills `values` (count); the peer sends as many values of the same dtype. Over MPI fewer are Error{internal}, more
  /// an ApiError; NCCL does not compare.
  virtual void receive(Stream& stream, Tensor values, int peer) = 0;
};

}  // namespace tw::models
