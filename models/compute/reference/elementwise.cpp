// Embedding, rotary positions, gates, rows by index, activations, addition, conversion, and the optimizers.
#include <cmath>
#include <map>
#include <set>

#include "models/compute/error.hpp"
#include "models/compute/formulas.hpp"
#include "models/compute/reference/reference.hpp"

namespace tw::models::reference {
namespace {

void check_indices(const Tensor& tokens, std::int64_t vocabulary, const char* what) {
  for (std::int64_t i = 0; i < tokens.count(); ++i) {
    const std::int32_t token = tokens.as<std::int32_t>()[i];
    if (token < 0 || token >= vocabulary) {
      throw Error(Failure::usage, std::string(what) + ": wanted values in [0, " + std::to_string(vocabulary) +
                                      "), given " + std::to_string(token) + " at " + std::to_string(i));
    }
  }
}

double gradient_factor(const StepScalars& step) {
  return static_cast<double>(step.gradient_scale) * step.clip_factor / step.loss_scale;
}

void store_weight(const Tensor& weights, std::int64_t i, float master) {
  if (weights) store(weights.slice(i, {1}), {master});
}

}  // namespace

void ReferenceDevice::do_embedding_forward(Stream&, const EmbeddingForward& args) {
  const std::int64_t seq = args.tokens.dims[1], width = args.token_table.dims[1];
  check_indices(args.tokens, args.token_table.dims[0], "embedding_forward: tokens");
  Values y(static_cast<std::size_t>(args.y.count()));
  for (std::int64_t i = 0; i < args.tokens.count(); ++i) {
    const std::int64_t token = args.tokens.as<std::int32_t>()[i], position = i % seq;
    for (std::int64_t j = 0; j < width; ++j) {
      y[i * width + j] = float_at(args.token_table, token * width + j);
      if (args.position_table) y[i * width + j] += float_at(args.position_table, position * width + j);
    }
  }
  store(args.y, y);
}

void ReferenceDevice::do_embedding_backward(Stream&, const EmbeddingBackward& args) {
  const std::int64_t seq = args.tokens.dims[1], width = args.dy.dims[2];
  check_indices(args.tokens, args.d_token_table.dims[0], "embedding_backward: tokens");
  const Values dy = load(args.dy);
  std::map<std::int32_t, Values> rows;  // only the rows that occur: a vocabulary is large
  for (std::int64_t i = 0; i < args.tokens.count(); ++i) {
    Values& row =
        rows.try_emplace(args.tokens.as<std::int32_t>()[i], static_cast<std::size_t>(width), 0.0).first->second;
    for (std::int64_t j = 0; j < width; ++j) row[j] += dy[i * width + j];
  }
  for (const auto& [token, row] : rows) store_gradient(args.d_token_table.slice(token * width, {width}), row, true);

  if (args.d_position_table) {
    Values d_position(static_cast<std::size_t>(args.d_position_table.count()), 0.0);
    for (std::int64_t i = 0; i < args.tokens.count(); ++i) {
      for (std::int64_t j = 0; j < width; ++j) d_position[i % seq * width + j] += dy[i * width + j];
    }
    store_gradient(args.d_position_table, d_position, args.accumulate_position);
  }
}

void ReferenceDevice::do_rotary(Stream&, const Rotary& args) {
  const std::int64_t seq = args.x.dims[1], heads = args.x.dims[2], width = args.x.dims[3], half = width / 2;
  const Values table = load(args.table);
  Values x = load(args.x);
  for (std::int64_t position = 0; position < args.x.dims[0] * seq; ++position) {
    for (std::int64_t head = 0; head < args.rotated; ++head) {
      double* row = x.data() + (position * heads + head) * width;
      for (std::int64_t i = 0; i < half; ++i) {
        const double* angle = table.data() + (position % seq * half + i) * 2;
        const auto turned =
            formula::rotated<double>({row[i], row[i + half]}, angle[0], args.inverse ? -angle[1] : angle[1]);
        row[i] = turned.first;
        row[i + half] = turned.second;
      }
    }
  }
  store(args.x, x);
}

void ReferenceDevice::do_swiglu_forward(Stream&, const SwigluForward& args) {
  const std::int64_t rows = args.y.dims[0], hidden = args.y.dims[1];
  const Values x = load(args.x);
  Values y(static_cast<std::size_t>(args.y.count()));
  for (std::int64_t i = 0; i < rows; ++i) {
    const double *gate = x.data() + i * 2 * hidden, *up = gate + hidden;
    for (std::int64_t j = 0; j < hidden; ++j) y[i * hidden + j] = formula::silu(gate[j]) * up[j];
  }
  store(args.y, y);
}

void ReferenceDevice::do_swiglu_backward(Stream&, const SwigluBackward& args) {
  const std::int64_t rows = args.dy.dims[0], hidden = args.dy.dims[1];
  const Values x = load(args.x), dy = load(args.dy);
  Values dx(x.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    const double *gate = x.data() + i * 2 * hidden, *up = gate + hidden;
    double *d_gate = dx.data() + i * 2 * hidden, *d_up = d_gate + hidden;
    for (std::int64_t j = 0; j < hidden; ++j) {
      const auto gradient = formula::swiglu_gradient(gate[j], up[j], dy[i * hidden + j]);
      d_gate[j] = gradient.gate;
      d_up[j] = gradient.up;
    }
  }
  store(args.dx, dx);
}

void ReferenceDevice::do_gather_rows(Stream&, const GatherRows& args) {
  const std::int64_t width = args.x.dims[1];
  check_indices(args.indices, args.x.dims[0], "gather_rows: indices");
  Values y(static_cast<std::size_t>(args.y.count()));
  for (std::int64_t i = 0; i < args.indices.count(); ++i)
    for (std::int64_t j = 0; j < width; ++j)
      y[i * width + j] = float_at(args.x, args.indices.as<std::int32_t>()[i] * width + j);
  store(args.y, y);
}

void ReferenceDevice::do_scatter_rows(Stream&, const ScatterRows& args) {
  const std::int64_t width = args.dx.dims[1];
  check_indices(args.indices, args.dx.dims[0], "scatter_rows: indices");
  const Values dy = load(args.dy);
  Values dx(static_cast<std::size_t>(args.dx.count()), 0.0);
  std::set<std::int32_t> seen;
  for (std::int64_t i = 0; i < args.indices.count(); ++i) {
    const std::int32_t row = args.indices.as<std::int32_t>()[i];
    if (!seen.insert(row).second)
      throw Error(Failure::usage, "scatter_rows: indices: " + std::to_string(row) + " occurs twice");
    for (std::int64_t j = 0; j < width; ++j) dx[row * width + j] = dy[i * width + j];
  }
  store(args.dx, dx);
}

void ReferenceDevice::do_activation_forward(Stream&, const ActivationForward& args) {
  Values x = load(args.x);
  formula::with_activation(args.activation, [&]<class Of>(Of) {
    for (double& value : x) value = Of::value(value);
  });
  store(args.y, x);
}

void ReferenceDevice::do_activation_backward(Stream&, const ActivationBackward& args) {
  const Values x = load(args.x);
  Values dx = load(args.dy);
  formula::with_activation(args.activation, [&]<class Of>(Of) {
    for (std::size_t i = 0; i < x.size(); ++i) dx[i] *= Of::derivative(x[i]);
  });
  store(args.dx, dx);
}

void ReferenceDevice::do_mean_squared_error(Stream&, const MeanSquaredError& args) {
  const Values predictions = load(args.predictions), targets = load(args.targets);
  const auto count = static_cast<double>(predictions.size());
  const double scale = args.scalars != nullptr ? static_cast<double>(args.scalars->loss_scale) : 1.0;
  Values d(predictions.size());
  double sum = 0;
  for (std::size_t i = 0; i < d.size(); ++i) {
    const double error = predictions[i] - targets[i];
    sum += error * error;
    d[i] = 2 * error / count * scale;
  }
  store(args.loss, {sum / count});
  if (args.d_predictions) store(args.d_predictions, d);
}

void ReferenceDevice::do_add_bias(Stream&, const AddBias& args) {
  Values y = load(args.x);
  const Values bias = load(args.bias);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] += bias[i % bias.size()];
  store(args.y, y);
}

