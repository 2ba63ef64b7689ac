// The reference device's backward passes against finite differences of its own forward passes (gradient_check.hpp).
#include "tests/compute/gradient_check.hpp"

namespace tw::test {

using namespace models;

namespace {

TEST(Gradients, LinearWithGelu) {
  // y2 = gelu(x·W1ᵀ + b1)·W2ᵀ: both layers, so that backward_input's GELU derivative is on the way.
  const std::int64_t rows = 5, in = 7, hidden = 6, out = 4;
  const Floats x = grid_normal(rows * in, 1), w1 = grid_normal(hidden * in, 2), b1 = grid_normal(hidden, 3),
               w2 = grid_normal(out * hidden, 4);
  const Floats c = grid_normal(rows * out, 5);
  struct Result {
    double loss;
    Floats dx, dw1, db1, dw2;
  };
  const auto run = [&](const Floats& x_, const Floats& w1_, const Floats& b1_, const Floats& w2_) {
    Lab lab(reference_device());
    const auto first = lab.device.plan(LinearShape{rows, in, hidden, f32, Activation::gelu});
    const auto second = lab.device.plan(LinearShape{rows, hidden, out, f32});
    first->bind(lab.in(f32, {hidden, in}, w1_));
    second->bind(lab.in(f32, {out, hidden}, w2_));
    first->refresh(*lab.stream);
    second->refresh(*lab.stream);
    const Tensor x_t = lab.in(f32, {rows, in}, x_), dy = lab.in(f32, {rows, out}, c);
    const Tensor pre = lab.out("pre", f32, {rows, hidden}), mid = lab.out("mid", f32, {rows, hidden}),
                 y = lab.out("y", f32, {rows, out});
    first->forward(*lab.stream, {.x = x_t, .bias = lab.in(f32, {hidden}, b1_), .pre_activation = pre, .y = mid});
    second->forward(*lab.stream, {.x = mid, .y = y});
    const Tensor d_mid = lab.out("d_mid", f32, {rows, hidden}), dx = lab.out("dx", f32, {rows, in});
    const Tensor dw1 = lab.out("dw1", f32, {hidden, in}), db1 = lab.out("db1", f32, {hidden}),
                 dw2 = lab.out("dw2", f32, {out, hidden});
    second->backward_input(*lab.stream, {.dy = dy, .input_pre_activation = pre, .dx = d_mid});
    second->backward_weights(*lab.stream, {.x = mid, .dy = dy, .d_weight = dw2});
    first->backward_input(*lab.stream, {.dy = d_mid, .dx = dx});
    first->backward_weights(*lab.stream, {.x = x_t, .dy = d_mid, .d_weight = dw1, .d_bias = db1});
    return Result{weighted_sum(lab.read(y), c), lab.read(dx), lab.read(dw1), lab.read(db1), lab.read(dw2)};
  };
  const Result result = run(x, w1, b1, w2);
  check_gradient(
      "x", x, [&](const Floats& v) { return run(v, w1, b1, w2).loss; }, result.dx);
  check_gradient(
      "w1", w1, [&](const Floats& v) { return run(x, v, b1, w2).loss; }, result.dw1);
  check_gradient(
      "b1", b1, [&](const Floats& v) { return run(x, w1, v, w2).loss; }, result.db1);
  check_gradient(
      "w2", w2, [&](const Floats& v) { return run(x, w1, b1, v).loss; }, result.dw2);
}

TEST(Gradients, Convolution) {
  for (const ConvolutionShape& s :
       {ConvolutionShape{2, 5, 6, 3, 4, 3, 1, 1}, ConvolutionShape{2, 6, 7, 2, 3, 3, 2, 1},
        ConvolutionShape{1, 5, 5, 3, 2, 1, 2, 0}, ConvolutionShape{2, 5, 6, 2, 3, {1, 5}, {1, 2}, {0, 2}},
        ConvolutionShape{2, 6, 5, 4, 6, {3, 1}, 1, {1, 0}, f32, Math::standard, 2}}) {
    const Dims in = s.in(), out = s.out(), kernel = s.weight();
    const Floats x = grid_normal(in.count(), 1), w = grid_normal(kernel.count(), 2), c = grid_normal(out.count(), 3);
    struct Result {
      double loss;
      Floats dx, dw;
    };
    const auto run = [&](const Floats& x_, const Floats& w_) {
      Lab lab(reference_device());
      const auto plan = lab.device.plan(s);
      plan->bind(lab.in(f32, kernel, w_));
      plan->refresh(*lab.stream);
      const Tensor x_t = lab.in(f32, in, x_), dy = lab.in(f32, out, c);
      const Tensor y = lab.out("y", f32, out), dx = lab.out("dx", f32, in), dw = lab.out("dw", f32, kernel);
      plan->forward(*lab.stream, {x_t, y});
      plan->backward_input(*lab.stream, {dy, dx});
      plan->backward_weights(*lab.stream, {x_t, dy, dw});
      return Result{weighted_sum(lab.read(y), c), lab.read(dx), lab.read(dw)};
    };
    const Result result = run(x, w);
    check_gradient(
        "x", x, [&](const Floats& v) { return run(v, w).loss; }, result.dx);
    check_gradient(
        "w", w, [&](const Floats& v) { return run(x, v).loss; }, result.dw);
  }
}

TEST(Gradients, Attention) {
  for (const AttentionShape& s : {AttentionShape{2, 5, 2, 4, true}, AttentionShape{2, 5, 2, 4, false},
                                  AttentionShape{2, 5, 4, 3, true, f32, Math::standard, 2}}) {
    const Dims packed = s.packed(), out = s.unpacked(), rows = s.row_values();
    const Floats qkv = grid_normal(packed.count(), 1), c = grid_normal(out.count(), 2);
    struct Result {
      double loss;
      Floats d;
    };
    const auto run = [&](const Floats& qkv_) {
      Lab lab(reference_device());
      const auto plan = lab.device.plan(s);
      const Tensor x = lab.in(f32, packed, qkv_), y = lab.out("y", f32, out), sums = lab.out("sums", f32, rows),
                   d = lab.out("d", f32, packed);
      plan->forward(*lab.stream, {x, y, sums});
      plan->backward(*lab.stream, {lab.in(f32, out, c), x, y, sums, d});
      return Result{weighted_sum(lab.read(y), c), lab.read(d)};
    };
    check_gradient(
        packed.str() + (s.causal ? " causal" : ""), qkv, [&](const Floats& v) { return run(v).loss; }, run(qkv).d);
  }
}

TEST(Gradients, Classifier) {
  for (const float smoothing : {0.0f, 0.1f}) {
    const std::int64_t rows = 5, in = 6, classes = 7;
    const Floats x = grid_normal(rows * in, 1), w = grid_normal(classes * in, 2), b = grid_normal(classes, 3);
    struct Result {
      double loss;
      Floats dx, dw, db;
    };
    const auto run = [&](const Floats& x_, const Floats& w_, const Floats& b_) {
      Lab lab(reference_device());
      const auto plan = lab.device.plan(
          ClassifierShape{rows, in, classes, smoothing, f32, Math::standard, smoothing > 0 ? 0.4f : 1.0f});
      plan->bind(lab.in(f32, {classes, in}, w_));
      plan->refresh(*lab.stream);
      const Tensor loss = lab.out("loss", f32, {1}), dx = lab.out("dx", f32, {rows, in}),
                   dw = lab.out("dw", f32, {classes, in}), db = lab.out("db", f32, {classes});
      plan->forward_backward(*lab.stream, {.x = lab.in(f32, {rows, in}, x_),
                                           .targets = lab.in({rows}, indices(rows, 4, 7)),
                                           .bias = lab.in(f32, {classes}, b_),
                                           .loss = loss,
                                           .dx = dx,
                                           .d_weight = dw,
                                           .d_bias = db});
      return Result{lab.read(loss)[0], lab.read(dx), lab.read(dw), lab.read(db)};
    };
    const Result result = run(x, w, b);
    check_gradient(
        "x", x, [&](const Floats& v) { return run(v, w, b).loss; }, result.dx);
    check_gradient(
        "w", w, [&](const Floats& v) { return run(x, v, b).loss; }, result.dw);
    check_gradient(
        "b", b, [&](const Floats& v) { return run(x, w, v).loss; }, result.db);
  }
}

TEST(Gradients, RmsNorm) {
  const Dims s{4, 9}, w{9};
  const Floats x = grid_normal(s.count(), 1), residual = grid_normal(s.count(), 2), gamma = grid_normal(9, 3);
  const Floats c = grid_normal(s.count(), 5), by_pass = grid_normal(s.count(), 6);
  struct Result {
    double loss;
    Floats dx, d_gamma;
  };
  // L = Σ c·y + Σ by_pass·s, as for LayerNorm.
  const auto run = [&](const Floats& x_, const Floats& residual_, const Floats& gamma_) {
    Lab lab(reference_device());
    const Tensor gamma_t = lab.in(f32, w, gamma_), sum = lab.out("sum", f32, s), y = lab.out("y", f32, s),
                 rstd = lab.out("rstd", f32, {4});
    lab.device.rms_norm_forward(*lab.stream, {.x = lab.in(f32, s, x_),
                                              .residual = lab.in(f32, s, residual_),
                                              .sum = sum,
                                              .gamma = gamma_t,
                                              .y = y,
                                              .rstd = rstd});
    const Tensor dx = lab.out("dx", f32, s), d_gamma = lab.out("d_gamma", f32, w);
    lab.device.rms_norm_backward(*lab.stream, {.dy = lab.in(f32, s, c),
                                               .x = sum,
                                               .gamma = gamma_t,
                                               .rstd = rstd,
                                               .d_residual = lab.in(f32, s, by_pass),
                                               .dx = dx,
                                               .d_gamma = d_gamma});
    return Result{weighted_sum(lab.read(y), c) + weighted_sum(lab.read(sum), by_pass), lab.read(dx), lab.read(d_gamma)};
  };
  const Result result = run(x, residual, gamma);
  check_gradient(
      "x", x, [&](const Floats& v) { return run(v, residual, gamma).loss; }, result.dx);
  check_gradient(
      "residual", residual, [&](const Floats& v) { return run(x, v, gamma).loss; }, result.dx);
  check_gradient(
      "gamma", gamma, [&](const Floats& v) { return run(x, residual, v).loss; }, result.d_gamma);
}

TEST(Gradients, RotaryAndSwiglu) {
  // y = swiglu(rotary(x)) on 3 positions with 2 heads of 4, the first one rotated: gate is head 0, up is head 1.
  const Dims s{1, 3, 2, 4}, rows{3, 8}, half{3, 4};
  const Floats x = grid_normal(s.count(), 1), c = grid_normal(half.count(), 2);
  Floats table;
  for (int i = 0; i < 6; ++i) {
    table.push_back(static_cast<float>(std::cos(0.7 * i)));
    table.push_back(static_cast<float>(std::sin(0.7 * i)));
  }
  struct Result {
    double loss;
    Floats dx;
  };
  const auto run = [&](const Floats& x_) {
    Lab lab(reference_device());
    const Tensor angles = lab.in(f32, {3, 2, 2}, table), turned = lab.in_out("turned", f32, s, x_),
                 y = lab.out("y", f32, half), dx = lab.out("dx", f32, s);
    lab.device.rotary(*lab.stream, {.x = turned, .table = angles, .rotated = 1});
    lab.device.swiglu_forward(*lab.stream, {.x = turned.reshaped(rows), .y = y});
    lab.device.swiglu_backward(*lab.stream,
                               {.x = turned.reshaped(rows), .dy = lab.in(f32, half, c), .dx = dx.reshaped(rows)});
    lab.device.rotary(*lab.stream, {.x = dx, .table = angles, .rotated = 1, .inverse = true});
    return Result{weighted_sum(lab.read(y), c), lab.read(dx)};
  };
  check_gradient(
      "x", x, [&](const Floats& v) { return run(v).loss; }, run(x).dx);
}

TEST(Gradients, RowsByIndexAndActivations) {
  // y = act(rows of x): two of four rows, so that the others get a zero gradient.
  for (const Activation activation : {Activation::gelu_erf, Activation::tanh}) {
    const Dims all{4, 5}, some{2, 5};
    const Floats x = grid_normal(all.count(), 1), c = grid_normal(some.count(), 2);
    struct Result {
      double loss;
      Floats dx;
    };
    const auto run = [&](const Floats& x_) {
      Lab lab(reference_device());
      const Tensor which = lab.in({2}, {3, 1}), rows = lab.out("rows", f32, some), y = lab.out("y", f32, some),
                   d_rows = lab.out("d_rows", f32, some), dx = lab.out("dx", f32, all);
      lab.device.gather_rows(*lab.stream, {lab.in(f32, all, x_), which, rows});
      lab.device.activation_forward(*lab.stream, {rows, y, activation});
      lab.device.activation_backward(*lab.stream, {lab.in(f32, some, c), rows, d_rows, activation});
      lab.device.scatter_rows(*lab.stream, {d_rows, which, dx});
      return Result{weighted_sum(lab.read(y), c), lab.read(dx)};
    };
    check_gradient(
        "x", x, [&](const Floats& v) { return run(v).loss; }, run(x).dx);
  }
}

TEST(Gradients, LayerNorm) {
  const Dims s{4, 9}, w{9};
  const Floats x = grid_normal(s.count(), 1), residual = grid_normal(s.count(), 2), gamma = grid_normal(9, 3),
               beta = grid_normal(9, 4);
  const Floats c = grid_normal(s.count(), 5), by_pass = grid_normal(s.count(), 6);
  struct Result {
    double loss;
    Floats dx, d_gamma, d_beta;
  };
  // L = Σ c·y + Σ by_pass·s: the gradient that by-passes the norm joins in dx, which is that of x and of residual.
  const auto run = [&](const Floats& x_, const Floats& residual_, const Floats& gamma_, const Floats& beta_) {
    Lab lab(reference_device());
    const Tensor gamma_t = lab.in(f32, w, gamma_), sum = lab.out("sum", f32, s), y = lab.out("y", f32, s);
    const Tensor mean = lab.out("mean", f32, {4}), rstd = lab.out("rstd", f32, {4});
    lab.device.layer_norm_forward(*lab.stream, {.x = lab.in(f32, s, x_),
                                                .residual = lab.in(f32, s, residual_),
                                                .sum = sum,
                                                .gamma = gamma_t,
                                                .beta = lab.in(f32, w, beta_),
                                                .y = y,
                                                .mean = mean,
                                                .rstd = rstd});
    const Tensor dx = lab.out("dx", f32, s), d_gamma = lab.out("d_gamma", f32, w), d_beta = lab.out("d_beta", f32, w);
    lab.device.layer_norm_backward(*lab.stream, {.dy = lab.in(f32, s, c),
                                                 .x = sum,
                                                 .gamma = gamma_t,
                                                 .mean = mean,
                                                 .rstd = rstd,
                                                 .d_residual = lab.in(f32, s, by_pass),
                                                 .dx = dx,
                                                 .d_gamma = d_gamma,
                                                 .d_beta = d_beta});
    return Result{weighted_sum(lab.read(y), c) + weighted_sum(lab.read(sum), by_pass), lab.read(dx), lab.read(d_gamma),
                  lab.read(d_beta)};
  };
  const Result result = run(x, residual, gamma, beta);
  check_gradient(
      "x", x, [&](const Floats& v) { return run(v, residual, gamma, beta).loss; }, result.dx);
  check_gradient(
      "residual", residual, [&](const Floats& v) { return run(x, v, gamma, beta).loss; }, result.dx);
  check_gradient(
      "gamma", gamma, [&](const Floats& v) { return run(x, residual, v, beta).loss; }, result.d_gamma);
  check_gradient(
      "beta", beta, [&](const Floats& v) { return run(x, residual, gamma, v).loss; }, result.d_beta);
}

TEST(Gradients, BatchNorm) {
  const Dims s{2, 3, 4, 3}, w{3};
  const Floats x = grid_normal(s.count(), 1), residual = grid_normal(s.count(), 2), gamma = grid_normal(3, 3),
               beta = grid_normal(3, 4);
  const Floats c = grid_normal(s.count(), 5);
  struct Result {
    double loss;
    Floats dx, d_residual, d_gamma, d_beta, y;
  };
  for (const bool relu : {false, true}) {
    // A kink within reach of a step would spoil a difference: the residual is far from it on either side.
    Floats far = residual;
    for (float& value : far) value = relu ? (value > 0 ? value + 8 : value - 8) : value;
    const auto run = [&](const Floats& x_, const Floats& residual_, const Floats& gamma_, const Floats& beta_) {
      Lab lab(reference_device());
      const Tensor x_t = lab.in(f32, s, x_), gamma_t = lab.in(f32, w, gamma_), y = lab.out("y", f32, s),
                   mean = lab.out("mean", f32, w), rstd = lab.out("rstd", f32, w);
      lab.device.batch_norm_forward(*lab.stream, {.x = x_t,
                                                  .gamma = gamma_t,
                                                  .beta = lab.in(f32, w, beta_),
                                                  .residual = lab.in(f32, s, residual_),
                                                  .relu = relu,
                                                  .y = y,
                                                  .mean = mean,
                                                  .rstd = rstd});
      const Tensor dx = lab.out("dx", f32, s), d_residual = lab.out("d_residual", f32, s),
                   d_gamma = lab.out("d_gamma", f32, w), d_beta = lab.out("d_beta", f32, w);
      lab.device.batch_norm_backward(*lab.stream, {.dy = lab.in(f32, s, c),
                                                   .x = x_t,
                                                   .y = y,
                                                   .gamma = gamma_t,
                                                   .mean = mean,
                                                   .rstd = rstd,
                                                   .relu = relu,
                                                   .dx = dx,
                                                   .d_residual = d_residual,
                                                   .d_gamma = d_gamma,
                                                   .d_beta = d_beta});
      return Result{weighted_sum(lab.read(y), c),
                    lab.read(dx),
                    lab.read(d_residual),
                    lab.read(d_gamma),
                    lab.read(d_beta),
                    lab.read(y)};
    };
    const Result result = run(x, far, gamma, beta);
    if (relu) {
      int off = 0;
      for (const float value : result.y) off += value == 0;
      EXPECT_GT(off, 0);
      EXPECT_LT(off, static_cast<int>(s.count()));
    }
    check_gradient(
        "x", x, [&](const Floats& v) { return run(v, far, gamma, beta).loss; }, result.dx);
    check_gradient(
        "residual", far, [&](const Floats& v) { return run(x, v, gamma, beta).loss; }, result.d_residual);
    check_gradient(
        "gamma", gamma, [&](const Floats& v) { return run(x, far, v, beta).loss; }, result.d_gamma);
    check_gradient(
        "beta", beta, [&](const Floats& v) { return run(x, far, gamma, v).loss; }, result.d_beta);
  }
}

TEST(Gradients, Pools) {
  const Dims s{2, 7, 6, 3}, max_out{2, 4, 3, 3}, mean_out{2, 3};
  // A permutation of distinct values, 1/8 apart: no step of 2h reaches across.
  Floats x(static_cast<std::size_t>(s.count()));
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i * 101 % x.size()) / 8;
  const Floats c = grid_normal(max_out.count(), 1), c_mean = grid_normal(mean_out.count(), 2),
               c_joined = grid_normal(2 * 3 * 6 * 4, 4);
  const auto max_pool = [&](const Floats& x_, Floats* dx_values) {
    Lab lab(reference_device());
    const Tensor y = lab.out("y", f32, max_out), argmax = lab.out("argmax", DType::int32, max_out),
                 dx = lab.out("dx", f32, s);
    lab.device.max_pool_forward(*lab.stream, {.x = lab.in(f32, s, x_), .y = y, .argmax = argmax});
    lab.device.max_pool_backward(*lab.stream, {.dy = lab.in(f32, max_out, c), .argmax = argmax, .dx = dx});
    if (dx_values != nullptr) *dx_values = lab.read(dx);
    return weighted_sum(lab.read(y), c);
  };
  const auto average_pool = [&](const Floats& x_, Floats* dx_values) {
    Lab lab(reference_device());
    const Tensor y = lab.out("y", f32, mean_out), dx = lab.out("dx", f32, s);
    lab.device.average_pool_forward(*lab.stream, {.x = lab.in(f32, s, x_), .y = y});
    lab.device.average_pool_backward(*lab.stream, {.dy = lab.in(f32, mean_out, c_mean), .dx = dx});
    if (dx_values != nullptr) *dx_values = lab.read(dx);
    return weighted_sum(lab.read(y), c_mean);
  };
  // Behind a join of two halves of the channels, the first of which are twice in it.
  const auto average_windows = [&](const Floats& x_, Floats* dx_values) {
    Lab lab(reference_device());
    const Tensor x_t = lab.in(f32, s, x_), joined = lab.out("joined", f32, {2, 7, 6, 4}),
                 y = lab.out("y", f32, {2, 3, 6, 4}), d_joined = lab.out("d_joined", f32, {2, 7, 6, 4}),
                 dx = lab.out("dx", f32, s), part = lab.out("part", f32, s);
    const PerAxis kernel{3, 5}, stride{2, 1}, padding{0, 2};
    lab.device.copy_channels(*lab.stream, {x_t, joined, 0, 1, 3});
    lab.device.copy_channels(*lab.stream, {x_t, joined, 0, 0, 1});
    lab.device.average_pool_forward(*lab.stream, {joined, y, kernel, stride, padding});
    const Tensor dy = lab.in(f32, {2, 3, 6, 4}, c_joined);
    lab.device.average_pool_backward(*lab.stream, {dy, d_joined, kernel, stride, padding});
    lab.device.copy_channels(*lab.stream, {d_joined, dx, 1, 0, 3});
    lab.device.fill(*lab.stream, {part, 0});
    lab.device.copy_channels(*lab.stream, {d_joined, part, 0, 0, 1});
    lab.device.add(*lab.stream, {dx, part, dx});
    if (dx_values != nullptr) *dx_values = lab.read(dx);
    return weighted_sum(lab.read(y), c_joined);
  };
  Floats gradient;
  max_pool(x, &gradient);
  check_gradient(
      "max", x, [&](const Floats& v) { return max_pool(v, nullptr); }, gradient);
  const Floats small = grid_normal(s.count(), 3);
  average_pool(small, &gradient);
  check_gradient(
      "average", small, [&](const Floats& v) { return average_pool(v, nullptr); }, gradient);
  average_windows(small, &gradient);
  check_gradient(
      "windows of a join", small, [&](const Floats& v) { return average_windows(v, nullptr); }, gradient);
}

TEST(Gradients, NearestUpsampling) {
  const Dims small{2, 3, 2, 3}, large{2, 6, 6, 3};
  const PerAxis factor{2, 3};
  const Floats x = grid_normal(small.count(), 1), c = grid_normal(large.count(), 2);
  const auto run = [&](const Floats& x_, Floats* gradient) {
    Lab lab(reference_device());
    const Tensor y = lab.out("y", f32, large), dx = lab.out("dx", f32, small);
    lab.device.average_pool_backward(*lab.stream, {lab.in(f32, small, x_), y, factor, factor, 0, true});
    lab.device.average_pool_forward(*lab.stream, {lab.in(f32, large, c), dx, factor, factor, 0, true});
    if (gradient != nullptr) *gradient = lab.read(dx);
    return weighted_sum(lab.read(y), c);
  };
  Floats gradient;
  run(x, &gradient);
  check_gradient(
      "x", x, [&](const Floats& v) { return run(v, nullptr); }, gradient);
}

TEST(Gradients, BiasesAndSquaredErrors) {
  const Dims s{2, 3, 5};
  const Floats x = grid_normal(s.count(), 1), bias = grid_normal(5, 2), targets = grid_normal(s.count(), 3);
  struct Result {
    double loss;
    Floats d_x, d_bias;
  };
  const auto run = [&](const Floats& x_, const Floats& bias_) {
    Lab lab(reference_device());
    const Tensor y = lab.out("y", f32, s), loss = lab.out("loss", f32, {1}), d = lab.out("d", f32, s),
                 d_bias = lab.out("d_bias", f32, {5});
    lab.device.add_bias(*lab.stream, {lab.in(f32, s, x_), y, lab.in(f32, {5}, bias_)});
    lab.device.mean_squared_error(*lab.stream, {y, lab.in(f32, s, targets), loss, d});
    lab.device.bias_backward(*lab.stream, {d, d_bias});
    return Result{static_cast<double>(lab.read(loss)[0]), lab.read(d), lab.read(d_bias)};
  };
  const Result result = run(x, bias);
  check_gradient(
      "x", x, [&](const Floats& v) { return run(v, bias).loss; }, result.d_x);
  check_gradient(
      "bias", bias, [&](const Floats& v) { return run(x, v).loss; }, result.d_bias);
}

TEST(Gradients, Embedding) {
  const std::int64_t batch = 2, seq = 5, width = 3, vocabulary = 4;
  const Floats table = grid_normal(vocabulary * width, 1), positions = grid_normal(seq * width, 2),
               c = grid_normal(batch * seq * width, 3);
  struct Result {
    double loss;
    Floats d_table, d_positions;
  };
  const auto run = [&](const Floats& table_, const Floats& positions_) {
    Lab lab(reference_device());
    const Tensor tokens = lab.in({batch, seq}, indices(batch * seq, 4, 4)), y = lab.out("y", f32, {batch, seq, width});
    lab.device.embedding_forward(
        *lab.stream, {tokens, lab.in(f32, {vocabulary, width}, table_), lab.in(f32, {seq, width}, positions_), y});
    const Tensor d_table = lab.in_out("d_table", f32, {vocabulary, width}, Floats(table_.size(), 0.0f)),
                 d_positions = lab.out("d_positions", f32, {seq, width});
    lab.device.embedding_backward(*lab.stream, {.tokens = tokens,
                                                .dy = lab.in(f32, {batch, seq, width}, c),
                                                .d_token_table = d_table,
                                                .d_position_table = d_positions});
    return Result{weighted_sum(lab.read(y), c), lab.read(d_table), lab.read(d_positions)};
  };
  const Result result = run(table, positions);
  check_gradient(
      "table", table, [&](const Floats& v) { return run(v, positions).loss; }, result.d_table);
  check_gradient(
      "positions", positions, [&](const Floats& v) { return run(table, v).loss; }, result.d_positions);
}

}  // namespace
}  // namespace tw::test
