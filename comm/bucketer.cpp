#include "comm/bucketer.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

#include "models/compute/error.hpp"

namespace tw {
namespace {

constexpr std::int64_t element_bytes = 4;  // float32

std::string text(std::int64_t value) { return std::to_string(value); }

}  // namespace

Bucketer::Bucketer(Communicator& communicator, std::int64_t bucket_bytes, Start start)
    : communicator_(communicator), bucket_bytes_(bucket_bytes), start_(start) {
  if (start_ == Start::by_communicator) start_ = communicator.side_stream() ? Start::when_full : Start::at_finish;
  if (bucket_bytes < element_bytes)
    throw Error(Failure::usage, "a gradient bucket of " + text(bucket_bytes) + " bytes holds nothing; " +
                                    text(element_bytes) + " is the least");
}

std::int64_t Bucketer::piece_bytes() const {
  return start_ == Start::when_full ? bucket_bytes_ : std::numeric_limits<std::int64_t>::max();
}

void Bucketer::check_buffer(const Tensor& flat_gradients) {
  if (flat_gradients.dtype != DType::float32)
    throw Error(Failure::internal,
                "gradients are summed in float32, not " + std::string(to_string(flat_gradients.dtype)));
  if (announced_ > 0 && flat_gradients.data != buffer_)
    throw Error(Failure::internal, "the gradient buffer changed in the middle of a step");
  buffer_ = flat_gradients.data;
}

void Bucketer::ready(Stream& stream, Tensor flat_gradients, std::int64_t begin, std::int64_t end) {
  check_buffer(flat_gradients);
  if (begin != announced_ || end < begin || end > flat_gradients.count())
    throw Error(Failure::internal, "gradient range [" + text(begin) + ", " + text(end) + ") does not follow " +
                                       text(announced_) + " in a buffer of " + text(flat_gradients.count()) +
                                       " elements");
  announced_ = end;
  if (start_ == Start::when_full && (announced_ - reduced_) * element_bytes >= bucket_bytes_)
    reduce(stream, flat_gradients, announced_);
}

void Bucketer::finish(Stream& stream, Tensor flat_gradients) {
  check_buffer(flat_gradients);
  const std::int64_t bucket = bucket_bytes_ / element_bytes;
  while (reduced_ < flat_gradients.count())
    reduce(stream, flat_gradients, std::min(reduced_ + bucket, flat_gradients.count()));
  announced_ = reduced_ = 0;
  if (bucket_ > 0) stream.wait(*pending_.back().done);  // the side stream keeps order: the last one ends last
  bucket_ = 0;
}

void Bucketer::reduce(Stream& stream, const Tensor& flat_gradients, std::int64_t end) {
  const Tensor bucket = flat_gradients.slice(reduced_, {end - reduced_});
  if (communicator_.side_stream()) {
    reduce_beside(stream, bucket);
  } else if (communicator_.size() == 1) {
    communicator_.all_reduce(stream, bucket, Reduction::sum);  // nothing moves, and nobody is to be waited for
  } else {
    stream.synchronize();  // what is still being computed is not communication
    const auto start = std::chrono::steady_clock::now();
    communicator_.all_reduce(stream, bucket, Reduction::sum);
    stream.synchronize();
    statistics_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  statistics_.bytes += bucket.count() * element_bytes;
  ++statistics_.collectives;
  reduced_ = end;
}

void Bucketer::reduce_beside(Stream& stream, const Tensor& bucket) {
  Stream& side = *communicator_.side_stream();
  if (pending_.size() >= most_pending) take_oldest_time();
  if (free_.empty())
    free_.push_back({communicator_.create_event(), communicator_.create_event(), communicator_.create_event()});
  pending_.push_back(std::move(free_.front()));
  free_.pop_front();
  ++bucket_;
  Marks& marks = pending_.back();
  marks.ready->record(stream);
  side.wait(*marks.ready);
  marks.begun->record(side);
  communicator_.all_reduce(side, bucket, Reduction::sum);
  marks.done->record(side);
}

void Bucketer::take_oldest_time() {
  Marks& marks = pending_.front();
  statistics_.seconds += marks.done->seconds_since(*marks.begun);
  free_.push_back(std::move(marks));
  pending_.pop_front();
}

BucketStatistics Bucketer::take_statistics() {
  while (!pending_.empty()) take_oldest_time();
  return std::exchange(statistics_, {});
}

}  // namespace tw
