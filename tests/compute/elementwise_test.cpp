// Addition, conversion, filling.
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/support/devices.hpp"

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
