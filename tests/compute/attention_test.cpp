// Attention: by hand where softmax is trivial, against the reference elsewhere.
#include <cmath>

#include "models/compute/error.hpp"
#include "tests/support/comparison.hpp"
#include "tests/support/devices.hpp"

namespace tw::test {

using namespace models;

namespace {

TW_DEVICE_SUITE(Attention);

const std::vector<AttentionShape> ungrouped_shapes = {{1, 2, 1, 1},   {2, 3, 2, 17},  {1, 17, 3, 8},  {3, 31, 1, 33},
                                                      {2, 1, 2, 1},   {1, 70, 2, 1},  {2, 33, 2, 31}, {1, 127, 2, 64},
                                                      {2, 64, 3, 32}, {1, 256, 1, 64}};

Dims packed(const AttentionShape& s) { return s.packed(); }
Dims out(const AttentionShape& s) { return s.unpacked(); }
Dims rows(const AttentionShape& s) { return s.row_values(); }

AttentionShape grouped(std::int64_t batch, std::int64_t seq, std::int64_t heads, std::int64_t kv_heads,
                       std::int64_t head_dim) {
  AttentionShape s{batch, seq, heads, head_dim};
  s.kv_heads = kv_heads;
  return s;
}
const std::vector<AttentionShape> grouped_shapes = {grouped(1, 2, 2, 1, 2),   grouped(2, 17, 4, 2, 8),
                                                    grouped(1, 70, 3, 1, 3),  grouped(2, 130, 6, 2, 16),
                                                    grouped(1, 65, 8, 2, 64), grouped(1, 257, 4, 1, 32)};

/// Forward, and backward where d_out is given; `scale` is the standard deviation of qkv.
Case attention(const AttentionShape& s, bool backward, double scale) {
  return [=](Lab& lab) {
    const auto plan = lab.device.plan(s);
    const Tensor qkv = lab.in(s.dtype, packed(s), normal(packed(s).count(), 1, scale));
    const Tensor y = lab.out("out", s.dtype, out(s), is_half(s.dtype) ? 1 : -1);
    const Tensor log_sum_exp = lab.out("log_sum_exp", DType::float32, rows(s), 0);
    plan->forward(*lab.stream, {.qkv = qkv, .out = y, .log_sum_exp = log_sum_exp});
    if (!backward) return;
    plan->backward(*lab.stream, {.d_out = lab.in(s.dtype, out(s), normal(out(s).count(), 2)),
                                 .qkv = qkv,
                                 .out = y,
                                 .log_sum_exp = log_sum_exp,
                                 .d_qkv = lab.out("d_qkv", s.dtype, packed(s))});
  };
}

void check(Device& device, const std::vector<AttentionShape>& shapes, Op op, DType dtype, bool backward) {
  for (AttentionShape s : shapes) {
    for (const bool causal : {true, false}) {
      s.dtype = dtype;
      s.causal = causal;
      SCOPED_TRACE(packed(s).str() + (causal ? " causal" : ""));
      compare(device, op, dtype, attention(s, backward, 1));
    }
  }
}

TEST_P(Attention, Forward) {
  TW_NEEDS(Op::attention_forward);
  check(device(), ungrouped_shapes, Op::attention_forward, dtype(), false);
}

TEST_P(Attention, Backward) {
  TW_NEEDS(Op::attention_backward);
  check(device(), ungrouped_shapes, Op::attention_backward, dtype(), true);
}

/// Empty where the device shares key and value heads between query heads.
std::string why_no_groups(Device& device, DType dtype) {
  AttentionShape s = grouped(1, 16, 4, 2, 8);
  s.dtype = dtype;
  try {
    device.plan(s);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.failure(), Failure::unsupported) << error.what();
    EXPECT_EQ(device.info().kind, DeviceKind::cuda);
    return error.what();
  }
}
#define TW_NEEDS_GROUPS() \
  if (const std::string reason = why_no_groups(device(), dtype()); !reason.empty()) GTEST_SKIP() << reason

TEST_P(Attention, GroupedForward) {
  TW_NEEDS(Op::attention_forward);
  TW_NEEDS_GROUPS();
  check(device(), grouped_shapes, Op::attention_forward, dtype(), false);
}

TEST_P(Attention, GroupedBackward) {
  TW_NEEDS(Op::attention_backward);
  TW_NEEDS_GROUPS();
  check(device(), grouped_shapes, Op::attention_backward, dtype(), true);
}

/// Groups are what one head for each query head is with the shared keys and values repeated, and their gradients added.
// From 1024 positions on the cpu device goes by larger blocks, and the widest heads of the networks have 128 columns.
// No block of the other devices depends on the length, and stand-ins take minutes.
TEST_P(Attention, OfLongSequences) {
  if (device().info().kind != DeviceKind::cpu) return;
  TW_NEEDS(Op::attention_backward);
  check(device(), {{1, 1025, 1, 8}, grouped(1, 1153, 2, 1, 4), grouped(1, 70, 2, 1, 128)}, Op::attention_backward,
        dtype(), true);
}

TEST_P(Attention, GroupedIsRepeatedKeysAndValues) {
  TW_NEEDS(Op::attention_backward);
  TW_NEEDS_GROUPS();
  AttentionShape few = grouped(2, 33, 6, 2, 8), many = grouped(2, 33, 6, 6, 8);
  few.dtype = many.dtype = dtype();
  const std::int64_t positions = few.batch * few.seq, width = few.head_dim;
  const Floats qkv = normal(packed(few).count(), 1);
  // Key and value heads of `few` behind its 6 query heads: k0 k1 v0 v1; of `many`: k0 k0 k0 k1 k1 k1 v0 …
  const auto shared = [](std::int64_t head) { return head < 6 ? head : 6 + (head - 6) / 3; };
  Floats repeated(static_cast<std::size_t>(packed(many).count()));
  for (std::int64_t i = 0; i < positions * 18 * width; ++i) {
    const std::int64_t position = i / (18 * width), head = i / width % 18;
    repeated[i] = qkv[(position * 10 + shared(head)) * width + i % width];
  }
  const Floats d_out = normal(out(few).count(), 2);
  const auto run = [&](const AttentionShape& s, const Floats& values) {
    Lab lab(device());
    const auto plan = device().plan(s);
    const Tensor x = lab.in(s.dtype, packed(s), values), y = lab.out("out", s.dtype, out(s)),
                 sums = lab.out("log_sum_exp", DType::float32, rows(s)), d = lab.out("d_qkv", s.dtype, packed(s));
    plan->forward(*lab.stream, {x, y, sums});
    plan->backward(*lab.stream, {lab.in(s.dtype, out(s), d_out), x, y, sums, d});
    return std::pair(lab.read(y), lab.read(d));
  };
  const auto [y, d] = run(few, qkv);
  const auto [y_wanted, d_repeated] = run(many, repeated);
  EXPECT_EQ(y, y_wanted);
  Floats d_wanted(d.size(), 0.0f);
  for (std::int64_t i = 0; i < positions * 18 * width; ++i) {
    const std::int64_t position = i / (18 * width), head = i / width % 18;
    d_wanted[(position * 10 + shared(head)) * width + i % width] += d_repeated[i];
  }
  EXPECT_LE(normalised_error(d, d_wanted), is_half(dtype()) ? unit_roundoff(dtype()) : 1e-6);
}

TEST_P(Attention, Bf16ProductsFollowReference) {
  if (dtype() != DType::float32) return;  // it is how float32 is multiplied
  TW_NEEDS(Op::attention_backward);
  for (AttentionShape s : {AttentionShape{2, 33, 2, 31}, AttentionShape{1, 130, 2, 64}}) {
    s.math = Math::bf16;
    for (const bool backward : {false, true}) {
      const Op op = backward ? Op::attention_backward : Op::attention_forward;
      compare_bf16_products(device(), op, attention(s, backward, 1));
    }
  }
}

TEST_P(Attention, OfOnePositionIsItsValue) {
  TW_NEEDS(Op::attention_backward);
  for (const std::int64_t head_dim : {4, 16}) {  // 1/sqrt(head_dim) is a power of two: scores are exact
    for (const bool causal : {true, false}) {
      const AttentionShape s{3, 1, 2, head_dim, causal, dtype()};
      Lab lab(device());
      const auto plan = device().plan(s);
      const Floats values = integers(packed(s).count(), 1, -2, 2), gradient = integers(out(s).count(), 2, -2, 2);
      const Tensor qkv = lab.in(s.dtype, packed(s), values);
      const Tensor y = lab.out("out", s.dtype, out(s)), log_sum_exp = lab.out("log_sum_exp", DType::float32, rows(s));
      const Tensor d_qkv = lab.out("d_qkv", s.dtype, packed(s));
      plan->forward(*lab.stream, {.qkv = qkv, .out = y, .log_sum_exp = log_sum_exp});
      plan->backward(*lab.stream, {.d_out = lab.in(s.dtype, out(s), gradient),
                                   .qkv = qkv,
                                   .out = y,
                                   .log_sum_exp = log_sum_exp,
                                   .d_qkv = d_qkv});
      const std::int64_t part = s.heads * s.head_dim;
      const Floats y_values = lab.read(y), d_values = lab.read(d_qkv), sums = lab.read(log_sum_exp);
      for (std::int64_t b = 0; b < s.batch; ++b) {
        for (std::int64_t i = 0; i < part; ++i) {
          EXPECT_EQ(y_values[b * part + i], values[(3 * b + 2) * part + i]);
          EXPECT_EQ(d_values[(3 * b + 0) * part + i], 0);
          EXPECT_EQ(d_values[(3 * b + 1) * part + i], 0);
          EXPECT_EQ(d_values[(3 * b + 2) * part + i], gradient[b * part + i]);
        }
        for (std::int64_t h = 0; h < s.heads; ++h) {
          float score = 0;
          for (std::int64_t d = 0; d < head_dim; ++d) {
            score += values[3 * b * part + h * head_dim + d] * values[(3 * b + 1) * part + h * head_dim + d];
          }
          EXPECT_EQ(sums[b * s.heads + h], score / std::sqrt(static_cast<float>(head_dim)));
        }
      }
      lab.finish();
    }
  }
}

TEST_P(Attention, OfEqualScoresIsTheMean) {
  TW_NEEDS(Op::attention_forward);
  const AttentionShape s{1, 32, 1, 8, false, dtype()};
  Lab lab(device());
  Floats values(static_cast<std::size_t>(packed(s).count()), 0.0f);  // q = k = 0
  Floats mean(8, 0.0f);
  const Floats v = integers(32 * 8, 3, -4, 4);
  for (std::int64_t t = 0; t < 32; ++t) {
    for (std::int64_t d = 0; d < 8; ++d) {
      values[(t * 3 + 2) * 8 + d] = v[t * 8 + d];
      mean[d] += v[t * 8 + d] / 32;
    }
  }
  const Tensor y = lab.out("out", s.dtype, out(s)), log_sum_exp = lab.out("log_sum_exp", DType::float32, rows(s));
  device().plan(s)->forward(*lab.stream,
                            {.qkv = lab.in(s.dtype, packed(s), values), .out = y, .log_sum_exp = log_sum_exp});
  const Floats y_values = lab.read(y), sums = lab.read(log_sum_exp);
  for (std::int64_t t = 0; t < 32; ++t) {
    for (std::int64_t d = 0; d < 8; ++d) EXPECT_EQ(y_values[t * 8 + d], mean[d]);  // k/32, |k| ≤ 128: exact in bf16
    EXPECT_NEAR(sums[t], std::log(32.0f), 1e-6);
  }
}

TEST_P(Attention, CausalRowsSeeNoLaterPosition) {
  TW_NEEDS(Op::attention_forward);
  const AttentionShape s{1, 33, 2, 8, true, dtype()};
  Floats first = normal(packed(s).count(), 1), second = first;
  const std::int64_t cut = 17, position = 3 * s.heads * s.head_dim;
  const Floats other = normal(packed(s).count(), 2);
  std::copy(other.begin() + cut * position, other.end(), second.begin() + cut * position);
  const auto run = [&](const Floats& values) {
    Lab lab(device());
    const Tensor y = lab.out("out", s.dtype, out(s)), log_sum_exp = lab.out("log_sum_exp", DType::float32, rows(s));
    device().plan(s)->forward(*lab.stream,
                              {.qkv = lab.in(s.dtype, packed(s), values), .out = y, .log_sum_exp = log_sum_exp});
    return lab.read(y);
  };
  const Floats a = run(first), b = run(second);
  const std::int64_t seen = cut * s.heads * s.head_dim;
  EXPECT_TRUE(std::equal(a.begin(), a.begin() + seen, b.begin()));
  EXPECT_FALSE(std::equal(a.begin() + seen, a.end(), b.begin() + seen));
}

TEST_P(Attention, SurvivesLargeScores) {
  TW_NEEDS(Op::attention_forward);
  // Scores of ±200: a softmax without subtracting the maximum overflows.
  const AttentionShape s{1, 17, 1, 16, true, dtype()};
  compare(device(), Op::attention_forward, dtype(), [&](Lab& lab) {
    Floats values = normal(packed(s).count(), 1, 1);
    for (std::int64_t t = 0; t < s.seq; ++t) {
      for (std::int64_t d = 0; d < 2 * s.head_dim; ++d)
        values[t * 3 * s.head_dim + d] = (t + d) % 3 == 0 ? 8.0f : -6.0f;
    }
    const Tensor log_sum_exp = lab.out("log_sum_exp", DType::float32, rows(s), 0);
    lab.device.plan(s)->forward(*lab.stream, {.qkv = lab.in(s.dtype, packed(s), values),
                                              .out = lab.out("out", s.dtype, out(s)),
                                              .log_sum_exp = log_sum_exp});
  });
}

}  // namespace
}  // namespace tw::test
