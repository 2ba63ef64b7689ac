// Global norm, AdamW and SGD on the flat buffers.
#include <cmath>

#include "tests/support/devices.hpp"

namespace tw::test {
namespace {

TW_DEVICE_SUITE(Optimizer);

/// In this suite the dtype says whether there is a bf16 copy of the weights. Two segments with a gap, and a tail:
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

Case adamw(const Layout& layout, bool narrow, int steps) {
  return [=](Lab& lab) {
    const Dims s{layout.count};
    AdamW args;
    args.master = lab.in_out("master", DType::float32, s, normal(s.count(), 1));
    if (narrow) args.weights = lab.in_out("weights", DType::bf16, s, normal(s.count(), 6));
    args.gradient = lab.in(DType::float32, s, normal(s.count(), 2));
    args.first_moment = lab.in_out("first_moment", DType::float32, s, normal(s.count(), 3, 0.1));
    args.second_moment = lab.in_out("second_moment", DType::float32, s, uniform(s.count(), 4, 0, 0.1));
    args.segments = lab.segments(layout.segments);
    args.segment_count = static_cast<int>(layout.segments.size());
    args.scalars = lab.scalars(step);
    for (int i = 0; i < steps; ++i) lab.device.adamw(*lab.stream, args);
  };
}

Case sgd(const Layout& layout, bool narrow) {
  return [=](Lab& lab) {
    const Dims s{layout.count};
    Sgd args;
    args.master = lab.in_out("master", DType::float32, s, normal(s.count(), 1));
    if (narrow) args.weights = lab.in_out("weights", DType::bf16, s, normal(s.count(), 6));
    args.gradient = lab.in(DType::float32, s, normal(s.count(), 2));
    args.momentum_buffer = lab.in_out("momentum_buffer", DType::float32, s, normal(s.count(), 3));
    args.segments = lab.segments(layout.segments);
    args.segment_count = static_cast<int>(layout.segments.size());
    args.scalars = lab.scalars(step);
    lab.device.sgd(*lab.stream, args);
  };
}

/// The copy is the rounded master, bit for bit; elements outside the segments are as they were.
void check_copy_and_padding(Device& device, const Layout& layout, const Case& run, bool narrow) {
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
    if (narrow) {
      EXPECT_EQ(outputs[1].values[i], to_float(to_bf16(inside ? master : weights_before[i]))) << i;
    }
  }
  EXPECT_GT(changed, 0);
}

TEST_P(Optimizer, AdamW) {
  TW_NEEDS(Op::adamw);
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(layout.count);
    const bool narrow = dtype() == DType::bf16;
    compare(device(), Op::adamw, dtype(), adamw(layout, narrow, 1));
    check_copy_and_padding(device(), layout, adamw(layout, narrow, 1), narrow);
  }
}

TEST_P(Optimizer, Sgd) {
  TW_NEEDS(Op::sgd);
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(layout.count);
    const bool narrow = dtype() == DType::bf16;
    compare(device(), Op::sgd, dtype(), sgd(layout, narrow));
    check_copy_and_padding(device(), layout, sgd(layout, narrow), narrow);
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
    EXPECT_EQ(lab.finish()[0].values, (Floats{0.1f, 0.2f, 0.3f, 0.5f, max_norm == 1.0f ? 0.4f : 1.0f, 2.5f}));
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

}  // namespace
}  // namespace tw::test
