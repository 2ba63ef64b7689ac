// The formulas of synthetic samples, shared by the host and every device: own polynomials and integers, no library's
// functions, so that a number is the same bits wherever it is made. Whoever compiles them must not contract a·b + c
// (-ffp-contract=off, nvcc -fmad=false). What they mean stands in models/data (token_source.hpp, image_source.hpp,
// click_source.hpp, gaussian.hpp).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "models/compute/operators.hpp"
#include "models/compute/philox.hpp"

#if defined(__GNUC__) && !defined(__CUDACC__)
#define TW_FORMULA static inline __attribute__((always_inline))
#else
#define TW_FORMULA TW_HOST_DEVICE static inline
#endif

namespace tw::models::synthetic {

// ---- normal numbers ----

/// ln x for normal positive x: Cephes logf, relative error < 1e-7.
TW_FORMULA float natural_log(float x) {
  const std::int32_t bits = std::bit_cast<std::int32_t>(x);
  const std::int32_t exponent = (bits - 0x3f3504f3) >> 23;  // x = m · 2^exponent, m in [sqrt(1/2), sqrt(2))
  const float m = std::bit_cast<float>(bits - (exponent << 23)) - 1.0f;
  const float e = static_cast<float>(exponent);
  const float z = m * m;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  float y = p * m * z - 2.12194440e-4f * e;
  y = y - 0.5f * z;
  return m + y + 0.693359375f * e;
}

/// Two words → two independent standard normals (Box & Muller 1958): r = sqrt(−2 ln u), angle 2π·v.
TW_FORMULA void box_muller(std::uint32_t a, std::uint32_t b, float& first, float& second) {
  const float u = static_cast<float>(static_cast<std::int32_t>(a >> 1)) * 0x1p-31f + 0x1p-32f;  // (0, 1]
  const float square = -2.0f * natural_log(u);
  const float radius = std::sqrt(square > 0.0f ? square : 0.0f);
  // v in [-1/2, 1/2] turns: quadrant q and rest r, |r| ≤ 1/8; Cephes sinf and cosf on ±π/4.
  const float v = static_cast<float>(static_cast<std::int32_t>(b)) * 0x1p-32f;
  const float magic = 12582912.0f;  // 1.5·2^23: adding it rounds to nearest
  const float shifted = v * 4.0f + magic;
  const float quadrant = shifted - magic;
  const std::uint32_t q = std::bit_cast<std::uint32_t>(shifted);
  const float x = (v - quadrant * 0.25f) * 6.283185307179586f;
  const float z = x * x;
  const float s = ((-1.9515295891e-4f * z + 8.3321608736e-3f) * z - 1.6666654611e-1f) * z * x + x;
  const float c =
      ((2.443315711809948e-5f * z - 1.388731625493765e-3f) * z + 4.166664568298827e-2f) * z * z - 0.5f * z + 1.0f;
  const bool swap = (q & 1u) != 0;
  const std::uint32_t cos_bits = std::bit_cast<std::uint32_t>(swap ? s : c) ^ (((q + 1u) & 2u) << 30);
  const std::uint32_t sin_bits = std::bit_cast<std::uint32_t>(swap ? c : s) ^ ((q & 2u) << 30);
  first = radius * std::bit_cast<float>(cos_bits);
  second = radius * std::bit_cast<float>(sin_bits);
}

// ---- images ----

/// cos(2π·turns) for 0 ≤ turns < 2^20, error < 2e-16: quadrant and rest, then the Taylor polynomials on ±π/4, whose
/// next terms are below 2^-54.
TW_FORMULA double cos_turns(double turns) {
  const double magic = 6755399441055744.0;  // 1.5·2^52: adding it rounds to nearest
  const double shifted = turns * 4.0 + magic;
  const std::uint64_t q = std::bit_cast<std::uint64_t>(shifted);
  const double x = (turns - (shifted - magic) * 0.25) * 6.283185307179586;  // the difference is exact
  const double z = x * x;
  double s = -7.6471637318198164e-13;  // -1/15!
  s = s * z + 1.6059043836821613e-10;
  s = s * z - 2.5052108385441720e-08;
  s = s * z + 2.7557319223985893e-06;
  s = s * z - 1.9841269841269841e-04;
  s = s * z + 8.3333333333333332e-03;
  s = s * z - 1.6666666666666666e-01;
  s = s * z * x + x;
  double c = 4.7794773323873853e-14;  // 1/16!
  c = c * z - 1.1470745597729725e-11;
  c = c * z + 2.0876756987868100e-09;
  c = c * z - 2.7557319223985888e-07;
  c = c * z + 2.4801587301587302e-05;
  c = c * z - 1.3888888888888889e-03;
  c = c * z + 4.1666666666666664e-02;
  c = c * z - 0.5;
  c = c * z + 1.0;
  const double value = (q & 1u) != 0 ? s : c;
  return ((q + 1u) & 2u) != 0 ? -value : value;
}

/// Value `j` of `size` of a class' wave: amplitude · cos(2π(j/size + phase)).
TW_FORMULA float wave(float amplitude, int j, int size, float phase_turns) {
  const double turns = static_cast<double>(j) / size + static_cast<double>(phase_turns);
  return static_cast<float>(static_cast<double>(amplitude) * cos_turns(turns));
}

struct ImageDraw {
  std::int32_t true_label, label;
  float phase_turns;
};
/// What image `stream` shows; its label is another with probability `label_noise`.
TW_FORMULA ImageDraw draw_image(std::uint64_t seed, std::uint64_t stream, std::int64_t classes, float label_noise) {
  const PhiloxWords words = random_block(seed, stream, std::uint64_t{1} << 62);  // far beyond the pixels' noise
  const auto bound = static_cast<std::uint64_t>(classes);
  const auto true_label = static_cast<std::int32_t>((std::uint64_t{words.word[0]} * bound) >> 32);
  const auto other = static_cast<std::int32_t>((std::uint64_t{words.word[3]} * bound) >> 32);
  return {true_label, to_uniform(words.word[2]) < label_noise ? other : true_label, to_uniform(words.word[1])};
}

// ---- integers ----

/// ⌊a·b / 2^64⌋
TW_FORMULA std::uint64_t high_product(std::uint64_t a, std::uint64_t b) {
#if defined(__CUDA_ARCH__)
  return __umul64hi(a, b);
#else
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(a) * b) >> 64);
#endif
}

