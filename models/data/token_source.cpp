#include "models/data/token_source.hpp"

#include <numeric>
#include <string>

#include "models/compute/error.hpp"
#include "models/data/philox.hpp"

namespace tw {
namespace {

// Three bits decide k: 0–3 → 0, 4–5 → 1, 6 → 2, 7 → 3.
constexpr std::uint8_t k_of_bits[8] = {0, 0, 0, 0, 1, 1, 2, 3};

// Uniform in [0, bound) by multiplication; the bias is below bound / 2^64.
std::int64_t draw(std::uint64_t seed, std::uint64_t stream, std::uint64_t index, std::int64_t bound) {
  const PhiloxWords words = random_block(seed, stream, index);
  const std::uint64_t value = (std::uint64_t{words.word[0]} << 32) | words.word[1];
  return static_cast<std::int64_t>((static_cast<unsigned __int128>(value) * static_cast<std::uint64_t>(bound)) >> 64);
}

// Fisher–Yates.
std::vector<std::int32_t> shuffled(std::int64_t count, std::uint64_t seed, std::uint64_t stream) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(count));
  std::iota(values.begin(), values.end(), 0);
  for (std::int64_t i = count - 1; i > 0; --i) {
    std::swap(values[static_cast<std::size_t>(i)],
              values[static_cast<std::size_t>(draw(seed, stream, static_cast<std::uint64_t>(i), i + 1))]);
  }
  return values;
}

}  // namespace

TokenSource::TokenSource(std::int64_t vocabulary, std::uint64_t seed) : vocabulary_(vocabulary), seed_(seed) {
  if (vocabulary < 4) {
    throw Error(Failure::usage, "synthetic tokens need a vocabulary of at least 4, not " + std::to_string(vocabulary));
  }
  permutation_ = shuffled(vocabulary, seed, random_stream("tokens.permutation"));
  const std::vector<std::int32_t> order = shuffled(vocabulary, seed, random_stream("tokens.group"));
  group_.resize(static_cast<std::size_t>(vocabulary));
  for (std::size_t i = 0; i < order.size(); ++i)
    group_[static_cast<std::size_t>(order[i])] = static_cast<std::uint8_t>(i % 4);
  const std::vector<std::int32_t> offsets = shuffled(vocabulary, seed, random_stream("tokens.offset"));
  std::copy(offsets.begin(), offsets.begin() + 4, offset_);
}

std::int32_t TokenSource::next(std::int32_t previous, std::int32_t before_previous, int k) const {
  const int slot = (k + group_[static_cast<std::size_t>(before_previous)]) & 3;
  const std::int64_t sum = std::int64_t{permutation_[static_cast<std::size_t>(previous)]} + offset_[slot];
  return static_cast<std::int32_t>(sum >= vocabulary_ ? sum - vocabulary_ : sum);
}

void TokenSource::fill(Split split, std::uint64_t sample, std::int32_t* tokens, std::int64_t count) const {
  const std::uint64_t id = random_stream(split == Split::training ? "tokens.training" : "tokens.held_out", sample);
  std::int32_t before = static_cast<std::int32_t>(draw(seed_, id, 0, vocabulary_));
  std::int32_t previous = static_cast<std::int32_t>(draw(seed_, id, 1, vocabulary_));
  PhiloxWords words{};
  for (std::int64_t t = 0; t < count; ++t) {
    tokens[t] = previous;
    if (t % 4 == 0) words = random_block(seed_, id, 2 + static_cast<std::uint64_t>(t) / 4);
    const std::int32_t following = next(previous, before, k_of_bits[words.word[t % 4] >> 29]);
    before = previous;
    previous = following;
  }
}

}  // namespace tw
