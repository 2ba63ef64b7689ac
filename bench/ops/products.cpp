#include <numeric>

#include "bench/ops/case.hpp"

namespace tw::bench::ops {
namespace {

using Kind = models::Product::Kind;
using Epilogue = models::Product::Epilogue;

std::string extents(const models::LinearShape& s) {
  return std::to_string(s.rows) + "x" + std::to_string(s.in_features) + "x" + std::to_string(s.out_features);
}

void add_label(Case& made, const std::string& shape, const models::Plan& plan) {
  made.label = plan.description().empty() ? shape : shape + " " + plan.description();
}

bool has_bias(Epilogue epilogue) { return epilogue != Epilogue::none && epilogue != Epilogue::residual; }

double bytes_of(std::initializer_list<models::Tensor> tensors) {
  double bytes = 0;
  for (const models::Tensor& tensor : tensors) bytes += static_cast<double>(tensor.bytes());
  return bytes;
}

std::unique_ptr<Case> make_linear(models::Device& device, models::LinearShape s, models::Op pass, Epilogue epilogue) {
  auto made = std::make_unique<Case>(device);
  if (pass == models::Op::linear_forward && epilogue == Epilogue::bias_gelu) s.activation = models::Activation::gelu;
  std::shared_ptr<models::LinearPlan> plan = device.plan(s);
  const models::Tensor x = made->tensor(s.dtype, {s.rows, s.in_features}),
                       y = made->tensor(s.dtype, {s.rows, s.out_features});
  const models::Tensor weight = made->tensor(s.dtype, {s.out_features, s.in_features});
  Case& c = *made;
  c.flops =
      2.0 * static_cast<double>(s.rows) * static_cast<double>(s.in_features) * static_cast<double>(s.out_features);
  plan->bind(weight);
  plan->refresh(c.stream());
  const bool bias = has_bias(epilogue),
             residual = epilogue == Epilogue::bias_residual || epilogue == Epilogue::residual;
  if (pass == models::Op::linear_forward) {
    models::LinearForward args;
    args.x = x;
    args.y = y;
    if (bias) args.bias = c.tensor(s.dtype, {s.out_features});
    if (epilogue == Epilogue::bias_gelu) args.pre_activation = c.tensor(s.dtype, {s.rows, s.out_features});
    if (residual) args.residual = c.tensor(s.dtype, {s.rows, s.out_features});
    c.bytes = bytes_of({x, weight, y, args.pre_activation, args.residual});
    c.run = [&c, plan, args] { plan->forward(c.stream(), args); };
  } else if (pass == models::Op::linear_backward_input) {
    models::LinearBackwardInput args{y, {}, x};
    if (epilogue == Epilogue::bias_gelu) args.input_pre_activation = c.tensor(s.dtype, {s.rows, s.in_features});
    c.bytes = bytes_of({x, weight, y, args.input_pre_activation});
    c.run = [&c, plan, args] { plan->backward_input(c.stream(), args); };
  } else {
    models::LinearBackwardWeights args{x, y, c.float32({s.out_features, s.in_features}), {}};
    if (bias) args.d_bias = c.float32({s.out_features});
    c.bytes = bytes_of({x, y, args.d_weight});
    c.run = [&c, plan, args] { plan->backward_weights(c.stream(), args); };
  }
  add_label(c, extents(s), *plan);
  return made;
}

std::unique_ptr<Case> make_convolution(models::Device& device, const models::ConvolutionShape& s, models::Op pass) {
  auto made = std::make_unique<Case>(device);
  Case& c = *made;
  std::shared_ptr<models::ConvolutionPlan> plan = device.plan(s);
  const models::Tensor x = c.tensor(s.dtype, s.in()), y = c.tensor(s.dtype, s.out());
  const models::Tensor weight = c.tensor(s.dtype, s.weight());
  plan->bind(weight);
  plan->refresh(c.stream());
  c.flops = 2.0 * static_cast<double>(y.count()) * static_cast<double>(weight.count() / s.out_channels);
  c.bytes = bytes_of({x, y, weight});
  if (pass == models::Op::convolution_forward) {
    c.run = [&c, plan, x, y] { plan->forward(c.stream(), {x, y}); };
  } else if (pass == models::Op::convolution_backward_input) {
    c.run = [&c, plan, x, y] { plan->backward_input(c.stream(), {y, x}); };
  } else {
    const models::Tensor gradient = c.float32(weight.dims);
    c.bytes = bytes_of({x, y, gradient});
    c.run = [&c, plan, x, y, gradient] { plan->backward_weights(c.stream(), {x, y, gradient, false}); };
  }
  add_label(c, x.dims.str() + "->" + y.dims.str(), *plan);
  return made;
}

std::unique_ptr<Case> make_attention(models::Device& device, const models::AttentionShape& s, models::Op pass) {
  auto made = std::make_unique<Case>(device);
  Case& c = *made;
  std::shared_ptr<models::AttentionPlan> plan = device.plan(s);
  const models::Dims packed = s.packed(), heads = s.unpacked();
  models::AttentionForward forward;
  forward.qkv = c.tensor(s.dtype, packed);
  forward.out = c.tensor(s.dtype, heads);
  forward.log_sum_exp = c.float32({s.batch, s.heads, s.seq});
  const double width = static_cast<double>(s.heads * s.head_dim);
  const double forward_flops = (s.causal ? 2.0 : 4.0) * static_cast<double>(s.batch) * static_cast<double>(s.seq) *
                               static_cast<double>(s.seq) * width;
  if (pass == models::Op::attention_forward) {
    c.flops = forward_flops;
    c.bytes = bytes_of({forward.qkv, forward.out});
    c.run = [&c, plan, forward] { plan->forward(c.stream(), forward); };
  } else {
    plan->forward(c.stream(), forward);  // backward reads what forward saved
    models::AttentionBackward args{c.tensor(s.dtype, heads), forward.qkv, forward.out, forward.log_sum_exp,
                                   c.tensor(s.dtype, packed)};
    c.flops = 2 * forward_flops;
    c.bytes = bytes_of({args.d_out, args.qkv, args.out, args.d_qkv});
    c.run = [&c, plan, args] { plan->backward(c.stream(), args); };
  }
  add_label(c,
            "batch " + std::to_string(s.batch) + " heads " + std::to_string(s.heads) +
                (s.group() > 1 ? " kv_heads " + std::to_string(s.kv_heads) : "") + " seq " + std::to_string(s.seq) +
                " head_dim " + std::to_string(s.head_dim) + (s.causal ? " causal" : ""),
            *plan);
  return made;
}

std::unique_ptr<Case> make_classifier(models::Device& device, models::ClassifierShape s) {
  s.reserved_classes = models::whole_tiles_of_classes(s.classes);  // as networks do
  const models::Dims of_classes{s.classes, s.in_features}, of_all{s.reserved_classes, s.in_features};
  auto made = std::make_unique<Case>(device);
  Case& c = *made;
  std::shared_ptr<models::ClassifierPlan> plan = device.plan(s);
  models::ClassifierForwardBackward args;
  const models::Tensor weight = c.tensor(s.dtype, of_all).slice(0, of_classes);
  plan->bind(weight);
  plan->refresh(c.stream());
  args.x = c.tensor(s.dtype, {s.rows, s.in_features});
  args.targets = c.indices({s.rows}, s.classes);
  args.loss = c.float32({1});
  args.dx = c.tensor(s.dtype, {s.rows, s.in_features});
  args.d_weight = c.float32(of_all).slice(0, of_classes);
  c.flops = 6.0 * static_cast<double>(s.rows) * static_cast<double>(s.in_features) * static_cast<double>(s.classes);
  c.bytes = bytes_of({args.x, weight, args.dx, args.d_weight});
  c.run = [&c, plan, args] { plan->forward_backward(c.stream(), args); };
  add_label(c, std::to_string(s.rows) + "x" + std::to_string(s.in_features) + "x" + std::to_string(s.classes), *plan);
  return made;
}

std::unique_ptr<Case> make_interaction(models::Device& device, const models::Product& p, models::DType dtype,
                                       models::Op pass) {
  auto made = std::make_unique<Case>(device);
  Case& c = *made;
  const std::int64_t bags = p.heads - 1, pairs = p.heads * bags / 2;
  const models::Tensor dense = c.tensor(dtype, {p.batch, p.head_dim}),
                       of_tables = c.tensor(dtype, {1, p.batch, bags, p.head_dim}),
                       y = c.tensor(dtype, {p.batch, p.head_dim + pairs});
  std::vector<std::int32_t> each(static_cast<std::size_t>(bags));
  std::iota(each.begin(), each.end(), 0);
  const models::Tensor places{c.host_values(each), models::DType::int32, {bags}};
  c.label =
      std::to_string(p.batch) + " x pairs of " + std::to_string(p.heads) + " vectors of " + std::to_string(p.head_dim);
  c.flops = p.forward_flops();
  c.bytes = bytes_of({dense, of_tables, y});
  if (pass == models::Op::interaction_forward) {
    c.run = [&c, dense, of_tables, places, y] {
      c.device().interaction_forward(c.stream(), {dense, of_tables, places, y});
    };
    return made;
  }
  const models::Tensor d_dense = c.tensor(dtype, dense.dims), d_bags = c.tensor(dtype, of_tables.dims);
  c.flops *= 2;
  c.bytes += bytes_of({d_dense, d_bags});
  c.run = [&c, dense, of_tables, places, y, d_dense, d_bags] {
    c.device().interaction_backward(c.stream(), {y, dense, of_tables, places, d_dense, d_bags});
  };
  return made;
}

/// Forward and the two backward passes, each without what the network adds behind the product and with it.
void add_linear(std::vector<Entry>& entries, const std::string& network, const models::Product& p) {
  const std::string name = product_name(p);
  const bool is_head = p.kind == Kind::classifier;
  const bool not_in_fp8 = is_head || p.beside_fp8;
  const auto math_of = not_in_fp8 ? models::math_beside_linear : models::math;
  const auto add = [&](models::Op pass, const std::string& suffix, Epilogue epilogue) {
    entries.push_back({std::string(models::to_string(pass)) + "/" + network + "/" + name + suffix, pass,
                       [=](models::Device& device, models::Precision precision) {
                         return make_linear(device,
                                            {p.rows, p.in_features, p.out_features, models::storage(precision),
                                             models::Activation::none, math_of(precision)},
                                            pass, epilogue);
                       },
                       not_in_fp8 ? Multiplies::not_in_fp8 : Multiplies::in_all});
  };
  for (const models::Op pass : linear_passes) add(pass, "", Epilogue::none);
  if (p.epilogue == Epilogue::bias) add(models::Op::linear_forward, "+bias", Epilogue::bias);
  if (p.epilogue == Epilogue::bias_gelu) add(models::Op::linear_forward, "+bias+gelu", Epilogue::bias_gelu);
  if (p.epilogue == Epilogue::bias_residual) add(models::Op::linear_forward, "+bias+residual", Epilogue::bias_residual);
  if (p.epilogue == Epilogue::residual) add(models::Op::linear_forward, "+residual", Epilogue::residual);
  if (p.input_from_gelu) add(models::Op::linear_backward_input, "+gelu", Epilogue::bias_gelu);
  if (has_bias(p.epilogue)) add(models::Op::linear_backward_weights, "+bias", Epilogue::bias);
}

}  // namespace

std::unique_ptr<Case> make_bare(models::Device& device, const models::LinearShape& shape, models::Op pass) {
  return make_linear(device, shape, pass, Epilogue::none);
}
std::unique_ptr<Case> make_bare(models::Device& device, const models::ConvolutionShape& shape, models::Op pass) {
  return make_convolution(device, shape, pass);
}

std::vector<Entry> product_entries(const models::NetworkDescription& network, std::int64_t micro_batch,
                                   std::int64_t seq_len) {
  std::vector<Entry> entries;
  for (const models::Product& p : models::products(network, micro_batch, seq_len)) {
    const std::string name = product_name(p);
    const auto full_name = [&](models::Op op) {
      return std::string(models::to_string(op)) + "/" + network.name + "/" + name;
    };
    switch (p.kind) {
      case Kind::linear:
        add_linear(entries, network.name, p);
        break;
      case Kind::classifier:
        add_linear(entries, network.name, p);  // as plain products
        entries.push_back({full_name(models::Op::classifier), models::Op::classifier,
                           [=](models::Device& device, models::Precision precision) {
                             return make_classifier(
                                 device, {p.rows, p.in_features, p.out_features, p.label_smoothing,
                                          models::storage(precision), models::math_beside_linear(precision)});
                           },
                           Multiplies::not_in_fp8});
        break;
      case Kind::attention:
        for (const models::Op pass : {models::Op::attention_forward, models::Op::attention_backward})
          entries.push_back({full_name(pass), pass,
                             [=](models::Device& device, models::Precision precision) {
                               return make_attention(
                                   device,
                                   {p.batch, p.seq, p.heads, p.head_dim, p.causal, models::storage(precision),
                                    models::math_beside_linear(precision), p.kv_heads},
                                   pass);
                             },
                             Multiplies::not_in_fp8});
        break;
      case Kind::interaction:
        for (const models::Op pass : {models::Op::interaction_forward, models::Op::interaction_backward})
          entries.push_back({full_name(pass), pass,
                             [=](models::Device& device, models::Precision precision) {
                               return make_interaction(device, p, models::storage(precision), pass);
                             },
                             Multiplies::not_in_fp8});
        break;
      case Kind::convolution:
        for (const models::Op pass : convolution_passes) {
          if (pass == models::Op::convolution_backward_input && !p.backward_input) continue;
          entries.push_back({full_name(pass), pass,
                             [=](models::Device& device, models::Precision precision) {
                               return make_convolution(
                                   device, convolution_shape(p, models::storage(precision), models::math(precision)),
                                   pass);
                             },
                             Multiplies::in_all});
        }
        break;
    }
  }
  return entries;
}

}  // namespace tw::bench::ops
