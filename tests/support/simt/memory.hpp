// Device memory of the harness: every allocation between guards, all of it saved, restored and compared at a launch.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <vector>

namespace tw::simt {

constexpr std::size_t guard_bytes = 256;
constexpr unsigned char sentinel = 0x7f;  // as a float huge, so that a read that matters shows too
constexpr unsigned char nothing = 0xff;   // NaN in every floating-point type

using Bytes = std::vector<unsigned char>;

class Memory {
 public:
  Memory() = default;
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();
  void* allocate(std::size_t bytes);
  void free(void* data) noexcept;
  /// Allocations that are there.
  std::size_t count() const { return blocks_.size(); }
  /// Fills all allocations of this many bytes with NaN; how many there are.
  std::size_t poison(std::size_t bytes);

  /// Whether an address is in an allocation.
  bool holds(const void* data) const;
  /// The contents of all allocations. restore() and difference() take them while there are the same allocations.
  Bytes save() const;
  void restore(const Bytes& copy);
  /// Empty where memory is as in `copy`, else where it first differs.
  std::string difference(const Bytes& copy) const;
  /// Empty where all guards hold, else what was written over; mends them.
  std::string damage();

 private:
  struct Block {
    unsigned char* begin;
    std::size_t bytes, whole;
    unsigned char* data() const { return begin + guard_bytes; }
    std::string str() const { return "the allocation of " + std::to_string(bytes) + " bytes"; }
  };
  static void mend(const Block& block);
  std::deque<Block> blocks_;
};

/// The one that kernels see.
Memory& memory();

}  // namespace tw::simt
