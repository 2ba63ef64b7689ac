// Gathers gradients into buckets and sums them over ranks.
#pragma once

#include <cstdint>

#include "comm/communicator.hpp"

namespace tw {

/// What the ranks exchanged since the last call of take_statistics().
struct BucketStatistics {
  double seconds = 0;      ///< steady clock, waiting for peers included
  std::int64_t bytes = 0;  ///< of gradients, once each
  std::int64_t collectives = 0;
};

/// Sums one flat float32 gradient buffer over the ranks of a communicator, in buckets.
///
/// During the last micro-batch of a step the parameters' ranges arrive through `ready`, ascending and adjacent (the
/// buffer is laid out in reverse order of forward, a range takes its padding with it); `finish` reduces what is left
/// and returns when the sums stand in the buffer. Buckets depend on the ranges alone, so that all ranks start the same
/// collectives in the same order.
class Bucketer {
 public:
  static constexpr std::int64_t default_bucket_bytes = std::int64_t{25} << 20;

  /// When a full bucket starts. These collectives block: started inside backward each one waits for the slowest rank,
  /// so that at_finish is the faster choice until a communicator runs beside the computation.
  enum class Start : std::uint8_t { at_finish, when_full };

  /// Throws Error{usage} for a bucket size below one element. The communicator must outlive the bucketer.
  explicit Bucketer(Communicator& communicator, std::int64_t bucket_bytes = default_bucket_bytes,
                    Start start = Start::at_finish);

  /// Elements [begin, end) of the buffer are final on this rank. Throws Error{internal} where ranges skip, overlap,
  /// leave the buffer, or the buffer is another one than before.
  void ready(Stream& stream, Tensor flat_gradients, std::int64_t begin, std::int64_t end);
  /// Backward is over: reduces everything that has not been, announced or not; the next step may then begin.
  void finish(Stream& stream, Tensor flat_gradients);

  std::int64_t bucket_bytes() const { return bucket_bytes_; }
  BucketStatistics take_statistics();

 private:
  void check_buffer(const Tensor& flat_gradients);
  void reduce(Stream& stream, const Tensor& flat_gradients, std::int64_t end);

  Communicator& communicator_;
  std::int64_t bucket_bytes_;
  Start start_;
  void* buffer_ = nullptr;
  std::int64_t announced_ = 0, reduced_ = 0;  ///< elements, from the buffer's begin
  BucketStatistics statistics_;
};

}  // namespace tw
