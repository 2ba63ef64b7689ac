// How candidates of a library are timed: on a stream and in memory of their own, which are gone afterwards, on random
// operands. Private to models/compute/cuda.
#pragma once

#include <cuda_runtime_api.h>
#include <library_types.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <vector>

#include "models/compute/cuda/kernels/check.hpp"
#include "models/compute/dtype.hpp"

namespace tw::models::cuda {

/// The cuda type of an activation's dtype.
inline cudaDataType_t cuda_type(DType dtype) {
  return dtype == DType::bf16 ? CUDA_R_16BF : dtype == DType::fp16 ? CUDA_R_16F : CUDA_R_32F;
}
/// Of float32, the 16-bit and the 8-bit floats.
std::size_t size_of(cudaDataType_t type);

struct Timing {
  int rounds = 3;
  float least_ms = 1;  ///< of one sample, of as many runs as that takes, up to most_runs
  static constexpr int most_runs = 1000;
  /// As above. The stand-ins of the tests, which compute on the host and make times up, have one run in one round.
  static Timing usual();
};

/// On the current device. Its memory is taken from the runtime, and counts in no peak of the device.
class Bench {
 public:
  Bench();
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;
  ~Bench() { release(); }

  cudaStream_t stream() const { return stream_; }
  /// `count` random numbers, uniform in (−1, 1), in fp8 in its finite range. A GPU's power, and with it its clock,
  /// depends on the values: constant operands flatter the candidate that the power limit would slow down. Null where
  /// there is no room: a measurement is not worth a failed run.
  void* operand(cudaDataType_t type, std::size_t count);
  /// Uninitialised, the same block in each call unless it must grow. Null where there is no room.
  void* workspace(std::size_t bytes);
  /// Whether there was room for everything so far.
  bool is_complete() const { return is_complete_; }

  /// Milliseconds of one run, the best of several rounds; run() enqueues it on stream(). After a first run by itself,
  /// so many runs are recorded as a graph that one launch of it takes `timing.least_ms`, and a launch is timed behind
  /// another one: the device goes from run to run and from launch to launch without the host, whose calls take longer
  /// than a short kernel. Throws Refused where run() cannot be recorded.
  float milliseconds_of(const std::function<void()>& run, const Timing& timing = Timing::usual());

 private:
  void* allocate(std::size_t bytes);
  void release() noexcept;

  std::vector<void*> blocks_;
  void* workspace_ = nullptr;
  std::size_t workspace_bytes_ = 0;
  bool is_complete_ = true;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t start_ = nullptr, end_ = nullptr;
};

/// Which of several timed candidates is taken. The first is the library's own choice.
class Fastest {
 public:
  /// Another candidate must take this share less time than the first one: below that, a difference between two such
  /// measurements is taken for noise. 2 % is the spread between blocks of steps of one job that the project accepts;
  /// it was not measured for single products on a GPU. Samples of a millisecond (Timing) are 1,000 times the resolution
  /// of CUDA's events, 0.5 µs.
  static constexpr float least_gain = 0.02f;

  /// Whether this candidate, with its time, is the one to take of those so far.
  bool takes(float milliseconds) {
    if (first_ && (milliseconds > (1 - least_gain) * *first_ || milliseconds >= best_)) return false;
    if (!first_) first_ = milliseconds;
    best_ = milliseconds;
    return true;
  }
  bool is_empty() const { return !first_; }
  float milliseconds() const { return best_; }  ///< of the one to take

 private:
  std::optional<float> first_;
  float best_ = 0;
};

}  // namespace tw::models::cuda
