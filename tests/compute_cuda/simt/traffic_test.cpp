// The ledger's bytes of an operator against what our kernels load and store: the same operator on both.
#include "models/ledger/traffic.hpp"

#include <gtest/gtest.h>

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
