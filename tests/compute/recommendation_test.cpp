// Embedding bags, interaction of features, binary cross-entropy.
#include <algorithm>
#include <cmath>

#include "tests/support/comparison.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/usage_error.hpp"

namespace tw::test {

using namespace models;

namespace {

TW_DEVICE_SUITE(Recommendation);

/// Tables behind each other, and indices that are often 0, as those of a power law are.
struct Bags {
  std::int64_t batch, hot, width;
  std::vector<std::int32_t> table_rows;  // 0: an empty slot

  std::int64_t slots() const { return static_cast<std::int64_t>(table_rows.size()); }
  std::int64_t all() const {
    std::int64_t sum = 0;
    for (const std::int32_t rows : table_rows) sum += rows;
    return sum;
  }
  Ints tables() const {
    Ints extents;
    std::int32_t first = 0;
    for (const std::int32_t rows : table_rows) {
      extents.insert(extents.end(), {rows > 0 ? first : 0, rows});
      first += rows;
    }
    return extents;
  }
  Ints index() const {
    Ints values = indices(batch * slots() * hot, 5, 1000);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int32_t rows = table_rows[i / static_cast<std::size_t>(hot) % table_rows.size()];
      values[i] = rows == 0 ? 999'999 : values[i] < 400 ? 0 : values[i] % rows;
    }
    return values;
  }
  Dims rows_dims() const { return {all(), width}; }
  Dims bags_dims() const { return {batch, slots(), width}; }
};
const std::vector<Bags> sizes = {{1, 1, 1, {1}},           {3, 2, 5, {4, 0, 7}},
                                 {5, 1, 8, {1, 33, 2}},    {17, 3, 32, {100, 3, 0, 9}},
                                 {64, 1, 128, {40, 2, 5}}, {2, 4, 1030, {6}}};
std::string name_of(const Bags& s) { return Dims({s.batch, s.slots(), s.hot, s.width}).str(); }

TEST_P(Recommendation, EmbeddingBag) {
  TW_NEEDS(Op::embedding_bag_forward);
  for (const Bags& s : sizes) {
    for (const bool exact : {true, false}) {
      SCOPED_TRACE(name_of(s));
      const Floats rows = exact ? integers(s.rows_dims().count(), 1, -8, 8) : normal(s.rows_dims().count(), 1);
      compare(
          device(), Op::embedding_bag_forward, dtype(),
          [&](Lab& lab) {
            lab.device.embedding_bag_forward(
                *lab.stream, {lab.in(DType::float32, s.rows_dims(), rows), lab.in({s.slots(), 2}, s.tables()),
                              lab.in({s.batch, s.slots(), s.hot}, s.index()), lab.out("y", dtype(), s.bags_dims())});
          },
          exact ? Exactness::exact : Exactness::tolerance);
    }
  }
}

TEST_P(Recommendation, EmbeddingBagAddsRepeatedRowsAndClearsEmptySlots) {
  TW_NEEDS(Op::embedding_bag_forward);
  Lab lab(device());
  const Tensor y = lab.out("y", dtype(), {1, 3, 2});  // NaN before
  device().embedding_bag_forward(
      *lab.stream, {lab.in(DType::float32, {3, 2}, {1, 2, 10, 20, 100, 200}), lab.in({3, 2}, {0, 1, 0, 0, 1, 2}),
                    lab.in({1, 3, 2}, {0, 0, 7, 7, 1, 0}), y});
  EXPECT_EQ(lab.read(y), (Floats{2, 4, 0, 0, 110, 220}));
  lab.finish();
}

StepScalars scalars_of(float learning_rate) {
  StepScalars step;
  step.learning_rate = learning_rate;
  return step;
}

TEST_P(Recommendation, UpdateOfRows) {
  TW_NEEDS(Op::embedding_bag_update);
  for (const Bags& s : sizes) {
    for (const bool exact : {true, false}) {
      SCOPED_TRACE(name_of(s));
      // Of zeros, or the sums would hide behind what was there.
      const Floats before = exact ? integers(s.rows_dims().count(), 1, -8, 8)
                                  : Floats(static_cast<std::size_t>(s.rows_dims().count()), 0.0f);
      const Floats dy = exact ? integers(s.bags_dims().count(), 2, -8, 8) : normal(s.bags_dims().count(), 2);
      StepScalars step = scalars_of(0.5f);
      step.gradient_scale = 0.25f;
      step.clip_factor = 0.5f;
      step.loss_scale = 2;
      compare(
          device(), Op::embedding_bag_update, dtype(),
          [&](Lab& lab) {
            lab.device.embedding_bag_update(
                *lab.stream, {lab.in_out("rows", DType::float32, s.rows_dims(), before),
                              lab.in({s.slots(), 2}, s.tables()), lab.in({s.batch, s.slots(), s.hot}, s.index()),
                              lab.in(dtype(), s.bags_dims(), dy), lab.scalars(step)});
          },
          exact ? Exactness::exact : Exactness::tolerance);
    }
  }
}

TEST_P(Recommendation, UpdateOfRowsThatOccurOften) {
  TW_NEEDS(Op::embedding_bag_update);
  StepScalars step = scalars_of(0.5f);
  step.gradient_scale = 0.25f;
  for (const std::vector<int>& counts : frequent_counts()) {
    const Ints rows = occurrences(counts, 1);
    const auto places = static_cast<std::int64_t>(rows.size()), table_rows = static_cast<std::int64_t>(counts.size());
    for (const std::int64_t width : {3, 16, 1030}) {
      if (width > 16 && places > 400) continue;
      // Those of 16 have an empty slot beside the table's, whose occurrences are sorted behind all rows.
      const std::int64_t slots = width == 16 ? 2 : 1;
      SCOPED_TRACE(Dims({places, table_rows, width}).str());
      const Dims table{table_rows, width}, bags{places, slots, width};
      Ints tables{0, static_cast<std::int32_t>(table_rows), 0, 0}, index;
      tables.resize(static_cast<std::size_t>(2 * slots));
      for (const std::int32_t row : rows) {
        index.push_back(row);
        if (slots == 2) index.push_back(999'999);
      }
      const Floats before = integers(table.count(), 2, -8, 8), dy = integers(bags.count(), 3, -8, 9);
      const Case run = [&](Lab& lab) {
        lab.device.embedding_bag_update(
            *lab.stream, {lab.in_out("rows", DType::float32, table, before), lab.in({slots, 2}, tables),
                          lab.in({places, slots, 1}, index), lab.in(dtype(), bags, dy), lab.scalars(step)});
      };
      compare(device(), Op::embedding_bag_update, dtype(), run, Exactness::exact);
      if (places > 1000) continue;
      step.found_non_finite = 1;
      Lab lab(device());
      run(lab);
      EXPECT_EQ(lab.finish().front().values, before);
      step.found_non_finite = 0;
    }
  }
}

TEST_P(Recommendation, UpdateChangesOnlyTheRowsThatOccur) {
  TW_NEEDS(Op::embedding_bag_update);
  for (const bool found_non_finite : {false, true}) {
    Lab lab(device());
    const Floats before = {1, 1, 2, 2, 3, 3, 4, 4};
    const Tensor rows = lab.in_out("rows", DType::float32, {4, 2}, before);
    StepScalars step = scalars_of(1);
    step.found_non_finite = found_non_finite ? 1 : 0;
    // The first table's row 1 three times, once twice in a bag; the second's row 0 once; an empty slot.
    device().embedding_bag_update(
        *lab.stream,
        {rows, lab.in({3, 2}, {0, 2, 2, 2, 0, 0}), lab.in({2, 3, 2}, {1, 1, 0, 0, 9, 9, 0, 1, 0, 0, 9, 9}),
         lab.in(dtype(), {2, 3, 2}, {1, 2, 4, 8, 16, 32, 64, 128, 0.5f, 0.25f, 16, 32}), lab.scalars(step)});
    if (found_non_finite)
      EXPECT_EQ(lab.read(rows), before);
    else
      EXPECT_EQ(lab.read(rows), (Floats{-63, -127, -64, -130, -6, -13.5f, 4, 4}));
    lab.finish();
  }
}

struct Pairs {
  std::int64_t batch, width, shards, slots;
  Ints places;
  Dims dense() const { return {batch, width}; }
  Dims bags() const { return {shards, batch, slots, width}; }
  Dims out() const {
    const auto features = static_cast<std::int64_t>(places.size());
    return {batch, width + features * (features + 1) / 2};
  }
  Tensor places_in(Lab& lab) const { return lab.in({static_cast<std::int64_t>(places.size())}, places); }
};
const std::vector<Pairs> pairs = {
    {2, 3, 1, 1, {0}},
    {3, 5, 1, 3, {0, 1, 2}},
    {4, 16, 2, 2, {3, 0, 2}},
    {7, 31, 3, 2, {5, 4, 3, 2, 1, 0}},
    {2, 128, 1, 26, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25}}};

TEST_P(Recommendation, Interaction) {
  TW_NEEDS(Op::interaction_forward);
  for (const Pairs& s : pairs) {
    for (const bool exact : {true, false}) {
      SCOPED_TRACE(s.bags().str());
      const auto values = [&](std::int64_t count, std::uint64_t seed) {
        return exact ? integers(count, seed, -1, 1) : normal(count, seed);
      };
      compare(
          device(), Op::interaction_forward, dtype(),
          [&](Lab& lab) {
            lab.device.interaction_forward(*lab.stream, {lab.in(dtype(), s.dense(), values(s.dense().count(), 1)),
                                                         lab.in(dtype(), s.bags(), values(s.bags().count(), 2)),
                                                         s.places_in(lab), lab.out("y", dtype(), s.out())});
          },
          exact ? Exactness::exact : Exactness::tolerance);
    }
  }
}

TEST_P(Recommendation, InteractionIsTheLowerTriangleRowByRow) {
  TW_NEEDS(Op::interaction_forward);
  Lab lab(device());
  const Tensor y = lab.out("y", dtype(), {1, 2 + 3});
  // z = (1, 2), then the bag at place 1: (3, 5), then the bag at place 0: (7, 11).
  device().interaction_forward(*lab.stream, {lab.in(dtype(), {1, 2}, {1, 2}),
                                             lab.in(dtype(), {2, 1, 1, 2}, {7, 11, 3, 5}), lab.in({2}, {1, 0}), y});
  EXPECT_EQ(lab.read(y), (Floats{1, 2, 13, 29, 76}));
  lab.finish();
}

TEST_P(Recommendation, InteractionBackward) {
  TW_NEEDS(Op::interaction_backward);
  for (const Pairs& s : pairs) {
    for (const bool exact : {true, false}) {
      SCOPED_TRACE(s.bags().str());
      const auto values = [&](std::int64_t count, std::uint64_t seed) {
        return exact ? integers(count, seed, -1, 1) : normal(count, seed);
      };
      compare(
          device(), Op::interaction_backward, dtype(),
          [&](Lab& lab) {
            lab.device.interaction_backward(
                *lab.stream,
                {lab.in(dtype(), s.out(), values(s.out().count(), 3)),
                 lab.in(dtype(), s.dense(), values(s.dense().count(), 1)),
                 lab.in(dtype(), s.bags(), values(s.bags().count(), 2)), s.places_in(lab),
                 lab.out("d_dense", dtype(), s.dense()),
                 lab.in_out("d_bags", dtype(), s.bags(), integers(s.bags().count(), 4, 1, 9))});  // some slots are left
          },
          exact ? Exactness::exact : Exactness::tolerance);
    }
  }
}

TEST_P(Recommendation, BinaryCrossEntropy) {
  TW_NEEDS(Op::binary_cross_entropy);
  for (const std::int64_t rows : {1, 2, 31, 33, 1025}) {
    for (const bool in_place : {false, true}) {
      SCOPED_TRACE(rows);
      const Floats z = normal(rows, 3, 2);
      Ints targets = indices(rows, 4, 2);
      compare(device(), Op::binary_cross_entropy, dtype(), [&](Lab& lab) {
        const Tensor logits = in_place ? lab.in_out("d", dtype(), {rows}, z) : lab.in(dtype(), {rows}, z);
        const Tensor d = in_place ? logits : lab.out("d", dtype(), {rows});
        lab.device.binary_cross_entropy(*lab.stream,
                                        {logits, lab.in({rows}, targets), lab.out("loss", DType::float32, {1}),
                                         rows > 2 ? lab.out("correct", DType::int32, {1}) : Tensor{}, d});
      });
    }
  }
}

TEST_P(Recommendation, BinaryCrossEntropyOfAScaledLoss) {
  TW_NEEDS(Op::binary_cross_entropy);
  StepScalars step;
  step.loss_scale = 512;
  compare(device(), Op::binary_cross_entropy, dtype(), [&](Lab& lab) {
    lab.device.binary_cross_entropy(*lab.stream, {.logits = lab.in(dtype(), {33}, normal(33, 3, 2)),
                                                  .targets = lab.in({33}, indices(33, 4, 2)),
                                                  .loss = lab.out("loss", DType::float32, {1}),
                                                  .d_logits = lab.out("d", dtype(), {33}),
                                                  .scalars = lab.scalars(step)});
  });
  Lab lab(device());
  const Tensor loss = lab.out("loss", DType::float32, {1}), d = lab.out("d", dtype(), {2});
  device().binary_cross_entropy(*lab.stream, {.logits = lab.in(dtype(), {2}, {0, 0}),
                                              .targets = lab.in({2}, {0, 1}),
                                              .loss = loss,
                                              .d_logits = d,
                                              .scalars = lab.scalars(step)});
  EXPECT_EQ(lab.read(d), (Floats{128, -128}));
  EXPECT_NEAR(lab.read(loss)[0], std::log(2.0), 1e-6) << "the loss itself is not scaled";
}

// A gradient of a bag that overflows as stored leaves NaN in d_dense of its sample, and only of that one.
TEST_P(Recommendation, InteractionShowsWhereABagOverflows) {
  TW_NEEDS(Op::interaction_backward);
  const std::int64_t batch = 5, width = 16, features = 3;
  const Dims dense{batch, width}, bags{1, batch, features, width}, out{batch, width + features * (features + 1) / 2};
  const float great = dtype() == DType::fp16 ? 300.0f : 0x1p100f;  // its square is not finite
  for (const bool overflows : {false, true}) {
    Floats values(static_cast<std::size_t>(bags.count()), 0.5f), dy(static_cast<std::size_t>(out.count()), 1.0f);
    if (overflows) {  // sample 3: the product of features 1 and 2, and of no dense feature
      values[static_cast<std::size_t>(((3 * features + 0) * width) + 7)] = great;
      dy[static_cast<std::size_t>(3 * out[1] + width + 2)] = great;
    }
    for (Device* on : {&device(), &reference_device()}) {
      Lab lab(*on);
      const Tensor d_dense = lab.out("d_dense", dtype(), dense), d_bags = lab.out("d_bags", dtype(), bags);
      on->interaction_backward(*lab.stream,
                               {lab.in(dtype(), out, dy), lab.in(dtype(), dense, Floats(batch * width, 0.25f)),
                                lab.in(dtype(), bags, values), lab.in({features}, {0, 1, 2}), d_dense, d_bags});
      const Floats found = lab.read(d_dense), of_bags = lab.read(d_bags);
      for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(std::isnan(found[i]), overflows && i / width == 3) << i;
      EXPECT_EQ(std::ranges::count_if(of_bags, [](float value) { return !std::isfinite(value); }), overflows ? 1 : 0);
    }
  }
}

TEST_P(Recommendation, BinaryCrossEntropyOfGreatLogits) {
  TW_NEEDS(Op::binary_cross_entropy);
  Lab lab(device());
  const Tensor loss = lab.out("loss", DType::float32, {1}), correct = lab.out("correct", DType::int32, {1}),
               d = lab.out("d", dtype(), {4});
  const Tensor logits = lab.in(dtype(), {4}, {200, -200, 200, 0}), targets = lab.in({4}, {1, 1, 0, 0});
  device().binary_cross_entropy(*lab.stream, {logits, targets, loss, correct, d});
  EXPECT_NEAR(lab.read(loss)[0], (0 + 200 + 200 + std::log(2.0)) / 4, 1e-4);
  const Floats gradient = lab.read(d);
  EXPECT_NEAR(gradient[0], 0, 1e-30);
  EXPECT_EQ((Floats{gradient[1], gradient[2], gradient[3]}), (Floats{-0.25f, 0.25f, 0.125f}));
  device().binary_cross_entropy(*lab.stream, {logits, targets, loss});  // loss only
  EXPECT_NEAR(lab.read(loss)[0], (400 + std::log(2.0)) / 4, 1e-4);
  for (const Output& output : lab.finish()) {
    if (output.name != "correct") continue;
    EXPECT_EQ(output.values, Floats{2}) << "a logit of 0 is no click";
  }
}

TEST_P(Recommendation, RefuseWrongArguments) {
  TW_NEEDS(Op::embedding_bag_update);
  Lab lab(device());
  const Tensor rows = lab.out("rows", DType::float32, {4, 3}), tables = lab.in({2, 2}, {0, 2, 2, 2}),
               index = lab.in({5, 2, 1}, Ints(10, 0)), y = lab.out("y", dtype(), {5, 2, 3}),
               wide = lab.out("wide", dtype(), {5, 2, 4}), one_slot = lab.in({1, 2}, {0, 4});
  expect_usage_error([&] { device().embedding_bag_forward(*lab.stream, {rows, tables, index, wide}); }, "rows");
  expect_usage_error([&] { device().embedding_bag_forward(*lab.stream, {rows, one_slot, index, y}); }, "tables");
  expect_usage_error([&] { device().embedding_bag_update(*lab.stream, {rows, tables, index, y}); }, "scalars");
  const Tensor dense = lab.out("dense", dtype(), {5, 3}), bags = lab.out("bags", dtype(), {1, 5, 2, 3}),
               places = lab.in({2}, {0, 1}), out = lab.out("out", dtype(), {5, 6}),
               few = lab.out("few", dtype(), {5, 5});
  expect_usage_error([&] { device().interaction_forward(*lab.stream, {dense, bags, places, few}); }, "y");
  expect_usage_error([&] { device().interaction_forward(*lab.stream, {dense, y, places, out}); }, "bags");
  expect_usage_error(
      [&] {
        device().interaction_backward(*lab.stream, {out, dense, bags, places, dense, bags});
      },
      "d_dense");
  const Tensor logits = lab.out("z", dtype(), {5}), loss = lab.out("loss", DType::float32, {1});
  expect_usage_error([&] { device().binary_cross_entropy(*lab.stream, {logits, places, loss}); }, "targets");
}

TEST(RecommendationOfTheReference, ChecksItsIndices) {
  Device& device = reference_device();
  Lab lab(device);
  const Tensor rows = lab.in(DType::float32, {3, 1}, {1, 2, 3}), y = lab.out("y", DType::float32, {1, 1, 1}),
               table = lab.in({1, 2}, {0, 3});
  for (const int index : {-1, 3})
    expect_usage_error(
        [&] {
          device.embedding_bag_forward(*lab.stream, {rows, table, lab.in({1, 1, 1}, {index}), y});
        },
        "indices");
  expect_usage_error(
      [&] {
        device.embedding_bag_forward(*lab.stream, {rows, lab.in({1, 2}, {1, 3}), lab.in({1, 1, 1}, {0}), y});
      },
      "tables");
  expect_usage_error(
      [&] {
        device.interaction_forward(*lab.stream,
                                   {lab.in(DType::float32, {1, 1}, {1}), lab.in(DType::float32, {1, 1, 1, 1}, {1}),
                                    lab.in({1}, {1}), lab.out("o", DType::float32, {1, 2})});
      },
      "places");
  expect_usage_error(
      [&] {
        device.binary_cross_entropy(
            *lab.stream, {lab.in(DType::float32, {1}, {1}), lab.in({1}, {2}), lab.out("loss", DType::float32, {1})});
      },
      "targets");
}

}  // namespace
}  // namespace tw::test
