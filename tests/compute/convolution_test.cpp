// Convolutions: exact on integers, against the reference on random data, refresh.
#include "tests/support/devices.hpp"

namespace tw::test {

using namespace models;

namespace {

TW_DEVICE_SUITE(Convolution);

// batch, height, width, in, out, kernel, stride, padding. At most 147 products in a sum, for exactness in bf16.
const std::vector<ConvolutionShape> shapes = {
    {1, 1, 1, 1, 1, 1, 1, 0},
    {2, 7, 5, 3, 17, 3, 1, 1},
    {1, 9, 9, 16, 8, 3, 2, 1},
    {2, 15, 13, 3, 16, 7, 2, 3},
    {2, 8, 8, 32, 64, 1, 1, 0},
    {2, 7, 7, 33, 31, 1, 2, 0},
    {2, 8, 6, 4, 5, 3, 2, 1},
    {1, 3, 3, 1, 3, 3, 1, 0},
    {3, 17, 1, 2, 33, 3, 1, 1},
    {1, 31, 33, 3, 8, 5, 3, 2},
    // Kernel, stride and padding of each axis.
    {2, 9, 8, 16, 8, {1, 7}, 1, {0, 3}},
    {2, 9, 8, 16, 8, {7, 1}, 1, {3, 0}},
    {1, 8, 9, 5, 7, {3, 1}, {2, 1}, {1, 0}},
    {2, 7, 10, 8, 16, {2, 5}, {1, 3}, {0, 2}},
    // Groups: several channels each, and one.
    {2, 8, 7, 16, 32, 3, 1, 1, DType::float32, Math::standard, 4},
    {1, 9, 9, 16, 16, 3, 2, 1, DType::float32, Math::standard, 16},
    {2, 6, 6, 6, 9, {1, 3}, 1, {0, 1}, DType::float32, Math::standard, 3},
    {2, 5, 5, 16, 8, 1, 1, 0, DType::float32, Math::standard, 2},
};
const std::vector<ConvolutionShape> large_shapes = {{1, 14, 14, 64, 64, 3, 1, 1}, {1, 14, 14, 64, 127, 3, 2, 1}};

struct Fill {
  bool exact;
  Floats operator()(const Dims& dims, std::uint64_t seed) const {
    return exact ? integers(dims.count(), seed, -1, 1) : normal(dims.count(), seed);
  }
};

Dims image_in(const ConvolutionShape& s) { return s.in(); }
Dims image_out(const ConvolutionShape& s) { return s.out(); }
Dims kernel(const ConvolutionShape& s) { return s.weight(); }

std::unique_ptr<ConvolutionPlan> ready_plan(Lab& lab, const ConvolutionShape& s, Fill fill) {
  auto plan = lab.device.plan(s);
  plan->bind(lab.in(s.dtype, kernel(s), fill(kernel(s), 2)));
  plan->refresh(*lab.stream);
  return plan;
}

Case forward(const ConvolutionShape& s, Fill fill) {
  return [=](Lab& lab) {
    ready_plan(lab, s, fill)
        ->forward(*lab.stream,
                  {.x = lab.in(s.dtype, image_in(s), fill(image_in(s), 1)), .y = lab.out("y", s.dtype, image_out(s))});
  };
}
Case backward_input(const ConvolutionShape& s, Fill fill) {
  return [=](Lab& lab) {
    ready_plan(lab, s, fill)
        ->backward_input(*lab.stream, {.dy = lab.in(s.dtype, image_out(s), fill(image_out(s), 3)),
                                       .dx = lab.out("dx", s.dtype, image_in(s))});
  };
}
Case backward_weights(const ConvolutionShape& s, bool accumulate, Fill fill) {
  return [=](Lab& lab) {
    const Dims k = kernel(s);
    ready_plan(lab, s, fill)
        ->backward_weights(*lab.stream, {.x = lab.in(s.dtype, image_in(s), fill(image_in(s), 1)),
                                         .dy = lab.in(s.dtype, image_out(s), fill(image_out(s), 3)),
                                         .d_weight = accumulate ? lab.in_out("d_weight", DType::float32, k, fill(k, 4))
                                                                : lab.out("d_weight", DType::float32, k),
                                         .accumulate = accumulate});
  };
}

std::string text(const ConvolutionShape& s) {
  return "x " + image_in(s).str() + ", w " + kernel(s).str() + ", stride " + s.stride.str() + ", padding " +
         s.padding.str() + ", " + std::to_string(s.groups) + " groups";
}

/// Exact for the small shapes, and within tolerance for all.
template <class Make>
void check(Device& device, Op op, DType dtype, Make&& make) {
  for (const bool exact : {true, false}) {
    std::vector<ConvolutionShape> list = shapes;
    if (!exact) list.insert(list.end(), large_shapes.begin(), large_shapes.end());
    for (ConvolutionShape s : list) {
      s.dtype = dtype;
      SCOPED_TRACE(text(s));
      compare(device, op, dtype, make(s, Fill{exact}), exact ? Exactness::exact : Exactness::tolerance);
    }
  }
}

TEST_P(Convolution, Forward) {
  TW_NEEDS(Op::convolution_forward);
  check(device(), Op::convolution_forward, dtype(), forward);
}

TEST_P(Convolution, BackwardInput) {
  TW_NEEDS(Op::convolution_backward_input);
  check(device(), Op::convolution_backward_input, dtype(), backward_input);
}

TEST_P(Convolution, BackwardWeights) {
  TW_NEEDS(Op::convolution_backward_weights);
  check(device(), Op::convolution_backward_weights, dtype(),
        [](const ConvolutionShape& s, Fill fill) { return backward_weights(s, false, fill); });
}

TEST_P(Convolution, BackwardWeightsAccumulates) {
  TW_NEEDS(Op::convolution_backward_weights);
  check(device(), Op::convolution_backward_weights, dtype(),
        [](const ConvolutionShape& s, Fill fill) { return backward_weights(s, true, fill); });
}

TEST_P(Convolution, Bf16ProductsFollowReference) {
  if (dtype() != DType::float32) return;  // it is how float32 is multiplied
  TW_NEEDS(Op::convolution_backward_weights);
  for (ConvolutionShape s :
       {ConvolutionShape{2, 8, 8, 32, 64, 1, 1, 0}, ConvolutionShape{1, 14, 14, 64, 48, 3, 1, 1},
        ConvolutionShape{2, 15, 13, 3, 16, 7, 2, 3}, ConvolutionShape{1, 14, 14, 32, 48, {7, 1}, 1, {3, 0}}}) {
    s.math = Math::bf16;
    SCOPED_TRACE(text(s));
    const Fill normals{false};
    compare_bf16_products(device(), Op::convolution_forward, forward(s, normals));
    compare_bf16_products(device(), Op::convolution_backward_input, backward_input(s, normals));
    compare_bf16_products(device(), Op::convolution_backward_weights, backward_weights(s, true, normals));
  }
}

TEST_P(Convolution, FollowsTheWeightAfterRefresh) {
  TW_NEEDS(Op::convolution_forward);
  ConvolutionShape s{2, 7, 5, 3, 17, 3, 1, 1};
  s.dtype = dtype();
  const Case changed = [&](Lab& lab) {
    const auto plan = lab.device.plan(s);
    const Tensor weight = lab.in(s.dtype, kernel(s), integers(kernel(s).count(), 2, -1, 1));
    const Tensor x = lab.in(s.dtype, image_in(s), integers(image_in(s).count(), 1, -1, 1));
    const Tensor dy = lab.in(s.dtype, image_out(s), integers(image_out(s).count(), 5, -1, 1));
    plan->bind(weight);
    plan->refresh(*lab.stream);
    for (const char* name : {"y before", "y after"}) {
      plan->forward(*lab.stream, {.x = x, .y = lab.out(name, s.dtype, image_out(s))});
      plan->backward_input(*lab.stream, {.dy = dy, .dx = lab.out(std::string("d") + name, s.dtype, image_in(s))});
      lab.stream->synchronize();
      lab.change(weight, integers(kernel(s).count(), 9, -1, 1));
      plan->refresh(*lab.stream);
    }
  };
  compare(device(), Op::convolution_forward, dtype(), changed, Exactness::exact);
  const std::vector<Output> outputs = run_on(device(), changed);
  EXPECT_NE(outputs[0].bytes, outputs[2].bytes);
}

TEST_P(Convolution, ByHand) {
  TW_NEEDS(Op::convolution_forward);
  Lab lab(device());
  // 2×2 image of one channel, 3×3 kernel, padding 1: y(0,0) sees the kernel's lower right quarter.
  ConvolutionShape s{1, 2, 2, 1, 1, 3, 1, 1};
  s.dtype = dtype();
  const auto plan = device().plan(s);
  plan->bind(lab.in(s.dtype, kernel(s), {1, 2, 3, 4, 5, 6, 7, 8, 9}));
  plan->refresh(*lab.stream);
  const Tensor y = lab.out("y", s.dtype, image_out(s));
  plan->forward(*lab.stream, {.x = lab.in(s.dtype, image_in(s), {1, 0, 0, 2}), .y = y});
  EXPECT_EQ(lab.read(y), (Floats{5 + 2 * 9, 4 + 2 * 8, 2 + 2 * 6, 1 + 2 * 5}));
}

TEST_P(Convolution, ByHandInGroups) {
  TW_NEEDS(Op::convolution_forward);
  Lab lab(device());
  // Two groups of one channel; a kernel of one row and three columns, two columns apart.
  ConvolutionShape s{1, 1, 4, 2, 2, {1, 3}, {1, 2}, {0, 1}};
  s.groups = 2;
  s.dtype = dtype();
  const auto plan = device().plan(s);
  plan->bind(lab.in(s.dtype, kernel(s), {1, 2, 3, 4, 5, 6}));
  plan->refresh(*lab.stream);
  const Tensor y = lab.out("y", s.dtype, image_out(s));
  plan->forward(*lab.stream, {.x = lab.in(s.dtype, image_in(s), {1, 5, 2, 6, 3, 7, 4, 8}), .y = y});
  EXPECT_EQ(lab.read(y), (Floats{2 * 1 + 3 * 2, 5 * 5 + 6 * 6, 1 * 2 + 2 * 3 + 3 * 4, 4 * 6 + 5 * 7 + 6 * 8}));
}

}  // namespace
}  // namespace tw::test
