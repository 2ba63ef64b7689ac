// The ledger's bytes of an operator against what our kernels load and store: the same operator on both.
#include "models/ledger/traffic.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "models/compute/fp8.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/simt/simt.hpp"

namespace tw::test {

using namespace models;

namespace {

class TrafficTest : public DeviceTest {
 protected:
  /// Runs the operator. What its kernels count may exceed the ledger's bytes by `again`: operands of a channel or a
  /// column that each row loads again; `uncounted`: values of a row, a channel or the whole that a kernel reaches by
  /// pointers of its own.
  template <class Arguments, class Run>
  void expect_bytes(const Arguments& args, double again, double uncounted, Run run) {
    simt::count_touched();
    run(args);
    const simt::Touched touched = simt::take_touched();
    const Traffic ledger = traffic(args);
    const auto read = static_cast<double>(touched.read), written = static_cast<double>(touched.written);
    EXPECT_GE(read, ledger.read - uncounted);
    EXPECT_LE(read, ledger.read + again);
    EXPECT_GE(written, ledger.written - uncounted);
    EXPECT_LE(written, ledger.written);
  }
  Tensor in(const Dims& dims, int salt) { return lab().in(dtype(), dims, normal(dims.count(), salt)); }
  Tensor out(const std::string& name, const Dims& dims) { return lab().out(name, dtype(), dims); }
  Tensor floats(const Dims& dims, int salt) { return lab().in(DType::float32, dims, normal(dims.count(), salt)); }
  Tensor float_out(const std::string& name, const Dims& dims) { return lab().out(name, DType::float32, dims); }
  Lab& lab() {
    if (!lab_) lab_.emplace(device());
    return *lab_;
  }
  Stream& stream() { return *lab().stream; }
  double element() const { return static_cast<double>(size_of(dtype())); }

