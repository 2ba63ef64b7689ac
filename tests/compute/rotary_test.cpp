// Rotary positions and gated units.
#include <cmath>

#include "tests/support/comparison.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/usage_error.hpp"

namespace tw::test {

using namespace models;

namespace {

using Rotary = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, Rotary, testing::ValuesIn(device_cases()), device_case_name);
using Swiglu = DeviceTest;
INSTANTIATE_TEST_SUITE_P(Devices, Swiglu, testing::ValuesIn(device_cases()), device_case_name);

/// cos and sin of position · 100^(−2i / head_dim)
Floats angles(std::int64_t positions, std::int64_t half) {
  Floats table;
  for (std::int64_t t = 0; t < positions; ++t) {
    for (std::int64_t i = 0; i < half; ++i) {
      const double angle = t * std::pow(100.0, -static_cast<double>(i) / half);
      table.push_back(static_cast<float>(std::cos(angle)));
      table.push_back(static_cast<float>(std::sin(angle)));
    }
  }
  return table;
}

struct RotaryCase {
  Dims x;
  std::int64_t rotated, more_positions;
};

Case rotary(DType type, const RotaryCase& c, bool inverse) {
  return [=](Lab& lab) {
    const std::int64_t positions = c.x[1] + c.more_positions, half = c.x[3] / 2;
    models::Rotary args;
    args.x = lab.in_out("x", type, c.x, normal(c.x.count(), 1));
    args.table = lab.in(DType::float32, {positions, half, 2}, angles(positions, half));
    args.rotated = c.rotated;
    args.inverse = inverse;
    lab.device.rotary(*lab.stream, args);
  };
}

TEST_P(Rotary, FollowsReference) {
  TW_NEEDS(Op::rotary);
  for (const RotaryCase& c :
       {RotaryCase{{1, 2, 1, 2}, 1, 0}, RotaryCase{{2, 3, 4, 6}, 3, 1}, RotaryCase{{3, 17, 8, 32}, 6, 15},
        RotaryCase{{1, 33, 6, 64}, 5, 0}, RotaryCase{{2, 9, 12, 128}, 10, 3}, RotaryCase{{1, 130, 3, 34}, 2, 0}}) {
    SCOPED_TRACE(c.x.str());
    for (const bool inverse : {false, true}) compare(device(), Op::rotary, dtype(), rotary(dtype(), c, inverse));
  }
}

TEST_P(Rotary, TurnsPairsOfTheFirstHeads) {
  TW_NEEDS(Op::rotary);
  // Position 0 is turned by 0°, 90°, position 1 by 180°, and by the angle of (0.6, 0.8). Exact in every dtype but
  // there.
  const Floats table = {1, 0, 0, 1, -1, 0, 0.5f, 0.75f};
  const Floats x = {1, 2, 3, 4, 5, 6, 7, 8, 1, 2, 3, 4, 5, 6, 7, 8};  // 2 positions, 2 heads of 4
  for (const bool inverse : {false, true}) {
    Lab lab(device());
    const Tensor turned = lab.in_out("x", dtype(), {1, 2, 2, 4}, x);
    device().rotary(*lab.stream,
                    {.x = turned, .table = lab.in(DType::float32, {2, 2, 2}, table), .rotated = 1, .inverse = inverse});
    const Floats wanted = inverse ? Floats{1, 4, 3, -2, 5, 6, 7, 8, -1, 4, -3, 0.5f, 5, 6, 7, 8}
                                  : Floats{1, -4, 3, 2, 5, 6, 7, 8, -1, -2, -3, 3.5f, 5, 6, 7, 8};
    EXPECT_EQ(lab.read(turned), wanted);
    lab.finish();
  }
}

TEST_P(Rotary, InverseUndoes) {
  TW_NEEDS(Op::rotary);
  Lab lab(device());
  const Dims s{2, 19, 3, 16};
  const Floats x = normal(s.count(), 1);
  const Tensor turned = lab.in_out("x", dtype(), s, x), table = lab.in(DType::float32, {19, 8, 2}, angles(19, 8));
  device().rotary(*lab.stream, {.x = turned, .table = table, .rotated = 2});
  device().rotary(*lab.stream, {.x = turned, .table = table, .rotated = 2, .inverse = true});
  Floats stored = x;
  for (float& value : stored) value = as_stored(dtype(), value);
  EXPECT_LT(normalised_error(lab.read(turned), stored), 2 * unit_roundoff(dtype()));
}

TEST_P(Rotary, RefusesWrongArguments) {
  TW_NEEDS(Op::rotary);
  Lab lab(device());
  const Tensor x = lab.out("x", dtype(), {1, 4, 3, 6}), odd = lab.out("odd", dtype(), {1, 4, 3, 5}),
               table = lab.out("table", DType::float32, {4, 3, 2}), few = lab.out("few", DType::float32, {3, 3, 2});
  const auto turn = [&](const Tensor& tensor, const Tensor& angles_of, std::int64_t rotated) {
    device().rotary(*lab.stream, {.x = tensor, .table = angles_of, .rotated = rotated});
  };
  expect_usage_error([&] { turn(odd, table, 1); }, "head_dim");
  expect_usage_error([&] { turn(x, few, 1); }, "positions of table");
  expect_usage_error([&] { turn(x, x, 1); }, "table");
  expect_usage_error([&] { turn(x, table, 0); }, "rotated");
  expect_usage_error([&] { turn(x, table, 4); }, "rotated");
}

const std::vector<Dims> sizes = {{1, 1}, {3, 17}, {17, 31}, {5, 128}, {33, 127}, {64, 256}, {2, 8192}};  // of y

TEST_P(Swiglu, Forward) {
  TW_NEEDS(Op::swiglu_forward);
  for (const Dims& s : sizes) {
    SCOPED_TRACE(s.str());
    compare(device(), Op::swiglu_forward, dtype(), [&](Lab& lab) {
      const Dims wide{s[0], 2 * s[1]};
      lab.device.swiglu_forward(
          *lab.stream, {.x = lab.in(dtype(), wide, normal(wide.count(), 1, 2)), .y = lab.out("y", dtype(), s)});
    });
  }
}

TEST_P(Swiglu, Backward) {
  TW_NEEDS(Op::swiglu_backward);
  for (const Dims& s : sizes) {
    SCOPED_TRACE(s.str());
    compare(device(), Op::swiglu_backward, dtype(), [&](Lab& lab) {
      const Dims wide{s[0], 2 * s[1]};
      lab.device.swiglu_backward(*lab.stream, {.x = lab.in(dtype(), wide, normal(wide.count(), 1, 2)),
                                               .dy = lab.in(dtype(), s, normal(s.count(), 2)),
                                               .dx = lab.out("dx", dtype(), wide)});
    });
  }
}

TEST_P(Swiglu, OfGatesFarFromZero) {
  TW_NEEDS(Op::swiglu_backward);
  // silu(−100) is 0 to float32, silu(100) = 100 with slope 1; silu(0) = 0 with slope 1/2.
  Lab lab(device());
  const Tensor x = lab.in(dtype(), {1, 6}, {-100, 100, 0, 2, 3, 4}), y = lab.out("y", dtype(), {1, 3}),
               dx = lab.out("dx", dtype(), {1, 6});
  device().swiglu_forward(*lab.stream, {.x = x, .y = y});
  device().swiglu_backward(*lab.stream, {.x = x, .dy = lab.in(dtype(), {1, 3}, {1, 1, 2}), .dx = dx});
  const Floats values = lab.read(y), d = lab.read(dx);
  EXPECT_NEAR(values[0], 0, 1e-30);
  EXPECT_EQ(values[1], as_stored(dtype(), 300));
  EXPECT_EQ(values[2], 0);
  EXPECT_NEAR(d[0], 0, 1e-30);
  EXPECT_NEAR(d[3], 0, 1e-30);
  EXPECT_EQ((Floats{d[1], d[2], d[4], d[5]}), (Floats{3, 4, 100, 0}));
}

TEST_P(Swiglu, RefusesWrongArguments) {
  TW_NEEDS(Op::swiglu_backward);
  Lab lab(device());
  const Tensor x = lab.out("x", dtype(), {4, 6}), odd = lab.out("odd", dtype(), {4, 5}),
               y = lab.out("y", dtype(), {4, 3});
  expect_usage_error([&] { device().swiglu_forward(*lab.stream, {odd, y}); }, "even");
  expect_usage_error([&] { device().swiglu_forward(*lab.stream, {x, x}); }, "y");
  expect_usage_error([&] { device().swiglu_backward(*lab.stream, {x, y, x}); }, "dx");
}

}  // namespace
}  // namespace tw::test
