#include "models/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <set>
#include <thread>

#include "models/compute/error.hpp"
#include "models/data/synthetic_data.hpp"
#include "models/executor.hpp"
#include "models/export/step_export.hpp"
#include "models/optimizers/optimizer.hpp"
#include "models/parameters.hpp"
#include "models/workspace_estimate.hpp"

namespace tw {
namespace {

void check(const TrainerConfig& config) {
  const auto require = [](bool good, const std::string& message) {
    if (!good) throw Error(Failure::usage, message);
  };
  require(config.accumulate >= 1, "accumulate must be at least 1, not " + std::to_string(config.accumulate));
  require(config.ranks >= 1 && config.rank >= 0 && config.rank < config.ranks,
          "rank " + std::to_string(config.rank) + " is not one of " + std::to_string(config.ranks));
  static_cast<void>(Dims{config.micro_batch, config.accumulate, config.ranks}.count());  // the global batch
  const OptimizerConfig& o = config.optimizer;
  require(o.learning_rate > 0 && o.weight_decay >= 0 && o.clip_norm >= 0 && o.warmup_steps >= 0,
          "an optimizer needs a positive learning rate, and weight decay, clip norm and warm-up that are not negative");
  require(o.final_learning_rate_share > 0 && o.final_learning_rate_share <= 1,
          "the final share of the learning rate must be above 0, or a long run ends on frozen weights, and at most 1, "
          "not " +
              std::to_string(o.final_learning_rate_share));
}

std::size_t batch_bytes(const TrainerConfig& c) {
  return SyntheticData::inputs_shape(c.network, c.precision, c.micro_batch, c.seq_len).bytes() +
         SyntheticData::targets_shape(c.network, c.micro_batch, c.seq_len).bytes();
}

// Loss and number of right answers of each micro-batch of a step.
std::size_t result_bytes(const TrainerConfig& c) { return static_cast<std::size_t>(c.accumulate) * 2 * sizeof(float); }

// The exact part of the plan: what is allocated, whatever the device.
MemoryPlan exact_plan(const TrainerConfig& config, const std::vector<std::unique_ptr<Block>>& blocks,
                      const ParameterLayout& layout, const ActivationPlan& activations) {
  MemoryPlan plan;
  plan.parameters = ParameterStore::parameter_bytes(layout, config.precision, blocks);
  plan.gradients = ParameterStore::gradient_bytes(layout);
  plan.optimizer_state = Optimizer::state_bytes(layout, config.optimizer);
  plan.activations = activations.bytes;
  plan.data = 2 * batch_bytes(config) + result_bytes(config);  // on the device and where the host makes it
  return plan;
}

int data_threads(const DeviceInfo& info) { return std::max(1, info.threads); }

}  // namespace

MemoryPlan plan_memory(const TrainerConfig& config, int threads) {
  check(config);
  const auto blocks = build_blocks(config.network, config.precision, config.micro_batch, config.seq_len);
  const ParameterLayout layout(blocks, config.ranks);
  MemoryPlan plan = exact_plan(config, blocks, layout, ActivationPlan(blocks, {config.recompute, 0, -1}));
  // A plan may keep its weight packed once for each direction, channels padded to whole vectors.
  std::set<std::string> shared;
  for (const auto& block : blocks) {
    for (const std::string& name : block->shared_parameters()) shared.insert(name);
  }
  for (const ParameterLayout::Entry& entry : layout.entries) {
    const bool looked_up = entry.spec.name == "wpe.weight" || (entry.spec.name == "wte.weight" && shared.empty());
    if (entry.spec.dims.rank() > 1 && !looked_up) {
      const std::size_t bytes = static_cast<std::size_t>(entry.spec.dims.count()) * size_of(config.precision);
      plan.packed_weights += 2 * (bytes + bytes / 16 + (std::size_t{64} << 10));
    }
  }
  if (threads == 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  plan.workspace = workspace_estimate(config.network, config.precision, config.micro_batch, config.seq_len, threads);
  return plan;
}

struct Trainer::Impl {
  Device& device;
  TrainerConfig config;
  std::unique_ptr<Stream> stream;
  std::vector<std::unique_ptr<Block>> blocks;
  ParameterStore store;
  Optimizer optimizer;
  std::unique_ptr<Executor> executor;
  SyntheticData data;
  Buffer inputs, targets, results;  // results: float32 (accumulate) losses, then int32 (accumulate) right answers
  std::vector<std::vector<int>> parameter_index;  // of parameters()[i] of a block, in flat order
  std::vector<std::unique_ptr<Event>>
      marks;  // four for each micro-batch: start, data there, forward done, backward done
  std::unique_ptr<Event> staging_read, synchronised, updated;
  std::vector<float> host_losses;
  std::int64_t steps = 0;
  bool synchronous = false;  // work is done when a call returns
  const GradientSync* sync = nullptr;
  double ready_seconds = 0;
  Executor::Listener listener;

  Impl(Device& the_device, TrainerConfig the_config)
      : device(the_device),
        config((check(the_config), std::move(the_config))),
        stream(device.create_stream()),
        blocks(build_blocks(config.network, config.precision, config.micro_batch, config.seq_len)),
        store(device, config.precision, blocks, config.ranks),
        optimizer(device, config.optimizer, store),
        data(config.network, config.precision, config.micro_batch, config.seq_len, config.seed,
             data_threads(device.info())) {
    store.initialise(*stream, config.seed);
    optimizer.initialise(*stream);
    store.build(blocks);
    executor = std::make_unique<Executor>(device, *stream, blocks, ExecutorOptions{config.recompute, 0, -1});
    executor->refresh();
    inputs = Buffer(device, data.inputs().bytes());
    targets = Buffer(device, data.targets().bytes());
    results = Buffer(device, result_bytes(config));
    parameter_index.resize(blocks.size());
    const auto& entries = store.layout().entries;
    for (std::size_t i = 0; i < entries.size(); ++i) {
      auto& of_block = parameter_index[static_cast<std::size_t>(entries[i].block)];
      of_block.resize(std::max(of_block.size(), static_cast<std::size_t>(entries[i].index) + 1));
      of_block[static_cast<std::size_t>(entries[i].index)] = static_cast<int>(i);
    }
    for (std::int64_t i = 0; i < 4 * config.accumulate; ++i) marks.push_back(device.create_event());
    staging_read = device.create_event();
    synchronised = device.create_event();
    updated = device.create_event();
    host_losses.resize(static_cast<std::size_t>(config.accumulate));
    synchronous = device.info().kind != DeviceKind::cuda;
    listener = [this](int block, int index) { gradient_ready(block, index); };
    staging_read->record(*stream);
    stream->synchronize();
  }

  std::int64_t global_batch() const { return config.micro_batch * config.accumulate * config.ranks; }

  // Sample i of a step is the same whatever the split: micro-batch m of rank r takes the (m·ranks + r)-th group.
  std::uint64_t first_sample(std::int64_t step, std::int64_t micro, int rank) const {
    return static_cast<std::uint64_t>(step * global_batch() + (micro * config.ranks + rank) * config.micro_batch);
  }

  MicroBatch micro_batch(std::int64_t slot) const {
    MicroBatch batch;
    batch.inputs = data.inputs();
    batch.inputs.data = inputs.data();
    batch.targets = data.targets();
    batch.targets.data = targets.data();
    batch.loss = Tensor{results.data(), DType::float32, {config.accumulate}}.slice(slot, {1});
    batch.correct = Tensor{results.data(), DType::int32, {2 * config.accumulate}}.slice(config.accumulate + slot, {1});
    batch.accumulate = slot > 0;
    return batch;
  }

  void load(Split split, std::uint64_t sample) {
    staging_read->synchronize();  // the copy before this one has left the host's memory
    data.generate(split, sample);
    device.copy_from_host(*stream, inputs.data(), data.inputs().data, data.inputs().bytes());
    device.copy_from_host(*stream, targets.data(), data.targets().data, data.targets().bytes());
    staging_read->record(*stream);
  }

  void gradient_ready(int block, int index) {
    if (!sync->ready) return;
    const auto& entries = store.layout().entries;
    const int flat = parameter_index[static_cast<std::size_t>(block)][static_cast<std::size_t>(index)];
    const auto next = static_cast<std::size_t>(flat) + 1;  // ranges take the padding behind a parameter with them
    const GradientRange range{entries[static_cast<std::size_t>(flat)].offset,
                              next < entries.size() ? entries[next].offset : store.layout().count};
    const auto start = std::chrono::steady_clock::now();
    sync->ready(*stream, store.flat_gradients(), range);
    ready_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  Event& mark(std::int64_t micro, int which) { return *marks[static_cast<std::size_t>(4 * micro + which)]; }

  // Forward and backward of all micro-batches, and the sum over ranks.
  void gradients(const GradientSync& the_sync) {
    sync = &the_sync;
    ready_seconds = 0;
    static const Executor::Listener nobody;
    for (std::int64_t m = 0; m < config.accumulate; ++m) {
      const MicroBatch batch = micro_batch(m);
      mark(m, 0).record(*stream);
      load(Split::training, first_sample(steps, m, config.rank));
      mark(m, 1).record(*stream);
      executor->forward(batch);
      mark(m, 2).record(*stream);
      executor->backward(batch, m + 1 == config.accumulate ? listener : nobody);
      mark(m, 3).record(*stream);
    }
    if (sync->finish) sync->finish(*stream, store.flat_gradients());
    synchronised->record(*stream);
  }

  void update() {
    optimizer.update(*stream, steps, 1.0 / static_cast<double>(config.accumulate * config.ranks));
    executor->refresh();
    updated->record(*stream);
  }

  StepResult collect() {
    StepResult result;
    StepScalars scalars;
    device.copy_to_host(*stream, host_losses.data(), results.data(), host_losses.size() * sizeof(float));
    device.copy_to_host(*stream, &scalars, optimizer.device_scalars(), sizeof scalars);
    stream->synchronize();
    for (const float loss : host_losses)
      result.loss += static_cast<double>(loss) / static_cast<double>(host_losses.size());
    result.gradient_norm = static_cast<double>(scalars.gradient_norm);
    PhaseSeconds& phases = result.phases;
    for (std::int64_t m = 0; m < config.accumulate; ++m) {
      phases.data += mark(m, 1).seconds_since(mark(m, 0));
      phases.forward += mark(m, 2).seconds_since(mark(m, 1));
      phases.backward += mark(m, 3).seconds_since(mark(m, 2));
    }
    phases.communication = synchronised->seconds_since(mark(config.accumulate - 1, 3));
    if (synchronous) {  // `ready` did its work inside backward; elsewhere it only enqueued it
      phases.backward -= ready_seconds;
      phases.communication += ready_seconds;
    }
    phases.optimizer = updated->seconds_since(*synchronised);
    return result;
  }

  EvaluationResult evaluate(Split split, std::uint64_t sample) {
    load(split, sample);
    const MicroBatch batch = micro_batch(0);
    executor->evaluate(batch);
    float loss = 0;
    std::int32_t correct = 0;
    device.copy_to_host(*stream, &loss, batch.loss.data, sizeof loss);
    device.copy_to_host(*stream, &correct, batch.correct.data, sizeof correct);
    stream->synchronize();
    return {static_cast<double>(loss), correct, batch.targets.count()};
  }

  std::vector<SafeTensor> exported_batch();
  std::string description(const StepResult& result, double loss) const;
};

Trainer::Trainer(Device& device, TrainerConfig config) : impl_(std::make_unique<Impl>(device, std::move(config))) {}
Trainer::~Trainer() = default;

StepResult Trainer::step(const GradientSync& sync) {
  impl_->gradients(sync);
  impl_->update();
  ++impl_->steps;
  return impl_->collect();
}

EvaluationResult Trainer::evaluate(std::uint64_t batch_index) {
  return impl_->evaluate(Split::held_out, batch_index * static_cast<std::uint64_t>(impl_->config.micro_batch));
}

std::int64_t Trainer::steps_done() const { return impl_->steps; }
std::int64_t Trainer::parameter_count() const { return impl_->store.layout().parameter_count; }
const std::vector<Parameter>& Trainer::parameters() const { return impl_->store.parameters(); }
Tensor Trainer::flat_gradients() const { return impl_->store.flat_gradients(); }
const TrainerConfig& Trainer::config() const { return impl_->config; }

MemoryPlan Trainer::memory() const {
  MemoryPlan plan;
  plan.parameters = impl_->store.parameter_bytes();
  plan.gradients = impl_->store.gradient_bytes();
  plan.optimizer_state = impl_->optimizer.state_bytes();
  plan.activations = impl_->executor->bytes();
  plan.data = impl_->inputs.bytes() + impl_->targets.bytes() + batch_bytes(impl_->config) + impl_->results.bytes();
  for (const auto& block : impl_->blocks) {
    for (const NamedPlan& named : block->plans()) plan.packed_weights += named.plan->bytes();
  }
  plan.workspace = impl_->device.arena_bytes();
  return plan;
}

std::map<std::string, std::string> Trainer::implementations() const {
  std::map<std::string, std::set<std::string>> found;
  for (const auto& block : impl_->blocks) {
    for (const NamedPlan& named : block->plans()) {
      if (!named.plan->description().empty()) found[named.product].insert(named.plan->description());
    }
  }
  std::map<std::string, std::string> joined;
  for (const auto& [product, names] : found) {
    for (const std::string& name : names) joined[product] += (joined[product].empty() ? "" : ", ") + name;
  }
  return joined;
}

// ---- export ----

namespace {

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

}  // namespace

// The global batch of the coming step, in sample order; every rank can make it.
std::vector<SafeTensor> Trainer::Impl::exported_batch() {
  std::vector<std::int32_t> tokens, labels;
  std::vector<char> images;
  const std::int64_t groups = config.accumulate * config.ranks;
  for (std::int64_t group = 0; group < groups; ++group) {
    data.generate(Split::training, static_cast<std::uint64_t>(steps * global_batch() + group * config.micro_batch));
    const Tensor& x = data.inputs();
    const auto* target = data.targets().as<std::int32_t>();
    labels.insert(labels.end(), target, target + data.targets().count());
    if (config.network.is_tokens()) {
      tokens.insert(tokens.end(), x.as<std::int32_t>(), x.as<std::int32_t>() + x.count());
      continue;
    }
    const std::int64_t pixels = x.dims[1] * x.dims[2], channels = x.dims[3];
    std::vector<float> nchw(static_cast<std::size_t>(x.count()));
    for (std::int64_t i = 0; i < x.count(); ++i) {  // as the network sees them: rounded in bf16
      const std::int64_t channel = i % channels, pixel = i / channels % pixels, image = i / channels / pixels;
      nchw[static_cast<std::size_t>((image * channels + channel) * pixels + pixel)] =
          x.dtype == DType::bf16 ? to_float(x.as<bf16>()[i]) : x.as<float>()[i];
    }
    append(images, nchw);
  }
  const std::int64_t g = global_batch();
  if (config.network.is_tokens()) {
    return {{SafeTensor::Type::int64, "input_ids", {g, config.seq_len}, [tokens] { return as_int64(tokens); }},
            {SafeTensor::Type::int64, "labels", {g, config.seq_len}, [labels] { return as_int64(labels); }}};
  }
  const ResnetDescription& shape = config.network.resnet();
  return {{SafeTensor::Type::float32,
           "images",
           {g, shape.image_channels, shape.image_size, shape.image_size},
           [images] { return images; }},
          {SafeTensor::Type::int64, "labels", {g}, [labels] { return as_int64(labels); }}};
}

std::string Trainer::Impl::description(const StepResult& result, double loss) const {
  std::string json = "{\n";
  const auto field = [&json](const std::string& key, const std::string& value) {
    json += (json.size() > 2 ? ",\n  " : "  ") + json_string(key) + ": " + value;
  };
  const auto integer = [](std::int64_t value) { return std::to_string(value); };
  field("loss", json_number(loss));
  field("gradient_norm", json_number(result.gradient_norm));
  field("step", integer(steps));
  field("precision", json_string(to_string(config.precision)));
  field("micro_batch", integer(config.micro_batch));
  field("accumulate", integer(config.accumulate));
  field("ranks", integer(config.ranks));
  field("seed", std::to_string(config.seed));
  std::string model = "{\"name\": " + json_string(config.network.name);
  if (config.network.is_tokens()) {
    const Gpt2Description& g = config.network.gpt2();
    model += ", \"kind\": \"gpt2\", \"layers\": " + integer(g.layers) + ", \"width\": " + integer(g.width) +
             ", \"heads\": " + integer(g.heads) + ", \"vocabulary\": " + integer(g.vocabulary) +
             ", \"max_seq\": " + integer(g.max_seq) + ", \"seq_len\": " + integer(config.seq_len) +
             ", \"layer_norm_epsilon\": 1e-05, \"activation\": \"gelu_tanh\"}";
  } else {
    const ResnetDescription& r = config.network.resnet();
    std::string counts;
    for (const int count : r.blocks) counts += (counts.empty() ? "" : ", ") + integer(count);
    model += ", \"kind\": \"resnet\", \"blocks\": [" + counts + "], \"stem_width\": " + integer(r.stem_width) +
             ", \"stem_kernel\": " + integer(r.stem_kernel) + ", \"stem_stride\": " + integer(r.stem_stride) +
             ", \"stem_pool\": " + (r.stem_pool ? "true" : "false") + ", \"image_size\": " + integer(r.image_size) +
             ", \"image_channels\": " + integer(r.image_channels) + ", \"classes\": " + integer(r.classes) +
             ", \"label_smoothing\": " + json_number(r.label_smoothing) +
             ", \"batch_norm_epsilon\": 1e-05, \"batch_norm_momentum\": 0.1}";
  }
  field("model", model);
  const OptimizerConfig& o = config.optimizer;
  const auto rate = static_cast<float>(scheduled_learning_rate(o, steps));
  std::string optimizer_json = o.kind == OptimizerConfig::Kind::adamw
                                   ? "{\"kind\": \"adamw\", \"beta1\": " + json_number(o.beta1) +
                                         ", \"beta2\": " + json_number(o.beta2) +
                                         ", \"epsilon\": " + json_number(o.epsilon)
                                   : "{\"kind\": \"sgd\", \"momentum\": " + json_number(o.momentum);
  std::string decayed;
  const auto& entries = store.layout().entries;
  for (auto entry = entries.rbegin(); entry != entries.rend(); ++entry) {
    if (entry->spec.decay) decayed += (decayed.empty() ? "" : ", ") + json_string(entry->spec.name);
  }
  optimizer_json += ", \"learning_rate\": " + json_number(rate) + ", \"weight_decay\": " + json_number(o.weight_decay) +
                    ", \"weight_decay_parameters\": [" + decayed + "], \"clip_norm\": " + json_number(o.clip_norm) +
                    "}";
  field("optimizer", optimizer_json);
  return json + "\n}\n";
}

void Trainer::export_step(const std::string& folder, const GradientSync& sync) {
  Impl& impl = *impl_;
  const bool writer = impl.config.rank == 0;
  const auto path = [&folder](const char* name) { return folder + "/" + name; };
  const auto save = [&](const char* name, ExportKind kind, double scale) {
    if (!writer) return;
    write_safetensors(path(name),
                      exported_parameters(impl.device, *impl.stream, impl.store, kind, static_cast<float>(scale)));
  };
  const double scale = 1.0 / static_cast<double>(impl.config.accumulate * impl.config.ranks);
  double other_losses = 0;
  save("weights.safetensors", ExportKind::master, 1);
  if (writer) {
    impl.staging_read->synchronize();
    write_safetensors(path("batch.safetensors"), impl.exported_batch());
    for (std::int64_t m = 0; m < impl.config.accumulate;
         ++m) {  // losses that other ranks will see, for the global mean
      for (int rank = 1; rank < impl.config.ranks; ++rank) {
        other_losses += impl.evaluate(Split::training, impl.first_sample(impl.steps, m, rank)).loss * scale;
      }
    }
  }
  impl.gradients(sync);
  save("gradients.safetensors", ExportKind::gradient, scale);
  // What is kept is of this rank's last micro-batch: only with one of both it is the exported batch. With
  // recompute it is gone.
  if (writer && !impl.config.network.is_tokens() && scale == 1.0 && !impl.config.recompute) {
    write_safetensors(path("relu.safetensors"), exported_relu_sides(impl.device, *impl.stream, impl.executor->kept()));
  }
  impl.update();
  const StepResult result = impl.collect();
  save("updated.safetensors", ExportKind::master, 1);
  if (writer) {
    const double loss = result.loss / static_cast<double>(impl.config.ranks) + other_losses;
    write_text(path("step.json"), impl.description(result, loss));
  }
  ++impl.steps;
}

}  // namespace tw
