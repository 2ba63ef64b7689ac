// In which order the threads of a block go on.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/simt/runtime.hpp"

namespace tw::simt {

constexpr int most_threads = 1024;  ///< of a block

/// The threads that can go on, and which of them does so next. Ascending and descending: always the first (last) of
/// them, so that one warp runs ahead of the others as far as barriers let it; seeded: in turn, in an order drawn anew
/// for each block.
class Order {
 public:
  /// Of a block whose threads can all go on.
  void start(int count, Schedule schedule, std::uint64_t seed);
  void put(int thread);
  /// -1 where none can go on.
  int take();

 private:
  std::size_t from(std::size_t first) const;

  bool in_turn_ = false;
  Schedule schedule_ = Schedule::seeded;  // that the two lists are of
  std::size_t cursor_ = 0;
  std::array<std::uint64_t, most_threads / 64> ready_{};
  std::vector<int> thread_at_;         // by place in the order
  std::vector<std::size_t> place_of_;  // by thread
};

}  // namespace tw::simt
