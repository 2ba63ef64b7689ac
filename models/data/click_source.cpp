#include "models/data/click_source.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "models/catalog/floors.hpp"
#include "models/compute/error.hpp"
#include "models/compute/philox.hpp"
#include "models/data/gaussian.hpp"

namespace tw::models {
namespace {

constexpr double two_to_32 = 4294967296.0;
/// 2^(1 − exponent): a literal, so that shares are the same bits on every machine.
constexpr double octave_ratio = 0.96593632892484555;

std::int64_t octave_begin(std::size_t octave) { return (std::int64_t{1} << octave) - 1; }
std::int64_t octave_ranks(std::size_t octave, std::int64_t pairs) {
  return std::min(octave_begin(octave + 1), pairs) - octave_begin(octave);
}

}  // namespace

ClickSource::ClickSource(std::vector<std::int64_t> table_rows, std::int64_t dense_features, std::int64_t hot,
                         std::uint64_t seed)
    : dense_(dense_features), hot_(hot), seed_(seed) {
  if (dense_features < 1 || hot < 1 || table_rows.empty())
    throw Error(Failure::usage, "synthetic clicks need dense features, tables, and an index into each of these");
  for (std::size_t t = 0; t < table_rows.size(); ++t) {
    if (table_rows[t] < 2 || table_rows[t] > INT32_MAX)
      throw Error(Failure::usage, "synthetic clicks need tables of 2 to 2147483647 rows, table " + std::to_string(t) +
                                      " has " + std::to_string(table_rows[t]));
    Table table;
    table.pairs = table_rows[t] / 2;
    std::vector<double> weights;
    double weight = 1, all = 0;
    for (std::size_t octave = 0; octave_begin(octave) < table.pairs; ++octave, weight *= octave_ratio) {
      const auto whole = static_cast<double>(std::int64_t{1} << octave);
      weights.push_back(weight * static_cast<double>(octave_ranks(octave, table.pairs)) / whole);
      all += weights.back();
    }
    double sum = 0;
    for (std::size_t octave = 0; octave + 1 < weights.size(); ++octave) {
      sum += weights[octave];
      table.until.push_back(static_cast<std::uint32_t>(sum / all * two_to_32));
    }
    const PhiloxWords words = random_block(seed, random_stream("clicks.tables"), t);
    table.offset = static_cast<std::uint64_t>(to_uniform_below(words.word[0], table.pairs));
    table.factor = 1 + static_cast<std::uint64_t>(to_uniform_below(words.word[1], table.pairs));
    while (std::gcd(table.factor, static_cast<std::uint64_t>(table.pairs)) != 1) ++table.factor;
    tables_.push_back(std::move(table));
  }
}

double ClickSource::share(std::size_t table, std::int64_t rank) const {
  const Table& t = tables_[table];
  std::size_t octave = 0;
  while (octave_begin(octave + 1) <= rank) ++octave;
  const double begin = octave == 0 ? 0 : t.until[octave - 1];
  const double end = octave < t.until.size() ? t.until[octave] : two_to_32;
  return (end - begin) / two_to_32 / static_cast<double>(octave_ranks(octave, t.pairs));
}

std::array<std::int32_t, 2> ClickSource::rows_of(std::size_t table, std::int64_t rank) const {
  const Table& t = tables_[table];
  const auto pairs = static_cast<std::uint64_t>(t.pairs);
  const std::uint64_t pair = (static_cast<std::uint64_t>(rank) * t.factor + t.offset) % pairs;  // below 2^61
  const auto first = static_cast<std::int32_t>(2 * pair);
  const std::uint32_t meaning = random_block(seed_, random_stream("clicks.meaning", table), pair).word[0] & 1u;
  return meaning != 0 ? std::array{first + 1, first} : std::array{first, first + 1};
}

std::int32_t ClickSource::draw_index(std::uint64_t stream, std::size_t table, std::int64_t h, bool is_click) const {
  const Table& t = tables_[table];
  const PhiloxWords words = random_block(
      seed_, stream,
      static_cast<std::uint64_t>(table) * static_cast<std::uint64_t>(hot_) + static_cast<std::uint64_t>(h));
  std::size_t octave = 0;
  while (octave < t.until.size() && words.word[0] >= t.until[octave]) ++octave;
  const std::int64_t rank = octave_begin(octave) + to_uniform_below(words.word[1], octave_ranks(octave, t.pairs));
  const bool is_wrong = words.word[2] < static_cast<std::uint32_t>(click_vote_error * two_to_32);
  return rows_of(table, rank)[is_click == is_wrong ? 1 : 0];
}

void ClickSource::fill(Split split, std::uint64_t first_sample, const ClickLayout& layout,
                       const TablePlacement& placement, int rank, std::int32_t* inputs, std::int32_t* labels,
                       int threads) const {
  const bool training = split == Split::training;
  const std::uint64_t of_label = random_purpose(training ? "clicks.training" : "clicks.held_out"),
                      of_dense = random_purpose(training ? "clicks.dense" : "clicks.dense.held_out"),
                      of_index = random_purpose(training ? "clicks.index" : "clicks.index.held_out");
  const auto is_click = [&](std::uint64_t sample) {
    return (random_block(seed_, random_stream(of_label, sample), 0).word[0] & 1u) != 0;
  };
  auto* dense = reinterpret_cast<float*>(inputs);
  const float mean = static_cast<float>(click_signal / std::sqrt(static_cast<double>(dense_)));
  const std::vector<int>& tables = placement.of_rank[static_cast<std::size_t>(rank)];
  const std::uint64_t of_group = first_sample - static_cast<std::uint64_t>(rank * layout.batch);
  std::int32_t* indices = inputs + layout.dense_values();
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t i = 0; i < layout.ranks * layout.batch; ++i) {
    if (i < layout.batch) {
      const std::uint64_t sample = first_sample + static_cast<std::uint64_t>(i);
      labels[i] = is_click(sample) ? 1 : 0;
      float* values = dense + i * dense_;
      fill_normal(values, dense_, 1, seed_, random_stream(of_dense, sample), 0);
      for (std::int64_t k = 0; k < dense_; ++k) values[k] += labels[i] != 0 ? mean : -mean;
    }
    const std::uint64_t sample = of_group + static_cast<std::uint64_t>(i), stream = random_stream(of_index, sample);
    const bool click = is_click(sample);
    for (std::int64_t slot = 0; slot < layout.slots; ++slot) {
      std::int32_t* bag = indices + (i * layout.slots + slot) * layout.hot;
      for (std::int64_t h = 0; h < layout.hot; ++h)
        bag[h] = slot < static_cast<std::int64_t>(tables.size())
                     ? draw_index(stream, static_cast<std::size_t>(tables[static_cast<std::size_t>(slot)]), h, click)
                     : 0;
    }
  }
}

}  // namespace tw::models
