#include <algorithm>

#include "comm/collective.hpp"

namespace tw::comm {
namespace {

class Bf16Collective : public Collective {
 public:
  Bf16Collective(std::unique_ptr<Collective> inner, models::Device& device, std::int64_t piece_bytes)
      : inner_(std::move(inner)), device_(device), piece_(piece_bytes / static_cast<std::int64_t>(sizeof(float))) {}
  void sum(models::Stream& stream, const models::Tensor& values) override {
    for (std::int64_t begin = 0; begin < values.count(); begin += piece_) {
      const models::Tensor wide = values.slice(begin, {std::min(piece_, values.count() - begin)});
      const models::Tensor rounded = room(stream, wide.count());
      device_.cast(stream, {wide, rounded});
      inner_->sum(stream, rounded);
      device_.cast(stream, {rounded, wide});
    }
  }

 private:
  /// Grows on first use to at most one piece, then stays.
  models::Tensor room(models::Stream& stream, std::int64_t count) {
    const models::Tensor like{nullptr, models::DType::bf16, {count}};
    if (memory_.bytes() < like.bytes()) {
      if (memory_) stream.synchronize();  // it may be in use
      memory_ = models::Buffer();         // not both at once
      memory_ = models::Buffer(device_, like.bytes());
    }
    return {memory_.data(), like.dtype, like.dims};
  }

  std::unique_ptr<Collective> inner_;
  models::Device& device_;
  std::int64_t piece_;  // elements
  models::Buffer memory_;
};

}  // namespace

std::unique_ptr<Collective> in_bf16(std::unique_ptr<Collective> inner, models::Device& device,
                                    std::int64_t piece_bytes) {
  return std::make_unique<Bf16Collective>(std::move(inner), device, piece_bytes);
}

}  // namespace tw::comm