 private:
  std::optional<Lab> lab_;
};
INSTANTIATE_TEST_SUITE_P(Devices, TrafficTest, testing::ValuesIn(device_cases()), device_case_name);

// Rows of 136: whole packs in each type. 7 rows, so that blocks are not full.
const Dims rows{7, 136};

TEST_P(TrafficTest, OfElements) {
  expect_bytes(Add{in(rows, 1), in(rows, 2), out("sum", rows)}, 0, 0, [&](const Add& a) { device().add(stream(), a); });
  expect_bytes(ActivationForward{in(rows, 1), out("act", rows), Activation::tanh}, 0, 0,
               [&](const ActivationForward& a) { device().activation_forward(stream(), a); });
  expect_bytes(ActivationBackward{in(rows, 1), in(rows, 2), out("dact", rows), Activation::tanh}, 0, 0,
               [&](const ActivationBackward& a) { device().activation_backward(stream(), a); });
  expect_bytes(AddBias{in(rows, 1), out("biased", rows), in({136}, 2)}, 6 * 136 * element(), 0,  // for each row
               [&](const AddBias& a) { device().add_bias(stream(), a); });
  expect_bytes(MeanSquaredError{in(rows, 1), floats(rows, 2), float_out("loss", {1}), out("d_mse", rows)}, 0, 4,
               [&](const MeanSquaredError& a) { device().mean_squared_error(stream(), a); });
  expect_bytes(SwigluForward{in({7, 272}, 1), out("swiglu", rows)}, 0, 0,
               [&](const SwigluForward& a) { device().swiglu_forward(stream(), a); });
  expect_bytes(SwigluBackward{in({7, 272}, 1), in(rows, 2), out("dswiglu", {7, 272})}, 0, 0,
               [&](const SwigluBackward& a) { device().swiglu_backward(stream(), a); });
}

TEST_P(TrafficTest, OfNorms) {
  // Eight warps load the columns' parameters; where rows are not aligned, three passes are made over x and not one.
  const double statistics = 2 * 7 * 4, passes = GetParam().device == "misaligned" ? 2 * 7 * 136 * element() : 0;
  expect_bytes(LayerNormForward{.x = in(rows, 1),
                                .residual = in(rows, 2),
                                .sum = out("s", rows),
                                .gamma = in({136}, 3),
                                .beta = in({136}, 4),
                                .y = out("y", rows),
                                .mean = float_out("mean", {7}),
                                .rstd = float_out("rstd", {7})},
               7 * 2 * 136 * element() + passes, statistics,
               [&](const LayerNormForward& a) { device().layer_norm_forward(stream(), a); });
  expect_bytes(
      RmsNormForward{
          .x = in(rows, 1), .gamma = in({136}, 3), .y = out("rms", rows), .rstd = float_out("rms_rstd", {7})},
      7 * 136 * element() + passes, statistics,
      [&](const RmsNormForward& a) { device().rms_norm_forward(stream(), a); });
}

// What a linear layer in fp8 takes: two bytes an element in place of two for y, and none is read again.
TEST_P(TrafficTest, OfRoundedInputs) {
  if (dtype() != DType::bf16) return;  // the one dtype that is stored beside fp8
  const Dims s{48, 144};
  const auto on_16_bytes = [&](std::int64_t bytes) {
    const Tensor memory = lab().left({bytes + 16});
    const auto ahead = static_cast<std::int64_t>(-reinterpret_cast<std::uintptr_t>(memory.data) % 16);
    return memory.slice(ahead, {bytes});
  };
  Fp8Scale start;
  start.scale = 8, start.inverse = 1.0f / 8;
  const Tensor scale = on_16_bytes(sizeof start);
  std::memcpy(scale.data, &start, sizeof start);
  const RoundedInput rounded{on_16_bytes(s.count()), on_16_bytes(s.count() + 16), scale.as<Fp8Scale>()};
  const double inverse = 16, written = static_cast<double>(2 * s.count()) + inverse;
  const ActivationForward activation{.x = in(s, 1), .activation = Activation::gelu_erf, .rounded = rounded};
  EXPECT_EQ(traffic(activation).written, written);
  expect_bytes(activation, 0, inverse, [&](const ActivationForward& a) { device().activation_forward(stream(), a); });
  const SwigluForward swiglu{.x = in({48, 288}, 1), .rounded = rounded};
  EXPECT_EQ(traffic(swiglu).written, written);
  expect_bytes(swiglu, 0, inverse, [&](const SwigluForward& a) { device().swiglu_forward(stream(), a); });
  // Four warps in each of two blocks load the columns' parameters. Where rows are not aligned, each row does, and x is
  // read for the mean, the variance and y.
  const bool wide = GetParam().device != "misaligned";
  const double element_bytes = static_cast<double>(s.count()) * element(), statistics = 2 * 48 * 4;
  const LayerNormForward layer{.x = in(s, 1),
                               .gamma = in({144}, 2),
                               .beta = in({144}, 3),
                               .mean = float_out("mean", {48}),
                               .rstd = float_out("rstd", {48}),
                               .rounded = rounded};
  EXPECT_EQ(traffic(layer).written, written + statistics);
  expect_bytes(layer, wide ? 8 * 2 * 144 * element() : 4 * element_bytes, inverse + statistics,
               [&](const LayerNormForward& a) { device().layer_norm_forward(stream(), a); });
  const RmsNormForward rms{
      .x = in(s, 1), .gamma = in({144}, 2), .rstd = float_out("rms_rstd", {48}), .rounded = rounded};
  expect_bytes(rms, wide ? 8 * 144 * element() : 2 * element_bytes, inverse + statistics,
               [&](const RmsNormForward& a) { device().rms_norm_forward(stream(), a); });
}

TEST_P(TrafficTest, OfBatchNorm) {
  const Dims image{4, 16, 16, 64};
  // The figures of channels that each thread loads, and the sums of slices: less than a fifth.
  const BatchNormForward args{.x = in(image, 1),
                              .gamma = floats({64}, 2),
                              .beta = floats({64}, 3),
                              .residual = in(image, 4),
                              .relu = true,
                              .y = out("y", image),
                              .mean = float_out("mean", {64}),
                              .rstd = float_out("rstd", {64})};
  expect_bytes(args, traffic(args).read / 5, 6 * 64 * 4,
               [&](const BatchNormForward& a) { device().batch_norm_forward(stream(), a); });
  // Of a norm without a residual, which computes the ReLU's mask again: dy and x twice, and nothing else of that size.
  BatchNormBackward backward{.dy = in(image, 5),
                             .x = args.x,
                             .gamma = args.gamma,
                             .beta = args.beta,
                             .mean = floats({64}, 6),
                             .rstd = floats({64}, 7),
                             .relu = true,
                             .dx = out("dx", image),
                             .d_gamma = float_out("d_gamma", {64}),
                             .d_beta = float_out("d_beta", {64})};
  const auto run = [&](const BatchNormBackward& a) { device().batch_norm_backward(stream(), a); };
  const double tensor = static_cast<double>(backward.dy.bytes());
  EXPECT_NEAR(traffic(backward).read / tensor, 4, 0.1);
  EXPECT_NEAR(traffic(backward).written / tensor, 1, 0.1);
  expect_bytes(backward, traffic(backward).read / 2, 6 * 64 * 4, run);  // each thread has but eight rows
  // With a residual: both parts of the gradient, x and y for the sums, the kept sum and x for dx.
  backward.dy_more = in(image, 8);
  backward.y = in(image, 9);
  backward.d_residual = out("d_residual", image);
  EXPECT_NEAR(traffic(backward).read / tensor, 6, 0.1);
  EXPECT_NEAR(traffic(backward).written / tensor, 2, 0.1);
  expect_bytes(backward, traffic(backward).read / 4, 6 * 64 * 4, run);
}

// No thread adds much of a row that occurs often: 64 gradients, 64 sums of 64, and one sum of 4096 for each 4096 of
// them.
TEST_P(TrafficTest, OfRowsThatOccurOften) {
  const std::int64_t width = 16, pack = GetParam().device == "misaligned" ? 1 : 16 / static_cast<int>(element());
  for (const std::vector<int>& counts : {std::vector<int>{1000}, {500, 500}, {20000}, {1, 9999, 10000}}) {
    const Ints index = occurrences(counts, 1);
    const auto places = static_cast<std::int64_t>(index.size()),
               rows_of_table = static_cast<std::int64_t>(counts.size());
    const double row = static_cast<double>(width) * sizeof(float), dy = static_cast<double>(places * width) * element();
    const auto expect = [&](const Traffic& ledger, const simt::Touched& touched) {
      SCOPED_TRACE(Dims({places, rows_of_table}).str());
      // The sums of the 64s and of the 4096s: those of a run are one more than the borders that it crosses.
      const auto sums = [&](std::int64_t piece) { return static_cast<double>(places / piece + rows_of_table) * row; };
      const double parts = sums(64) + sums(64 * 64), table = static_cast<double>(rows_of_table) * row;
      const auto read = static_cast<double>(touched.read), written = static_cast<double>(touched.written);
      EXPECT_GE(read, dy + table);
      EXPECT_LE(read, ledger.read + parts);
      EXPECT_GE(written, table);
      EXPECT_LE(written, ledger.written + parts);
      const std::int64_t gradients = 64 * pack * static_cast<std::int64_t>(size_of(dtype())),
                         sums_of_one = (64 + places / 4096 + 1) * std::min<std::int64_t>(4 * pack, 16);
      const std::int64_t row_itself = 4 * pack;
      EXPECT_LE(touched.most_read, static_cast<std::size_t>(std::max(gradients, sums_of_one) + row_itself));
    };
    const EmbeddingBackward backward{.tokens = lab().in({1, places}, index),
                                     .dy = in({1, places, width}, 2),
                                     .d_token_table = lab().in_out("d_table", DType::float32, {rows_of_table, width},
                                                                   normal(rows_of_table * width, 3))};
    simt::count_touched();
    device().embedding_backward(stream(), backward);
    expect(traffic(backward), simt::take_touched());
    StepScalars values;
    values.learning_rate = values.gradient_scale = values.clip_factor = values.loss_scale = 1;
    const EmbeddingBagUpdate update{
        lab().in_out("rows", DType::float32, {rows_of_table, width}, normal(rows_of_table * width, 3)),
        lab().in({1, 2}, {0, static_cast<std::int32_t>(rows_of_table)}), lab().in({places, 1, 1}, index),
        in({places, 1, width}, 4), lab().scalars(values)};
    simt::count_touched();
    device().embedding_bag_update(stream(), update);
    expect(traffic(update), simt::take_touched());
  }
}

TEST_P(TrafficTest, OfTheOptimizer) {
  const std::int64_t count = 4096;
  StepScalars values;
  values.learning_rate = 1e-3f, values.bias_correction1 = 0.1f, values.bias_correction2 = 0.1f;
  values.gradient_scale = values.clip_factor = values.loss_scale = 1;
  const auto in_out = [&](const char* name) {
    return lab().in_out(name, DType::float32, {count}, Floats(static_cast<std::size_t>(count), 0.5f));
  };
  AdamW adamw;
  adamw.master = in_out("master"), adamw.first_moment = in_out("m"), adamw.second_moment = in_out("v");
  adamw.weights = lab().out("weights", DType::bf16, {count});
  adamw.gradient = floats({count}, 1);
  adamw.segments = lab().segments({{0, count, 0.1f}}), adamw.segment_count = 1;
  adamw.scalars = lab().scalars(values);
  expect_bytes(adamw, 0, 0, [&](const AdamW& a) { device().adamw(stream(), a); });
  Sgd sgd;
  sgd.master = in_out("sgd_master"), sgd.momentum_buffer = in_out("sgd_m"), sgd.gradient = floats({count}, 2);
  sgd.segments = adamw.segments, sgd.segment_count = 1, sgd.scalars = adamw.scalars;
  expect_bytes(sgd, 0, 0, [&](const Sgd& a) { device().sgd(stream(), a); });
  expect_bytes(GlobalNorm{floats({count}, 3), lab().scalars(values)}, 0, 0,
               [&](const GlobalNorm& a) { device().global_norm(stream(), a); });
}

}  // namespace
}  // namespace tw::test
