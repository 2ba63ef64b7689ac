#include <numeric>

#include "bench/ops/case.hpp"

namespace tw::bench::ops {
using namespace models;
namespace {

using Kind = Product::Kind;
using Epilogue = Product::Epilogue;

std::string extents(std::int64_t rows, std::int64_t in_features, std::int64_t out_features) {
  return std::to_string(rows) + "x" + std::to_string(in_features) + "x" + std::to_string(out_features);
}

void add_label(Case& made, const std::string& shape, const Plan& plan) {
  made.label = plan.description().empty() ? shape : shape + " " + plan.description();
}

bool has_bias(Epilogue epilogue) { return epilogue != Epilogue::none && epilogue != Epilogue::residual; }

double bytes_of(std::initializer_list<Tensor> tensors) {
  double bytes = 0;
  for (const Tensor& tensor : tensors) bytes += static_cast<double>(tensor.bytes());
  return bytes;
}

void make_linear(Case& c, LinearShape s, Op pass, Epilogue epilogue) {
  if (pass == Op::linear_forward && epilogue == Epilogue::bias_gelu) s.activation = Activation::gelu;
  const std::shared_ptr<LinearPlan> plan = c.device().plan(s);
  const Tensor x = c.tensor(s.dtype, {s.rows, s.in_features}), y = c.tensor(s.dtype, {s.rows, s.out_features});
  const Tensor weight = c.tensor(s.dtype, {s.out_features, s.in_features});
  c.flops =
      2.0 * static_cast<double>(s.rows) * static_cast<double>(s.in_features) * static_cast<double>(s.out_features);
  plan->bind(weight);
  plan->refresh(c.stream());
  // In fp8 what the passes leave for each other.
  const Tensor left_x = c.tensor(DType::byte, s.x_for_weights()), left_dy = c.tensor(DType::byte, s.dy_for_input());
  const bool bias = has_bias(epilogue),
             residual = epilogue == Epilogue::bias_residual || epilogue == Epilogue::residual;
  if (pass == Op::linear_forward) {
    LinearForward args;
    args.x = x;
    args.y = y;
    args.x_for_weights = left_x;
    if (bias) args.bias = c.tensor(s.dtype, {s.out_features});
    if (epilogue == Epilogue::bias_gelu) args.pre_activation = c.tensor(s.dtype, y.dims);
    if (residual) args.residual = c.tensor(s.dtype, y.dims);
    c.bytes = bytes_of({x, weight, y, args.pre_activation, args.residual});
    c.runs(plan, &LinearPlan::forward, args);
  } else if (pass == Op::linear_backward_input) {
    if (left_x) {
      plan->forward(c.stream(), {x, {}, {}, {}, y, true, left_x});
      plan->backward_weights(c.stream(), {left_x, y, c.float32(weight.dims), {}, false, left_dy});
    }
    LinearBackwardInput args{left_dy ? left_dy : y, {}, x};
    if (epilogue == Epilogue::bias_gelu) args.input_pre_activation = c.tensor(s.dtype, x.dims);
    c.bytes = bytes_of({x, weight, y, args.input_pre_activation});
    c.runs(plan, &LinearPlan::backward_input, args);
  } else {
    if (left_x) plan->forward(c.stream(), {x, {}, {}, {}, y, true, left_x});
    LinearBackwardWeights args{left_x ? left_x : x, y, c.float32(weight.dims), {}, false, left_dy};
    if (bias) args.d_bias = c.float32({s.out_features});
    c.bytes = bytes_of({x, y, args.d_weight});
    c.runs(plan, &LinearPlan::backward_weights, args);
  }
  add_label(c, extents(s.rows, s.in_features, s.out_features), *plan);
}

void make_convolution(Case& c, const ConvolutionShape& s, Op pass) {
  const std::shared_ptr<ConvolutionPlan> plan = c.device().plan(s);
  const Tensor x = c.tensor(s.dtype, s.in()), y = c.tensor(s.dtype, s.out()), weight = c.tensor(s.dtype, s.weight());
  plan->bind(weight);
  plan->refresh(c.stream());
  c.flops = 2.0 * static_cast<double>(y.count()) * static_cast<double>(weight.count() / s.out_channels);
  c.bytes = bytes_of({x, y, weight});
  if (pass == Op::convolution_forward) {
    c.runs(plan, &ConvolutionPlan::forward, {x, y});
  } else if (pass == Op::convolution_backward_input) {
    c.runs(plan, &ConvolutionPlan::backward_input, {y, x});
  } else {
    const Tensor gradient = c.float32(weight.dims);
    c.bytes = bytes_of({x, y, gradient});
    c.runs(plan, &ConvolutionPlan::backward_weights, {x, y, gradient, false});
  }
  add_label(c, x.dims.str() + "->" + y.dims.str(), *plan);
}

void make_attention(Case& c, const AttentionShape& s, Op pass) {
  const std::shared_ptr<AttentionPlan> plan = c.device().plan(s);
  const AttentionForward forward{c.tensor(s.dtype, s.packed()), c.tensor(s.dtype, s.unpacked()),
                                 c.float32(s.row_values())};
  c.flops = (s.causal ? 2.0 : 4.0) * static_cast<double>(s.batch) * static_cast<double>(s.seq) *
            static_cast<double>(s.seq) * static_cast<double>(s.heads * s.head_dim);
  if (pass == Op::attention_forward) {
    c.bytes = bytes_of({forward.qkv, forward.out});
    c.runs(plan, &AttentionPlan::forward, forward);
  } else {
    plan->forward(c.stream(), forward);  // backward reads what forward saved
    const AttentionBackward args{c.tensor(s.dtype, s.unpacked()), forward.qkv, forward.out, forward.log_sum_exp,
                                 c.tensor(s.dtype, s.packed())};
    c.flops *= 2;
    c.bytes = bytes_of({args.d_out, args.qkv, args.out, args.d_qkv});
    c.runs(plan, &AttentionPlan::backward, args);
  }
  add_label(c,
            "batch " + std::to_string(s.batch) + " heads " + std::to_string(s.heads) +
                (s.group() > 1 ? " kv_heads " + std::to_string(s.kv_heads) : "") + " seq " + std::to_string(s.seq) +
                " head_dim " + std::to_string(s.head_dim) + (s.causal ? " causal" : ""),
            *plan);
}

void make_classifier(Case& c, ClassifierShape s) {
  s.reserved_classes = models::whole_tiles_of_classes(s.classes);  // as networks do
  const Dims of_classes{s.classes, s.in_features}, of_all{s.reserved_classes, s.in_features};
  const std::shared_ptr<ClassifierPlan> plan = c.device().plan(s);
  ClassifierForwardBackward args;
  const Tensor weight = c.tensor(s.dtype, of_all).slice(0, of_classes);
  plan->bind(weight);
  plan->refresh(c.stream());
  args.x = c.tensor(s.dtype, {s.rows, s.in_features});
  args.targets = c.indices({s.rows}, s.classes);
  args.loss = c.float32({1});
  args.dx = c.tensor(s.dtype, args.x.dims);
  args.d_weight = c.float32(of_all).slice(0, of_classes);
  c.flops = 6.0 * static_cast<double>(s.rows) * static_cast<double>(s.in_features) * static_cast<double>(s.classes);
  c.bytes = bytes_of({args.x, weight, args.dx, args.d_weight});
  c.runs(plan, &ClassifierPlan::forward_backward, args);
  add_label(c, extents(s.rows, s.in_features, s.classes), *plan);
}

void make_interaction(Case& c, const Product& p, DType dtype, Op pass) {
  const std::int64_t bags = p.heads - 1, pairs = p.heads * bags / 2;
  const Tensor dense = c.tensor(dtype, {p.batch, p.head_dim}),
               of_tables = c.tensor(dtype, {1, p.batch, bags, p.head_dim}),
               y = c.tensor(dtype, {p.batch, p.head_dim + pairs});
  std::vector<std::int32_t> each(static_cast<std::size_t>(bags));
  std::iota(each.begin(), each.end(), 0);
  const Tensor places{c.host_values(each), DType::int32, {bags}};
  c.label =
      std::to_string(p.batch) + " x pairs of " + std::to_string(p.heads) + " vectors of " + std::to_string(p.head_dim);
  c.flops = p.forward_flops();
  c.bytes = bytes_of({dense, of_tables, y});
  if (pass == Op::interaction_forward) return c.runs(&Device::interaction_forward, {dense, of_tables, places, y});
  const Tensor d_dense = c.tensor(dtype, dense.dims), d_bags = c.tensor(dtype, of_tables.dims);
  c.flops *= 2;
  c.bytes += bytes_of({d_dense, d_bags});
  c.runs(&Device::interaction_backward, {y, dense, of_tables, places, d_dense, d_bags});
}

/// Forward and the two backward passes, each without what the network adds behind the product and with it.
void add_linear(std::vector<Entry>& entries, const std::string& network, const Product& p) {
  const std::string name = product_name(p);
  const bool not_in_fp8 = p.kind == Kind::classifier || p.beside_fp8;
  const auto math_of = not_in_fp8 ? math_beside_linear : static_cast<Math (*)(Precision)>(math);
  const auto add = [&](Op pass, const std::string& suffix, Epilogue epilogue) {
    entries.push_back({std::string(to_string(pass)) + "/" + network + "/" + name + suffix, pass,
                       [=](Case& c, Precision precision) {
                         make_linear(c,
                                     {p.rows, p.in_features, p.out_features, storage(precision), Activation::none,
                                      math_of(precision)},
                                     pass, epilogue);
                       },
                       not_in_fp8 ? Multiplies::not_in_fp8 : Multiplies::in_all});
  };
  for (const Op pass : linear_passes) add(pass, "", Epilogue::none);
  if (p.epilogue == Epilogue::bias) add(Op::linear_forward, "+bias", Epilogue::bias);
  if (p.epilogue == Epilogue::bias_gelu) add(Op::linear_forward, "+bias+gelu", Epilogue::bias_gelu);
  if (p.epilogue == Epilogue::bias_residual) add(Op::linear_forward, "+bias+residual", Epilogue::bias_residual);
  if (p.epilogue == Epilogue::residual) add(Op::linear_forward, "+residual", Epilogue::residual);
  if (p.input_from_gelu) add(Op::linear_backward_input, "+gelu", Epilogue::bias_gelu);
  if (has_bias(p.epilogue)) add(Op::linear_backward_weights, "+bias", Epilogue::bias);
}

}  // namespace

void make_bare(Case& c, const LinearShape& shape, Op pass) { make_linear(c, shape, pass, Epilogue::none); }
void make_bare(Case& c, const ConvolutionShape& shape, Op pass) { make_convolution(c, shape, pass); }

std::vector<Entry> product_entries(const NetworkDescription& network, std::int64_t micro_batch, std::int64_t seq_len) {
  std::vector<Entry> entries;
  for (const Product& p : products(network, micro_batch, seq_len)) {
    const auto add = [&](Op op, auto make, Multiplies multiplies = Multiplies::not_in_fp8) {
      entries.push_back(
          {std::string(to_string(op)) + "/" + network.name + "/" + product_name(p), op, std::move(make), multiplies});
    };
    switch (p.kind) {
      case Kind::linear:
        add_linear(entries, network.name, p);
        break;
      case Kind::classifier:
        add_linear(entries, network.name, p);  // as plain products
        add(Op::classifier, [=](Case& c, Precision precision) {
          make_classifier(c, {p.rows, p.in_features, p.out_features, p.label_smoothing, storage(precision),
                              math_beside_linear(precision)});
        });
        break;
      case Kind::attention:
        for (const Op pass : {Op::attention_forward, Op::attention_backward})
          add(pass, [=](Case& c, Precision precision) {
            make_attention(c,
                           {p.batch, p.seq, p.heads, p.head_dim, p.causal, storage(precision),
                            math_beside_linear(precision), p.kv_heads},
                           pass);
          });
        break;
      case Kind::interaction:
        for (const Op pass : {Op::interaction_forward, Op::interaction_backward})
          add(pass, [=](Case& c, Precision precision) { make_interaction(c, p, storage(precision), pass); });
        break;
      case Kind::convolution:
        for (const Op pass : convolution_passes) {
          if (pass == Op::convolution_backward_input && !p.backward_input) continue;
          add(
              pass,
              [=](Case& c, Precision precision) {
                make_convolution(c, convolution_shape(p, storage(precision), math(precision)), pass);
              },
              Multiplies::in_all);
        }
        break;
    }
  }
  return entries;
}

}  // namespace tw::bench::ops
