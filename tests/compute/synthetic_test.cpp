// Samples made by a device: the same bits everywhere, whatever of a batch a thread makes.
#include <algorithm>
#include <bit>

#include "tests/support/devices.hpp"
#include "tests/support/usage_error.hpp"

namespace tw::test {

using namespace models;

namespace {

TW_DEVICE_SUITE(SyntheticSamples);

TEST_P(SyntheticSamples, TokensAreTheReferences) {
  if (device().info().kind == DeviceKind::cpu) return;  // its host makes them
  TW_NEEDS(Op::generate_tokens);
  struct Sizes {
    std::int64_t batch, seq, vocabulary;
  };
  for (const Sizes& s : {Sizes{1, 1, 4}, Sizes{3, 7, 19}, Sizes{33, 64, 50257}, Sizes{70, 31, 5}}) {
    const Case run = [&](Lab& lab) {
      GenerateTokens args;
      Ints table = indices(s.vocabulary, 1, static_cast<int>(s.vocabulary));
      for (std::size_t i = 0; i < table.size(); ++i) table[i] = 4 * table[i] + static_cast<std::int32_t>(i % 4);
      args.table = lab.in({s.vocabulary}, table);
      const std::int32_t offset[4] = {3, 0, 2, 1};
      std::copy(offset, offset + 4, args.offset);
      args.seed = 0x123456789abcdefu;
      args.purpose = 77;
      args.first_sample = (std::uint64_t{1} << 40) + 5;
      args.inputs = lab.out("inputs", DType::int32, {s.batch, s.seq});
      args.targets = lab.out("targets", DType::int32, {s.batch * s.seq});
      lab.device.generate_tokens(*lab.stream, args);
    };
    compare(device(), Op::generate_tokens, dtype(), run, Exactness::exact);
  }
}

TEST_P(SyntheticSamples, ImagesAreTheReferences) {
  if (device().info().kind == DeviceKind::cpu) return;
  TW_NEEDS(Op::generate_images);
  struct Sizes {
    std::int64_t batch, size, channels, classes;
  };
  // 7·7·3: the last Philox block is not full; from 57·57·3 on: several pieces of an image.
  for (const Sizes& s : {Sizes{33, 7, 3, 9}, Sizes{3, 16, 1, 5}, Sizes{2, 48, 3, 31}, Sizes{2, 5, 16, 4},
                         Sizes{2, 57, 3, 6}, Sizes{2, 64, 3, 31}}) {
    const Case run = [&](Lab& lab) {
      GenerateImages args;
      args.frequencies = lab.in({s.classes, 2}, indices(2 * s.classes, 1, static_cast<int>(s.size)));
      args.seed = 3;
      args.purpose = 78;
      args.first_sample = 1000;
      args.sigma = 0.7f;
      args.amplitude = 1.3f;
      args.label_noise = 0.3f;
      args.inputs = lab.out("inputs", dtype(), {s.batch, s.size, s.size, s.channels});
      args.targets = lab.out("targets", DType::int32, {s.batch});
      lab.device.generate_images(*lab.stream, args);
    };
    compare(device(), Op::generate_images, dtype(), run, Exactness::exact);
  }
}

/// A table of so many pairs, octaves of equal shares.
ClickTable click_table(std::uint32_t number, std::uint32_t pairs) {
  ClickTable table;
  table.number = number;
  table.pairs = pairs;
  if (pairs == 0) return table;  // an empty slot
  table.factor = pairs / 3 + 1;
  table.offset = pairs - 1;
  table.inverse = ~std::uint64_t{0} / pairs;
  table.meaning = 1000 + number;
  table.last_octave = static_cast<std::uint32_t>(std::bit_width(pairs)) - 1;
  std::ranges::fill(table.until, UINT32_MAX);
  for (std::uint32_t octave = 0; octave < table.last_octave; ++octave)
    table.until[octave] = (octave + 1) * (UINT32_MAX / (table.last_octave + 1));
  return table;
}

TEST_P(SyntheticSamples, ClicksAreTheReferences) {
  if (device().info().kind == DeviceKind::cpu) return;
  TW_NEEDS(Op::generate_clicks);
  constexpr std::uint32_t most = (1u << 30) - 1;
  struct Sizes {
    std::int64_t batch, ranks, rank, features, hot;
    std::vector<std::uint32_t> pairs;
  };
  // Samples of 1 to 32 indices, whole packs and not; the second case takes more than one block.
  for (const Sizes& s : {Sizes{7, 1, 0, 3, 2, {50, 3, 1}}, Sizes{30, 4, 3, 13, 4, {2, most, 1000, 0, 8, 7, 5, 9}},
                         Sizes{5, 2, 1, 4, 3, {0, most}}, Sizes{6, 3, 0, 9, 1, {1u << 29}}}) {
    const Case run = [&](Lab& lab) {
      std::vector<ClickTable> tables;
      for (const std::uint32_t pairs : s.pairs)
        tables.push_back(click_table(static_cast<std::uint32_t>(2 * tables.size() + 1), pairs));
      GenerateClicks args;
      args.tables = lab.click_tables(tables);
      args.seed = 0x123456789abcdefu;
      args.of_label = 79;
      args.of_dense = 80;
      args.of_index = 81;
      args.first_of_all = (std::uint64_t{1} << 40) + 5;
      args.first_sample = args.first_of_all + static_cast<std::uint64_t>(s.rank * s.batch);
      args.mean = 0.3f;
      args.wrong_below = 1u << 30;
      args.dense = lab.out("dense", DType::float32, {s.batch, s.features});
      args.indices =
          lab.out("indices", DType::int32, {s.ranks * s.batch, static_cast<std::int64_t>(s.pairs.size()), s.hot});
      args.targets = lab.out("targets", DType::int32, {s.batch});
      lab.device.generate_clicks(*lab.stream, args);
    };
    compare(device(), Op::generate_clicks, dtype(), run, Exactness::exact);
  }
}

TEST_P(SyntheticSamples, ClicksThatDoNotFitAreRefused) {
  if (device().info().kind == DeviceKind::cpu) return;
  TW_NEEDS(Op::generate_clicks);
  Lab lab(device());
  GenerateClicks args;
  args.tables = lab.click_tables({click_table(0, 4)});
  args.dense = lab.out("dense", DType::float32, {3, 2});
  args.indices = lab.out("indices", DType::int32, {6, 1, 1});
  args.targets = lab.out("targets", DType::int32, {3});
  const auto refused = [&](const char* argument, auto change) {
    GenerateClicks wrong = args;
    change(wrong);
    expect_usage_error([&] { lab.device.generate_clicks(*lab.stream, wrong); }, argument);
  };
  refused("tables", [](GenerateClicks& a) { a.tables = nullptr; });
  refused("dense", [](GenerateClicks& a) { a.dense.dims = {6}; });
  refused("samples of indices", [](GenerateClicks& a) { a.indices.dims = {2, 3, 1}; });
  refused("indices of a sample", [](GenerateClicks& a) { a.indices.dims = {6, 1 << 20, 1 << 11}; });
  refused("targets", [](GenerateClicks& a) { a.targets.dims = {6}; });
}

}  // namespace
}  // namespace tw::test
