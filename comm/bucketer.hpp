// Gathers gradients into buckets and sums them over ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "comm/collective.hpp"

namespace tw::comm {

/// Sums one flat float32 gradient buffer over the ranks of a communicator, in buckets.
///
/// During the last micro-batch of a step the parameters' ranges arrive through `ready`, ascending and adjacent (the
/// buffer is laid out in reverse order of forward, a range takes its padding with it); `finish` reduces what is left;
/// what the caller's stream does next finds the sums in the buffer. Buckets depend on the ranges alone, so that all
/// ranks start the same collectives in the same order.
///
/// With a communicator that has a side stream, collectives run there while backward goes on, and the host never waits
/// for them; else they are done when a call returns.
class Bucketer {
 public:
  static constexpr std::int64_t default_bucket_bytes = std::int64_t{25} << 20;

  /// When a full bucket starts. Collectives that block wait for the slowest rank each time they are started inside
  /// backward, so that at_finish is their faster choice; those beside the computation start when_full.
  enum class Start : std::uint8_t { by_communicator, at_finish, when_full };

  /// Sums by the named one of collectives(), or for "" by the default; in bf16 (in_bf16()) if `reduce` is that and
  /// there are several ranks. Throws Error{usage} for a bucket size below one element, another `reduce` than float32
  /// and bf16, and an unknown name. The communicator and the device, whose memory the buffer is, must outlive the
  /// bucketer.
  Bucketer(Communicator& communicator, models::Device& device, std::int64_t bucket_bytes = default_bucket_bytes,
           Start start = Start::by_communicator, const std::string& collective = {},
           models::DType reduce = models::DType::float32);

  /// Elements [begin, end) of the buffer are final on this rank. Throws Error{internal} if ranges skip, overlap,
  /// leave the buffer, or the buffer is another one than before.
  void ready(models::Stream& stream, models::Tensor flat_gradients, std::int64_t begin, std::int64_t end);
  /// Backward is over: reduces everything that has not been, announced or not; the next step may then begin.
  void finish(models::Stream& stream, models::Tensor flat_gradients);

  /// Ranges of this many bytes or more start the same collectives as their parts would.
  std::int64_t piece_bytes() const;

 private:
  void check_buffer(const models::Tensor& flat_gradients);
  void reduce(models::Stream& stream, const models::Tensor& flat_gradients, std::int64_t end);

  std::unique_ptr<Collective> collective_;
  models::Stream* side_;                         ///< null if collectives are done when a call returns
  std::unique_ptr<models::Event> ready_, done_;  ///< of the last bucket on the side stream
  std::int64_t bucket_bytes_;
  Start start_;
  void* buffer_ = nullptr;
  std::int64_t announced_ = 0, reduced_ = 0;  ///< elements, from the buffer's begin
};

}  // namespace tw::comm
