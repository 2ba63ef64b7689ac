// Linear layers: exact on integers, against the reference on random data, refresh.
#include <algorithm>

#include "models/compute/error.hpp"
#include "tests/support/devices.hpp"

namespace tw::test {

using namespace models;

namespace {

TW_DEVICE_SUITE(Linear);

struct Sizes {
  std::int64_t rows, in, out;
};
// Odd ones around vector lengths and tiles; then a network's.
const std::vector<Sizes> all_sizes = {{1, 1, 1},   {1, 3, 17},    {3, 17, 31},   {17, 1, 33},
                                      {31, 33, 1}, {33, 127, 17}, {127, 31, 33}, {64, 128, 384}};
// In bf16 all |sums| must stay within 256: at most 60 products of |2|·|2|, bias, residual.
const std::vector<Sizes> exact_sizes = {{1, 1, 1}, {3, 17, 31}, {17, 60, 33}, {127, 33, 60}, {31, 48, 16}};

/// Random or small-integer data of one kind for all tensors of a case.
struct Fill {
  bool exact;
  Floats operator()(const Dims& dims, std::uint64_t seed) const {
    return exact ? integers(dims.count(), seed, -2, 2) : normal(dims.count(), seed);
  }
};

struct Options {
  bool bias = false, residual = false, in_place = false, gelu = false;
};

Case forward(DType type, Sizes s, Options options, Fill fill) {
  return [=](Lab& lab) {
    const Dims in{s.rows, s.in}, out{s.rows, s.out}, matrix{s.out, s.in};
    const auto plan =
        lab.device.plan(LinearShape{s.rows, s.in, s.out, type, options.gelu ? Activation::gelu : Activation::none});
    plan->bind(lab.in(type, matrix, fill(matrix, 2)));
    plan->refresh(*lab.stream);
    LinearForward args;
    args.x = lab.in(type, in, fill(in, 1));
    if (options.bias) args.bias = lab.in(type, {s.out}, fill({s.out}, 3));
    if (options.in_place) {
      args.residual = args.y = lab.in_out("y", type, out, fill(out, 4));
    } else {
      if (options.residual) args.residual = lab.in(type, out, fill(out, 4));
      // A plain product is rounded once, when it is stored.
      args.y = lab.out("y", type, out, options.gelu || options.residual ? -1 : 0);
    }
    if (options.gelu) args.pre_activation = lab.out("pre_activation", type, out, 0);
    plan->forward(*lab.stream, args);
  };
}

Case backward_input(DType type, Sizes s, bool gelu, Fill fill) {
  return [=](Lab& lab) {
    const Dims in{s.rows, s.in}, out{s.rows, s.out}, matrix{s.out, s.in};
    const auto plan = lab.device.plan(LinearShape{s.rows, s.in, s.out, type});
    plan->bind(lab.in(type, matrix, fill(matrix, 2)));
    plan->refresh(*lab.stream);
    LinearBackwardInput args;
    args.dy = lab.in(type, out, fill(out, 5));
    if (gelu) args.input_pre_activation = lab.in(type, in, fill(in, 6));
    args.dx = lab.out("dx", type, in, gelu ? -1 : 0);
    plan->backward_input(*lab.stream, args);
  };
}

Case backward_weights(DType type, Sizes s, bool bias, bool accumulate, Fill fill) {
  return [=](Lab& lab) {
    const Dims in{s.rows, s.in}, out{s.rows, s.out}, matrix{s.out, s.in};
    const auto plan = lab.device.plan(LinearShape{s.rows, s.in, s.out, type});
    plan->bind(lab.in(type, matrix, fill(matrix, 2)));
    plan->refresh(*lab.stream);
    const auto gradient = [&](const char* name, const Dims& dims) {
      return accumulate ? lab.in_out(name, DType::float32, dims, fill(dims, 7)) : lab.out(name, DType::float32, dims);
    };
    LinearBackwardWeights args;
    args.x = lab.in(type, in, fill(in, 1));
    // Not of mean zero: the sum over rows must not cancel to nothing.
    args.dy = lab.in(type, out, fill.exact ? fill(out, 5) : uniform(out.count(), 5, -1, 2));
    args.d_weight = gradient("d_weight", matrix);
    if (bias) args.d_bias = gradient("d_bias", {s.out});
    args.accumulate = accumulate;
    plan->backward_weights(*lab.stream, args);
  };
}

std::string text(Sizes s) { return Dims{s.rows, s.in, s.out}.str(); }

TEST_P(Linear, ForwardIsExactOnIntegers) {
  TW_NEEDS(Op::linear_forward);
  for (const Sizes s : exact_sizes) {
    SCOPED_TRACE(text(s));
    for (const Options options : {Options{}, Options{.bias = true}, Options{.bias = true, .residual = true},
                                  Options{.bias = true, .in_place = true}}) {
      compare(device(), Op::linear_forward, dtype(), forward(dtype(), s, options, {true}), Exactness::exact);
    }
  }
}

TEST_P(Linear, ForwardFollowsReference) {
  TW_NEEDS(Op::linear_forward);
  for (const Sizes s : all_sizes) {
    SCOPED_TRACE(text(s));
    for (const Options options :
         {Options{}, Options{.bias = true}, Options{.bias = true, .residual = true}, Options{.in_place = true},
          Options{.bias = true, .gelu = true}, Options{.gelu = true}}) {
      compare(device(), Op::linear_forward, dtype(), forward(dtype(), s, options, {false}));
    }
  }
}

TEST_P(Linear, BackwardInput) {
  TW_NEEDS(Op::linear_backward_input);
  for (const Sizes s : exact_sizes) {
    SCOPED_TRACE(text(s));
    compare(device(), Op::linear_backward_input, dtype(), backward_input(dtype(), s, false, {true}), Exactness::exact);
  }
  for (const Sizes s : all_sizes) {
    SCOPED_TRACE(text(s));
    compare(device(), Op::linear_backward_input, dtype(), backward_input(dtype(), s, false, {false}));
    compare(device(), Op::linear_backward_input, dtype(), backward_input(dtype(), s, true, {false}));
  }
}

TEST_P(Linear, BackwardWeights) {
  TW_NEEDS(Op::linear_backward_weights);
  for (const bool accumulate : {false, true}) {
    for (const bool bias : {false, true}) {
      for (const Sizes s : exact_sizes) {
        SCOPED_TRACE(text(s));
        compare(device(), Op::linear_backward_weights, dtype(), backward_weights(dtype(), s, bias, accumulate, {true}),
                Exactness::exact);
      }
      for (const Sizes s : all_sizes) {
        SCOPED_TRACE(text(s));
        compare(device(), Op::linear_backward_weights, dtype(),
                backward_weights(dtype(), s, bias, accumulate, {false}));
      }
    }
  }
}

TEST_P(Linear, FollowsTheWeightAfterRefresh) {
  TW_NEEDS(Op::linear_forward);
  for (const Sizes s : {Sizes{3, 17, 31}, Sizes{17, 60, 33}}) {
    const Case changed = [&](Lab& lab) {
      const Dims matrix{s.out, s.in};
      const auto plan = lab.device.plan(LinearShape{s.rows, s.in, s.out, dtype()});
      const Tensor weight = lab.in(dtype(), matrix, integers(matrix.count(), 2, -2, 2));
      const Tensor x = lab.in(dtype(), {s.rows, s.in}, integers(s.rows * s.in, 1, -2, 2));
      const Tensor dy = lab.in(dtype(), {s.rows, s.out}, integers(s.rows * s.out, 5, -2, 2));
      plan->bind(weight);
      plan->refresh(*lab.stream);
      for (const char* name : {"y before", "y after"}) {
        plan->forward(*lab.stream, {.x = x, .y = lab.out(name, dtype(), {s.rows, s.out})});
        plan->backward_input(*lab.stream, {.dy = dy, .dx = lab.out(std::string("d") + name, dtype(), {s.rows, s.in})});
        lab.stream->synchronize();
        lab.change(weight, integers(matrix.count(), 9, -2, 2));
        plan->refresh(*lab.stream);
      }
    };
    compare(device(), Op::linear_forward, dtype(), changed, Exactness::exact);
    const std::vector<Output> outputs = run_on(device(), changed);
    EXPECT_NE(outputs[0].bytes, outputs[2].bytes);
  }
}

/// Forward twice, both gradients twice: with fp8 the second round goes by the scale that the first has left.
Case with_math(DType type, Math math, Sizes s, bool gelu) {
  return [=](Lab& lab) {
    const Dims in{s.rows, s.in}, out{s.rows, s.out}, matrix{s.out, s.in};
    LinearShape shape{s.rows, s.in, s.out, type, gelu ? Activation::gelu : Activation::none};
    shape.math = math;
    const auto plan = lab.device.plan(shape);
    plan->bind(lab.in(type, matrix, normal(matrix.count(), 2, 0.02)));
    plan->refresh(*lab.stream);
    const Tensor bias = lab.in(type, {s.out}, normal(s.out, 3)), pre_in = lab.in(type, in, normal(in.count(), 9));
    const Tensor d_weight = lab.in_out("d_weight", DType::float32, matrix, normal(matrix.count(), 7));
    const Tensor d_bias = lab.in_out("d_bias", DType::float32, {s.out}, normal(s.out, 8));
    for (const std::uint64_t round : {0, 1}) {
      const double size = round == 0 ? 1 : 3;  // beyond the first round's range: some saturate
      const Tensor x = lab.in(type, in, normal(in.count(), 10 + round, size)),
                   dy = lab.in(type, out, normal(out.count(), 20 + round, 1e-3 * size));
      const Tensor left_x = lab.left(shape.x_for_weights()), left_dy = lab.left(shape.dy_for_input());
      LinearForward forward{.x = x, .bias = bias, .y = lab.out("y", type, out), .x_for_weights = left_x};
      if (gelu) forward.pre_activation = lab.out("pre_activation", type, out, 0);
      plan->forward(*lab.stream, forward);
      plan->backward_weights(*lab.stream, {.x = left_x ? left_x : x,
                                           .dy = dy,
                                           .d_weight = d_weight,
                                           .d_bias = d_bias,
                                           .accumulate = true,
                                           .dy_for_input = left_dy});
      plan->backward_input(*lab.stream, {.dy = left_dy ? left_dy : dy,
                                         .input_pre_activation = gelu ? pre_in : Tensor{},
                                         .dx = lab.out("dx", type, in)});
    }
  };
}

void expect_math(Device& device, DType type, Math math, const std::vector<Sizes>& sizes) {
  if (const std::string why = device.why_no_math(math); !why.empty()) {
    LinearShape shape{16, 16, 16, type};
    shape.math = math;
    try {
      device.plan(shape);
      ADD_FAILURE() << "there is a plan, but: " << why;
    } catch (const Error& error) {
      EXPECT_EQ(error.failure(), Failure::unsupported);
      EXPECT_NE(std::string(error.what()).find(why), std::string::npos) << error.what();
    }
    return;
  }
  for (const Sizes s : sizes) {
    SCOPED_TRACE(text(s));
    for (const bool gelu : {false, true}) {
      compare(device, Op::linear_forward, type, with_math(type, math, s, gelu));
    }
  }
}

TEST_P(Linear, Tf32FollowsReference) {
  if (dtype() != DType::float32) return;  // tf32 is how float32 is multiplied
  TW_NEEDS(Op::linear_forward);
  expect_math(device(), DType::float32, Math::tf32, {{3, 17, 31}, {33, 127, 17}, {64, 128, 96}});
}

TEST_P(Linear, Bf16ProductsFollowReference) {
  if (dtype() != DType::float32) return;  // it is how float32 is multiplied
  TW_NEEDS(Op::linear_forward);
  for (const Sizes s : {Sizes{33, 127, 65}, Sizes{64, 128, 96}, Sizes{128, 768, 256}}) {
    SCOPED_TRACE(text(s));
    for (const bool gelu : {false, true})
      compare_bf16_products(device(), Op::linear_forward, with_math(DType::float32, Math::bf16, s, gelu));
  }
}

TEST_P(Linear, Fp8FollowsReference) {
  if (dtype() != DType::bf16) return;  // fp8 is how bf16 is multiplied
  TW_NEEDS(Op::linear_forward);
  expect_math(device(), DType::bf16, Math::fp8, {{16, 16, 16}, {32, 80, 48}, {80, 128, 144}});
}

TEST_P(Linear, Fp8ScalesFollowOnlyTheCallsThatSaySo) {
  if (dtype() != DType::bf16) return;  // fp8 is how bf16 is multiplied
  TW_NEEDS(Op::linear_forward);
  if (!device().why_no_math(Math::fp8).empty()) return;  // Fp8FollowsReference says so
  const std::int64_t rows = 32, in = 48, out = 16;
  const auto run = [&](bool others) {
    return run_on(device(), [&](Lab& lab) {
      LinearShape shape{rows, in, out, dtype()};
      shape.math = Math::fp8;
      const auto plan = lab.device.plan(shape);
      plan->bind(lab.in(dtype(), {out, in}, normal(out * in, 2, 0.02)));
      plan->refresh(*lab.stream);
      const auto forward = [&](std::uint64_t seed, double size, const char* name, bool follows) {
        plan->forward(*lab.stream, {.x = lab.in(dtype(), {rows, in}, normal(rows * in, seed, size)),
                                    .y = lab.out(name, dtype(), {rows, out}),
                                    .follows = follows});
      };
      if (others) forward(3, 1000, "in front", false);
      forward(4, 1, "first", true);
      if (others) forward(4, 1, "first again", false);
      if (others) forward(5, 1000, "between", false);
      forward(6, 3, "second", true);
      if (others) forward(6, 3, "second again", false);
      forward(7, 1, "third", true);
    });
  };
  const std::vector<Output> alone = run(false), with = run(true);
  ASSERT_EQ(alone.size(), 3u);
  ASSERT_EQ(with.size(), 7u);
  EXPECT_TRUE(with[1].bytes == alone[0].bytes);
  EXPECT_TRUE(with[2].bytes == alone[0].bytes) << "recomputed";
  EXPECT_TRUE(with[4].bytes == alone[1].bytes);
  EXPECT_TRUE(with[5].bytes == alone[1].bytes) << "recomputed";
  EXPECT_TRUE(with[6].bytes == alone[2].bytes);
}

// Forward of the next micro-batch, which moves the scale, leaves what the one before has left as it was.
TEST_P(Linear, Fp8OperandsAreLeftWithTheirScale) {
  if (dtype() != DType::bf16) return;  // fp8 is how bf16 is multiplied
  TW_NEEDS(Op::linear_forward);
  if (!device().why_no_math(Math::fp8).empty()) return;  // Fp8FollowsReference says so
  const std::int64_t rows = 32, in = 48, out = 16;
  const auto run = [&](bool others) {
    return run_on(device(), [&](Lab& lab) {
      LinearShape shape{rows, in, out, dtype()};
      shape.math = Math::fp8;
      const auto plan = lab.device.plan(shape);
      plan->bind(lab.in(dtype(), {out, in}, normal(out * in, 2, 0.02)));
      plan->refresh(*lab.stream);
      const Tensor left_x = lab.left(shape.x_for_weights()), left_dy = lab.left(shape.dy_for_input());
      const Tensor other_x = lab.left(shape.x_for_weights()), other_dy = lab.left(shape.dy_for_input());
      const Tensor x = lab.in(dtype(), {rows, in}, normal(rows * in, 3)),
                   large_x = lab.in(dtype(), {rows, in}, normal(rows * in, 4, 1000)),
                   dy = lab.in(dtype(), {rows, out}, normal(rows * out, 5, 1e-3)),
                   large_dy = lab.in(dtype(), {rows, out}, normal(rows * out, 6, 10));
      const Tensor d_weight = lab.out("d_weight", DType::float32, {out, in}), dx = lab.out("dx", dtype(), {rows, in});
      plan->forward(*lab.stream, {.x = x, .y = lab.out("y", dtype(), {rows, out}), .x_for_weights = left_x});
      if (others) {
        for (int i = 0; i < 2; ++i)
          plan->forward(*lab.stream,
                        {.x = large_x, .y = lab.out("of another", dtype(), {rows, out}), .x_for_weights = other_x});
      }
      plan->backward_weights(*lab.stream, {.x = left_x, .dy = dy, .d_weight = d_weight, .dy_for_input = left_dy});
      if (others) {
        for (int i = 0; i < 2; ++i)
          plan->backward_weights(*lab.stream, {.x = other_x,
                                               .dy = large_dy,
                                               .d_weight = lab.out("of another", DType::float32, {out, in}),
                                               .dy_for_input = other_dy});
      }
      plan->backward_input(*lab.stream, {.dy = left_dy, .dx = dx});
    });
  };
  const std::vector<Output> alone = run(false), with = run(true);
  for (const char* name : {"d_weight", "dx"}) {
    const auto of = [&](const std::vector<Output>& outputs) {
      return std::ranges::find(outputs, std::string(name), &Output::name)->bytes;
    };
    EXPECT_TRUE(of(alone) == of(with)) << name;
  }
}

TEST_P(Linear, RoundedOperandsAreOfFp8Alone) {
  TW_NEEDS(Op::linear_forward);
  for (const Math math : {Math::standard, Math::fp8}) {
    if (math == Math::fp8 && (dtype() != DType::bf16 || !device().why_no_math(math).empty())) continue;
    SCOPED_TRACE(to_string(math));
    const bool is_fp8 = math == Math::fp8;
    Lab lab(device());
    LinearShape shape{16, 32, 48, dtype()};
    const LinearShape fp8{16, 32, 48, dtype(), Activation::none, Math::fp8};
    shape.math = math;
    const auto plan = device().plan(shape);
    plan->bind(lab.in(dtype(), {48, 32}, normal(48 * 32, 1)));
    plan->refresh(*lab.stream);
    const Tensor x = lab.in(dtype(), {16, 32}, normal(16 * 32, 2)), dy = lab.in(dtype(), {16, 48}, normal(16 * 48, 3));
    const Tensor left_x = lab.left(fp8.x_for_weights()), left_dy = lab.left(fp8.dy_for_input());
    const Tensor y = lab.left({16 * 48 * 4}), d_weight = lab.left({48 * 32 * 4}), dx = lab.left({16 * 32 * 4});
    const Tensor no_y{y.data, dtype(), {16, 48}}, no_d_weight{d_weight.data, DType::float32, {48, 32}},
        no_dx{dx.data, dtype(), {16, 32}};
    const auto refused = [](auto&& call, const char* argument) {
      try {
        call();
        ADD_FAILURE() << argument << " was taken";
      } catch (const Error& error) {
        EXPECT_EQ(error.failure(), Failure::usage);
        EXPECT_NE(std::string(error.what()).find(argument), std::string::npos) << error.what();
      }
    };
    if (!is_fp8)
      refused([&] { plan->forward(*lab.stream, {.x = x, .y = no_y, .x_for_weights = left_x}); }, "x_for_weights");
    const Tensor wrong_x = is_fp8 ? x : left_x, right_x = is_fp8 ? left_x : x, wrong_dy = is_fp8 ? dy : left_dy;
    refused([&] { plan->backward_weights(*lab.stream, {.x = wrong_x, .dy = dy, .d_weight = no_d_weight}); }, " x");
    refused([&] { plan->backward_input(*lab.stream, {.dy = wrong_dy, .dx = no_dx}); }, " dy");
    const Tensor other_dy{left_dy.data, DType::byte, {is_fp8 ? left_dy.count() - 16 : left_dy.count()}};
    refused(
        [&] {
          plan->backward_weights(*lab.stream,
                                 {.x = right_x, .dy = dy, .d_weight = no_d_weight, .dy_for_input = other_dy});
        },
        "dy_for_input");
  }
}

TEST_P(Linear, MathIsOfItsDtype) {
  TW_NEEDS(Op::linear_forward);
  for (const Math math : {Math::tf32, Math::bf16, Math::fp8}) {
    if (dtype() == (math == Math::fp8 ? DType::bf16 : DType::float32)) continue;
    LinearShape shape{16, 16, 16, dtype()};
    shape.math = math;
    try {
      device().plan(shape);
      ADD_FAILURE() << to_string(math);
    } catch (const Error& error) {
      EXPECT_EQ(error.failure(), Failure::usage) << error.what();
    }
  }
}

TEST_P(Linear, ByHand) {
  TW_NEEDS(Op::linear_forward);
  Lab lab(device());
  const auto plan = device().plan(LinearShape{1, 2, 2, dtype()});
  plan->bind(lab.in(dtype(), {2, 2}, {1, 2, 3, 4}));  // y0 = x0 + 2·x1, y1 = 3·x0 + 4·x1
  plan->refresh(*lab.stream);
  const Tensor x = lab.in(dtype(), {1, 2}, {5, -1}), dy = lab.in(dtype(), {1, 2}, {1, 10});
  const Tensor y = lab.out("y", dtype(), {1, 2}), dx = lab.out("dx", dtype(), {1, 2});
  const Tensor d_weight = lab.out("d_weight", DType::float32, {2, 2}), d_bias = lab.out("d_bias", DType::float32, {2});
  plan->forward(*lab.stream, {.x = x, .bias = lab.in(dtype(), {2}, {10, 20}), .y = y});
  plan->backward_input(*lab.stream, {.dy = dy, .dx = dx});
  plan->backward_weights(*lab.stream, {.x = x, .dy = dy, .d_weight = d_weight, .d_bias = d_bias});
  EXPECT_EQ(lab.read(y), (Floats{13, 31}));
  EXPECT_EQ(lab.read(dx), (Floats{31, 42}));
  EXPECT_EQ(lab.read(d_weight), (Floats{5, -1, 50, -10}));
  EXPECT_EQ(lab.read(d_bias), (Floats{1, 10}));
}

}  // namespace
}  // namespace tw::test
