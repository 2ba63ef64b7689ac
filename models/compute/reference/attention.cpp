// Scaled-dot-product attention. Backward computes the softmax anew from q and k instead of from log_sum_exp and out, so
// that it is independent of what forward saved.
#include <cmath>

#include "models/compute/reference/reference.hpp"

namespace tw::models::reference {
namespace {

/// Positions of query head h, and of the key and value head that it uses, in the packed qkv
/// (batch, seq, heads + 2·kv_heads, head_dim).
struct Packed {
  const AttentionShape& s;
  std::int64_t head(std::int64_t b, std::int64_t t, std::int64_t packed_head) const {
    return ((b * s.seq + t) * s.packed_heads() + packed_head) * s.head_dim;
  }
  std::int64_t q(std::int64_t b, std::int64_t t, std::int64_t h) const { return head(b, t, h); }
  std::int64_t k(std::int64_t b, std::int64_t t, std::int64_t h) const { return head(b, t, s.heads + h / s.group()); }
  std::int64_t v(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return head(b, t, s.heads + s.key_heads() + h / s.group());
  }
  std::int64_t out(std::int64_t b, std::int64_t t, std::int64_t h) const {
    return ((b * s.seq + t) * s.heads + h) * s.head_dim;
  }
};

double dot(const double* a, const double* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

/// softmax(q_i · k_jᵀ / sqrt(head_dim)) over the visible j, and the log of its denominator.
Values softmax_row(const Values& qkv, const AttentionShape& s, std::int64_t b, std::int64_t h, std::int64_t i,
                   double* log_sum) {
  const Packed at{s};
  const std::int64_t visible = s.causal ? i + 1 : s.seq;
  const double scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  Values p(static_cast<std::size_t>(visible));
  double largest = -INFINITY, sum = 0;
  for (std::int64_t j = 0; j < visible; ++j) {
    p[j] = scale * dot(&qkv[at.q(b, i, h)], &qkv[at.k(b, j, h)], s.head_dim);
    largest = std::fmax(largest, p[j]);
  }
  for (double& value : p) sum += value = std::exp(value - largest);
  for (double& value : p) value /= sum;
  *log_sum = largest + std::log(sum);
  return p;
}

}  // namespace

void ReferenceAttention::do_forward(Stream&, const AttentionForward& args) {
  const AttentionShape& s = shape();
  const Packed at{s};
  const Values qkv = taken(shape().math, load(args.qkv));
  Values out(static_cast<std::size_t>(args.out.count()), 0.0),
      log_sum_exp(static_cast<std::size_t>(args.log_sum_exp.count()));
#pragma omp parallel for num_threads(threads_) if (s.batch * s.heads * s.seq * s.seq * s.head_dim > 1000000)
  for (std::int64_t bh = 0; bh < s.batch * s.heads; ++bh) {
    const std::int64_t b = bh / s.heads, h = bh % s.heads;
    for (std::int64_t i = 0; i < s.seq; ++i) {
      const Values p = softmax_row(qkv, s, b, h, i, &log_sum_exp[bh * s.seq + i]);
      for (std::size_t j = 0; j < p.size(); ++j) {
        for (std::int64_t d = 0; d < s.head_dim; ++d) {
          out[at.out(b, i, h) + d] += p[j] * qkv[at.v(b, static_cast<std::int64_t>(j), h) + d];
        }
      }
    }
  }
  store(args.out, out);
  store(args.log_sum_exp, log_sum_exp);
}

void ReferenceAttention::do_backward(Stream&, const AttentionBackward& args) {
  const AttentionShape& s = shape();
  const Packed at{s};
  const double scale = 1 / std::sqrt(static_cast<double>(s.head_dim));
  const Values qkv = taken(shape().math, load(args.qkv)), d_out = taken(shape().math, load(args.d_out));
  Values d_qkv(qkv.size(), 0.0);
  const std::int64_t kv_heads = s.key_heads(), query_rows = s.group() * s.seq;
#pragma omp parallel for num_threads(threads_) if (s.batch * s.heads * s.seq * s.seq * s.head_dim > 1000000)
  for (std::int64_t pair = 0; pair < s.batch * kv_heads; ++pair) {  // the query heads of a group add to one dk and dv
    const std::int64_t b = pair / kv_heads, first = pair % kv_heads * s.group();
    for (std::int64_t row_of_group = 0; row_of_group < query_rows; ++row_of_group) {
      const std::int64_t h = first + row_of_group / s.seq, i = row_of_group % s.seq;
      double log_sum = 0;
      const Values p = softmax_row(qkv, s, b, h, i, &log_sum);
      const double* d_out_row = &d_out[at.out(b, i, h)];
      Values dp(p.size());
      double mean = 0;  // Σ_j p_j · dp_j
      for (std::size_t j = 0; j < p.size(); ++j) {
        dp[j] = dot(d_out_row, &qkv[at.v(b, static_cast<std::int64_t>(j), h)], s.head_dim);
        mean += p[j] * dp[j];
      }
      for (std::size_t j = 0; j < p.size(); ++j) {
        const std::int64_t row = static_cast<std::int64_t>(j);
        const double d_score = scale * p[j] * (dp[j] - mean);
        for (std::int64_t d = 0; d < s.head_dim; ++d) {
          d_qkv[at.q(b, i, h) + d] += d_score * qkv[at.k(b, row, h) + d];
          d_qkv[at.k(b, row, h) + d] += d_score * qkv[at.q(b, i, h) + d];
          d_qkv[at.v(b, row, h) + d] += p[j] * d_out_row[d];
        }
      }
    }
  }
  store(args.d_qkv, d_qkv);
}

}  // namespace tw::models::reference
