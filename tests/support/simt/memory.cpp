#include "tests/support/simt/memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "tests/support/simt/simt.hpp"

namespace tw::simt {

Memory& memory() {
  static Memory& all = *new Memory;  // never destroyed: devices that are static give their blocks back after it
  return all;
}
void* allocate(std::size_t bytes) { return memory().allocate(bytes); }
void free(void* data) noexcept { memory().free(data); }

Memory::~Memory() {
  for (const Block& block : blocks_) std::free(block.begin);
}

void* Memory::allocate(std::size_t bytes) {
  const std::size_t whole = (bytes + 2 * guard_bytes + 255) / 256 * 256;
  const Block block{static_cast<unsigned char*>(std::aligned_alloc(256, whole)), bytes, whole};
  if (block.begin == nullptr) throw std::bad_alloc();
  std::memset(block.data(), nothing, bytes);
  mend(block);
  blocks_.push_back(block);
  return block.data();
}

void Memory::free(void* data) noexcept {
  const auto found = std::find_if(blocks_.begin(), blocks_.end(), [=](const Block& b) { return b.data() == data; });
  if (found == blocks_.end()) return;
  std::free(found->begin);
  blocks_.erase(found);
}

std::size_t Memory::poison(std::size_t bytes) {
  std::size_t count = 0;
  for (const Block& block : blocks_) {
    if (block.bytes != bytes) continue;
    std::memset(block.data(), nothing, bytes);
    ++count;
  }
  return count;
}

void Memory::mend(const Block& block) {
  std::memset(block.begin, sentinel, guard_bytes);
  std::memset(block.data() + block.bytes, sentinel, block.whole - block.bytes - guard_bytes);
}

bool Memory::holds(const void* data) const {
  const auto* at = static_cast<const unsigned char*>(data);
  return std::ranges::any_of(
      blocks_, [at](const Block& block) { return at >= block.data() && at < block.data() + block.bytes; });
}

Bytes Memory::save() const {
  std::size_t bytes = 0;
  for (const Block& block : blocks_) bytes += block.bytes;
  Bytes copy(bytes);
  unsigned char* to = copy.data();
  for (const Block& block : blocks_) to = std::copy_n(block.data(), block.bytes, to);
  return copy;
}

void Memory::restore(const Bytes& copy) {
  const unsigned char* from = copy.data();
  for (const Block& block : blocks_) {
    std::copy_n(from, block.bytes, block.data());
    from += block.bytes;
  }
}

std::string Memory::difference(const Bytes& copy) const {
  const unsigned char* from = copy.data();
  for (const Block& block : blocks_) {
    if (std::memcmp(block.data(), from, block.bytes) != 0) {
      const auto at = std::mismatch(block.data(), block.data() + block.bytes, from).first - block.data();
      return "byte " + std::to_string(at) + " of " + block.str();
    }
    from += block.bytes;
  }
  return {};
}

std::string Memory::damage() {
  static const Bytes whole_guard(guard_bytes, sentinel);
  for (const Block& block : blocks_) {
    const unsigned char *before = block.data() - guard_bytes, *after = block.data() + block.bytes;
    if (std::memcmp(before, whole_guard.data(), guard_bytes) == 0 &&
        std::memcmp(after, whole_guard.data(), guard_bytes) == 0) {
      continue;
    }
    std::string text;
    for (std::size_t i = 0; i < guard_bytes && text.empty(); ++i) {
      if (before[guard_bytes - 1 - i] != sentinel) text = std::to_string(i + 1) + " bytes before " + block.str();
      if (after[i] != sentinel) text = std::to_string(i + 1) + " bytes after " + block.str();
    }
    mend(block);
    return text;
  }
  return {};
}

}  // namespace tw::simt
