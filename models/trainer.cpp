#include "models/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <set>
#include <thread>

#include "models/compute/error.hpp"
#include "models/families/build_blocks.hpp"
#include "models/trainer_impl.hpp"
#include "models/workspace_estimate.hpp"

namespace tw::models {
namespace {

void check(const TrainerConfig& config) {
  const auto require = [](bool good, const std::string& message) {
    if (!good) throw Error(Failure::usage, message);
  };
  require(config.accumulate >= 1, "accumulate must be at least 1, not " + std::to_string(config.accumulate));
  require(config.ranks >= 1 && config.rank >= 0 && config.rank < config.ranks,
          "rank " + std::to_string(config.rank) + " is not one of " + std::to_string(config.ranks));
  static_cast<void>(Dims{config.micro_batch, config.accumulate, config.ranks}.count());  // the global batch
  require(config.recomputed_layers >= 0 && config.recomputed_layers <= layer_count(config.network),
          std::to_string(config.recomputed_layers) + " layers cannot be recomputed of " +
              std::to_string(layer_count(config.network)));
  const OptimizerConfig& o = config.optimizer;
  require(o.learning_rate > 0 && o.weight_decay >= 0 && o.clip_norm >= 0 && o.warmup_steps >= 0,
          "an optimizer needs a positive learning rate, and weight decay, clip norm and warm-up that are not negative");
  require(o.final_learning_rate_share > 0 && o.final_learning_rate_share <= 1,
          "the final share of the learning rate must be above 0, or a long run ends on frozen weights, and at most 1, "
          "not " +
              std::to_string(o.final_learning_rate_share));
  if (!config.network.shape->tables().rows.empty())
    require(o.kind == OptimizerConfig::Kind::sgd && o.momentum == 0 && o.weight_decay == 0 && o.clip_norm == 0,
            config.network.name +
                ": rows of tables are trained by plain SGD: leave out momentum, weight decay and clipping");
}

std::size_t batch_bytes(const TrainerConfig& c) {
  return SyntheticData::inputs_shape(c.network, storage(c.precision), c.micro_batch, c.seq_len, c.ranks).bytes() +
         SyntheticData::targets_shape(c.network, c.micro_batch, c.seq_len).bytes();
}

/// Blocks that know how the rank takes part.
std::vector<std::unique_ptr<Block>> blocks_of(const TrainerConfig& c) {
  std::vector<std::unique_ptr<Block>> blocks = build_blocks(c.network, c.precision, c.micro_batch, c.seq_len);
  for (const auto& block : blocks) block->use_tables({c.rank, c.ranks, c.accumulate});
  return blocks;
}

std::size_t result_bytes(const TrainerConfig& c) { return static_cast<std::size_t>(2 + c.accumulate) * sizeof(float); }

/// With the embedding or the stem, which are in front of the layers.
int recomputed_blocks(const TrainerConfig& c) { return c.recomputed_layers > 0 ? c.recomputed_layers + 1 : 0; }

// The exact part of the plan: what is allocated, whatever the device.
MemoryPlan exact_plan(const TrainerConfig& config, const std::vector<std::unique_ptr<Block>>& blocks,
                      const ParameterLayout& layout, const ActivationPlan& activations) {
  MemoryPlan plan;
  plan.parameters = ParameterStore::parameter_bytes(layout, storage(config.precision), blocks);
  for (const auto& block : blocks) plan.parameters += block->constant_bytes();
  plan.gradients = ParameterStore::gradient_bytes(layout);
  for (const auto& block : blocks) plan.gradients += block->table_gradient_bytes();
  plan.optimizer_state = Optimizer::state_bytes(layout, config.optimizer);
  plan.activations = activations.bytes;
  plan.data = 2 * batch_bytes(config) + result_bytes(config);  // on the device and where the host makes it
  return plan;
}

/// "linear 128 > 384, 64 rows"; "convolution 64 > 128, 3x3 by 2, 16x16", which is of one image.
std::string product_and_shape(const NamedPlan& named) {
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  if (const auto* linear = dynamic_cast<const LinearPlan*>(named.plan.get())) {
    const LinearShape& s = linear->shape();
    return named.product + " " + text(s.in_features) + " > " + text(s.out_features) + ", " + text(s.rows) + " rows";
  }
  if (const auto* convolution = dynamic_cast<const ConvolutionPlan*>(named.plan.get())) {
    const ConvolutionShape& s = convolution->shape();
    return named.product + " " + text(s.in_channels) + " > " + text(s.out_channels) + ", " + s.kernel.str() + " by " +
           (s.stride.height == s.stride.width ? text(s.stride.height) : s.stride.str()) +
           (s.groups > 1 ? ", " + text(s.groups) + " groups" : "") + ", " + text(s.height) + "x" + text(s.width);
  }
  return named.product;
}

}  // namespace

MemoryPlan plan_memory(const TrainerConfig& config, int threads) {
  check(config);
  const auto blocks = blocks_of(config);
  const ParameterLayout layout(blocks, config.ranks);
  MemoryPlan plan = exact_plan(config, blocks, layout, ActivationPlan(blocks, {recomputed_blocks(config), 0, -1}));
  // A plan may keep its weight packed once for each direction, channels padded to whole vectors.
  std::set<std::string> shared;
  for (const auto& block : blocks) {
    for (const std::string& name : block->shared_parameters()) shared.insert(name);
  }
  for (const ParameterLayout::Entry& entry : layout.entries) {
    const bool looked_up = entry.spec.looked_up && !shared.contains(entry.spec.name);
    if (entry.spec.dims.rank() > 1 && !looked_up) {
      const std::size_t bytes = static_cast<std::size_t>(entry.spec.dims.count()) * size_of(storage(config.precision));
      plan.packed_weights += 2 * (bytes + bytes / 16 + (std::size_t{64} << 10));
    }
  }
  if (threads == 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  plan.workspace =
      workspace_estimate(config.network, storage(config.precision), config.micro_batch, config.seq_len, threads);
  return plan;
}

Trainer::Impl::Impl(Device& the_device, TrainerConfig the_config)
    : device(the_device),
      config((check(the_config), std::move(the_config))),
      stream(device.create_stream()),
      blocks(blocks_of(config)),
      store(device, storage(config.precision), blocks, config.ranks),
      optimizer(device, config.optimizer, store, scales_loss(config.precision),
                1.0 / static_cast<double>(config.accumulate * config.ranks)),
      loader(device, config.network, storage(config.precision), config.micro_batch, config.seq_len, config.seed,
             {config.rank, config.ranks}),
      ring(device, *stream, config.accumulate) {
  // Exchanges stay out of graphs; and where gradients of rows lie depends on the micro-batch, of which graphs know the
  // first, the last and one between.
  if (store.layout().table_elements > 0 && (config.ranks > 1 || config.accumulate > 2)) config.graphs = false;
  store.initialise(*stream, config.seed);
  optimizer.initialise(*stream);
  store.build(blocks);
  executor = std::make_unique<Executor>(device, *stream, blocks, ExecutorOptions{recomputed_blocks(config), 0, -1});
  executor->refresh();
  results = Buffer(device, result_bytes(config));
  parameter_index.resize(blocks.size());
  const auto& entries = store.layout().entries;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    auto& of_block = parameter_index[static_cast<std::size_t>(entries[i].block)];
    of_block.resize(std::max(of_block.size(), static_cast<std::size_t>(entries[i].index) + 1));
    of_block[static_cast<std::size_t>(entries[i].index)] = static_cast<int>(i);
  }
  listener = [this](int block, int index) { gradient_ready(block, index); };
  stream->synchronize();
}

MicroBatch Trainer::Impl::micro_batch(bool accumulate) const {
  MicroBatch batch;
  batch.inputs = loader.inputs();
  batch.targets = loader.targets();
  batch.loss = Tensor{results.data(), DType::float32, {1}};
  batch.correct = Tensor{results.data(), DType::int32, {2}}.slice(1, {1});
  if (scales_loss(config.precision)) batch.scalars = optimizer.device_scalars();
  batch.accumulate = accumulate;
  return batch;
}

void Trainer::Impl::gradient_ready(int block, int index) {
  const auto& entries = store.layout().entries;
  const int flat = parameter_index[static_cast<std::size_t>(block)][static_cast<std::size_t>(index)];
  const auto next = static_cast<std::size_t>(flat) + 1;  // ranges take the padding behind a parameter with them
  const GradientRange range{entries[static_cast<std::size_t>(flat)].offset,
                            next < entries.size() ? entries[next].offset : store.layout().count};
  if (recording == nullptr) {
    announce(range);
    return;
  }
  unannounced.end = range.end;
  if (sync->ready && (unannounced.end - unannounced.begin) * std::int64_t{sizeof(float)} >= sync->piece_bytes) cut();
}

void Trainer::Impl::announce(GradientRange range) {
  if (!sync->ready) return;
  const auto start = std::chrono::steady_clock::now();
  sync->ready(*stream, store.flat_gradients(), range);
  slot->ready_seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void Trainer::Impl::cut() {
  recording->push_back({open_piece->end(), unannounced});
  unannounced.begin = unannounced.end;
  open_piece.emplace(device, *stream);
}

void Trainer::Impl::forward(const MicroBatch& batch, bool is_last) {
  if (!uses_graphs()) return executor->forward(batch);
  std::unique_ptr<Graph>& graph = graphs.micro_steps[StepGraphs::kind(!batch.accumulate, is_last)].forward;
  if (!graph) {
    Recording record(device, *stream);
    executor->forward(batch);
    graph = record.end();
  }
  graph->launch(*stream);
}

std::vector<StepGraphs::Piece> Trainer::Impl::record_backward(const MicroBatch& batch,
                                                              const Executor::Listener& heard) {
  std::vector<StepGraphs::Piece> pieces;
  recording = &pieces;
  unannounced = {};
  try {
    open_piece.emplace(device, *stream);
    executor->backward(batch, heard);
    pieces.push_back({open_piece->end(), std::nullopt});
  } catch (...) {
    open_piece.reset();
    recording = nullptr;
    throw;
  }
  open_piece.reset();
  recording = nullptr;
  if (unannounced.end > unannounced.begin) pieces.back().complete = unannounced;
  return pieces;
}

void Trainer::Impl::backward(const MicroBatch& batch, bool is_last) {
  static const Executor::Listener nobody;
  const Executor::Listener& heard = is_last ? listener : nobody;
  if (!uses_graphs()) return executor->backward(batch, heard);
  std::vector<StepGraphs::Piece>& pieces = graphs.micro_steps[StepGraphs::kind(!batch.accumulate, is_last)].backward;
  if (pieces.empty()) pieces = record_backward(batch, heard);
  for (const StepGraphs::Piece& piece : pieces) {
    piece.graph->launch(*stream);
    if (piece.complete) announce(*piece.complete);
  }
}

void Trainer::Impl::gradients(const GradientSync& the_sync) {
  if (has_split_tables() && !exchange)
    throw Error(Failure::internal, config.network.name + ": tables on several ranks, which are not connected");
  sync = &the_sync;
  slot = &ring.open();
  for (std::int64_t m = 0; m < config.accumulate; ++m) {
    const MicroBatch batch = micro_batch(m > 0);
    const bool is_last = m + 1 == config.accumulate;
    slot->mark(m, 0).record(*stream);
    loader.load(*stream, Split::training, first_sample(steps, m, config.rank));
    slot->mark(m, 1).record(*stream);
    loader.load_ahead(Split::training, first_sample(is_last ? steps + 1 : steps, is_last ? 0 : m + 1, config.rank));
    const double before = exchange.seconds();
    forward(batch, is_last);
    slot->forward_exchange_seconds += exchange.seconds() - before;
    slot->mark(m, 2).record(*stream);
    const double between = exchange.seconds();
    backward(batch, is_last);
    slot->ready_seconds += exchange.seconds() - between;
    device.copy(*stream, losses().slice(m, {1}).data, batch.loss.data, sizeof(float));
    slot->mark(m, 3).record(*stream);
  }
  if (sync->finish) sync->finish(*stream, store.flat_gradients());
  slot->synchronised->record(*stream);
}

void Trainer::Impl::update() {
  *slot->given = optimizer.scalars(steps);
  device.copy_from_host(*stream, optimizer.device_scalars(), slot->given, optimizer.given_bytes());
  const auto work = [this] {
    optimizer.update(*stream);
    for (const auto& block : blocks) block->update_tables(*stream, store.table_rows(), optimizer.device_scalars());
    optimizer.update_loss_scale(*stream);
    executor->refresh();
  };
  if (!uses_graphs()) {
    work();
  } else {
    if (!graphs.update) {
      Recording record(device, *stream);
      work();
      graphs.update = record.end();
    }
    graphs.update->launch(*stream);
  }
  slot->updated->record(*stream);
  ring.close(losses(), optimizer.device_scalars());
  ++steps;
}

EvaluationResult Trainer::Impl::evaluate(Split split, std::uint64_t sample) {
  loader.load(*stream, split, sample);
  const MicroBatch batch = micro_batch(false);
  executor->evaluate(batch);
  float loss = 0;
  std::int32_t correct = 0;
  device.copy_to_host(*stream, &loss, batch.loss.data, sizeof loss);
  if (!has_values(config.network.data().kind))
    device.copy_to_host(*stream, &correct, batch.correct.data, sizeof correct);
  stream->synchronize();
  return {static_cast<double>(loss), correct,
          SyntheticData::predictions(config.network, config.micro_batch, config.seq_len)};
}

Trainer::Trainer(Device& device, TrainerConfig config) : impl_(std::make_unique<Impl>(device, std::move(config))) {}
Trainer::~Trainer() = default;

void Trainer::enqueue_step(const GradientSync& sync) {
  impl_->gradients(sync);
  impl_->update();
}
std::vector<StepResult> Trainer::collect() { return impl_->ring.collect(); }
void Trainer::set_ahead(int steps) { impl_->ring.set_ahead(steps); }
bool Trainer::uses_graphs() const { return impl_->config.graphs && impl_->device.has_graphs(); }
bool Trainer::runs_ahead() const { return impl_->device.is_asynchronous(); }

StepResult Trainer::step(const GradientSync& sync) {
  enqueue_step(sync);
  return collect().back();
}

void Trainer::connect(Exchange& exchange) {
  impl_->exchange.use(exchange);
  for (const auto& block : impl_->blocks) block->connect(impl_->exchange);
}

EvaluationResult Trainer::evaluate(std::uint64_t batch_index) {
  if (impl_->has_split_tables() &&
      batch_index % static_cast<std::uint64_t>(impl_->config.ranks) != static_cast<std::uint64_t>(impl_->config.rank))
    throw Error(Failure::internal, "rank " + std::to_string(impl_->config.rank) + " does not evaluate batch " +
                                       std::to_string(batch_index) + ": the tables lie on several ranks");
  return impl_->evaluate(Split::held_out, batch_index * static_cast<std::uint64_t>(impl_->config.micro_batch));
}

std::int64_t Trainer::steps_done() const { return impl_->steps; }
std::int64_t Trainer::parameter_count() const {
  return impl_->store.layout().parameter_count + impl_->store.layout().table_elements;
}
const std::vector<Parameter>& Trainer::parameters() const { return impl_->store.parameters(); }
const std::vector<Table>& Trainer::tables() const { return impl_->store.tables(); }
Tensor Trainer::flat_gradients() const { return impl_->store.flat_gradients(); }
const TrainerConfig& Trainer::config() const { return impl_->config; }

MemoryPlan Trainer::memory() const {
  MemoryPlan plan;
  plan.parameters = impl_->store.parameter_bytes();
  plan.gradients = impl_->store.gradient_bytes();
  for (const auto& block : impl_->blocks) plan.gradients += block->table_gradient_bytes();
  plan.optimizer_state = impl_->optimizer.state_bytes();
  plan.activations = impl_->executor->bytes();
  plan.data = impl_->loader.bytes() + impl_->results.bytes();
  for (const auto& block : impl_->blocks) {
    plan.parameters += block->constant_bytes();
    for (const NamedPlan& named : block->plans()) plan.packed_weights += named.plan->bytes();
  }
  plan.workspace = impl_->device.arena_bytes();
  return plan;
}
std::map<std::string, std::vector<std::string>> Trainer::implementations() const {
  std::map<std::string, std::set<std::string>> found;
  for (const auto& block : impl_->blocks)
    for (const NamedPlan& named : block->plans())
      if (!named.plan->description().empty()) found[product_and_shape(named)].insert(named.plan->description());
  std::map<std::string, std::vector<std::string>> all;
  for (const auto& [product, names] : found) all[product].assign(names.begin(), names.end());
  return all;
}

}  // namespace tw::models
