#include "models/data/token_source.hpp"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string>

#include "models/compute/error.hpp"
#include "models/compute/synthetic.hpp"

namespace tw::models {
namespace {

using synthetic::draw;

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
  if (vocabulary < 4 || vocabulary > most_tokens) {
    throw Error(Failure::usage, "synthetic tokens need a vocabulary of 4 to " + std::to_string(most_tokens) + ", not " +
                                    std::to_string(vocabulary));
  }
  const std::vector<std::int32_t> permutation = shuffled(vocabulary, seed, random_stream("tokens.permutation"));
  for (const std::int32_t value : permutation) table_.push_back(4 * value);
  const std::vector<std::int32_t> order = shuffled(vocabulary, seed, random_stream("tokens.group"));
  for (std::size_t i = 0; i < order.size(); ++i)
    table_[static_cast<std::size_t>(order[i])] += static_cast<std::int32_t>(i % 4);
  const std::vector<std::int32_t> offsets = shuffled(vocabulary, seed, random_stream("tokens.offset"));
  std::copy(offsets.begin(), offsets.begin() + 4, offset_);
}

std::int32_t TokenSource::next(std::int32_t previous, std::int32_t before_previous, int k) const {
  return synthetic::next_token(table_[static_cast<std::size_t>(previous)],
                               table_[static_cast<std::size_t>(before_previous)], k, offset_, vocabulary_);
}

std::uint64_t TokenSource::purpose(Split split) {
  return random_purpose(split == Split::training ? "tokens.training" : "tokens.held_out");
}

void TokenSource::fill(Split split, std::uint64_t sample, std::int32_t* tokens, std::int64_t count) const {
  const std::uint64_t id = random_stream(purpose(split), sample);
  std::int32_t before = static_cast<std::int32_t>(draw(seed_, id, 0, vocabulary_));
  std::int32_t previous = static_cast<std::int32_t>(draw(seed_, id, 1, vocabulary_));
  PhiloxWords words{};
  for (std::int64_t t = 0; t < count; ++t) {
    tokens[t] = previous;
    if (t % 4 == 0) words = random_block(seed_, id, 2 + static_cast<std::uint64_t>(t) / 4);
    const std::int32_t following = next(previous, before, synthetic::draw_k(words, t));
    before = previous;
    previous = following;
  }
}

GenerateTokens TokenSource::on_device(Split split, std::uint64_t first_sample) const {
  GenerateTokens args;
  std::copy(std::begin(offset_), std::end(offset_), args.offset);
  args.seed = seed_;
  args.purpose = purpose(split);
  args.first_sample = first_sample;
  return args;
}

}  // namespace tw::models
