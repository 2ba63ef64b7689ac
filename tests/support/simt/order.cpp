#include "tests/support/simt/order.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace tw::simt {
namespace {

constexpr std::size_t none = most_threads;

}  // namespace

void Order::start(int count, Schedule schedule, std::uint64_t seed) {
  const auto threads = static_cast<std::size_t>(count);
  cursor_ = 0;
  ready_.fill(0);
  std::fill_n(ready_.begin(), threads / 64, ~std::uint64_t{0});
  if (threads % 64 != 0) ready_[threads / 64] = (std::uint64_t{1} << threads % 64) - 1;
  in_turn_ = schedule == Schedule::seeded;
  if (!in_turn_ && schedule == schedule_ && threads == thread_at_.size()) return;
  schedule_ = schedule;
  thread_at_.resize(threads);
  std::iota(thread_at_.begin(), thread_at_.end(), 0);
  if (schedule == Schedule::descending) std::reverse(thread_at_.begin(), thread_at_.end());
  for (std::size_t i = thread_at_.size(); in_turn_ && i > 1; --i) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    std::swap(thread_at_[i - 1], thread_at_[(seed >> 33) % i]);
  }
  place_of_.resize(threads);
  for (std::size_t i = 0; i < threads; ++i) place_of_[static_cast<std::size_t>(thread_at_[i])] = i;
}

void Order::put(int thread) {
  const std::size_t place = place_of_[static_cast<std::size_t>(thread)];
  ready_[place / 64] |= std::uint64_t{1} << place % 64;
}

int Order::take() {
  std::size_t place = from(in_turn_ ? cursor_ : 0);
  if (place == none) place = from(0);
  if (place == none) return -1;
  ready_[place / 64] &= ~(std::uint64_t{1} << place % 64);
  cursor_ = place + 1;
  return thread_at_[place];
}

std::size_t Order::from(std::size_t first) const {
  for (std::size_t word = first / 64; word < ready_.size(); ++word) {
    const std::uint64_t bits = word == first / 64 ? ready_[word] >> first % 64 << first % 64 : ready_[word];
    if (bits != 0) return word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
  }
  return none;
}

}  // namespace tw::simt
