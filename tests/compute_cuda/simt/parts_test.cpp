// Kernels that are parts of plans, which no operator test reaches on the CPU: against sums and formulas in float64.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "models/compute/cuda/kernels/kernels.hpp"
#include "models/compute/formulas.hpp"
#include "tests/support/comparison.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/simt/simt.hpp"

namespace tw::test {

using namespace models;

namespace {

class Parts : public DeviceTest {
 protected:
  /// What the stored dtype keeps.
  Floats stored(Floats values) const {
    for (float& value : values) value = as_stored(dtype(), value);
    return values;
  }
  /// Normalised error within the table's tolerance for `op`.
  void expect_close(const Floats& got, const Floats& want, Op op, DType output, int roundings = -1) const {
    EXPECT_LE(normalised_error(got, want), tolerance(op, dtype(), output, got.size(), roundings)) << to_string(op);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, Parts, testing::ValuesIn(device_cases()), device_case_name);

/// A tensor of count elements that starts `offset` elements behind a wide boundary, and its neighbours must stay.
struct Offset {
  Tensor whole, part;
  std::int64_t offset = 0;
};
Offset offset_tensor(Lab& lab, DType type, const Floats& values, std::int64_t offset, const std::string& name = "") {
  Floats padded(values.size() + static_cast<std::size_t>(2 * offset), 77.0f);
  std::copy(values.begin(), values.end(), padded.begin() + offset);
  const Dims dims{static_cast<std::int64_t>(padded.size())};
  const Tensor whole = name.empty() ? lab.in(type, dims, padded) : lab.in_out(name, type, dims, padded);
  return {whole, whole.slice(offset, {static_cast<std::int64_t>(values.size())}), offset};
}
/// Its values; fails where a neighbour has changed.
Floats read(Lab& lab, const Offset& tensor) {
  const Floats all = lab.read(tensor.whole);
  for (std::int64_t i = 0; i < tensor.offset; ++i) {
    EXPECT_EQ(all[static_cast<std::size_t>(i)], 77.0f);
    EXPECT_EQ(all[all.size() - 1 - static_cast<std::size_t>(i)], 77.0f);
  }
  return {all.begin() + tensor.offset, all.end() - tensor.offset};
}

constexpr std::int64_t counts[] = {1, 31, 33, 1023, 4096, 70001};

TEST_P(Parts, Gelu) {
  for (const std::int64_t count : counts) {
    for (const std::int64_t offset : {0, 1}) {
      Lab lab(device());
      const Floats x = stored(normal(count, 1, 2)), dy = stored(normal(count, 2));
      const Offset input = offset_tensor(lab, dtype(), x, offset), output = offset_tensor(lab, dtype(), x, offset, "y"),
                   in_place = offset_tensor(lab, dtype(), x, offset, "in place"),
                   gradient = offset_tensor(lab, dtype(), dy, offset, "dx");
      cuda::gelu_forward(nullptr, dtype(), input.part.data, output.part.data, count);
      cuda::gelu_forward(nullptr, dtype(), in_place.part.data, in_place.part.data, count);
      cuda::gelu_backward(nullptr, dtype(), input.part.data, gradient.part.data, count);
      Floats want(x.size()), want_gradient(x.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        want[i] = static_cast<float>(formula::gelu<double>(x[i]));
        want_gradient[i] = static_cast<float>(dy[i] * formula::gelu_derivative<double>(x[i]));
      }
      expect_close(read(lab, output), stored(want), Op::linear_forward, dtype(), 0);
      expect_close(read(lab, gradient), stored(want_gradient), Op::linear_backward_input, dtype(), 0);
      EXPECT_EQ(read(lab, in_place), read(lab, output));
      lab.finish();
    }
  }
}

TEST_P(Parts, ColumnSums) {
  struct Size {
    std::int64_t rows, columns, ld;
  };
  for (const Size s :
       {Size{1, 1, 1}, Size{1, 1023, 1023}, Size{31, 33, 33}, Size{33, 31, 40}, Size{1023, 3, 3}, Size{1023, 8, 8},
        Size{2000, 48, 48}, Size{70, 260, 264}, Size{5000, 33, 40}, Size{3, 2048, 2048}}) {
    for (const std::int64_t offset : {0, 1}) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(Dims({s.rows, s.columns, s.ld, offset}).str());
        Lab lab(device());
        const Floats x = integers(s.rows * s.ld, 1, -4, 4), before = integers(s.columns, 2, -9, 9);
        const Offset input = offset_tensor(lab, dtype(), x, offset);
        const Tensor sums = accumulate ? lab.in_out("sums", DType::float32, {s.columns}, before)
                                       : lab.out("sums", DType::float32, {s.columns});
        const Buffer scratch(device(), cuda::column_sums_scratch(s.rows, s.columns));
        cuda::column_sums(nullptr, dtype(), input.part.data, s.rows, s.columns, s.ld, 0.25f, sums.as<float>(),
                          accumulate, scratch.data());
        Floats want(static_cast<std::size_t>(s.columns));
        for (std::int64_t c = 0; c < s.columns; ++c) {
          double sum = 0;
          for (std::int64_t r = 0; r < s.rows; ++r) sum += x[static_cast<std::size_t>(r * s.ld + c)];
          want[static_cast<std::size_t>(c)] =
              static_cast<float>(0.25 * sum + (accumulate ? before[static_cast<std::size_t>(c)] : 0.0f));
        }
        EXPECT_EQ(lab.read(sums), want);
        lab.finish();
      }
    }
  }
}

TEST_P(Parts, BiasRows) {
  for (const Dims& s : {Dims{1, 1}, Dims{3, 17}, Dims{31, 64}, Dims{5, 1024}}) {
    for (const std::int64_t offset : {0, 1}) {
      for (const bool residual : {false, true}) {
        SCOPED_TRACE(s.str());
        Lab lab(device());
        const Floats bias = integers(s[1], 1, -9, 9), other = integers(s.count(), 2, -9, 9);
        Floats want(other.size());
        for (std::size_t i = 0; i < want.size(); ++i) {
          want[i] = bias[i % static_cast<std::size_t>(s[1])] + (residual ? other[i] : 0);
        }
        const Offset y = offset_tensor(lab, dtype(), other, offset, "y");
        cuda::bias_rows(nullptr, dtype(), lab.in(dtype(), {s[1]}, bias).data, residual ? y.part.data : nullptr,
                        y.part.data, s[0], s[1]);
        EXPECT_EQ(read(lab, y), want);
        lab.finish();
      }
    }
  }
}

TEST_P(Parts, Fp8) {
  if (dtype() != DType::bf16) return;  // the one dtype that is stored beside it
  for (const Dims& s : {Dims{16, 16}, Dims{64, 64}, Dims{80, 48}, Dims{16, 144}, Dims{208, 16}, Dims{272, 144}}) {
    SCOPED_TRACE(s.str());
    Floats x = normal(s.count(), 1, 2);
    x[static_cast<std::size_t>(s.count()) / 2] = -11;
    for (float& value : x) value = as_stored(DType::bf16, value);
    Lab lab(device());
    const Tensor values = lab.in(DType::bf16, s, x);
    // It stands on 16 bytes, which cuBLASLt demands, also where memory does not begin there.
    const auto words = static_cast<std::int64_t>((sizeof(Fp8Scale) + alignof(Fp8Scale)) / sizeof(float));
    for (const bool gradient : {false, true}) {
      const Tensor state = lab.in_out("scale", DType::float32, {words}, Floats(static_cast<std::size_t>(words), 0.0f));
      const auto address = reinterpret_cast<std::uintptr_t>(state.data);
      auto* scale =
          reinterpret_cast<Fp8Scale*>((address + alignof(Fp8Scale) - 1) / alignof(Fp8Scale) * alignof(Fp8Scale));
      // Bytes four by four: a Lab has no dtype of one byte.
      const Tensor straight = lab.out("straight", DType::int32, {s.count() / 4}),
                   turned = lab.out("turned", DType::int32, {s.count() / 4}),
                   alone = lab.out("alone", DType::int32, {s.count() / 4});
      cuda::fp8_greatest(nullptr, values.as<bf16>(), s.count(), scale);
      cuda::fp8_next_scale(nullptr, gradient, scale);
      cuda::fp8_round(nullptr, gradient, values.as<bf16>(), s[0], s[1], scale, straight.data, turned.data);
      const Tensor inverse = lab.out("inverse", DType::float32, {1});
      cuda::fp8_round(nullptr, gradient, values.as<bf16>(), s[0], s[1], scale, nullptr, alone.data, true,
                      inverse.as<float>());
      EXPECT_EQ(*inverse.as<float>(), scale->inverse);
      EXPECT_EQ(scale->scale, gradient ? 4096.0f : 32.0f);
      EXPECT_EQ(scale->inverse, 1 / scale->scale);
      EXPECT_EQ(scale->history[0], 11.0f);
      EXPECT_EQ(std::bit_cast<float>(scale->greatest), 11.0f);
      EXPECT_EQ(scale->position, 1);
      for (std::int64_t r = 0; r < s[0]; ++r) {
        for (std::int64_t c = 0; c < s[1]; ++c) {
          const float scaled = x[static_cast<std::size_t>(r * s[1] + c)] * scale->scale;
          const int want = gradient ? to_fp8<e5m2>(scaled).bits : to_fp8<e4m3>(scaled).bits;
          ASSERT_EQ(static_cast<int>(straight.as<std::uint8_t>()[r * s[1] + c]), want);
          ASSERT_EQ(static_cast<int>(turned.as<std::uint8_t>()[c * s[0] + r]), want);
          ASSERT_EQ(static_cast<int>(alone.as<std::uint8_t>()[c * s[0] + r]), want);
        }
      }
    }
    lab.finish();
  }
}

// Numbers whose sums are exact in any order; the greatest and the bytes are as without sums, and x is read once.
TEST_P(Parts, Fp8WithSumsOfColumns) {
  if (dtype() != DType::bf16) return;
  for (const Dims& s : {Dims{16, 16}, Dims{128, 64}, Dims{208, 80}, Dims{272, 144}}) {
    SCOPED_TRACE(s.str());
    const Floats x = integers(s.count(), 1, -9, 9);
    Lab lab(device());
    const Tensor values = lab.in(DType::bf16, s, x);
    const std::int64_t tiles = cuda::fp8_tiles(s[0]), tile_rows = 128;
    const Tensor sums = lab.out("sums", DType::float32, {tiles, s[1]});
    Fp8Scale scales[2];
    Tensor straight[2], turned[2];
    for (const int with : {0, 1}) {
      scales[with].scale = 64, scales[with].inverse = 1.0f / 64;
      const std::string name = with == 1 ? " with sums" : "";
      straight[with] = lab.out("straight" + name, DType::int32, {s.count() / 4});
      turned[with] = lab.out("turned" + name, DType::int32, {s.count() / 4});
      simt::count_touched();
      cuda::fp8_round(nullptr, true, values.as<bf16>(), s[0], s[1], &scales[with], straight[with].data,
                      turned[with].data, true, nullptr, with == 1 ? sums.as<float>() : nullptr);
      EXPECT_EQ(simt::take_touched().read, values.bytes());
    }
    EXPECT_EQ(std::memcmp(&scales[0], &scales[1], sizeof(Fp8Scale)), 0);
    EXPECT_EQ(std::memcmp(straight[0].data, straight[1].data, straight[0].bytes()), 0);
    EXPECT_EQ(std::memcmp(turned[0].data, turned[1].data, turned[0].bytes()), 0);
    Floats want(static_cast<std::size_t>(sums.count()));
    for (std::int64_t r = 0; r < s[0]; ++r)
      for (std::int64_t c = 0; c < s[1]; ++c)
        want[static_cast<std::size_t>(r / tile_rows * s[1] + c)] += x[static_cast<std::size_t>(r * s[1] + c)];
    EXPECT_EQ(Floats(sums.as<float>(), sums.as<float>() + sums.count()), want);
    lab.finish();
  }
}

// ---- the output head ----
struct Head {
  std::int64_t rows, classes, ld, offset;
  float smoothing;
  bool bias, backward, ties;
};
const Head heads[] = {{1, 1, 1, 0, 0, false, true, false},        {3, 2, 8, 0, 0.1f, false, true, false},
                      {5, 31, 31, 0, 0, true, true, false},       {4, 33, 40, 1, 0.1f, true, true, true},
                      {3, 1023, 1024, 0, 0, false, true, false},  {2, 1023, 1024, 0, 0.1f, true, true, true},
                      {2, 40001, 40008, 0, 0, false, true, true}, {3, 1000, 1000, 0, 0.1f, true, false, false},
                      {7, 10, 16, 0, 0, false, true, true},       {2, 20003, 20003, 0, 0.1f, true, true, true}};

TEST_P(Parts, ClassifierRows) {
  for (const Head& h : heads) {
    SCOPED_TRACE(Dims({h.rows, h.classes, h.ld, h.offset}).str());
    Lab lab(device());
    // Ties: few distinct values, so that rows hold their maximum more than once.
    const Floats logits = stored(h.ties ? integers(h.rows * h.ld, 1, -2, 2) : normal(h.rows * h.ld, 1, 3));
    const Floats bias = stored(h.ties ? Floats(static_cast<std::size_t>(h.classes), 0.5f) : normal(h.classes, 2));
    Ints targets = indices(h.rows, 3, static_cast<int>(h.classes));
    Floats loss, gradient(logits.size(), 0.0f);
    Ints correct;
    for (std::int64_t r = 0; r < h.rows; ++r) {
      const float* row = logits.data() + r * h.ld;
      std::vector<double> l(static_cast<std::size_t>(h.classes));
      for (std::size_t c = 0; c < l.size(); ++c) l[c] = row[c] + (h.bias ? static_cast<double>(bias[c]) : 0.0);
      const auto best = std::max_element(l.begin(), l.end());  // the first of equals
      if (r % 2 == 0) targets[static_cast<std::size_t>(r)] = static_cast<std::int32_t>(best - l.begin());
      double sum = 0, total = 0;
      for (const double value : l) {
        sum += std::exp(value - *best);
        total += value;
      }
      const double log_sum = *best + std::log(sum), everywhere = static_cast<double>(h.smoothing) / h.classes;
      const auto target = static_cast<std::size_t>(targets[static_cast<std::size_t>(r)]);
      loss.push_back(static_cast<float>((1 - static_cast<double>(h.smoothing)) * (log_sum - l[target]) +
                                        everywhere * (h.classes * log_sum - total)));
      correct.push_back(best - l.begin() == static_cast<std::ptrdiff_t>(target) ? 1 : 0);
      for (std::size_t c = 0; c < l.size(); ++c) {
        const double wanted = everywhere + (c == target ? 1 - static_cast<double>(h.smoothing) : 0.0);
        gradient[static_cast<std::size_t>(r * h.ld) + c] = static_cast<float>(std::exp(l[c] - log_sum) - wanted);
      }
    }
    const Offset in_place = offset_tensor(lab, dtype(), logits, h.offset, "logits");
    const Tensor row_loss = lab.out("row_loss", DType::float32, {h.rows}),
                 row_correct = lab.out("row_correct", DType::int32, {h.rows});
    cuda::classifier_rows(nullptr, {.dtype = dtype(),
                                    .logits = in_place.part.data,
                                    .bias = h.bias ? lab.in(dtype(), {h.classes}, bias).data : nullptr,
                                    .targets = lab.in({h.rows}, targets).as<std::int32_t>(),
                                    .rows = h.rows,
                                    .classes = h.classes,
                                    .ld = h.ld,
                                    .label_smoothing = h.smoothing,
                                    .backward = h.backward,
                                    .row_loss = row_loss.as<float>(),
                                    .row_correct = row_correct.as<std::int32_t>()});
    const Floats got = read(lab, in_place);
    if (!h.backward) {
      EXPECT_EQ(got, logits);
    } else if (h.classes == 1) {
      EXPECT_EQ(got, gradient);  // all zero
    } else {
      expect_close(got, stored(gradient), Op::classifier, dtype(), 0);
      for (std::int64_t r = 0; r < h.rows; ++r) {
        for (std::int64_t c = h.classes; c < h.ld; ++c) EXPECT_EQ(got[static_cast<std::size_t>(r * h.ld + c)], 0.0f);
      }
    }
    for (std::size_t r = 0; r < loss.size(); ++r)
      EXPECT_NEAR(lab.read(row_loss)[r], loss[r], 2e-6 * (1 + loss[r])) << r;
    const std::vector<Output> outputs = lab.finish();
    EXPECT_EQ(outputs.back().values, Floats(correct.begin(), correct.end()));
  }
}

TEST_P(Parts, ClassifierRowsOfHugeLogitsAndNaN) {
  Lab lab(device());
  const Dims dims{6, 16};
  Floats logits(96, 0.0f);
  logits[3] = 1e4f;                // far above the rest: loss 0 at the target
  logits[16 + 5] = -1e4f;          // far below
  logits[32 + 7] = std::nanf("");  // shows
  std::fill(logits.begin() + 64, logits.begin() + 80, std::nanf(""));
  std::fill(logits.begin() + 80, logits.end(), -HUGE_VALF);  // classes that are ruled out
  logits[80 + 2] = logits[80 + 9] = 3.0f;
  const Tensor tensor = lab.in_out("logits", dtype(), dims, logits), row_loss = lab.out("loss", DType::float32, {6}),
               row_correct = lab.out("correct", DType::int32, {6});
  cuda::classifier_rows(nullptr, {.dtype = dtype(),
                                  .logits = tensor.data,
                                  .targets = lab.in({6}, Ints{3, 5, 1, 0, 0, 9}).as<std::int32_t>(),
                                  .rows = 6,
                                  .classes = 16,
                                  .ld = 16,
                                  .row_loss = row_loss.as<float>(),
                                  .row_correct = row_correct.as<std::int32_t>()});
  const Floats loss = lab.read(row_loss), gradient = lab.read(tensor);
  EXPECT_EQ(loss[0], 0.0f);
  const float wide = stored({1e4f})[0];
  EXPECT_NEAR(loss[1], wide + std::log(15.0f), 2e-3);
  EXPECT_TRUE(std::isnan(loss[2]));
  EXPECT_NEAR(loss[3], std::log(16.0f), 1e-6);
  EXPECT_NEAR(gradient[3], 0.0f, 1e-6);
  EXPECT_EQ(gradient[16 + 5], -1.0f);
  EXPECT_TRUE(std::isnan(gradient[32 + 1]));
  EXPECT_TRUE(std::isnan(loss[4]));
  EXPECT_NEAR(loss[5], std::log(2.0f), 1e-6);
  EXPECT_EQ(gradient[80 + 2], 0.5f);
  EXPECT_EQ(gradient[80 + 9], -0.5f);
  EXPECT_EQ(gradient[80 + 3], 0.0f);
  const Floats correct = lab.finish()[2].values;
  EXPECT_EQ(correct[0], 1.0f);
  EXPECT_EQ(correct[3], 1.0f);
  EXPECT_EQ(correct[4], 0.0f);  // no logit is the greatest
  EXPECT_EQ(correct[5], 0.0f);  // the first of equals is class 2
}

TEST_P(Parts, ClassifierTotals) {
  for (const std::int64_t rows : {1, 31, 33, 1023, 5000}) {
    Lab lab(device());
    const Floats losses = integers(rows, 1, 0, 1000);
    const Ints corrects = indices(rows, 2, 2);
    double sum = 0;
    std::int32_t count = 0;
    for (std::size_t i = 0; i < losses.size(); ++i) {
      sum += losses[i];
      count += corrects[i];
    }
    const Tensor row_loss = lab.in(DType::float32, {rows}, losses), row_correct = lab.in({rows}, corrects);
    const Tensor loss = lab.out("loss", DType::float32, {1}), alone = lab.out("alone", DType::float32, {1}),
                 correct = lab.out("correct", DType::int32, {1});
    cuda::classifier_totals(nullptr, row_loss.as<float>(), row_correct.as<std::int32_t>(), rows, 1, loss.as<float>(),
                            correct.as<std::int32_t>());
    cuda::classifier_totals(nullptr, row_loss.as<float>(), nullptr, rows, 1, alone.as<float>(), nullptr);
    EXPECT_EQ(lab.read(loss)[0], static_cast<float>(sum / rows));
    EXPECT_EQ(lab.read(alone)[0], static_cast<float>(sum / rows));
    EXPECT_EQ(lab.finish()[2].values[0], static_cast<float>(count));
  }
}

// ---- attention ----
struct Square {
  std::int64_t matrices, seq, offset;
  bool causal;
};
const Square squares[] = {{1, 1, 0, true},   {2, 31, 0, true}, {1, 33, 0, false}, {2, 40, 0, true},
                          {2, 40, 0, false}, {1, 40, 1, true}, {1, 264, 0, true}, {1, 127, 0, true}};

TEST_P(Parts, AttentionSoftmaxAndItsGradient) {
  const float scale = 0.125f;
  for (const Square& s : squares) {
    SCOPED_TRACE(Dims({s.matrices, s.seq, s.offset, s.causal}).str());
    Lab lab(device());
    const std::int64_t rows = s.matrices * s.seq, count = rows * s.seq;
    const Floats scores = normal(count, 1, 16), dp = normal(count, 2), delta = normal(rows, 3, 0.1);
    Floats p(scores.size(), 0.0f), ds(scores.size(), 0.0f), log_sum_exp;
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int64_t seen = s.causal ? r % s.seq + 1 : s.seq;
      const auto at = [&](std::int64_t c) { return static_cast<std::size_t>(r * s.seq + c); };
      double sum = 0;
      for (std::int64_t c = 0; c < seen; ++c) sum += std::exp(static_cast<double>(scale) * scores[at(c)]);
      log_sum_exp.push_back(static_cast<float>(std::log(sum)));
      for (std::int64_t c = 0; c < seen; ++c) {
        const double e = std::exp(static_cast<double>(scale) * scores[at(c)]) / sum;
        p[at(c)] = static_cast<float>(e);
        ds[at(c)] =
            static_cast<float>(e * (static_cast<double>(dp[at(c)]) - delta[static_cast<std::size_t>(r)]) * scale);
      }
    }
    const Offset score_tensor = offset_tensor(lab, DType::float32, scores, s.offset),
                 dp_tensor = offset_tensor(lab, DType::float32, dp, s.offset);
    const Floats empty(scores.size(), std::nanf(""));
    const Offset p_forward = offset_tensor(lab, dtype(), empty, s.offset, "p"),
                 p_backward = offset_tensor(lab, dtype(), empty, s.offset, "p of backward"),
                 ds_tensor = offset_tensor(lab, dtype(), empty, s.offset, "ds");
    const Tensor level = lab.out("log_sum_exp", DType::float32, {rows});
    cuda::attention_softmax(nullptr, dtype(), score_tensor.part.as<float>(), s.matrices, s.seq, s.causal, scale,
                            p_forward.part.data, level.as<float>());
    cuda::attention_gradient(nullptr, dtype(), score_tensor.part.as<float>(), dp_tensor.part.as<float>(), s.matrices,
                             s.seq, s.causal, scale, level.as<float>(),
                             lab.in(DType::float32, {rows}, delta).as<float>(), p_backward.part.data,
                             ds_tensor.part.data);
    const Floats got_forward = read(lab, p_forward), got_backward = read(lab, p_backward),
                 got_ds = read(lab, ds_tensor);
    expect_close(got_forward, stored(p), Op::attention_forward, dtype(), 0);
    expect_close(got_backward, stored(p), Op::attention_backward, dtype(), 0);
    expect_close(got_ds, stored(ds), Op::attention_backward, dtype(), 0);
    expect_close(lab.read(level), log_sum_exp, Op::attention_forward, DType::float32, 0);
    for (std::int64_t r = 0; s.causal && r < rows; ++r) {
      for (std::int64_t c = r % s.seq + 1; c < s.seq; ++c) {
        const auto at = static_cast<std::size_t>(r * s.seq + c);
        EXPECT_EQ(got_forward[at], 0.0f);
        EXPECT_EQ(got_backward[at], 0.0f);
        EXPECT_EQ(got_ds[at], 0.0f);
      }
    }
    lab.finish();
  }
}

