// Max and average pooling, and copies of channels.
#include <cmath>

#include "tests/support/devices.hpp"
#include "tests/support/usage_error.hpp"

namespace tw::test {

using namespace models;

namespace {

TW_DEVICE_SUITE(Pool);

struct Windows {
  Dims x;
  PerAxis kernel, stride, padding;
  Dims y() const {
    return {x[0], (x[1] + 2 * padding.height - kernel.height) / stride.height + 1,
            (x[2] + 2 * padding.width - kernel.width) / stride.width + 1, x[3]};
  }
};
const std::vector<Windows> cases = {{{1, 3, 3, 1}, 3, 2, 1},
                                    {{2, 8, 8, 17}, 3, 2, 1},
                                    {{1, 9, 7, 33}, 3, 2, 1},
                                    {{2, 6, 6, 3}, 2, 2, 0},
                                    {{1, 17, 31, 64}, 3, 2, 1},
                                    {{2, 5, 5, 127}, 3, 1, 1},
                                    {{2, 6, 9, 16}, {2, 5}, {1, 3}, {0, 2}},
                                    {{2, 7, 5, 5}, {5, 1}, {3, 1}, {1, 0}}};

/// ties: few distinct values, so that many windows hold their maximum more than once.
Case max_forward(DType type, const Windows& m, bool ties) {
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
  for (const Windows& m : cases) {
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
  for (const Windows& m : cases) {
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

TEST_P(Pool, AverageOfWindows) {
  TW_NEEDS(Op::average_pool_forward);
  TW_NEEDS(Op::average_pool_backward);
  std::vector<Windows> list = cases;  // and windows of 2^n elements, whose means are exact
  list.insert(list.end(),
              {{{2, 9, 9, 16}, 4, 1, 2}, {{2, 7, 6, 3}, {4, 2}, {3, 1}, {1, 0}}, {{1, 17, 17, 40}, 5, 3, 0}});
  for (const Windows& m : list) {
    SCOPED_TRACE(m.x.str() + " " + m.kernel.str());
    const bool power_of_two = (m.kernel.area() & (m.kernel.area() - 1)) == 0;
    for (const bool exact : {true, false}) {
      if (exact && !power_of_two) continue;
      const Exactness exactness = exact ? Exactness::exact : Exactness::tolerance;
      compare(
          device(), Op::average_pool_forward, dtype(),
          [&](Lab& lab) {
            const Floats x = exact ? integers(m.x.count(), 1, -4, 4) : normal(m.x.count(), 1);
            lab.device.average_pool_forward(*lab.stream, {.x = lab.in(dtype(), m.x, x),
                                                          .y = lab.out("y", dtype(), m.y()),
                                                          .kernel = m.kernel,
                                                          .stride = m.stride,
                                                          .padding = m.padding});
          },
          exactness);
      compare(
          device(), Op::average_pool_backward, dtype(),
          [&](Lab& lab) {
            const Floats dy = exact ? integers(m.y().count(), 2, 1, 4) : normal(m.y().count(), 2);
            lab.device.average_pool_backward(*lab.stream, {.dy = lab.in(dtype(), m.y(), dy),
                                                           .dx = lab.out("dx", dtype(), m.x),
                                                           .kernel = m.kernel,
                                                           .stride = m.stride,
                                                           .padding = m.padding});
          },
          exactness);
    }
  }
}

TEST_P(Pool, AverageOfWindowsByHand) {  // padding counts: the corner has 4 of 9
  TW_NEEDS(Op::average_pool_forward);
  Lab lab(device());
  const Tensor y = lab.out("y", dtype(), {1, 2, 2, 1}), dx = lab.out("dx", dtype(), {1, 2, 2, 1});
  device().average_pool_forward(
      *lab.stream,
      {.x = lab.in(dtype(), {1, 2, 2, 1}, {9, 18, 27, 36}), .y = y, .kernel = 3, .stride = 1, .padding = 1});
  EXPECT_EQ(lab.read(y), (Floats{10, 10, 10, 10}));
  device().average_pool_backward(
      *lab.stream,
      {.dy = lab.in(dtype(), {1, 2, 2, 1}, {9, 18, 27, 36}), .dx = dx, .kernel = 3, .stride = 1, .padding = 1});
  EXPECT_EQ(lab.read(dx), (Floats{10, 10, 10, 10}));
}

// Sums over windows; those that neither overlap nor leave gaps are nearest upsampling and its gradient.
TEST_P(Pool, SumOfWindows) {
  TW_NEEDS(Op::average_pool_forward);
  TW_NEEDS(Op::average_pool_backward);
  std::vector<Windows> list = cases;
  list.insert(list.end(), {{{2, 6, 4, 17}, 2, 2, 0}, {{1, 6, 20, 8}, {3, 5}, {3, 5}, 0}, {{2, 5, 7, 300}, 1, 1, 0}});
  for (const Windows& m : list) {
    SCOPED_TRACE(m.x.str() + " " + m.kernel.str());
    for (const bool exact : {true, false}) {
      const Exactness exactness = exact ? Exactness::exact : Exactness::tolerance;
      compare(
          device(), Op::average_pool_forward, dtype(),
          [&](Lab& lab) {
            const Floats x = exact ? integers(m.x.count(), 1, -4, 4) : normal(m.x.count(), 1);
            lab.device.average_pool_forward(*lab.stream, {.x = lab.in(dtype(), m.x, x),
                                                          .y = lab.out("y", dtype(), m.y()),
                                                          .kernel = m.kernel,
                                                          .stride = m.stride,
                                                          .padding = m.padding,
                                                          .sum = true});
          },
          exactness);
      compare(
          device(), Op::average_pool_backward, dtype(),
          [&](Lab& lab) {
            const Floats dy = exact ? integers(m.y().count(), 2, 1, 4) : normal(m.y().count(), 2);
            lab.device.average_pool_backward(*lab.stream, {.dy = lab.in(dtype(), m.y(), dy),
                                                           .dx = lab.out("dx", dtype(), m.x),
                                                           .kernel = m.kernel,
                                                           .stride = m.stride,
                                                           .padding = m.padding,
                                                           .sum = true});
          },
          exactness);
    }
  }
}

TEST_P(Pool, NearestUpsamplingByHand) {
  TW_NEEDS(Op::average_pool_backward);
  Lab lab(device());
  const Tensor large = lab.out("large", dtype(), {1, 2, 6, 1}), small = lab.out("small", dtype(), {1, 1, 2, 1});
  device().average_pool_backward(
      *lab.stream,
      {.dy = lab.in(dtype(), {1, 1, 2, 1}, {7, 9}), .dx = large, .kernel = {2, 3}, .stride = {2, 3}, .sum = true});
  EXPECT_EQ(lab.read(large), (Floats{7, 7, 7, 9, 9, 9, 7, 7, 7, 9, 9, 9}));
  device().average_pool_forward(*lab.stream,
                                {.x = lab.in(dtype(), {1, 2, 6, 1}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}),
                                 .y = small,
                                 .kernel = {2, 3},
                                 .stride = {2, 3},
                                 .sum = true});
  EXPECT_EQ(lab.read(small), (Floats{1 + 2 + 3 + 7 + 8 + 9, 4 + 5 + 6 + 10 + 11 + 12}));
  const Tensor whole = lab.out("whole", dtype(), {1, 1});
  expect_usage_error([&] { device().average_pool_forward(*lab.stream, {.x = large, .y = whole, .sum = true}); }, "sum");
}

TEST_P(Pool, CopiedChannels) {
  TW_NEEDS(Op::copy_channels);
  struct Copy {
    Dims x, y;
    std::int64_t from, to, count;
  };
  for (const Copy& c : {Copy{{2, 3, 5, 8}, {2, 3, 5, 24}, 0, 16, 8}, Copy{{2, 3, 5, 24}, {2, 3, 5, 8}, 8, 0, 8},
                        Copy{{7, 16}, {7, 48}, 8, 16, 8}, Copy{{4, 5}, {4, 9}, 1, 6, 3}, Copy{{1, 1}, {1, 1}, 0, 0, 1},
                        Copy{{3, 2000}, {3, 5000}, 999, 4000, 1000}, Copy{{300, 70}, {300, 64}, 6, 0, 64}}) {
    SCOPED_TRACE(c.x.str() + " " + c.y.str());
    compare(
        device(), Op::copy_channels, dtype(),
        [&](Lab& lab) {
          lab.device.copy_channels(*lab.stream, {.x = lab.in(dtype(), c.x, normal(c.x.count(), 1)),
                                                 .y = lab.in_out("y", dtype(), c.y, normal(c.y.count(), 2)),
                                                 .from = c.from,
                                                 .to = c.to,
                                                 .count = c.count});
        },
        Exactness::exact);
  }
}

TEST_P(Pool, CopiedChannelsByHand) {
  TW_NEEDS(Op::copy_channels);
  Lab lab(device());
  const Tensor y = lab.in_out("y", dtype(), {2, 4}, {1, 2, 3, 4, 5, 6, 7, 8});
  device().copy_channels(
      *lab.stream, {.x = lab.in(dtype(), {2, 3}, {10, 20, 30, 40, 50, 60}), .y = y, .from = 1, .to = 2, .count = 2});
  EXPECT_EQ(lab.read(y), (Floats{1, 2, 20, 30, 5, 6, 50, 60}));
}

}  // namespace
}  // namespace tw::test
