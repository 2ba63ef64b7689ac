// Trainer::export_step: one step as files that other frameworks read.
#include <cstring>
#include <nlohmann/json.hpp>

#include "models/catalog/facts.hpp"
#include "models/compute/error.hpp"
#include "models/data/masked_source.hpp"
#include "models/export/step_export.hpp"
#include "models/trainer_impl.hpp"

namespace tw::models {

namespace {

using Json = nlohmann::ordered_json;

template <class T>
void append(std::vector<char>& out, const std::vector<T>& values) {
  const std::size_t begin = out.size();
  out.resize(begin + values.size() * sizeof(T));
  std::memcpy(out.data() + begin, values.data(), values.size() * sizeof(T));
}

std::vector<char> as_int64(const std::vector<std::int32_t>& values) {
  std::vector<char> out;
  append(out, std::vector<std::int64_t>(values.begin(), values.end()));
  return out;
}

/// A batch of masked tokens under the names and in the layout of transformers' BertForPreTraining: a label for each
/// position, -100 where none is predicted.
struct ExportedMasked {
  std::vector<std::int32_t> tokens, segments, labels, next_sentence;

  void append(const Tensor& inputs, const std::int32_t* targets, const MaskedLayout& layout) {
    const auto add = [](std::vector<std::int32_t>& to, const Tensor& values) {
      to.insert(to.end(), values.as<std::int32_t>(), values.as<std::int32_t>() + values.count());
    };
    add(tokens, layout.tokens(inputs));
    add(segments, layout.segments(inputs));
    std::vector<std::int32_t> each(static_cast<std::size_t>(layout.batch * layout.seq), -100);
    const auto* rows = layout.rows(inputs).as<std::int32_t>();
    for (std::int64_t i = 0; i < layout.predicted(); ++i) each[static_cast<std::size_t>(rows[i])] = targets[i];
    labels.insert(labels.end(), each.begin(), each.end());
    next_sentence.insert(next_sentence.end(), targets + layout.predicted(), targets + layout.gathered());
  }
};

/// A batch of clicks: dense features, an index for each table and place in its bag, and labels.
struct ExportedClicks {
  std::vector<char> dense;
  std::vector<std::int32_t> indices, labels;

