#include "bench/ops/case.hpp"

namespace tw::bench::ops {
namespace {

/// Of layer norm, or of RMS norm, which has neither beta nor mean.
std::unique_ptr<Case> make_row_norm(models::Device& device, const models::Norm& n, models::DType dtype, bool backward) {
  auto made = std::make_unique<Case>(device);
  Case& c = *made;
  const bool is_layer = n.kind == models::Norm::Kind::layer;
  const models::Dims rows{n.rows}, width{n.channels}, all{n.rows, n.channels};
  const models::Tensor none, x = c.tensor(dtype, all), gamma = c.tensor(dtype, width),
                             beta = is_layer ? c.tensor(dtype, width) : none, y = c.tensor(dtype, all),
                             mean = is_layer ? c.float32(rows) : none, rstd = c.float32(rows);
  models::LayerNormForward layer;
  layer.x = x, layer.gamma = gamma, layer.beta = beta, layer.y = y, layer.mean = mean, layer.rstd = rstd;
  models::RmsNormForward rms;
  rms.x = x, rms.gamma = gamma, rms.y = y, rms.rstd = rstd;
  const double activation = static_cast<double>(x.bytes());
  c.label = all.str();
  c.bytes = 2 * activation;
  c.run = [&c, is_layer, layer, rms] {
    is_layer ? c.device().layer_norm_forward(c.stream(), layer) : c.device().rms_norm_forward(c.stream(), rms);
  };
  if (!backward) return made;
  c.run();
  const models::Tensor dy = c.tensor(dtype, all), d_residual = c.tensor(dtype, all), dx = c.tensor(dtype, all),
                       d_gamma = c.float32(width), d_beta = is_layer ? c.float32(width) : none;
  const models::LayerNormBackward of_layer{dy, x, gamma, mean, rstd, d_residual, dx, d_gamma, d_beta};
  const models::RmsNormBackward of_rms{dy, x, gamma, rstd, d_residual, dx, d_gamma};
  c.bytes = 4 * activation;
  c.run = [&c, is_layer, of_layer, of_rms] {
    is_layer ? c.device().layer_norm_backward(c.stream(), of_layer) : c.device().rms_norm_backward(c.stream(), of_rms);
  };
  return made;
}

std::unique_ptr<Case> make_rotary(models::Device& device, const models::Elementwise& e, models::DType dtype) {
  auto made = std::make_unique<Case>(device);
  Case& c = *made;
  // Angles of zero: turned again and again, the values keep their size.
  const models::Tensor table = c.float32({e.seq, e.head_dim / 2, 2});
  std::vector<float> angles(static_cast<std::size_t>(table.count()));
  for (std::size_t i = 0; i < angles.size(); i += 2) angles[i] = 1;
  c.device().copy_from_host(c.stream(), table.data, angles.data(), table.bytes());
  c.stream().synchronize();
  const models::Rotary args{c.tensor(dtype, {e.batch, e.seq, e.heads, e.head_dim}), table, e.rotated};
  c.label = args.x.dims.str() + ", " + std::to_string(e.rotated) + " heads";
  c.bytes = 2 * static_cast<double>(args.x.bytes()) * static_cast<double>(e.rotated) / static_cast<double>(e.heads);
  c.run = [&c, args] { c.device().rotary(c.stream(), args); };
  return made;
}

std::unique_ptr<Case> make_swiglu(models::Device& device, const models::Elementwise& e, models::DType dtype,
                                  bool backward) {
  auto made = std::make_unique<Case>(device);
  Case& c = *made;
  const models::Tensor x = c.tensor(dtype, {e.rows, 2 * e.width}), y = c.tensor(dtype, {e.rows, e.width});
  c.label = x.dims.str();
  c.bytes = static_cast<double>(x.bytes() + y.bytes());
  if (!backward) {
    c.run = [&c, x, y] { c.device().swiglu_forward(c.stream(), {x, y}); };
    return made;
  }
  const models::Tensor dx = c.tensor(dtype, x.dims);
  c.bytes += static_cast<double>(dx.bytes());
  c.run = [&c, x, y, dx] { c.device().swiglu_backward(c.stream(), {x, y, dx}); };
  return made;
}

std::unique_ptr<Case> make_gelu(models::Device& device, const models::Elementwise& e, models::DType dtype,
                                bool backward) {
  auto made = std::make_unique<Case>(device);
  Case& c = *made;
  const models::Tensor x = c.tensor(dtype, {e.rows, e.width}), y = c.tensor(dtype, {e.rows, e.width});
  c.label = x.dims.str() + " gelu_erf";
  c.bytes = static_cast<double>(x.bytes() + y.bytes());
  if (!backward) {
    c.run = [&c, x, y] { c.device().activation_forward(c.stream(), {x, y, models::Activation::gelu_erf}); };
    return made;
  }
  const models::Tensor dx = c.tensor(dtype, x.dims);
  c.bytes += static_cast<double>(dx.bytes());
  c.run = [&c, x, y, dx] { c.device().activation_backward(c.stream(), {y, x, dx, models::Activation::gelu_erf}); };
  return made;
}

/// All tables are one, of at most 512 MiB, whose rows are drawn uniformly: a lower bound of what caches give.
std::unique_ptr<Case> make_bags(models::Device& device, const models::Elementwise& e, models::DType dtype,
                                bool backward) {
  auto made = std::make_unique<Case>(device);
  Case& c = *made;
  const std::int64_t rows = std::min(e.rows, (std::int64_t{128} << 20) / e.width);
  const models::Tensor table = c.float32({rows, e.width}), y = c.tensor(dtype, {e.batch, e.heads, e.width}),
                       indices = c.indices({e.batch, e.heads, e.seq}, rows);
  std::vector<std::int32_t> each;
  for (std::int64_t slot = 0; slot < e.heads; ++slot) each.insert(each.end(), {0, static_cast<std::int32_t>(rows)});
  const models::Tensor slots{c.host_values(each), models::DType::int32, {e.heads, 2}};
  c.label = y.dims.str() + " bags of " + std::to_string(e.seq) + " from " + std::to_string(rows) + " rows";
  const double read = static_cast<double>(indices.count() * e.width) * sizeof(float);
  c.bytes = static_cast<double>(y.bytes() + indices.bytes()) + (backward ? 2 : 1) * read;
  if (!backward) {
    c.run = [&c, table, slots, indices, y] {
      c.device().embedding_bag_forward(c.stream(), {table, slots, indices, y});
    };
    return made;
  }
  models::StepScalars scalars;
  scalars.learning_rate = 1e-4f;
  const models::StepScalars* step = c.host_values(std::vector<models::StepScalars>{scalars});
  c.run = [&c, table, slots, indices, y, step] {
    c.device().embedding_bag_update(c.stream(), {table, slots, indices, y, step});
  };
  return made;
}

models::PerAxis by_axis(const models::Product::PerAxis& sizes) { return {sizes.height, sizes.width}; }

std::unique_ptr<Case> make_pool(models::Device& device, const models::Elementwise& e, models::DType dtype,
                                bool backward) {
  auto made = std::make_unique<Case>(device);
  Case& c = *made;
  const models::PerAxis kernel = by_axis(e.kernel), stride = by_axis(e.stride), padding = by_axis(e.padding);
  const auto out = [](int in, int size, int step, int pad) { return (in + 2 * pad - size) / step + 1; };
  const bool is_max = e.kind == models::Elementwise::Kind::max_pool;
  const models::Tensor x = c.tensor(dtype, {e.batch, e.image.height, e.image.width, e.channels});
  const models::Dims pooled =
      e.kernel == 0 ? models::Dims{e.batch, e.channels}
                    : models::Dims{e.batch, out(e.image.height, kernel.height, stride.height, padding.height),
                                   out(e.image.width, kernel.width, stride.width, padding.width), e.channels};
  const models::Tensor y = c.tensor(dtype, pooled),
                       argmax = is_max ? c.tensor(models::DType::int32, pooled) : models::Tensor{};
  c.label = x.dims.str() + (e.kernel == 0 ? "" : " by " + e.kernel.str());
  c.bytes = static_cast<double>(x.bytes() + y.bytes() + (is_max ? argmax.bytes() : 0));
  if (is_max) {
    const models::MaxPoolForward forward{x, kernel, stride, padding, y, argmax};
    const models::MaxPoolBackward gradient{y, argmax, kernel, stride, padding, x};
    if (backward)
      c.run = [&c, gradient] { c.device().max_pool_backward(c.stream(), gradient); };
    else
      c.run = [&c, forward] { c.device().max_pool_forward(c.stream(), forward); };
  } else {
    const models::AveragePoolForward forward{x, y, kernel, stride, padding};
    const models::AveragePoolBackward gradient{y, x, kernel, stride, padding};
    if (backward)
      c.run = [&c, gradient] { c.device().average_pool_backward(c.stream(), gradient); };
    else
      c.run = [&c, forward] { c.device().average_pool_forward(c.stream(), forward); };
  }
  return made;
}

std::unique_ptr<Case> make_concatenation(models::Device& device, const models::Elementwise& e, models::DType dtype) {
  auto made = std::make_unique<Case>(device);
  Case& c = *made;
  const models::Tensor x = c.tensor(dtype, {e.batch, e.image.height, e.image.width, e.width}),
                       y = c.tensor(dtype, {e.batch, e.image.height, e.image.width, e.channels});
  const models::CopyChannels args{x, y, 0, e.channels - e.width, e.width};
  c.label = x.dims.str() + " of " + std::to_string(e.channels);
  c.bytes = 2 * static_cast<double>(x.bytes());
  c.run = [&c, args] { c.device().copy_channels(c.stream(), args); };
  return made;
}

/// Of an image, what tells its cases apart: "/h35_192k3s1"; nothing of rows.
std::string name_of_image(const models::Elementwise& e) {
  if (e.channels == 0) return {};
  const std::string image = "/h" + std::to_string(e.image.height) + "_";
  if (e.kind == models::Elementwise::Kind::concatenation)
    return image + std::to_string(e.width) + "of" + std::to_string(e.channels);
  return image + std::to_string(e.channels) + (e.kernel == 0 ? "" : "k" + e.kernel.brief() + "s" + e.stride.brief());
}

std::unique_ptr<Case> make_elementwise(models::Device& device, const models::Elementwise& e, models::DType dtype,
                                       bool backward) {
  switch (e.kind) {
    case models::Elementwise::Kind::rotary:
      return make_rotary(device, e, dtype);
    case models::Elementwise::Kind::swiglu:
      return make_swiglu(device, e, dtype, backward);
    case models::Elementwise::Kind::bags:
      return make_bags(device, e, dtype, backward);
    case models::Elementwise::Kind::max_pool:
    case models::Elementwise::Kind::average_pool:
      return make_pool(device, e, dtype, backward);
    case models::Elementwise::Kind::concatenation:
      return make_concatenation(device, e, dtype);
    case models::Elementwise::Kind::gelu:
      break;
  }
  return make_gelu(device, e, dtype, backward);
}

std::unique_ptr<Case> make_batch_norm(models::Device& device, models::Dims dims, models::DType dtype, bool backward) {
  auto made = std::make_unique<Case>(device);
  Case& c = *made;
  const std::int64_t channels = dims[3];
  models::BatchNormForward forward;
  forward.x = c.tensor(dtype, dims);
  forward.gamma = c.float32({channels});
  forward.beta = c.float32({channels});
  forward.running_mean = c.float32({channels});
  forward.running_var = c.float32({channels});
  forward.relu = true;
  forward.y = c.tensor(dtype, dims);
  forward.mean = c.float32({channels});
  forward.rstd = c.float32({channels});
  const double activation = static_cast<double>(forward.x.bytes());
  c.label = dims.str() + " relu";
  if (!backward) {
    c.bytes = 3 * activation;  // x twice: once for the statistics
    c.run = [&c, forward] { c.device().batch_norm_forward(c.stream(), forward); };
    return made;
  }
  c.device().batch_norm_forward(c.stream(), forward);
  const models::Tensor dy = c.tensor(dtype, dims), dx = c.tensor(dtype, dims), d_gamma = c.float32({channels}),
                       d_beta = c.float32({channels});
  const models::BatchNormBackward args{dy,   forward.x, forward.y, forward.gamma, forward.mean, forward.rstd,
                                       true, dx,        {},        d_gamma,       d_beta};
  c.bytes = 7 * activation;  // dy, x, y twice: once for the sums
  c.run = [&c, args] { c.device().batch_norm_backward(c.stream(), args); };
  return made;
}

models::Op op_of(models::Norm::Kind kind, bool backward) {
  switch (kind) {
    case models::Norm::Kind::layer:
      return backward ? models::Op::layer_norm_backward : models::Op::layer_norm_forward;
    case models::Norm::Kind::rms:
      return backward ? models::Op::rms_norm_backward : models::Op::rms_norm_forward;
    case models::Norm::Kind::batch:
      break;
  }
  return backward ? models::Op::batch_norm_backward : models::Op::batch_norm_forward;
}

std::unique_ptr<Case> make_norm(models::Device& device, const models::Norm& n, models::DType dtype, bool backward) {
  if (n.kind != models::Norm::Kind::batch) return make_row_norm(device, n, dtype, backward);
  return make_batch_norm(device, {n.batch, n.height, n.width, n.channels}, dtype, backward);
}

/// `dtype` is what the step stores: 16 bits are rounded weights beside the float32 master.
std::unique_ptr<Case> make_optimizer(models::Device& device, std::int64_t count, models::DType dtype, models::Op op) {
  auto made = std::make_unique<Case>(device);
  Case& c = *made;
  const models::Tensor gradient = c.float32({count});
  models::StepScalars scalars;
  scalars.learning_rate = 1e-4f;
  models::StepScalars* step = c.host_values(std::vector<models::StepScalars>{scalars});
  c.label = std::to_string(count) + " parameters";
  if (op == models::Op::global_norm) {
    const models::GlobalNorm args{gradient, step, 1.0f};
    c.bytes = static_cast<double>(gradient.bytes());
    c.run = [&c, args] { c.device().global_norm(c.stream(), args); };
    return made;
  }
  const models::Tensor master = c.float32({count}), first = c.float32({count});
  const models::Tensor weights = dtype == models::DType::float32 ? models::Tensor{} : c.tensor(dtype, {count});
  const models::DecaySegment* segments = c.host_values(std::vector<models::DecaySegment>{{0, count, 0.1f}});
  c.bytes = 5 * static_cast<double>(master.bytes()) + static_cast<double>(weights.bytes());
  if (op == models::Op::sgd) {
    const models::Sgd args{master, weights, gradient, first, segments, 1, step};
    c.run = [&c, args] { c.device().sgd(c.stream(), args); };
    return made;
  }
  // Starts at zero, since a second moment is never negative.
  const models::Tensor second = c.float32({count});
  c.device().fill(c.stream(), {second, 0});
  const models::AdamW args{master, weights, gradient, first, second, segments, 1, step};
  c.bytes += 2 * static_cast<double>(master.bytes());
  c.run = [&c, args] { c.device().adamw(c.stream(), args); };
  return made;
}

}  // namespace

std::vector<Entry> elementwise_entries(const models::NetworkDescription& network, std::int64_t micro_batch,
                                       std::int64_t seq_len) {
  std::vector<Entry> entries;
  for (const models::Norm& n : network.shape->norms(micro_batch, seq_len)) {
    const std::string name = "/" + network.name + (n.name.empty() ? "" : "/" + n.name);
    for (const bool backward : {false, true}) {
      const models::Op op = op_of(n.kind, backward);
      entries.push_back({models::to_string(op) + name, op, [=](models::Device& device, models::Precision precision) {
                           return make_norm(device, n, models::storage(precision), backward);
                         }});
    }
  }
  for (const models::Elementwise& e : network.shape->elementwise(micro_batch, seq_len)) {
    const auto add = [&](models::Op op, bool backward) {
      entries.push_back({std::string(models::to_string(op)) + "/" + network.name + name_of_image(e), op,
                         [=](models::Device& device, models::Precision precision) {
                           return make_elementwise(device, e, models::storage(precision), backward);
                         }});
    };
    switch (e.kind) {
      case models::Elementwise::Kind::rotary:
        add(models::Op::rotary, false);
        break;
      case models::Elementwise::Kind::swiglu:
        add(models::Op::swiglu_forward, false);
        add(models::Op::swiglu_backward, true);
        break;
      case models::Elementwise::Kind::bags:
        add(models::Op::embedding_bag_forward, false);
        add(models::Op::embedding_bag_update, true);
        break;
      case models::Elementwise::Kind::gelu:
        add(models::Op::activation_forward, false);
        add(models::Op::activation_backward, true);
        break;
      case models::Elementwise::Kind::max_pool:
        add(models::Op::max_pool_forward, false);
        add(models::Op::max_pool_backward, true);
        break;
      case models::Elementwise::Kind::average_pool:
        add(models::Op::average_pool_forward, false);
        add(models::Op::average_pool_backward, true);
        break;
      case models::Elementwise::Kind::concatenation:
        add(models::Op::copy_channels, false);
        break;
    }
  }
  const std::int64_t parameters = models::count_dense_parameters(network);
  const bool adamw = models::default_optimizer(network).kind == models::OptimizerConfig::Kind::adamw;
  for (const models::Op op : {adamw ? models::Op::adamw : models::Op::sgd, models::Op::global_norm})
    entries.push_back({std::string(models::to_string(op)) + "/" + network.name, op,
                       [=](models::Device& device, models::Precision precision) {
                         return make_optimizer(device, parameters, models::storage(precision), op);
                       }});
  return entries;
}

std::unique_ptr<Case> make_triad(models::Device& device) {
  constexpr std::int64_t count = 16 << 20;
  auto made = std::make_unique<Case>(device);
  Case& c = *made;
  const int threads = device.info().threads;
  float* a = c.float32({count}).as<float>();
  const float* b = c.float32({count}).as<float>();
  const float* d = c.float32({count}).as<float>();
  c.bytes = 3.0 * sizeof(float) * count;
  c.label = "3 arrays of 64 MiB, " + std::to_string(threads) + " threads";
  c.run = [=] {
#pragma omp parallel for num_threads(threads) schedule(static)
    for (std::int64_t i = 0; i < count; ++i) a[i] = b[i] + 3.0f * d[i];
  };
  return made;
}

}  // namespace tw::bench::ops
