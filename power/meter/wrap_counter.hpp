// Joules from a counter that starts again at zero.
#pragma once

#include <cstdint>

namespace tw::power {

/// Adds up the steps of a counter that runs from 0 to `range` and wraps. Right as long as it is fed at least once per
/// wrap. The range is the zone's max_energy_range_uj. (The hardware wraps one unit, 15–61 µJ, after it: that much is
/// lost a wrap.)
class WrapCounter {
 public:
  WrapCounter(std::uint64_t first, std::uint64_t range) : last_(first), range_(range) {}
  /// Returns the total since the first value.
  std::uint64_t feed(std::uint64_t value) {
    wraps_ += value < last_;
    total_ += value >= last_ ? value - last_ : range_ - last_ + value;
    last_ = value;
    return total_;
  }
  /// Goes on from a value of which it is not known how it came about: nothing is added.
  void resume(std::uint64_t value) { last_ = value; }
  /// How often the counter has started again since the first value.
  int wraps() const { return wraps_; }

 private:
  std::uint64_t last_, range_, total_ = 0;
  int wraps_ = 0;
};

}  // namespace tw::power
