// Global norm, AdamW and SGD on the flat buffers.
#include <cmath>
#include <limits>

#include "models/compute/formulas.hpp"
#include "tests/support/comparison.hpp"
#include "tests/support/devices.hpp"

namespace tw::test {

using namespace models;

namespace {

TW_DEVICE_SUITE(Optimizer);

/// In this suite the dtype says whether there is a copy of the weights in half. Two segments with a gap, and a tail:
/// padding.
struct Layout {
  std::int64_t count;
  std::vector<DecaySegment> segments;
};
const std::vector<Layout> layouts = {{1, {{0, 1, 0.1f}}},
                                     {64, {{0, 17, 0.1f}, {32, 63, 0}}},
                                     {1023, {{0, 31, 0}, {31, 33, 0.1f}, {33, 1023, 0.2f}}},
                                     {5000, {{0, 127, 0}, {128, 4001, 0.1f}, {4032, 4033, 0.2f}}},
                                     {4096, {{0, 4096, 0.05f}}}};

const StepScalars step{1e-2f, 1 - 0.9f * 0.9f * 0.9f, 0.004f, 0.25f, 0.5f, 7.0f};

Case adamw(const Layout& layout, DType weights, int steps) {
  return [=](Lab& lab) {
    const Dims s{layout.count};
    AdamW args;
    args.master = lab.in_out("master", DType::float32, s, normal(s.count(), 1));
    if (is_half(weights)) args.weights = lab.in_out("weights", weights, s, normal(s.count(), 6));
    args.gradient = lab.in(DType::float32, s, normal(s.count(), 2));
    args.first_moment = lab.in_out("first_moment", DType::float32, s, normal(s.count(), 3, 0.1));
    args.second_moment = lab.in_out("second_moment", DType::float32, s, uniform(s.count(), 4, 0, 0.1));
    args.segments = lab.segments(layout.segments);
    args.segment_count = static_cast<int>(layout.segments.size());
    args.scalars = lab.scalars(step);
    for (int i = 0; i < steps; ++i) lab.device.adamw(*lab.stream, args);
  };
}

Case sgd(const Layout& layout, DType weights) {
  return [=](Lab& lab) {
    const Dims s{layout.count};
    Sgd args;
    args.master = lab.in_out("master", DType::float32, s, normal(s.count(), 1));
    if (is_half(weights)) args.weights = lab.in_out("weights", weights, s, normal(s.count(), 6));
    args.gradient = lab.in(DType::float32, s, normal(s.count(), 2));
    args.momentum_buffer = lab.in_out("momentum_buffer", DType::float32, s, normal(s.count(), 3));
    args.segments = lab.segments(layout.segments);
    args.segment_count = static_cast<int>(layout.segments.size());
    args.scalars = lab.scalars(step);
    lab.device.sgd(*lab.stream, args);
  };
}

/// The copy is the rounded master, bit for bit; elements outside the segments are as they were.
void check_copy_and_padding(Device& device, const Layout& layout, const Case& run, DType weights) {
  const std::vector<Output> outputs = run_on(device, run);
  const Floats master_before = normal(layout.count, 1), weights_before = normal(layout.count, 6);
  int changed = 0;
  for (std::int64_t i = 0; i < layout.count; ++i) {
    bool inside = false;
    for (const DecaySegment& segment : layout.segments) inside = inside || (i >= segment.begin && i < segment.end);
    const float master = outputs[0].values[i];
    if (inside) changed += master != master_before[i];
    if (!inside) {
      EXPECT_EQ(master, master_before[i]) << i;
    }
    if (is_half(weights)) {
      EXPECT_EQ(outputs[1].values[i], as_stored(weights, inside ? master : weights_before[i])) << i;
    }
  }
  EXPECT_GT(changed, 0);
}

TEST_P(Optimizer, AdamW) {
  TW_NEEDS(Op::adamw);
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(layout.count);
    compare(device(), Op::adamw, dtype(), adamw(layout, dtype(), 1));
    check_copy_and_padding(device(), layout, adamw(layout, dtype(), 1), dtype());
  }
}

TEST_P(Optimizer, Sgd) {
  TW_NEEDS(Op::sgd);
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(layout.count);
    compare(device(), Op::sgd, dtype(), sgd(layout, dtype()));
    check_copy_and_padding(device(), layout, sgd(layout, dtype()), dtype());
  }
}