TEST_P(Parts, AttentionDelta) {
  for (const Dims& s : {Dims{1, 1, 1, 1}, Dims{2, 31, 3, 64}, Dims{1, 7, 2, 33}, Dims{3, 5, 1, 8}, Dims{1, 2, 3, 1023},
                        Dims{2, 3, 4, 520}}) {
    for (const std::int64_t offset : {0, 1}) {
      SCOPED_TRACE(s.str());
      Lab lab(device());
      const Floats a = integers(s.count(), 1, -4, 4), b = integers(s.count(), 2, -4, 4);
      Floats want(static_cast<std::size_t>(s[0] * s[1] * s[2]));
      for (std::int64_t i = 0; i < s.count(); ++i) {
        const std::int64_t row = i / s[3], h = row % s[2], t = row / s[2] % s[1], n = row / s[2] / s[1];
        want[static_cast<std::size_t>((n * s[2] + h) * s[1] + t)] +=
            a[static_cast<std::size_t>(i)] * b[static_cast<std::size_t>(i)];
      }
      const Offset first = offset_tensor(lab, dtype(), a, offset), second = offset_tensor(lab, dtype(), b, offset);
      const Tensor delta = lab.out("delta", DType::float32, {static_cast<std::int64_t>(want.size())});
      cuda::attention_delta(nullptr, dtype(), first.part.data, second.part.data, s[0], s[1], s[2], s[3],
                            delta.as<float>());
      EXPECT_EQ(lab.read(delta), want);
      lab.finish();
    }
  }
}

}  // namespace
}  // namespace tw::test