  void append(const Tensor& inputs, const std::int32_t* targets, const ClickLayout& layout) {
    const Tensor of_dense = layout.dense_of(inputs), of_tables = layout.indices_of(inputs);
    const auto* bytes = static_cast<const char*>(of_dense.data);
    dense.insert(dense.end(), bytes, bytes + of_dense.bytes());
    indices.insert(indices.end(), of_tables.as<std::int32_t>(), of_tables.as<std::int32_t>() + of_tables.count());
    labels.insert(labels.end(), targets, targets + layout.batch);
  }
};

}  // namespace

Buffer Trainer::Impl::table_gradients(float scale) {
  const Tensor like = store.table_rows();
  if (!like) return {};
  Buffer memory(device, like.bytes());
  Buffer scalars(device, sizeof(StepScalars));
  const Tensor rows{memory.data(), DType::float32, like.dims};
  StepScalars step;
  step.learning_rate = -1;  // of zeros: the update is the gradient
  step.gradient_scale = scale;
  device.copy_from_host(*stream, scalars.data(), &step, sizeof step);
  device.fill(*stream, {rows, 0});
  for (const auto& block : blocks) block->update_tables(*stream, rows, static_cast<const StepScalars*>(scalars.data()));
  stream->synchronize();
  return memory;
}

double Trainer::Impl::loss_scale() {
  if (!scales_loss(config.precision)) return 1;
  StepScalars step;
  device.copy_to_host(*stream, &step, optimizer.device_scalars(), sizeof step);
  stream->synchronize();
  return static_cast<double>(step.loss_scale);
}

// The global batch of the coming step, in sample order; every rank can make it.
std::vector<SafeTensor> Trainer::Impl::exported_batch() {
  const DataDescription data = config.network.data();
  std::vector<std::int32_t> tokens, labels;
  ExportedMasked masked;
  ExportedClicks clicks;
  const auto tables = static_cast<std::int64_t>(data.table_rows.size());
  std::vector<char> images, series, values;
  const std::int64_t groups = config.accumulate * config.ranks;
  for (std::int64_t group = 0; group < groups; ++group) {
    loader.samples().generate(Split::training,
                              static_cast<std::uint64_t>(steps * global_batch() + group * config.micro_batch));
    const Tensor& x = loader.samples().inputs();
    const Tensor& targets = loader.samples().targets();
    const auto* target = targets.as<std::int32_t>();
    if (data.kind == DataKind::masked_tokens) {
      masked.append(x, target, {config.micro_batch, config.seq_len});
      continue;
    }
    if (data.kind == DataKind::clicks) {
      clicks.append(x, target, {config.micro_batch, data.dense_features, tables, data.hot, 1});
      continue;
    }
    if (has_values(data.kind))
      append(values, std::vector<float>(targets.as<float>(), targets.as<float>() + targets.count()));
    else
      labels.insert(labels.end(), target, target + targets.count());
    if (data.kind == DataKind::series) {
      std::vector<float> shown(static_cast<std::size_t>(x.count()));  // as the network sees them
      for (std::int64_t i = 0; i < x.count(); ++i) shown[static_cast<std::size_t>(i)] = float_at(x, i);
      append(series, shown);
      continue;
    }
    if (data.kind == DataKind::tokens) {
      tokens.insert(tokens.end(), x.as<std::int32_t>(), x.as<std::int32_t>() + x.count());
      continue;
    }
    const std::int64_t pixels = x.dims[1] * x.dims[2], channels = x.dims[3];
    std::vector<float> nchw(static_cast<std::size_t>(x.count()));
    for (std::int64_t i = 0; i < x.count(); ++i) {  // as the network sees them: rounded in bf16
      const std::int64_t channel = i % channels, pixel = i / channels % pixels, image = i / channels / pixels;
      nchw[static_cast<std::size_t>((image * channels + channel) * pixels + pixel)] = float_at(x, i);
    }
    append(images, nchw);
  }
  const std::int64_t g = global_batch();
  using Values = std::vector<std::int32_t>;
  const auto integers = [](const char* name, std::vector<std::int64_t> dims, const Values& of) {
    return SafeTensor{SafeTensor::Type::int64, name, std::move(dims), [of] { return as_int64(of); }};
  };
  const auto floats = [](const char* name, std::vector<std::int64_t> dims, const std::vector<char>& of) {
    return SafeTensor{SafeTensor::Type::float32, name, std::move(dims), [of] { return of; }};
  };
  if (data.kind == DataKind::clicks)
    return {floats("dense", {g, data.dense_features}, clicks.dense),
            integers("indices", {g, tables, data.hot}, clicks.indices), integers("labels", {g}, clicks.labels)};
  if (data.kind == DataKind::masked_tokens)
    return {integers("input_ids", {g, config.seq_len}, masked.tokens),
            integers("token_type_ids", {g, config.seq_len}, masked.segments),
            integers("labels", {g, config.seq_len}, masked.labels),
            integers("next_sentence_label", {g}, masked.next_sentence)};
  if (data.kind == DataKind::tokens)
    return {integers("input_ids", {g, config.seq_len}, tokens), integers("labels", {g, config.seq_len}, labels)};
  if (data.kind == DataKind::series) {
    const std::vector<std::int64_t> dims = {g, config.seq_len, data.variables};
    return {floats("series", dims, series), floats("targets", dims, values)};
  }
  const std::int64_t large = std::int64_t{data.image_size} * data.scale;
  const SafeTensor inputs = floats("images", {g, data.image_channels, data.image_size, data.image_size}, images);
  if (data.kind == DataKind::restored_images) return {inputs, floats("targets", {g, 1, large, large}, values)};
  if (data.kind == DataKind::measured_images) return {inputs, floats("targets", {g, measured_values}, values)};
  std::vector<std::int64_t> label_dims = {g};
  if (data.kind == DataKind::segmented_images) label_dims = {g, data.image_size, data.image_size};
  return {inputs, integers("labels", std::move(label_dims), labels)};
}

/// What is kept is of this rank's last micro-batch: only with one of both it is the exported batch. What is recomputed
/// is gone.
static std::string why_no_relu_sides(const TrainerConfig& config) {
  if (!config.network.shape->has_relu()) return {};
  if (config.ranks > 1) return "several ranks: the sides of one rank are not those of the batch";
  if (config.accumulate > 1) return "several micro-batches: the sides of the last one are not those of the batch";
  if (config.recomputed_layers > 0) return "recomputation: the layers' outputs are not kept";
  return {};
}

std::string Trainer::Impl::description(const StepResult& result, double loss) const {
  Json json = {{"loss", loss},
               {"gradient_norm", result.gradient_norm},
               {"step", steps - 1},
               {"precision", to_string(config.precision)},
               {"micro_batch", config.micro_batch},
               {"accumulate", config.accumulate},
               {"ranks", config.ranks},
               {"seed", config.seed}};
  const NetworkShape& shape = *config.network.shape;
  if (shape.has_relu()) {
    const std::string why = tw::models::why_no_relu_sides(config);
    json["relu_sides"] = why.empty();
    if (!why.empty()) json["relu_sides_reason"] = why;
  }
  Json& model = json["model"] = {{"name", config.network.name}, {"kind", shape.family()}};
  model.update(json_of(shape.sizes()));
  if (config.network.has_sequence()) model["seq_len"] = config.seq_len;
  model.update(json_of(shape.constants()));
  const OptimizerConfig& o = config.optimizer;
  Json decayed = Json::array();
  const auto& entries = store.layout().entries;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (!entry->spec.decay) continue;
    for (const ExportedPart& part : exported_parts(entry->spec)) decayed.push_back(part.spec.name);
  }
  Json& optimizer_json = json["optimizer"] = {{"kind", to_string(o.kind)}};
  if (o.kind == OptimizerConfig::Kind::adamw) {
    optimizer_json["beta1"] = shortest_decimal(o.beta1);
    optimizer_json["beta2"] = shortest_decimal(o.beta2);
    optimizer_json["epsilon"] = shortest_decimal(o.epsilon);
  } else {
    optimizer_json["momentum"] = shortest_decimal(o.momentum);
  }
  const auto rate = static_cast<float>(scheduled_learning_rate(o, steps - 1));
  optimizer_json["learning_rate"] = shortest_decimal(rate);
  optimizer_json["weight_decay"] = shortest_decimal(o.weight_decay);
  optimizer_json["weight_decay_parameters"] = std::move(decayed);
  optimizer_json["clip_norm"] = shortest_decimal(o.clip_norm);
  return json.dump(2) + "\n";
}