TEST_P(Optimizer, ByHand) {
  TW_NEEDS(Op::adamw);
  TW_NEEDS(Op::sgd);
  Lab lab(device());
  const Dims s{1};
  const DecaySegment* segments = lab.segments({{0, 1, 0.5f}});
  // First step of AdamW: m̂ = g, v̂ = g², so that θ moves by lr·sign(g) after the decay by 1 − lr·λ.
  const StepScalars* scalars = lab.scalars({0.125f, 0.5f, 0.25f, 0.5f, 1.0f, 0});
  const Tensor master = lab.in_out("master", DType::float32, s, {4}), gradient = lab.in(DType::float32, s, {-6});
  device().adamw(*lab.stream, {.master = master,
                               .gradient = gradient,
                               .first_moment = lab.in_out("m", DType::float32, s, {0}),
                               .second_moment = lab.in_out("v", DType::float32, s, {0}),
                               .segments = segments,
                               .segment_count = 1,
                               .scalars = scalars,
                               .beta1 = 0.5f,
                               .beta2 = 0.75f,
                               .epsilon = 0});
  EXPECT_NEAR(lab.read(master)[0], 4 * (1 - 0.125 * 0.5) + 0.125, 1e-6);
  // v = 0.5·8 + (-3 + 0.5·4) = 3, θ = 4 − 0.125·3.
  const Tensor other = lab.in_out("other", DType::float32, s, {4}),
               momentum = lab.in_out("momentum", DType::float32, s, {8});
  device().sgd(*lab.stream, {.master = other,
                             .gradient = gradient,
                             .momentum_buffer = momentum,
                             .segments = segments,
                             .segment_count = 1,
                             .scalars = scalars,
                             .momentum = 0.5f});
  EXPECT_EQ(lab.read(momentum)[0], 3);
  EXPECT_EQ(lab.read(other)[0], 3.625f);
}

TEST_P(Optimizer, GlobalNorm) {
  TW_NEEDS(Op::global_norm);
  for (const std::int64_t count : {2, 17, 127, 1023, 4096, 100003}) {
    for (const float max_norm : {0.0f, 1.0f, 1e6f}) {
      compare(device(), Op::global_norm, dtype(), [&](Lab& lab) {
        lab.device.global_norm(*lab.stream,
                               {lab.in(DType::float32, {count}, normal(count, 1)), lab.scalars(step), max_norm});
      });
    }
  }
  // 3, 4 → 5, scaled by 0.5; clipping to 1 gives 0.4; the rest of the scalars stays.
  for (const float max_norm : {0.0f, 1.0f, 2.5f, 3.0f}) {
    Lab lab(device());
    device().global_norm(*lab.stream,
                         {lab.in(DType::float32, {2}, {3, -4}), lab.scalars({0.1f, 0.2f, 0.3f, 0.5f, 9, 9}), max_norm});
    EXPECT_EQ(lab.finish()[0].values,
              (Floats{0.1f, 0.2f, 0.3f, 0.5f, max_norm == 1.0f ? 0.4f : 1.0f, 2.5f, 1, 0, 0, 0, 0}));
  }
}

TEST_P(Optimizer, GlobalNormOfHugeAndTinyGradients) {
  TW_NEEDS(Op::global_norm);
  // Squares leave float32's range; float64 holds them.
  for (const float size : {1e25f, 1e-25f}) {
    Lab lab(device());
    device().global_norm(*lab.stream,
                         {lab.in(DType::float32, {400}, Floats(400, size)), lab.scalars({0, 1, 1, 1, 1, 0}), 0});
    EXPECT_NEAR(lab.finish()[0].values[5] / (20 * size), 1, 1e-6);
  }
}

TEST_P(Optimizer, LossScaleIsTakenOut) {
  TW_NEEDS(Op::adamw);
  // The scale is a power of two: a scaled gradient and its scale give the very bits of the plain gradient.
  const Dims s{1023};
  const DecaySegment all{0, 1023, 0.1f};
  std::vector<std::vector<Output>> outputs;
  for (const float scale : {1.0f, 1024.0f}) {
    outputs.push_back(run_on(device(), [&](Lab& lab) {
      Floats g = normal(s.count(), 2);
      for (float& value : g) value *= scale;
      StepScalars scalars = step;
      scalars.loss_scale = scale;
      StepScalars* on_device = lab.scalars(scalars);
      const Tensor gradient = lab.in(DType::float32, s, g);
      lab.device.global_norm(*lab.stream, {gradient, on_device, 1.0f});
      lab.device.adamw(*lab.stream, {.master = lab.in_out("master", DType::float32, s, normal(s.count(), 1)),
                                     .gradient = gradient,
                                     .first_moment = lab.in_out("m", DType::float32, s, normal(s.count(), 3, 0.1)),
                                     .second_moment = lab.in_out("v", DType::float32, s, uniform(s.count(), 4, 0, 0.1)),
                                     .segments = lab.segments({all}),
                                     .segment_count = 1,
                                     .scalars = on_device});
    }));
  }
  EXPECT_EQ(outputs[0][0].values[5], outputs[1][0].values[5]) << "the norm is of the gradient without the scale";
  for (std::size_t i = 1; i < outputs[0].size(); ++i) EXPECT_EQ(outputs[0][i].bytes, outputs[1][i].bytes);
}

