// Batch norm in training mode, with its fused residual and ReLU.
#include <cmath>

#include "models/compute/error.hpp"
#include "tests/support/devices.hpp"

namespace tw::test {

using namespace models;

namespace {

TW_DEVICE_SUITE(BatchNorm);

const std::vector<Dims> sizes = {{2, 1, 1, 3},   {1, 3, 3, 1},    {2, 7, 5, 17},   {3, 8, 8, 64},
                                 {2, 5, 3, 127}, {1, 31, 33, 33}, {4, 14, 14, 32}, {2, 32, 33, 40}};

struct Options {
  bool residual = false, relu = false, running = false, d_residual = false, in_place = false, accumulate = false;
  /// Of backward: the mask is computed again; dy comes in two parts; d_residual replaces the second one.
  bool computed = false, more = false, more_in_place = false;
};

Case forward(DType type, const Dims& s, Options o) {
  return [=](Lab& lab) {
    const Dims c{s[3]};
    BatchNormForward args;
    args.x = lab.in(type, s, normal(s.count(), 1));
    args.gamma = lab.in(DType::float32, c, uniform(s[3], 2, 0.5, 1.5));
    args.beta = lab.in(DType::float32, c, normal(s[3], 3));
    if (o.running) {
      args.running_mean = lab.in_out("running_mean", DType::float32, c, normal(s[3], 4));
      args.running_var = lab.in_out("running_var", DType::float32, c, uniform(s[3], 5, 0.5, 2));
    }
    if (o.residual) args.residual = lab.in(type, s, normal(s.count(), 6));
    args.relu = o.relu;
    args.y = lab.out("y", type, s);
    args.mean = lab.out("mean", DType::float32, c);
    args.rstd = lab.out("rstd", DType::float32, c);
    lab.device.batch_norm_forward(*lab.stream, args);
  };
}

Case backward(DType type, const Dims& s, Options o) {
  return [=](Lab& lab) {
    const Dims c{s[3]};
    const auto gradient = [&](const char* name) {
      return o.accumulate ? lab.in_out(name, DType::float32, c, normal(s[3], 7)) : lab.out(name, DType::float32, c);
    };
    BatchNormBackward args;
    args.x = lab.in(type, s, normal(s.count(), 1));
    const Floats dy = normal(s.count(), 8);
    args.dy = o.in_place ? lab.in_out("dx", type, s, dy) : lab.in(type, s, dy);
    args.dx = o.in_place ? args.dy : lab.out("dx", type, s);
    if (o.relu && !o.computed) args.y = lab.in(type, s, integers(s.count(), 9, -1, 1));  // of zeros the mask is off
    if (o.computed) args.beta = lab.in(DType::float32, c, uniform(s[3], 3, -0.5, 0.5));
    args.gamma = lab.in(DType::float32, c, uniform(s[3], 2, 0.5, 1.5));
    args.mean = lab.in(DType::float32, c, normal(s[3], 10, 0.1));
    args.rstd = lab.in(DType::float32, c, uniform(s[3], 11, 0.8, 1.2));
    args.relu = o.relu;
    const Floats more = normal(s.count(), 12);
    if (o.d_residual)
      args.d_residual = o.more_in_place ? lab.in_out("d_residual", type, s, more) : lab.out("d_residual", type, s);
    if (o.more) args.dy_more = o.more_in_place ? args.d_residual : lab.in(type, s, more);
    args.d_gamma = gradient("d_gamma");
    args.d_beta = gradient("d_beta");
    args.accumulate = o.accumulate;
    lab.device.batch_norm_backward(*lab.stream, args);
  };
}

TEST_P(BatchNorm, Forward) {
  TW_NEEDS(Op::batch_norm_forward);
  for (const Dims& s : sizes) {
    SCOPED_TRACE(s.str());
    for (const Options o : {Options{}, Options{.relu = true}, Options{.residual = true, .relu = true, .running = true},
                            Options{.residual = true}, Options{.running = true}}) {
      compare(device(), Op::batch_norm_forward, dtype(), forward(dtype(), s, o));
    }
  }
}

TEST_P(BatchNorm, ForwardKeepsTheVarianceOfValuesFarFromZero) {
  TW_NEEDS(Op::batch_norm_forward);
  // E[x²] − E[x]² in float32 would lose 10^6·2^-24 = 6 % of the variance here. What remains is the rounding of the
  // mean. The second shape is cut into slices by the cuda device, the last of them shorter, whose means are not the
  // same.
  for (const Dims& s : {Dims{2, 9, 11, 8}, Dims{3, 37, 41, 40}}) {
    SCOPED_TRACE(s.str());
    const Dims c{s[3]};
    const Case far = [&](Lab& lab) {
      Floats x = integers(s.count(), 1, -3, 3);
      const std::int64_t quarter = (s.count() + 3) / 4;
      for (std::size_t i = 0; i < x.size(); ++i) {  // steps that bf16 can tell apart there
        x[i] = 1024 + 8 * x[i] + static_cast<float>(64 * (static_cast<std::int64_t>(i) / quarter));
      }
      lab.device.batch_norm_forward(*lab.stream, {.x = lab.in(dtype(), s, x),
                                                  .gamma = lab.in(DType::float32, c, Floats(c[0], 1.0f)),
                                                  .beta = lab.in(DType::float32, c, Floats(c[0], 0.0f)),
                                                  .y = lab.out("y", dtype(), s),
                                                  .mean = lab.out("mean", DType::float32, c),
                                                  .rstd = lab.out("rstd", DType::float32, c)});
    };
    const std::vector<Output> got = run_on(device(), far), want = run_on(reference_device(), far);
    for (std::size_t i = 0; i < got[1].values.size(); ++i) {
      EXPECT_NEAR(got[1].values[i], want[1].values[i], 1024 * 0x1p-23);
      EXPECT_NEAR(got[2].values[i] / want[2].values[i], 1, 1e-6);
    }
  }
}

TEST_P(BatchNorm, Backward) {
  TW_NEEDS(Op::batch_norm_backward);
  for (const Dims& s : sizes) {
    SCOPED_TRACE(s.str());
    for (const Options o :
         {Options{}, Options{.accumulate = true}, Options{.relu = true, .d_residual = true},
          Options{.relu = true, .d_residual = true, .in_place = true}, Options{.d_residual = true, .accumulate = true},
          Options{.relu = true, .in_place = true}, Options{.relu = true, .computed = true},
          Options{.relu = true, .in_place = true, .accumulate = true, .computed = true},
          Options{.relu = true, .d_residual = true, .more = true},
          Options{.d_residual = true, .in_place = true, .more = true},
          Options{.relu = true, .d_residual = true, .in_place = true, .more = true, .more_in_place = true}}) {
      compare(device(), Op::batch_norm_backward, dtype(), backward(dtype(), s, o));
    }
  }
}

// A network may leave out y and gets the same bits, zeros included: of every fourth channel all y are 0, of the next
// one half of them.
TEST_P(BatchNorm, TheMaskComputedAgainIsThatOfForward) {
  TW_NEEDS(Op::batch_norm_backward);
  for (const Dims& s : sizes) {
    SCOPED_TRACE(s.str());
    Lab lab(device());
    const Dims c{s[3]};
    Floats xs = normal(s.count(), 1), gammas = uniform(s[3], 2, 0.5, 1.5), betas = normal(s[3], 3);
    for (std::int64_t i = 0; i < s.count(); ++i)
      if (i % s[3] % 4 == 1) xs[static_cast<std::size_t>(i)] = i / s[3] % 2 == 0 ? 3.0f : -1.0f;
    for (std::int64_t i = 0; i < s[3]; ++i)
      if (i % 4 < 2) betas[static_cast<std::size_t>(i)] = 0, gammas[static_cast<std::size_t>(i)] *= i % 4 == 0 ? 0 : 1;
    BatchNormForward forward;
    forward.x = lab.in(dtype(), s, xs);
    forward.gamma = lab.in(DType::float32, c, gammas);
    forward.beta = lab.in(DType::float32, c, betas);
    forward.relu = true;
    forward.y = lab.out("y", dtype(), s);
    forward.mean = lab.out("mean", DType::float32, c);
    forward.rstd = lab.out("rstd", DType::float32, c);
    device().batch_norm_forward(*lab.stream, forward);
    BatchNormBackward args;
    args.dy = lab.in(dtype(), s, normal(s.count(), 8));
    args.x = forward.x, args.gamma = forward.gamma, args.beta = forward.beta;
    args.mean = forward.mean, args.rstd = forward.rstd, args.relu = true;
    std::vector<Floats> found;
    for (const bool computed : {false, true}) {
      args.y = computed ? Tensor{} : forward.y;
      args.dx = lab.out("dx", dtype(), s);
      args.d_gamma = lab.out("d_gamma", DType::float32, c);
      args.d_beta = lab.out("d_beta", DType::float32, c);
      device().batch_norm_backward(*lab.stream, args);
      for (const Tensor& tensor : {args.dx, args.d_gamma, args.d_beta}) found.push_back(lab.read(tensor));
    }
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(found[i], found[i + 3]) << i;
  }
}

TEST_P(BatchNorm, TwoGradientsAreTheirSum) {
  TW_NEEDS(Op::batch_norm_backward);
  for (const Dims& s : sizes) {
    SCOPED_TRACE(s.str());
    Lab lab(device());
    const Dims c{s[3]};
    BatchNormBackward args;
    const Tensor first = lab.in(dtype(), s, normal(s.count(), 8)), second = lab.in(dtype(), s, normal(s.count(), 9)),
                 sum = lab.out("sum", dtype(), s);
    device().add(*lab.stream, {first, second, sum});
    args.x = lab.in(dtype(), s, normal(s.count(), 1));
    args.y = lab.in(dtype(), s, integers(s.count(), 9, -1, 1));
    args.gamma = lab.in(DType::float32, c, uniform(s[3], 2, 0.5, 1.5));
    args.mean = lab.in(DType::float32, c, normal(s[3], 10, 0.1));
    args.rstd = lab.in(DType::float32, c, uniform(s[3], 11, 0.8, 1.2));
    args.relu = true;
    std::vector<Floats> found;
    for (const bool two : {false, true}) {
      args.dy = two ? first : sum;
      args.dy_more = two ? second : Tensor{};
      args.dx = lab.out("dx", dtype(), s);
      args.d_residual = lab.out("d_residual", dtype(), s);
      args.d_gamma = lab.out("d_gamma", DType::float32, c);
      args.d_beta = lab.out("d_beta", DType::float32, c);
      device().batch_norm_backward(*lab.stream, args);
      for (const Tensor& tensor : {args.dx, args.d_residual, args.d_gamma, args.d_beta})
        found.push_back(lab.read(tensor));
    }
    for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(found[i], found[i + 4]) << i;
  }
}

TEST_P(BatchNorm, BackwardNamesTheArgumentThatIsMissing) {
  TW_NEEDS(Op::batch_norm_backward);
  Lab lab(device());
  const Dims s{1, 4, 4, 2};
  const Tensor channels = lab.out("channels", DType::float32, {2}), more = lab.out("more", dtype(), s);
  BatchNormBackward args;
  args.dy = args.dx = lab.out("dy", dtype(), s), args.x = lab.out("x", dtype(), s), args.relu = true;
  args.gamma = args.mean = args.rstd = args.d_gamma = args.d_beta = channels;
  const auto error = [&] {
    try {
      device().batch_norm_backward(*lab.stream, args);
    } catch (const Error& usage) {
      EXPECT_EQ(usage.failure(), Failure::usage);
      return std::string(usage.what());
    }
    return std::string("no error");
  };
  EXPECT_NE(error().find("batch_norm_backward: beta"), std::string::npos) << error();
  args.beta = channels, args.d_residual = more;
  EXPECT_NE(error().find("batch_norm_backward: y"), std::string::npos) << error();
  args.relu = false, args.d_residual = {}, args.dy_more = more;
  EXPECT_NE(error().find("batch_norm_backward: d_residual"), std::string::npos) << error();
}

TEST_P(BatchNorm, ByHand) {
  TW_NEEDS(Op::batch_norm_backward);
  Lab lab(device());
  const Dims s{2, 1, 2, 1}, c{1};
  // 1, 1, 5, 5: mean 3, biased variance 4, unbiased 16/3; with ε = 0 normalised to -1, -1, 1, 1.
  const Tensor x = lab.in(dtype(), s, {1, 1, 5, 5}), gamma = lab.in(DType::float32, c, {3.0f}),
               beta = lab.in(DType::float32, c, {1.0f});
  const Tensor running_mean = lab.in_out("rm", DType::float32, c, {1.0f}),
               running_var = lab.in_out("rv", DType::float32, c, {4.0f / 3});
  const Tensor y = lab.out("y", dtype(), s), mean = lab.out("mean", DType::float32, c),
               rstd = lab.out("rstd", DType::float32, c);
  device().batch_norm_forward(*lab.stream, {.x = x,
                                            .gamma = gamma,
                                            .beta = beta,
                                            .running_mean = running_mean,
                                            .running_var = running_var,
                                            .momentum = 0.25f,
                                            .epsilon = 0,
                                            .residual = lab.in(dtype(), s, {0, 4, -8, 1}),
                                            .relu = true,
                                            .y = y,
                                            .mean = mean,
                                            .rstd = rstd});
  EXPECT_EQ(lab.read(y), (Floats{0, 2, 0, 5}));  // -2, -2, 4, 4 + residual, without the negatives
  EXPECT_EQ(lab.read(mean), (Floats{3}));
  EXPECT_EQ(lab.read(rstd), (Floats{0.5f}));
  EXPECT_EQ(lab.read(running_mean), (Floats{1.5f}));
  EXPECT_NEAR(lab.read(running_var)[0], 7.0 / 3, 1e-6);
  const Tensor dx = lab.out("dx", dtype(), s), d_residual = lab.out("d_residual", dtype(), s);
  const Tensor d_gamma = lab.out("d_gamma", DType::float32, c), d_beta = lab.out("d_beta", DType::float32, c);
  device().batch_norm_backward(*lab.stream, {.dy = lab.in(dtype(), s, {9, 4, 9, 8}),
                                             .x = x,
                                             .y = y,
                                             .gamma = gamma,
                                             .mean = mean,
                                             .rstd = rstd,
                                             .relu = true,
                                             .dx = dx,
                                             .d_residual = d_residual,
                                             .d_gamma = d_gamma,
                                             .d_beta = d_beta});
  EXPECT_EQ(lab.read(d_residual), (Floats{0, 4, 0, 8}));
  EXPECT_EQ(lab.read(d_beta), (Floats{12}));
  EXPECT_EQ(lab.read(d_gamma), (Floats{4}));        // -4 + 8
  EXPECT_EQ(lab.read(dx), (Floats{-3, 3, -6, 6}));  // 1.5·(g − 3 − x̂·1)
}

}  // namespace
}  // namespace tw::test