void ReferenceDevice::do_bias_backward(Stream&, const BiasBackward& args) {
  const Values dy = load(args.dy);
  Values d_bias(static_cast<std::size_t>(args.d_bias.count()), 0.0);
  for (std::size_t i = 0; i < dy.size(); ++i) d_bias[i % d_bias.size()] += dy[i];
  store_gradient(args.d_bias, d_bias, args.accumulate);
}

void ReferenceDevice::do_add(Stream&, const Add& args) {
  Values sum = load(args.a);
  const Values b = load(args.b);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += b[i];
  store(args.y, sum);
}

void ReferenceDevice::do_cast(Stream&, const Cast& args) {
  for (std::int64_t i = 0; i < args.x.count(); ++i) {  // not through float64: a NaN keeps its payload
    if (args.x.dtype == DType::bf16) {
      args.y.as<float>()[i] = to_float(args.x.as<bf16>()[i]);
    } else if (args.x.dtype == DType::fp16) {
      args.y.as<float>()[i] = to_float(args.x.as<fp16>()[i]);
    } else if (args.y.dtype == DType::fp16) {
      args.y.as<fp16>()[i] = to_fp16(args.x.as<float>()[i]);
    } else {
      args.y.as<bf16>()[i] = to_bf16(args.x.as<float>()[i]);
    }
  }
}

