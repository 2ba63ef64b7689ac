#include "comm/bucketer.hpp"

#include <algorithm>
#include <limits>

#include "models/compute/error.hpp"

namespace tw::comm {
namespace {

constexpr std::int64_t element_bytes = 4;  // float32

std::string text(std::int64_t value) { return std::to_string(value); }

}  // namespace

Bucketer::Bucketer(Communicator& communicator, models::Device& device, std::int64_t bucket_bytes, Start start,
                   const std::string& collective, models::DType reduce)
    : collective_(create_collective(collective, communicator, device)),
      side_(communicator.side_stream()),
      bucket_bytes_(bucket_bytes),
      start_(start) {
  if (start_ == Start::by_communicator) start_ = side_ ? Start::when_full : Start::at_finish;
  if (side_)
    for (auto* event : {&ready_, &done_}) *event = device.create_event();
  if (bucket_bytes < element_bytes)
    throw models::Error(models::Failure::usage, "a gradient bucket of " + text(bucket_bytes) +
                                                    " bytes is too small (minimum " + text(element_bytes) + ")");
  if (reduce != models::DType::float32 && reduce != models::DType::bf16)
    throw models::Error(models::Failure::usage,
                        "gradients are summed in float32 or bf16, not " + std::string(models::to_string(reduce)));
  if (reduce == models::DType::bf16 && communicator.size() > 1)
    collective_ = in_bf16(std::move(collective_), device, bucket_bytes_);
}

std::int64_t Bucketer::piece_bytes() const {
  return start_ == Start::when_full ? bucket_bytes_ : std::numeric_limits<std::int64_t>::max();
}

void Bucketer::check_buffer(const models::Tensor& flat_gradients) {
  if (flat_gradients.dtype != models::DType::float32)
    throw models::Error(models::Failure::internal,
                        "gradients are summed in float32, not " + std::string(models::to_string(flat_gradients.dtype)));
  if (announced_ > 0 && flat_gradients.data != buffer_)
    throw models::Error(models::Failure::internal, "the gradient buffer changed in the middle of a step");
  buffer_ = flat_gradients.data;
}

void Bucketer::ready(models::Stream& stream, models::Tensor flat_gradients, std::int64_t begin, std::int64_t end) {
  check_buffer(flat_gradients);
  if (begin != announced_ || end < begin || end > flat_gradients.count())
    throw models::Error(models::Failure::internal, "gradient range [" + text(begin) + ", " + text(end) +
                                                       ") does not follow " + text(announced_) + " in a buffer of " +
                                                       text(flat_gradients.count()) + " elements");
  announced_ = end;
  if (start_ == Start::when_full && (announced_ - reduced_) * element_bytes >= bucket_bytes_)
    reduce(stream, flat_gradients, announced_);
}

void Bucketer::finish(models::Stream& stream, models::Tensor flat_gradients) {
  check_buffer(flat_gradients);
  const std::int64_t bucket = bucket_bytes_ / element_bytes;
  while (reduced_ < flat_gradients.count())
    reduce(stream, flat_gradients, std::min(reduced_ + bucket, flat_gradients.count()));
  if (side_ && reduced_ > 0) stream.wait(*done_);  // the side stream keeps order: the last bucket ends last
  announced_ = reduced_ = 0;
}

void Bucketer::reduce(models::Stream& stream, const models::Tensor& flat_gradients, std::int64_t end) {
  const models::Tensor bucket = flat_gradients.slice(reduced_, {end - reduced_});
  if (side_) {
    ready_->record(stream);
    side_->wait(*ready_);  // as recorded now; the next bucket may record it again
    collective_->sum(*side_, bucket);
    done_->record(*side_);
  } else {
    collective_->sum(stream, bucket);
  }
  reduced_ = end;
}

}  // namespace tw::comm