std::string Trainer::why_no_relu_sides() const { return tw::models::why_no_relu_sides(impl_->config); }

void Trainer::export_step(const std::string& folder, const GradientSync& sync) {
  Impl& impl = *impl_;
  if (impl.has_split_tables())
    throw Error(Failure::usage,
                impl.config.network.name +
                    ": a step can be exported by one rank only, since the tables lie on several: use -np 1");
  const bool writer = impl.config.rank == 0;
  const auto path = [&folder](const char* name) { return folder + "/" + name; };
  const auto save = [&](const char* name, ExportKind kind, double scale) {
    if (!writer) return;
    std::vector<SafeTensor> tensors =
        exported_parameters(impl.device, *impl.stream, impl.store, kind, static_cast<float>(scale));
    const Buffer rows = kind == ExportKind::gradient ? impl.table_gradients(static_cast<float>(scale)) : Buffer();
    const void* data = rows ? rows.data() : impl.store.table_rows().data;
    for (SafeTensor& table : exported_tables(impl.device, *impl.stream, impl.store, data))
      tensors.push_back(std::move(table));
    write_safetensors(path(name), tensors);
  };
  const double scale = 1.0 / static_cast<double>(impl.config.accumulate * impl.config.ranks);
  double other_losses = 0;
  save("weights.safetensors", ExportKind::master, 1);
  if (writer) {
    write_safetensors(path("batch.safetensors"), impl.exported_batch());
    for (std::int64_t m = 0; m < impl.config.accumulate;
         ++m) {  // losses that other ranks will see, for the global mean
      for (int rank = 1; rank < impl.config.ranks; ++rank) {
        other_losses += impl.evaluate(Split::training, impl.first_sample(impl.steps, m, rank)).loss * scale;
      }
    }
  }
  impl.gradients(sync);
  save("gradients.safetensors", ExportKind::gradient, scale / impl.loss_scale());
  if (writer && impl.config.network.shape->has_relu() && why_no_relu_sides().empty()) {
    write_safetensors(path("relu.safetensors"), exported_relu_sides(impl.device, *impl.stream, impl.executor->kept()));
  }
  impl.update();
  const StepResult result = collect().back();
  save("updated.safetensors", ExportKind::master, 1);
  if (writer) {
    const double loss = result.loss / static_cast<double>(impl.config.ranks) + other_losses;
    write_text(path("step.json"), impl.description(result, loss));
  }
}

}  // namespace tw::models
