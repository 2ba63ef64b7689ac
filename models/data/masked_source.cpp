#include "models/data/masked_source.hpp"

#include <algorithm>
#include <numeric>
#include <string>

#include "models/compute/error.hpp"
#include "models/compute/synthetic.hpp"

namespace tw::models {
namespace {

using synthetic::draw;

// Places of a sample's random blocks.
constexpr std::uint64_t at_label = 0, at_topic = 1, at_other_topic = 2, at_length = 3, at_tokens = 16;
constexpr std::uint64_t at_choices = std::uint64_t{1} << 32, at_masks = std::uint64_t{1} << 33;

}  // namespace

MaskedSource::MaskedSource(std::int64_t vocabulary, std::uint64_t seed)
    : ordinary_(vocabulary - first_ordinary), levels_(masked_levels(vocabulary)), seed_(seed) {
  if (vocabulary < least_vocabulary || vocabulary > TokenSource::most_tokens) {
    throw Error(Failure::usage, "masked tokens need a vocabulary of " + std::to_string(least_vocabulary) + " to " +
                                    std::to_string(TokenSource::most_tokens) + ", not " + std::to_string(vocabulary));
  }
  permutation_.resize(static_cast<std::size_t>(ordinary_));
  std::iota(permutation_.begin(), permutation_.end(), first_ordinary);
  for (std::int64_t i = ordinary_ - 1; i > 0; --i) {  // Fisher–Yates
    const std::int64_t other = draw(seed, random_stream("masked.permutation"), static_cast<std::uint64_t>(i), i + 1);
    std::swap(permutation_[static_cast<std::size_t>(i)], permutation_[static_cast<std::size_t>(other)]);
  }
}

std::int32_t MaskedSource::token(int topic, std::int64_t r) const {
  return permutation_[static_cast<std::size_t>(topic * (ordinary_ / topics) + r)];
}

void MaskedSource::fill(Split split, std::uint64_t first_sample, const MaskedLayout& layout, std::int32_t* inputs,
                        std::int32_t* targets) const {
  if (layout.seq < shortest_sequence) {
    throw Error(Failure::usage, "masked tokens need sequences of at least " + std::to_string(shortest_sequence) +
                                    " tokens, not " + std::to_string(layout.seq));
  }
  const std::uint64_t purpose = random_purpose(split == Split::training ? "masked.training" : "masked.held_out");
  for (std::int64_t b = 0; b < layout.batch; ++b)
    fill_one(random_stream(purpose, first_sample + static_cast<std::uint64_t>(b)), b, layout, inputs, targets);
}

void MaskedSource::fill_one(std::uint64_t stream, std::int64_t b, const MaskedLayout& layout, std::int32_t* inputs,
                            std::int32_t* targets) const {
  const std::int64_t seq = layout.seq, masked = masked_positions(seq);
  const std::int64_t ordinary_positions = seq - 3, quarter = std::max<std::int64_t>(1, ordinary_positions / 4);
  std::int32_t *tokens = inputs + b * seq, *segments = inputs + (layout.batch + b) * seq;
  std::int32_t* rows = inputs + 2 * layout.batch * seq;
  const auto is_random = static_cast<std::int32_t>(draw(seed_, stream, at_label, 2));
  const int topic_a = static_cast<int>(draw(seed_, stream, at_topic, topics));
  const int step = 1 + static_cast<int>(draw(seed_, stream, at_other_topic, topics - 1));
  const int topic_b = is_random == 0 ? topic_a : (topic_a + step) % topics;
  const std::int64_t first_sep = 1 + quarter + draw(seed_, stream, at_length, ordinary_positions - 2 * quarter + 1);

  std::vector<std::int64_t> positions;  // of ordinary tokens
  for (std::int64_t t = 0; t < seq; ++t) {
    segments[t] = t > first_sep ? 1 : 0;
    if (t == 0 || t == first_sep || t == seq - 1) {
      tokens[t] = t == 0 ? cls : sep;
      continue;
    }
    const PhiloxWords words = random_block(seed_, stream, at_tokens + static_cast<std::uint64_t>(t));
    const std::uint32_t first = (std::uint32_t{1} << to_uniform_below(words.word[0], levels_)) - 1;
    tokens[t] = token(segments[t] == 0 ? topic_a : topic_b, first + (words.word[1] & first));
    positions.push_back(t);
  }
  for (std::int64_t i = 0; i < masked; ++i) {
    const auto from = static_cast<std::uint64_t>(i);
    const std::int64_t other = i + draw(seed_, stream, at_choices + from, ordinary_positions - i);
    std::swap(positions[static_cast<std::size_t>(i)], positions[static_cast<std::size_t>(other)]);
  }
  std::sort(positions.begin(), positions.begin() + masked);
  for (std::int64_t i = 0; i < masked; ++i) {
    const std::int64_t t = positions[static_cast<std::size_t>(i)];
    rows[b * masked + i] = static_cast<std::int32_t>(b * seq + t);
    targets[b * masked + i] = tokens[t];
    const PhiloxWords words = random_block(seed_, stream, at_masks + static_cast<std::uint64_t>(i));
    const std::int64_t tenth = to_uniform_below(words.word[0], 10);
    if (tenth < 8) tokens[t] = mask;
    if (tenth == 8) tokens[t] = first_ordinary + static_cast<std::int32_t>(to_uniform_below(words.word[1], ordinary_));
  }
  rows[layout.batch * masked + b] = static_cast<std::int32_t>(b * seq);
  targets[layout.batch * masked + b] = is_random;
}

}  // namespace tw::models
