#include "models/data/click_source.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "models/catalog/floors.hpp"
#include "models/compute/error.hpp"
#include "models/compute/synthetic.hpp"
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
    : dense_(dense_features), seed_(seed) {
  if (dense_features < 1 || hot < 1 || table_rows.empty())
    throw Error(Failure::usage, "synthetic clicks need dense features, tables, and an index into each of these");
  for (std::size_t t = 0; t < table_rows.size(); ++t) {
    if (table_rows[t] < 2 || table_rows[t] > INT32_MAX)
      throw Error(Failure::usage, "synthetic clicks need tables of 2 to 2147483647 rows, table " + std::to_string(t) +
                                      " has " + std::to_string(table_rows[t]));
    const std::int64_t pairs = table_rows[t] / 2;
    ClickTable table;
    table.number = static_cast<std::uint32_t>(t);
    table.pairs = static_cast<std::uint32_t>(pairs);
    table.inverse = ~std::uint64_t{0} / table.pairs;
    table.meaning = random_stream("clicks.meaning", t);
    std::vector<double> weights;
    double weight = 1, all = 0;
    for (std::size_t octave = 0; octave_begin(octave) < pairs; ++octave, weight *= octave_ratio) {
      const auto whole = static_cast<double>(std::int64_t{1} << octave);
      weights.push_back(weight * static_cast<double>(octave_ranks(octave, pairs)) / whole);
      all += weights.back();
    }
    table.last_octave = static_cast<std::uint32_t>(weights.size() - 1);
    std::ranges::fill(table.until, UINT32_MAX);
    double sum = 0;
    for (std::size_t octave = 0; octave < table.last_octave; ++octave) {
      sum += weights[octave];
      table.until[octave] = static_cast<std::uint32_t>(sum / all * two_to_32);
    }
    const PhiloxWords words = random_block(seed, random_stream("clicks.tables"), t);
    table.offset = static_cast<std::uint32_t>(to_uniform_below(words.word[0], pairs));
    table.factor = 1 + static_cast<std::uint32_t>(to_uniform_below(words.word[1], pairs));
    while (std::gcd(table.factor, table.pairs) != 1) ++table.factor;
    tables_.push_back(table);
  }
}

double ClickSource::share(std::size_t table, std::int64_t rank) const {
  const ClickTable& t = tables_[table];
  std::size_t octave = 0;
  while (octave_begin(octave + 1) <= rank) ++octave;
  const double begin = octave == 0 ? 0 : t.until[octave - 1];
  const double end = octave < t.last_octave ? t.until[octave] : two_to_32;
  return (end - begin) / two_to_32 / static_cast<double>(octave_ranks(octave, t.pairs));
}

std::array<std::int32_t, 2> ClickSource::rows_of(std::size_t table, std::int64_t rank) const {
  const ClickTable& t = tables_[table];
  const std::uint32_t pair = synthetic::pair_of_rank(t, static_cast<std::uint32_t>(rank));
  return {synthetic::row_of_pair(t, seed_, pair, true), synthetic::row_of_pair(t, seed_, pair, false)};
}

std::vector<ClickTable> ClickSource::slots(const TablePlacement& placement, int rank) const {
  std::vector<ClickTable> slots(static_cast<std::size_t>(placement.slots));
  const std::vector<int>& held = placement.of_rank[static_cast<std::size_t>(rank)];
  for (std::size_t slot = 0; slot < held.size(); ++slot) slots[slot] = tables_[static_cast<std::size_t>(held[slot])];
  return slots;
}

GenerateClicks ClickSource::on_device(Split split, std::uint64_t first_sample, const ClickLayout& layout,
                                      int rank) const {
  const bool training = split == Split::training;
  GenerateClicks args;
  args.seed = seed_;
  args.of_label = random_purpose(training ? "clicks.training" : "clicks.held_out");
  args.of_dense = random_purpose(training ? "clicks.dense" : "clicks.dense.held_out");
  args.of_index = random_purpose(training ? "clicks.index" : "clicks.index.held_out");
  args.first_sample = first_sample;
  args.first_of_all = first_sample - static_cast<std::uint64_t>(rank * layout.batch);
  args.mean = static_cast<float>(click_signal / std::sqrt(static_cast<double>(dense_)));
  args.wrong_below = static_cast<std::uint32_t>(click_vote_error * two_to_32);
  return args;
}

void ClickSource::fill(Split split, std::uint64_t first_sample, const ClickLayout& layout,
                       const TablePlacement& placement, int rank, std::int32_t* inputs, std::int32_t* labels,
                       int threads) const {
  const GenerateClicks args = on_device(split, first_sample, layout, rank);
  const std::vector<ClickTable> held = slots(placement, rank);
  auto* dense = reinterpret_cast<float*>(inputs);
  std::int32_t* indices = inputs + layout.dense_values();
  const auto hot = static_cast<std::uint32_t>(layout.hot);
#pragma omp parallel for num_threads(threads) schedule(static)
  for (std::int64_t i = 0; i < layout.ranks * layout.batch; ++i) {
    if (i < layout.batch) {
      const std::uint64_t sample = first_sample + static_cast<std::uint64_t>(i);
      labels[i] = synthetic::draw_click(seed_, args.of_label, sample) ? 1 : 0;
      float* values = dense + i * dense_;
      fill_normal(values, dense_, 1, seed_, random_stream(args.of_dense, sample), 0);
      for (std::int64_t k = 0; k < dense_; ++k) values[k] += labels[i] != 0 ? args.mean : -args.mean;
    }
    const std::uint64_t sample = args.first_of_all + static_cast<std::uint64_t>(i);
    const std::uint64_t stream = random_stream(args.of_index, sample);
    const bool click = synthetic::draw_click(seed_, args.of_label, sample);
    for (std::int64_t slot = 0; slot < layout.slots; ++slot) {
      const ClickTable& table = held[static_cast<std::size_t>(slot)];
      std::int32_t* bag = indices + (i * layout.slots + slot) * layout.hot;
      for (std::uint32_t h = 0; h < hot; ++h)
        bag[h] = synthetic::draw_index(table, seed_, stream, hot, h, click, args.wrong_below);
    }
  }
}

}  // namespace tw::models
