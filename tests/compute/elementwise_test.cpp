// Addition, biases, squared errors, conversion, filling.
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/devices.hpp"
#include "tests/support/usage_error.hpp"

namespace tw::test {

using namespace models;

namespace {

TW_DEVICE_SUITE(Elementwise);

const std::vector<Dims> sizes = {{1}, {3}, {17}, {31}, {33}, {31, 33}, {2, 127}, {4, 8, 16, 32}};

TEST_P(Elementwise, Add) {
  TW_NEEDS(Op::add);
  for (const Dims& s : sizes) {
    for (const int alias : {0, 1, 2}) {
      const Case run = [&](Lab& lab) {
        const Floats a = normal(s.count(), 1), b = normal(s.count(), 2);
        Add args;
        args.a = alias == 1 ? lab.in_out("y", dtype(), s, a) : lab.in(dtype(), s, a);
        args.b = alias == 2 ? lab.in_out("y", dtype(), s, b) : lab.in(dtype(), s, b);
        args.y = alias == 1 ? args.a : alias == 2 ? args.b : lab.out("y", dtype(), s);
        lab.device.add(*lab.stream, args);
      };
      compare(device(), Op::add, dtype(), run);
    }
  }
}

TEST_P(Elementwise, AddBias) {
  TW_NEEDS(Op::add_bias);
  for (const Dims& s : sizes) {
    const std::int64_t channels = s[s.rank() - 1];
    for (const bool in_place : {false, true}) {
      SCOPED_TRACE(s.str());
      compare(device(), Op::add_bias, dtype(), [&](Lab& lab) {
        const Floats x = normal(s.count(), 1);
        const Tensor x_t = in_place ? lab.in_out("y", dtype(), s, x) : lab.in(dtype(), s, x);
        lab.device.add_bias(*lab.stream, {.x = x_t,
                                          .y = in_place ? x_t : lab.out("y", dtype(), s),
                                          .bias = lab.in(dtype(), {channels}, normal(channels, 2))});
      });
    }
  }
  Lab lab(device());
  const Tensor y = lab.out("y", dtype(), {2, 3});
  device().add_bias(*lab.stream, {lab.in(dtype(), {2, 3}, {1, 2, 3, 4, 5, 6}), y, lab.in(dtype(), {3}, {10, 20, 30})});
  EXPECT_EQ(lab.read(y), (Floats{11, 22, 33, 14, 25, 36}));
}

TEST_P(Elementwise, BiasBackward) {
  TW_NEEDS(Op::bias_backward);
  for (const Dims& s :
       {Dims{1}, Dims{7, 3}, Dims{2, 5, 5, 17}, Dims{33, 127}, Dims{4, 8, 16, 32}, Dims{3, 20, 20, 16}}) {
    const std::int64_t channels = s[s.rank() - 1];
    for (const bool accumulate : {false, true})
      for (const bool exact : {true, false}) {
        SCOPED_TRACE(s.str());
        const Case run = [&](Lab& lab) {
          const Floats dy = exact ? integers(s.count(), 1, -1, 3) : normal(s.count(), 1);
          const Tensor d_bias = accumulate
                                    ? lab.in_out("d_bias", DType::float32, {channels}, integers(channels, 2, 1, 9))
                                    : lab.out("d_bias", DType::float32, {channels});
          lab.device.bias_backward(*lab.stream, {lab.in(dtype(), s, dy), d_bias, accumulate});
        };
        compare(device(), Op::bias_backward, dtype(), run, exact ? Exactness::exact : Exactness::tolerance);
      }
  }
}

TEST_P(Elementwise, MeanSquaredError) {
  TW_NEEDS(Op::mean_squared_error);
  StepScalars step;
  step.loss_scale = 1024;
  for (const Dims& s : {Dims{1}, Dims{3}, Dims{31, 33}, Dims{2, 127}, Dims{3, 60, 20, 5}}) {
    for (const int kind : {0, 1, 2}) {  // with a gradient of its own, in place, scaled
      SCOPED_TRACE(s.str());
      compare(device(), Op::mean_squared_error, dtype(), [&](Lab& lab) {
        const Floats predicted = normal(s.count(), 1), wanted = normal(s.count(), 2);
        const Tensor p = kind == 1 ? lab.in_out("d", dtype(), s, predicted) : lab.in(dtype(), s, predicted);
        lab.device.mean_squared_error(*lab.stream, {.predictions = p,
                                                    .targets = lab.in(DType::float32, s, wanted),
                                                    .loss = lab.out("loss", DType::float32, {1}),
                                                    .d_predictions = kind == 1 ? p : lab.out("d", dtype(), s),
                                                    .scalars = kind == 2 ? lab.scalars(step) : nullptr});
      });
    }
  }
  Lab lab(device());
  const Tensor predictions = lab.in(dtype(), {2, 2}, {1, 2, 3, 4}),
               targets = lab.in(DType::float32, {2, 2}, {0, 2, 5, 0}), loss = lab.out("loss", DType::float32, {1}),
               d = lab.out("d", dtype(), {2, 2});
  device().mean_squared_error(*lab.stream, {predictions, targets, loss, d});
  EXPECT_EQ(lab.read(loss), Floats{(1 + 0 + 4 + 16) / 4.0f});
  EXPECT_EQ(lab.read(d), (Floats{0.5f, 0, -1, 2}));
  const Tensor alone = lab.out("alone", DType::float32, {1});
  device().mean_squared_error(*lab.stream, {predictions, targets, alone});
  EXPECT_EQ(lab.read(alone), lab.read(loss)) << "without a gradient";
}

TEST_P(Elementwise, RefuseWrongArguments) {
  TW_NEEDS(Op::add_bias);
  Lab lab(device());
  const Tensor x = lab.out("x", dtype(), {2, 3}), bias = lab.out("bias", dtype(), {2}),
               d_bias = lab.out("d_bias", DType::float32, {2}), loss = lab.out("loss", DType::float32, {1}),
               targets = lab.in({2, 3}, Ints(6, 0));
  expect_usage_error([&] { device().add_bias(*lab.stream, {x, x, bias}); }, "bias");
  expect_usage_error([&] { device().bias_backward(*lab.stream, {x, d_bias}); }, "d_bias");
  expect_usage_error([&] { device().mean_squared_error(*lab.stream, {x, targets, loss}); }, "targets");
}

TEST_P(Elementwise, Fill) {
  TW_NEEDS(Op::fill);
  for (const Dims& s : sizes) {
    Lab lab(device());
    const Tensor y = lab.out("y", dtype(), s), z = lab.out("z", dtype(), s);
    device().fill(*lab.stream, {y, -1.5f});
    device().fill(*lab.stream, {z});
    EXPECT_EQ(lab.read(y), Floats(static_cast<std::size_t>(s.count()), -1.5f));
    EXPECT_EQ(lab.read(z), Floats(static_cast<std::size_t>(s.count()), 0.0f));
    lab.finish();
  }
}

TEST_P(Elementwise, CastRoundsToNearestEven) {
  if (dtype() != DType::bf16) return;  // one direction each way, run once
  TW_NEEDS(Op::cast);
  const float inf = std::numeric_limits<float>::infinity();
  // 1 + 2^-8 lies between 1 and 1 + 2^-7: to the even one. One bit more goes up.
  Floats x = {0.0f, -0.0f,   1.0f,   1 + 0x1p-8f, 1 + 0x1p-8f + 0x1p-20f, 1 + 3 * 0x1p-8f, -1 - 0x1p-8f, inf,
              -inf, 3.4e38f, 1e-40f, 0x1p-126f};
  const Floats wanted = {0.0f, -0.0f, 1.0f, 1.0f, 1 + 0x1p-7f, 1 + 0x1p-6f, -1.0f, inf, -inf, inf, 0, 0x1p-126f};
  const std::size_t checked = wanted.size();
  const Floats more = normal(1000 - static_cast<std::int64_t>(checked), 1);
  x.insert(x.end(), more.begin(), more.end());
  x.push_back(std::numeric_limits<float>::quiet_NaN());
  for (const std::size_t count : {checked, x.size()}) {
    Lab lab(device());
    const Dims s{static_cast<std::int64_t>(count)};
    const Tensor narrow = lab.out("narrow", DType::bf16, s), wide = lab.out("wide", DType::float32, s);
    device().cast(
        *lab.stream,
        {lab.in(DType::float32, s, Floats(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(count))), narrow});
    device().cast(*lab.stream, {narrow, wide});
    const Floats back = lab.read(wide);
    for (std::size_t i = 0; i < count; ++i) {
      const float want = i < checked ? wanted[i] : to_float(to_bf16(x[i]));
      if (std::isnan(x[i])) {
        EXPECT_TRUE(std::isnan(back[i]));
      } else if (x[i] == 1e-40f) {
        EXPECT_NEAR(back[i], 1e-40f, 1e-40f);  // a denormal may be flushed
      } else {
        EXPECT_EQ(back[i], want) << x[i];
        EXPECT_EQ(std::signbit(back[i]), std::signbit(want)) << x[i];
      }
    }
    lab.finish();
  }
}

TEST_P(Elementwise, CastsOfFp16AreThoseOfTheFormula) {
  if (dtype() != DType::fp16) return;
  TW_NEEDS(Op::cast);
  Floats x = normal(1000, 1);
  for (const float value :
       {65504.0f, 65520.0f, -1e30f, 0x1p-24f, 0x1p-25f, 3 * 0x1p-25f, 1 + 0x1p-11f, 1 + 3 * 0x1p-11f, -0.0f}) {
    x.push_back(value);
  }
  Lab lab(device());
  const Dims s{static_cast<std::int64_t>(x.size())};
  const Tensor narrow = lab.out("narrow", DType::fp16, s), wide = lab.out("wide", DType::float32, s);
  device().cast(*lab.stream, {lab.in(DType::float32, s, x), narrow});
  device().cast(*lab.stream, {narrow, wide});
  const Floats back = lab.read(wide);
  for (std::size_t i = 0; i < x.size(); ++i) EXPECT_EQ(back[i], to_float(to_fp16(x[i]))) << x[i];
  lab.finish();
}

}  // namespace
}  // namespace tw::test
