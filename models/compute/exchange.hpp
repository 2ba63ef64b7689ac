// What a network split over ranks calls inside a step (tensor and pipeline parallelism, tables). comm implements it.
#pragma once

#include "models/compute/tensor.hpp"

namespace tw::models {

class Stream;

class Exchange {
 public:
  virtual ~Exchange() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  /// Sum over the group, in place. float32 or bf16.
  virtual void all_reduce_sum(Stream& stream, Tensor values) = 0;
  /// Block r of `input` (size × n) goes to rank r, and block r of `output` comes from there. float32 or bf16.
  virtual void all_to_all(Stream& stream, Tensor input, Tensor output) = 0;
  virtual void send(Stream& stream, Tensor values, int peer) = 0;
  virtual void receive(Stream& stream, Tensor values, int peer) = 0;
};

}  // namespace tw::models