void ReferenceDevice::do_fill(Stream&, const Fill& args) {
  store(args.y, Values(static_cast<std::size_t>(args.y.count()), args.value));
}

void ReferenceDevice::do_global_norm(Stream&, const GlobalNorm& args) {
  double sum = 0;
  for (std::int64_t i = 0; i < args.gradient.count(); ++i) {
    const double g = args.gradient.as<float>()[i];
    sum += g * g;
  }
  const double scale = static_cast<double>(args.scalars->gradient_scale) / args.scalars->loss_scale;
  const double norm = std::fabs(scale) * std::sqrt(sum);
  args.scalars->gradient_norm = static_cast<float>(norm);
  args.scalars->clip_factor =
      args.max_norm > 0 && norm > args.max_norm ? static_cast<float>(args.max_norm / norm) : 1.0f;
  if (args.find_non_finite) args.scalars->found_non_finite = std::isfinite(sum) ? 0 : 1;
}
void ReferenceDevice::do_adamw(Stream&, const AdamW& args) {
  const StepScalars& step = *args.scalars;
  if (step.found_non_finite != 0) return;
  for (int k = 0; k < args.segment_count; ++k) {
    const DecaySegment& segment = args.segments[k];
    for (std::int64_t i = segment.begin; i < segment.end; ++i) {
      float &master = args.master.as<float>()[i], &first = args.first_moment.as<float>()[i],
            &second = args.second_moment.as<float>()[i];
      const double gradient = static_cast<double>(args.gradient.as<float>()[i]) * gradient_factor(step);
      const auto next =
          formula::adamw<double>({master, first, second}, gradient, step.learning_rate, args.beta1, args.beta2,
                                 args.epsilon, segment.weight_decay, step.bias_correction1, step.bias_correction2);
      master = static_cast<float>(next.master);
      first = static_cast<float>(next.first_moment);
      second = static_cast<float>(next.second_moment);
      store_weight(args.weights, i, master);
    }
  }
}

void ReferenceDevice::do_sgd(Stream&, const Sgd& args) {
  const StepScalars& step = *args.scalars;
  if (step.found_non_finite != 0) return;
  for (int k = 0; k < args.segment_count; ++k) {
    const DecaySegment& segment = args.segments[k];
    for (std::int64_t i = segment.begin; i < segment.end; ++i) {
      float &master = args.master.as<float>()[i], &momentum = args.momentum_buffer.as<float>()[i];
      const double gradient = static_cast<double>(args.gradient.as<float>()[i]) * gradient_factor(step);
      const auto next =
          formula::sgd<double>({master, momentum}, gradient, step.learning_rate, args.momentum, segment.weight_decay);
      master = static_cast<float>(next.master);
      momentum = static_cast<float>(next.momentum);
      store_weight(args.weights, i, master);
    }
  }
}

void ReferenceDevice::do_update_loss_scale(Stream&, const UpdateLossScale& args) {
  formula::update_loss_scale(*args.scalars, args.growth_interval, args.beta1, args.beta2);
}

}  // namespace tw::models::reference