// ---- tokens ----

/// Uniform in [0, bound) by multiplication; the bias is below bound / 2^64.
TW_FORMULA std::int64_t draw(std::uint64_t seed, std::uint64_t stream, std::uint64_t index, std::int64_t bound) {
  const PhiloxWords words = random_block(seed, stream, index);
  const std::uint64_t value = (std::uint64_t{words.word[0]} << 32) | words.word[1];
  return static_cast<std::int64_t>(high_product(value, static_cast<std::uint64_t>(bound)));
}

/// k of the step from token t to t + 1 of a sequence; `words` are those of block 2 + t/4. Three bits decide: 0–3 → 0,
/// 4–5 → 1, 6 → 2, 7 → 3.
TW_FORMULA int draw_k(const PhiloxWords& words, std::int64_t t) {
  const int bits = static_cast<int>(words.word[t % 4] >> 29);
  return bits < 4 ? 0 : bits < 6 ? 1 : bits - 4;
}

/// A token's row of the source's table: 4 · permutation[token] + group[token].
TW_FORMULA std::int32_t next_token(std::int32_t row_of_previous, std::int32_t row_of_before, int k,
                                   const std::int32_t (&offset)[4], std::int64_t vocabulary) {
  const std::int64_t sum = std::int64_t{row_of_previous >> 2} + offset[(k + (row_of_before & 3)) & 3];
  return static_cast<std::int32_t>(sum >= vocabulary ? sum - vocabulary : sum);
}

// ---- clicks ----

TW_FORMULA bool draw_click(std::uint64_t seed, std::uint64_t purpose, std::uint64_t sample) {
  return (random_block(seed, random_stream(purpose, sample), 0).word[0] & 1u) != 0;
}

/// The pair of a rank: the remainder without a division. With 2^64/pairs − inverse ≤ 1 the quotient is right or one too
/// small, since the dividend is below 2^61.
TW_FORMULA std::uint32_t pair_of_rank(const ClickTable& t, std::uint32_t rank) {
  const std::uint64_t dividend = std::uint64_t{rank} * t.factor + t.offset;
  const auto quotient = static_cast<std::uint32_t>(high_product(dividend, t.inverse));
  const std::uint32_t rest = static_cast<std::uint32_t>(dividend) - quotient * t.pairs;  // below 2·pairs < 2^31
  return rest < t.pairs ? rest : rest - t.pairs;
}

/// The row of a pair that votes for a click, or the one that votes against it.
TW_FORMULA std::int32_t row_of_pair(const ClickTable& t, std::uint64_t seed, std::uint32_t pair, bool for_click) {
  const std::uint32_t for_one = random_block(seed, t.meaning, pair).word[0] & 1u;
  return static_cast<std::int32_t>(2 * pair + (for_click ? for_one : 1u - for_one));
}

/// Index `h` of the `hot` into a table, of the sample whose indices come from `stream`; 0 in an empty slot.
TW_FORMULA std::int32_t draw_index(const ClickTable& t, std::uint64_t seed, std::uint64_t stream, std::uint32_t hot,
                                   std::uint32_t h, bool is_click, std::uint32_t wrong_below) {
  if (t.pairs == 0) return 0;
  const PhiloxWords words = random_block(seed, stream, std::uint64_t{t.number} * hot + h);
  std::uint32_t octave = 0;  // how many shares end at or below the word
  for (std::uint32_t step = 16; step > 0; step /= 2) octave += t.until[octave + step - 1] <= words.word[0] ? step : 0;
  octave = octave < t.last_octave ? octave : t.last_octave;  // the word may be 2^32 − 1 too
  const std::uint32_t begin = (1u << octave) - 1, after = 2 * begin + 1, end = after < t.pairs ? after : t.pairs;
  const std::uint32_t rank = begin + static_cast<std::uint32_t>(to_uniform_below(words.word[1], end - begin));
  return row_of_pair(t, seed, pair_of_rank(t, rank), is_click != (words.word[2] < wrong_below));
}

}  // namespace tw::models::synthetic
