#include "comm/bucketer.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "models/compute/error.hpp"

namespace tw {
namespace {

constexpr std::int64_t element_bytes = 4;  // float32

std::string text(std::int64_t value) { return std::to_string(value); }

}  // namespace

Bucketer::Bucketer(Communicator& communicator, std::int64_t bucket_bytes, Start start)
    : communicator_(communicator), bucket_bytes_(bucket_bytes), start_(start) {
  if (bucket_bytes < element_bytes)
    throw Error(Failure::usage, "a gradient bucket of " + text(bucket_bytes) + " bytes holds nothing; " +
                                    text(element_bytes) + " is the least");
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
}

void Bucketer::reduce(Stream& stream, const Tensor& flat_gradients, std::int64_t end) {
  const std::int64_t count = end - reduced_;
  stream.synchronize();  // what is still being computed is not communication
  const auto start = std::chrono::steady_clock::now();
  communicator_.all_reduce(stream, flat_gradients.slice(reduced_, {count}), Reduction::sum);
  stream.synchronize();
  statistics_.seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  statistics_.bytes += count * element_bytes;
  ++statistics_.collectives;
  reduced_ = end;
}

BucketStatistics Bucketer::take_statistics() { return std::exchange(statistics_, {}); }

}  // namespace tw
