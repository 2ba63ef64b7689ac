// Argument checks and the operator clock, shared by Device and the plans. Private to models/compute. A failing check
// throws Error{usage} that names operator, argument, what was wanted and what was given; a passing one allocates
// nothing.
#pragma once

#include <string>

#include "models/compute/device.hpp"
#include "models/compute/error.hpp"

namespace tw::models {

class Check {
 public:
  explicit Check(Op op) : op_(op) {}
  static constexpr int any_rank = 0;  ///< from 1 on
  /// Present, of this rank, float32, bf16 or fp16, no empty axis. Returns its dtype.
  DType activation(const char* argument, const Tensor& tensor, int rank = any_rank) const;
  /// Present, of this dtype and these extents.
  void has(const char* argument, const Tensor& tensor, DType dtype, const Dims& dims) const;
  /// As has(), but may be absent.
  void may_have(const char* argument, const Tensor& tensor, DType dtype, const Dims& dims) const;
  /// Present, of this dtype and rank, no empty axis.
  void has_rank(const char* argument, const Tensor& tensor, DType dtype, int rank) const;
  /// The two share no byte (an absent tensor never does).
  void apart(const char* name_a, const Tensor& a, const char* name_b, const Tensor& b) const;
  /// The two are the very same memory or share no byte.
  void same_or_apart(const char* name_a, const Tensor& a, const char* name_b, const Tensor& b) const;
  /// An integer is at least `minimum`.
  void at_least(const char* argument, std::int64_t value, std::int64_t minimum) const;
  void not_null(const char* argument, const void* pointer) const;
  /// Absent, or as RoundedInput has it for values of this dtype and these extents.
  void may_be_rounded(const char* argument, const RoundedInput& operand, DType dtype, std::int64_t rows,
                      std::int64_t columns) const;
  /// One of the two: `y`, of this dtype and these extents, or in its place `rounded`.
  void has_one(const char* argument, const Tensor& y, DType dtype, const Dims& dims, const RoundedInput& rounded) const;
  [[noreturn]] void fail(const char* argument, const std::string& wanted, const std::string& given) const;

 private:
  Op op_;
};

/// Throws Error{unsupported} with the device's own reason where it cannot run `op` on `dtype`.
void require_support(const Device& device, Op op, DType dtype);

/// Throws Error{unsupported} with the device's own reason where it does not multiply by `math`, Error{usage} where
/// `math` is not of `dtype`.
void require_math(const Device& device, Op op, DType dtype, Math math);

/// Notes an event in the stream when it is made and one at stop(), and charges the time between to `op`; nothing
/// without stop().
class OpClock {
 public:
  OpClock(Device& device, Stream& stream, Op op, int calls);
  void stop();

 private:
  Device& device_;
  Stream& stream_;
  Device::TimedOp timed_;
};

/// Runs `work`, and charges it to `op` while profiling is on. `calls`: 0 for a part of an operator that is called by
/// itself.
template <class Work>
void charge(Device& device, Stream& stream, Op op, Work&& work, int calls = 1) {
  if (!device.profiling()) {
    work();
    return;
  }
  OpClock clock(device, stream, op, calls);
  work();
  clock.stop();
}

}  // namespace tw::models
