#include "tests/support/fills.hpp"

#include <cmath>
#include <utility>

namespace tw::test {
namespace {

/// splitmix64 (Steele, Lea & Flood 2014) of a counter.
std::uint64_t random_bits(std::uint64_t seed, std::uint64_t counter) {
  std::uint64_t z = seed * 0xd1342543de82ef95ull + (counter + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

/// In (0, 1).
double unit(std::uint64_t seed, std::uint64_t counter) {
  return (static_cast<double>(random_bits(seed, counter) >> 11) + 0.5) * 0x1p-53;
}

template <class T, class Make>
std::vector<T> filled(std::int64_t count, Make&& make) {
  std::vector<T> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>(make(i));
  return values;
}

}  // namespace

Floats integers(std::int64_t count, std::uint64_t seed, int low, int high) {
  return filled<float>(
      count, [=](std::size_t i) { return i == 0 ? high : low + static_cast<int>(unit(seed, i) * (high - low + 1)); });
}
Ints indices(std::int64_t count, std::uint64_t seed, int below) {
  return filled<std::int32_t>(count, [=](std::size_t i) { return unit(seed, i) * below; });
}
Ints occurrences(const std::vector<int>& counts, std::uint64_t seed) {
  Ints all;
  for (std::size_t i = 0; i < counts.size(); ++i)
    all.insert(all.end(), static_cast<std::size_t>(counts[i]), static_cast<std::int32_t>(i));
  for (std::size_t i = all.size(); i > 1; --i)
    std::swap(all[i - 1], all[static_cast<std::size_t>(unit(seed, i) * static_cast<double>(i))]);
  return all;
}
const std::vector<std::vector<int>>& frequent_counts() {
  static const std::vector<std::vector<int>> all = {
      {1000},                             // one row in all places
      {3, 900, 20},                       // in nearly all
      {500, 500},                         // two rows
      {64, 64, 128, 64, 1},               // from border to border
      {63, 1, 65, 127, 129, 0, 192, 64},  // next to borders, across one, and to the end
      {1, 4095, 4096, 200},
      {64, 8192, 64},
      {70, 9000, 5, 100}};
  return all;
}
Floats uniform(std::int64_t count, std::uint64_t seed, double low, double high) {
  return filled<float>(count, [=](std::size_t i) { return low + unit(seed, i) * (high - low); });
}
Floats normal(std::int64_t count, std::uint64_t seed, double stddev) {
  return filled<float>(count, [=](std::size_t i) {
    return stddev * std::sqrt(-2 * std::log(unit(seed, 2 * i))) * std::cos(6.283185307179586 * unit(seed, 2 * i + 1));
  });
}

}  // namespace tw::test