TEST_P(Optimizer, AStepThatIsNotFiniteChangesNothing) {
  TW_NEEDS(Op::adamw);
  TW_NEEDS(Op::sgd);
  const Dims s{1000};
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    for (const bool find : {true, false}) {
      Lab lab(device());
      Floats g = normal(s.count(), 2);
      g[777] = bad;
      const Tensor gradient = lab.in(DType::float32, s, g);
      const Floats before = normal(s.count(), 1);
      const Tensor master = lab.in_out("master", DType::float32, s, before),
                   m = lab.in_out("m", DType::float32, s, before),
                   v = lab.in_out("v", DType::float32, s, uniform(s.count(), 4, 0, 0.1)),
                   other = lab.in_out("other", DType::float32, s, before),
                   mu = lab.in_out("mu", DType::float32, s, before);
      const Tensor weights = is_half(dtype()) ? lab.in_out("weights", dtype(), s, before) : Tensor{};
      const Floats weights_before = weights ? lab.read(weights) : Floats{};
      StepScalars* scalars = lab.scalars(step);
      const DecaySegment* segments = lab.segments({{0, 1000, 0.1f}});
      device().global_norm(*lab.stream, {gradient, scalars, 1.0f, find});
      device().adamw(*lab.stream, {master, weights, gradient, m, v, segments, 1, scalars});
      device().sgd(*lab.stream, {other, {}, gradient, mu, segments, 1, scalars});
      if (find) {
        for (const Tensor& state : {master, m, other, mu}) EXPECT_EQ(lab.read(state), before);
        if (weights) {
          EXPECT_EQ(lab.read(weights), weights_before);
        }
      } else {
        EXPECT_FALSE(std::isfinite(lab.read(master)[777])) << "a run that diverges must show it";
        EXPECT_FALSE(std::isfinite(lab.read(other)[777]));
      }
    }
  }
}

/// The scalars of a Lab as integers where they are.
StepScalars scalars_of(Device& device, Lab& lab, const StepScalars* scalars) {
  StepScalars read;
  device.copy_to_host(*lab.stream, &read, scalars, sizeof read);
  lab.stream->synchronize();
  return read;
}

TEST_P(Optimizer, LossScaleFollowsItsRule) {
  if (!device().supports(Op::loss_scale, DType::fp16)) {
    EXPECT_FALSE(device().why_unsupported(Precision::fp16).empty());
    return;
  }
  Lab lab(device());
  StepScalars start;
  start.loss_scale = 8;
  StepScalars* scalars = lab.scalars(start);
  const auto bad = lab.in(DType::float32, {2}, {1, std::numeric_limits<float>::infinity()}),
             good = lab.in(DType::float32, {2}, {1, 2});
  const auto run = [&](const Tensor& gradient) {
    device().global_norm(*lab.stream, {gradient, scalars, 0, true});
    device().update_loss_scale(*lab.stream, {scalars, 3, 0.5f, 0.25f});
    return scalars_of(device(), lab, scalars);
  };
  StepScalars got = run(bad);
  EXPECT_EQ(got.loss_scale, 4);
  EXPECT_EQ(got.skipped_steps, 1);
  EXPECT_EQ(got.taken_steps, 0);
  EXPECT_EQ(got.found_non_finite, 0) << "it is of one step";
  EXPECT_EQ(got.bias_correction1, 0.5f) << "the step was none of the optimizer's";
  for (const int taken : {1, 2, 3}) {
    got = run(good);
    EXPECT_EQ(got.loss_scale, taken == 3 ? 8 : 4);
    EXPECT_EQ(got.good_steps, taken % 3);
    EXPECT_EQ(got.taken_steps, taken);
    EXPECT_EQ(got.bias_correction1, static_cast<float>(1 - std::pow(0.5, taken + 1)));
    EXPECT_EQ(got.bias_correction2, static_cast<float>(1 - std::pow(0.25, taken + 1)));
  }
  for (int i = 0; i < 6; ++i) got = run(bad);
  EXPECT_EQ(got.loss_scale, 1) << "not below 1";
  EXPECT_EQ(got.skipped_steps, 7);
  EXPECT_EQ(formula::next_loss_scale({16777216.0f, 9}, false, 1).scale, 16777216.0f) << "not above 2^24";
}

}  // namespace
}  // namespace tw::test
