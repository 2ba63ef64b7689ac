// Max pooling and global average pooling.
#include <cmath>

#include "tests/support/devices.hpp"

namespace tw::test {

using namespace models;

namespace {

TW_DEVICE_SUITE(Pool);

struct MaxCase {
  Dims x;
  int kernel, stride, padding;
  Dims y() const {
    return {x[0], (x[1] + 2 * padding - kernel) / stride + 1, (x[2] + 2 * padding - kernel) / stride + 1, x[3]};
  }
};
const std::vector<MaxCase> cases = {{{1, 3, 3, 1}, 3, 2, 1}, {{2, 8, 8, 17}, 3, 2, 1},   {{1, 9, 7, 33}, 3, 2, 1},
                                    {{2, 6, 6, 3}, 2, 2, 0}, {{1, 17, 31, 64}, 3, 2, 1}, {{2, 5, 5, 127}, 3, 1, 1}};

/// ties: few distinct values, so that many windows hold their maximum more than once.
Case max_forward(DType type, const MaxCase& m, bool ties) {
  return [=](Lab& lab) {
    const Floats x = ties ? integers(m.x.count(), 1, -3, 1) : normal(m.x.count(), 1);
    lab.device.max_pool_forward(*lab.stream, {.x = lab.in(type, m.x, x),
                                              .kernel = m.kernel,
                                              .stride = m.stride,
                                              .padding = m.padding,
                                              .y = lab.out("y", type, m.y()),
                                              .argmax = lab.out("argmax", DType::int32, m.y())});
  };
}

TEST_P(Pool, MaxForwardIsExactAndTakesTheFirstOfEquals) {
  TW_NEEDS(Op::max_pool_forward);
  for (const MaxCase& m : cases) {
    SCOPED_TRACE(m.x.str());
    compare(device(), Op::max_pool_forward, dtype(), max_forward(dtype(), m, true), Exactness::exact);
    compare(device(), Op::max_pool_forward, dtype(), max_forward(dtype(), m, false), Exactness::exact);
  }
}

TEST_P(Pool, MaxOfNegativesIsNotThePadding) {
  TW_NEEDS(Op::max_pool_forward);
  Lab lab(device());
  const Tensor y = lab.out("y", dtype(), {1, 1, 1, 2}), argmax = lab.out("argmax", DType::int32, {1, 1, 1, 2});
  device().max_pool_forward(
      *lab.stream, {.x = lab.in(dtype(), {1, 2, 2, 2}, {-5, -1, -2, -1, -4, -9, -3, -8}), .y = y, .argmax = argmax});
  EXPECT_EQ(lab.read(y), (Floats{-2, -1}));
  EXPECT_EQ(lab.finish()[1].values, (Floats{5, 4}));  // row 1 of the window, columns 2 and 1 (first of two)
}

TEST_P(Pool, MaxOfANaNIsNaN) {  // wherever in its window it stands
  TW_NEEDS(Op::max_pool_forward);
  const Dims in{1, 4, 4, 8}, out{1, 2, 2, 8};
  Floats x = normal(in.count(), 1);
  for (std::int64_t window = 0; window < 4; ++window) {  // its place in window w is w, in channel 0 only
    const std::int64_t row = window / 2 * 2 + window / 2, column = window % 2 * 2 + window % 2;
    x[static_cast<std::size_t>((row * 4 + column) * 8)] = std::nanf("");
  }
  const Case run = [&](Lab& lab) {
    lab.device.max_pool_forward(*lab.stream, {.x = lab.in(dtype(), in, x),
                                              .kernel = 2,
                                              .stride = 2,
                                              .padding = 0,
                                              .y = lab.out("y", dtype(), out),
                                              .argmax = lab.out("argmax", DType::int32, out)});
  };
  for (Device* on : {&device(), &reference_device()}) {
    const std::vector<Output> outputs = run_on(*on, run);
    for (std::size_t i = 0; i < outputs[0].values.size(); ++i) {
      EXPECT_EQ(std::isnan(outputs[0].values[i]), i % 8 == 0) << i;
      if (i % 8 == 0) {
        EXPECT_EQ(outputs[1].values[i], static_cast<float>(i / 8));
      }
    }
  }
}

TEST_P(Pool, MaxBackward) {
  TW_NEEDS(Op::max_pool_backward);
  for (const MaxCase& m : cases) {
    SCOPED_TRACE(m.x.str());
    // argmax of a real forward on the reference: each points at an element inside the image.
    const std::vector<Output> forward = run_on(reference_device(), max_forward(dtype(), m, false));
    const Ints argmax(forward[1].values.begin(), forward[1].values.end());
    for (const bool exact : {true, false}) {
      const Case run = [&](Lab& lab) {
        const Floats dy = exact ? integers(m.y().count(), 2, 1, 5) : normal(m.y().count(), 2);
        lab.device.max_pool_backward(*lab.stream, {.dy = lab.in(dtype(), m.y(), dy),
                                                   .argmax = lab.in(m.y(), argmax),
                                                   .kernel = m.kernel,
                                                   .stride = m.stride,
                                                   .padding = m.padding,
                                                   .dx = lab.out("dx", dtype(), m.x)});
      };
      compare(device(), Op::max_pool_backward, dtype(), run, exact ? Exactness::exact : Exactness::tolerance);
    }
  }
}

TEST_P(Pool, Average) {
  TW_NEEDS(Op::average_pool_forward);
  TW_NEEDS(Op::average_pool_backward);
  for (const Dims& s :
       {Dims{1, 1, 1, 1}, Dims{2, 7, 7, 17}, Dims{3, 4, 4, 33}, Dims{2, 3, 5, 127}, Dims{1, 8, 8, 256}}) {
    SCOPED_TRACE(s.str());
    const bool power_of_two = (s[1] * s[2] & (s[1] * s[2] - 1)) == 0;
    for (const bool exact : {true, false}) {
      if (exact && !power_of_two) continue;
      const Exactness exactness = exact ? Exactness::exact : Exactness::tolerance;
      const Dims pooled{s[0], s[3]};
      compare(
          device(), Op::average_pool_forward, dtype(),
          [&](Lab& lab) {
            const Floats x = exact ? integers(s.count(), 1, 1, 4) : normal(s.count(), 1);
            lab.device.average_pool_forward(*lab.stream,
                                            {.x = lab.in(dtype(), s, x), .y = lab.out("y", dtype(), pooled)});
          },
          exactness);
      compare(
          device(), Op::average_pool_backward, dtype(),
          [&](Lab& lab) {
            const Floats dy = exact ? integers(pooled.count(), 2, 1, 9) : normal(pooled.count(), 2);
            lab.device.average_pool_backward(*lab.stream,
                                             {.dy = lab.in(dtype(), pooled, dy), .dx = lab.out("dx", dtype(), s)});
          },
          exactness);
    }
  }
}

}  // namespace
}  // namespace tw::test
