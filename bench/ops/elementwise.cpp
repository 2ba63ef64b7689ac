#include <algorithm>

#include "bench/ops/case.hpp"

namespace tw::bench::ops {
using namespace models;
namespace {

double bytes_of(const Tensor& tensor) { return static_cast<double>(tensor.bytes()); }

/// Of layer norm, or of RMS norm, which has neither beta nor mean.
void make_row_norm(Case& c, const Norm& n, DType dtype, bool backward) {
  const bool is_layer = n.kind == Norm::Kind::layer;
  const Dims rows{n.rows}, width{n.channels}, all{n.rows, n.channels};
  const Tensor none, x = c.tensor(dtype, all), gamma = c.tensor(dtype, width),
                     beta = is_layer ? c.tensor(dtype, width) : none, y = c.tensor(dtype, all),
                     mean = is_layer ? c.float32(rows) : none, rstd = c.float32(rows);
  constexpr float epsilon = 1e-5f;
  c.label = all.str();
  c.bytes = 2 * bytes_of(x);
  if (is_layer)
    c.runs(&Device::layer_norm_forward, {x, none, none, gamma, beta, epsilon, y, mean, rstd});
  else
    c.runs(&Device::rms_norm_forward, {x, none, none, gamma, epsilon, y, rstd});
  if (!backward) return;
  c.run();
  const Tensor dy = c.tensor(dtype, all), d_residual = c.tensor(dtype, all), dx = c.tensor(dtype, all),
               d_gamma = c.float32(width), d_beta = is_layer ? c.float32(width) : none;
  c.bytes = 4 * bytes_of(x);
  if (is_layer)
    c.runs(&Device::layer_norm_backward, {dy, x, gamma, mean, rstd, d_residual, dx, d_gamma, d_beta});
  else
    c.runs(&Device::rms_norm_backward, {dy, x, gamma, rstd, d_residual, dx, d_gamma});
}

void make_rotary(Case& c, const Elementwise& e, DType dtype, bool) {
  // Angles of zero: turned again and again, the values keep their size.
  const Tensor table = c.float32({e.seq, e.head_dim / 2, 2});
  std::vector<float> angles(static_cast<std::size_t>(table.count()));
  for (std::size_t i = 0; i < angles.size(); i += 2) angles[i] = 1;
  c.device().copy_from_host(c.stream(), table.data, angles.data(), table.bytes());
  c.stream().synchronize();
  const Rotary args{c.tensor(dtype, {e.batch, e.seq, e.heads, e.head_dim}), table, e.rotated};
  c.label = args.x.dims.str() + ", " + std::to_string(e.rotated) + " heads";
  c.bytes = 2 * bytes_of(args.x) * static_cast<double>(e.rotated) / static_cast<double>(e.heads);
  c.runs(&Device::rotary, args);
}

void make_swiglu(Case& c, const Elementwise& e, DType dtype, bool backward) {
  const Tensor x = c.tensor(dtype, {e.rows, 2 * e.width}), y = c.tensor(dtype, {e.rows, e.width});
  c.label = x.dims.str();
  c.bytes = bytes_of(x) + bytes_of(y);
  if (!backward) return c.runs(&Device::swiglu_forward, {x, y});
  const Tensor dx = c.tensor(dtype, x.dims);
  c.bytes += bytes_of(dx);
  c.runs(&Device::swiglu_backward, {x, y, dx});
}

void make_gelu(Case& c, const Elementwise& e, DType dtype, bool backward) {
  const Tensor x = c.tensor(dtype, {e.rows, e.width}), y = c.tensor(dtype, {e.rows, e.width});
  c.label = x.dims.str() + " gelu_erf";
  c.bytes = bytes_of(x) + bytes_of(y);
  if (!backward) return c.runs(&Device::activation_forward, {x, y, Activation::gelu_erf});
  const Tensor dx = c.tensor(dtype, x.dims);
  c.bytes += bytes_of(dx);
  c.runs(&Device::activation_backward, {y, x, dx, Activation::gelu_erf});
}

StepScalars* step_scalars(Case& c) {
  StepScalars scalars;
  scalars.learning_rate = 1e-4f;
  return c.host_values(std::vector<StepScalars>{scalars});
}

/// All tables are one, of at most 512 MiB, whose rows are drawn uniformly: a lower bound of what caches give.
void make_bags(Case& c, const Elementwise& e, DType dtype, bool backward) {
  const std::int64_t rows = std::min(e.rows, (std::int64_t{128} << 20) / e.width);
  const Tensor table = c.float32({rows, e.width}), y = c.tensor(dtype, {e.batch, e.heads, e.width}),
               indices = c.indices({e.batch, e.heads, e.seq}, rows);
  std::vector<std::int32_t> each;
  for (std::int64_t slot = 0; slot < e.heads; ++slot) each.insert(each.end(), {0, static_cast<std::int32_t>(rows)});
  const Tensor slots{c.host_values(each), DType::int32, {e.heads, 2}};
  c.label = y.dims.str() + " bags of " + std::to_string(e.seq) + " from " + std::to_string(rows) + " rows";
  const double read = static_cast<double>(indices.count() * e.width) * sizeof(float);
  c.bytes = bytes_of(y) + bytes_of(indices) + (backward ? 2 : 1) * read;
  if (!backward) return c.runs(&Device::embedding_bag_forward, {table, slots, indices, y});
  c.runs(&Device::embedding_bag_update, {table, slots, indices, y, step_scalars(c)});
}

PerAxis by_axis(const Product::PerAxis& sizes) { return {sizes.height, sizes.width}; }

void make_pool(Case& c, const Elementwise& e, DType dtype, bool backward) {
  const PerAxis kernel = by_axis(e.kernel), stride = by_axis(e.stride), padding = by_axis(e.padding);
  const auto out = [](int in, int size, int step, int pad) { return (in + 2 * pad - size) / step + 1; };
  const bool is_max = e.kind == Elementwise::Kind::max_pool;
  const Tensor x = c.tensor(dtype, {e.batch, e.image.height, e.image.width, e.channels});
  const Dims pooled = e.kernel == 0 ? Dims{e.batch, e.channels}
                                    : Dims{e.batch, out(e.image.height, kernel.height, stride.height, padding.height),
                                           out(e.image.width, kernel.width, stride.width, padding.width), e.channels};
  const Tensor y = c.tensor(dtype, pooled), argmax = is_max ? c.tensor(DType::int32, pooled) : Tensor{};
  c.label = x.dims.str() + (e.kernel == 0 ? "" : " by " + e.kernel.str());
  c.bytes = bytes_of(x) + bytes_of(y) + (is_max ? bytes_of(argmax) : 0);
  if (is_max && backward)
    c.runs(&Device::max_pool_backward, {y, argmax, kernel, stride, padding, x});
  else if (is_max)
    c.runs(&Device::max_pool_forward, {x, kernel, stride, padding, y, argmax});
  else if (backward)
    c.runs(&Device::average_pool_backward, {y, x, kernel, stride, padding});
  else
    c.runs(&Device::average_pool_forward, {x, y, kernel, stride, padding});
}

void make_concatenation(Case& c, const Elementwise& e, DType dtype, bool) {
  const Tensor x = c.tensor(dtype, {e.batch, e.image.height, e.image.width, e.width}),
               y = c.tensor(dtype, {e.batch, e.image.height, e.image.width, e.channels});
  c.label = x.dims.str() + " of " + std::to_string(e.channels);
  c.bytes = 2 * bytes_of(x);
  c.runs(&Device::copy_channels, {x, y, 0, e.channels - e.width, e.width});
}

/// What tells cases apart: its name, or "/h35_192k3s1" of an image; nothing of other rows.
std::string suffix_of(const Elementwise& e) {
  if (!e.name.empty()) return "/" + e.name;
  if (e.channels == 0) return {};
  const std::string image = "/h" + std::to_string(e.image.height) + "_";
  if (e.kind == Elementwise::Kind::concatenation)
    return image + std::to_string(e.width) + "of" + std::to_string(e.channels);
  return image + std::to_string(e.channels) + (e.kernel == 0 ? "" : "k" + e.kernel.brief() + "s" + e.stride.brief());
}

void make_batch_norm(Case& c, Dims dims, DType dtype, bool backward) {
  const Dims channels{dims[3]};
  BatchNormForward forward;
  forward.x = c.tensor(dtype, dims);
  for (Tensor* one :
       {&forward.gamma, &forward.beta, &forward.running_mean, &forward.running_var, &forward.mean, &forward.rstd})
    *one = c.float32(channels);
  forward.relu = true;
  forward.y = c.tensor(dtype, dims);
  const double activation = bytes_of(forward.x);
  c.label = dims.str() + " relu";
  c.bytes = 3 * activation;  // x twice: once for the statistics
  if (!backward) return c.runs(&Device::batch_norm_forward, forward);
  c.device().batch_norm_forward(c.stream(), forward);
  const Tensor dy = c.tensor(dtype, dims), dx = c.tensor(dtype, dims), d_gamma = c.float32(channels),
               d_beta = c.float32(channels);
  c.bytes = 5 * activation;  // dy, x twice: once for the sums
  BatchNormBackward args;
  args.dy = dy, args.x = forward.x, args.gamma = forward.gamma, args.beta = forward.beta;
  args.mean = forward.mean, args.rstd = forward.rstd, args.relu = true;
  args.dx = dx, args.d_gamma = d_gamma, args.d_beta = d_beta;
  c.runs(&Device::batch_norm_backward, args);
}

Op op_of(Norm::Kind kind, bool backward) {
  using enum Op;
  if (kind == Norm::Kind::layer) return backward ? layer_norm_backward : layer_norm_forward;
  if (kind == Norm::Kind::rms) return backward ? rms_norm_backward : rms_norm_forward;
  return backward ? batch_norm_backward : batch_norm_forward;
}

void make_norm(Case& c, const Norm& n, DType dtype, bool backward) {
  if (n.kind != Norm::Kind::batch) return make_row_norm(c, n, dtype, backward);
  make_batch_norm(c, {n.batch, n.height, n.width, n.channels}, dtype, backward);
}

/// `dtype` is what the step stores: 16 bits are rounded weights beside the float32 master.
void make_optimizer(Case& c, std::int64_t count, DType dtype, Op op) {
  const Tensor gradient = c.float32({count});
  StepScalars* step = step_scalars(c);
  c.label = std::to_string(count) + " parameters";
  c.bytes = bytes_of(gradient);
  if (op == Op::global_norm) return c.runs(&Device::global_norm, {gradient, step, 1.0f});
  const Tensor master = c.float32({count}), first = c.float32({count});
  const Tensor weights = dtype == DType::float32 ? Tensor{} : c.tensor(dtype, {count});
  const DecaySegment* segments = c.host_values(std::vector<DecaySegment>{{0, count, 0.1f}});
  c.bytes = 5 * bytes_of(master) + bytes_of(weights);
  if (op == Op::sgd) return c.runs(&Device::sgd, {master, weights, gradient, first, segments, 1, step});
  // Starts at zero, since a second moment is never negative.
  const Tensor second = c.float32({count});
  c.device().fill(c.stream(), {second, 0});
  c.bytes += 2 * bytes_of(master);
  c.runs(&Device::adamw, {master, weights, gradient, first, second, segments, 1, step});
}

/// How a case of this kind is made, and the operators of forward and, where that is another one, of backward.
struct Recipe {
  Elementwise::Kind kind;
  void (*make)(Case&, const Elementwise&, DType, bool backward);
  std::vector<Op> operators;
};
const Recipe& recipe(Elementwise::Kind kind) {
  using enum Elementwise::Kind;
  static const std::vector<Recipe> recipes = {
      {rotary, make_rotary, {Op::rotary}},
      {swiglu, make_swiglu, {Op::swiglu_forward, Op::swiglu_backward}},
      {gelu, make_gelu, {Op::activation_forward, Op::activation_backward}},
      {bags, make_bags, {Op::embedding_bag_forward, Op::embedding_bag_update}},
      {max_pool, make_pool, {Op::max_pool_forward, Op::max_pool_backward}},
      {average_pool, make_pool, {Op::average_pool_forward, Op::average_pool_backward}},
      {concatenation, make_concatenation, {Op::copy_channels}}};
  return *std::ranges::find(recipes, kind, &Recipe::kind);
}

}  // namespace

std::vector<Entry> elementwise_entries(const NetworkDescription& network, std::int64_t micro_batch,
                                       std::int64_t seq_len) {
  std::vector<Entry> entries;
  const auto add = [&](Op op, const std::string& suffix, const auto& make) {
    entries.push_back({std::string(to_string(op)) + "/" + network.name + suffix, op,
                       [make](Case& c, Precision precision) { make(c, storage(precision)); }});
  };
  for (const Norm& n : network.shape->norms(micro_batch, seq_len))
    for (const bool backward : {false, true})
      add(op_of(n.kind, backward), n.name.empty() ? "" : "/" + n.name,
          [=](Case& c, DType dtype) { make_norm(c, n, dtype, backward); });
  for (const Elementwise& e : network.shape->elementwise(micro_batch, seq_len)) {
    const Recipe& its = recipe(e.kind);
    for (const Op op : its.operators)
      add(op, suffix_of(e),
          [&its, e, backward = op != its.operators.front()](Case& c, DType dtype) { its.make(c, e, dtype, backward); });
  }
  const std::int64_t parameters = count_dense_parameters(network);
  const bool adamw = default_optimizer(network).kind == OptimizerConfig::Kind::adamw;
  for (const Op op : {adamw ? Op::adamw : Op::sgd, Op::global_norm})
    add(op, "", [=](Case& c, DType dtype) { make_optimizer(c, parameters, dtype, op); });
  return entries;
}

void make_triad(Case& c) {
  constexpr std::int64_t count = 16 << 20;
  const int threads = c.device().info().threads;
  float* a = c.float32({count}).as<float>();
  const float* b = c.float32({count}).as<float>();
  const float* d = c.float32({count}).as<float>();
  c.bytes = 3.0 * sizeof(float) * count;
  c.label = "3 arrays of 64 MiB, " + std::to_string(threads) + (threads == 1 ? " thread" : " threads");
  c.run = [=] {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (std::int64_t i = 0; i < count; ++i) a[i] = b[i] + 3.0f * d[i];
  };
}

}  // namespace tw::bench::ops
