#include "models/network/executor.hpp"

#include <algorithm>
#include <array>

#include "models/compute/error.hpp"

namespace tw::models {
namespace {

constexpr std::size_t alignment = 128;
std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

Tensor shape_of(const ActivationSpec& spec) { return Tensor{nullptr, spec.dtype, spec.dims}; }
Tensor place(const ActivationSpec& spec, std::size_t offset) {
  return Tensor{reinterpret_cast<void*>(offset + 1), spec.dtype, spec.dims};
}
std::size_t bytes_of(const std::vector<ActivationSpec>& specs) {
  std::size_t bytes = 0;
  for (const ActivationSpec& spec : specs) bytes += aligned(shape_of(spec).bytes());
  return bytes;
}
std::vector<Tensor> place_all(const std::vector<ActivationSpec>& specs, std::size_t offset) {
  std::vector<Tensor> tensors;
  for (const ActivationSpec& spec : specs) {
    tensors.push_back(place(spec, offset));
    offset += aligned(tensors.back().bytes());
  }
  return tensors;
}

/// Of the stage's blocks, from its first on, those with one region for saved tensors.
std::size_t sharing(const ExecutorOptions& options, std::size_t blocks) {
  const int recomputed = options.recomputed - options.first;
  return recomputed <= 0 ? 0 : std::min(static_cast<std::size_t>(recomputed) + 1, blocks);
}

}  // namespace

ActivationPlan::ActivationPlan(const std::vector<std::unique_ptr<Block>>& blocks, const ExecutorOptions& options) {
  const int last = options.last < 0 ? static_cast<int>(blocks.size()) : options.last;
  if (options.first < 0 || options.first >= last || last > static_cast<int>(blocks.size())) {
    throw Error(Failure::usage, "a stage of blocks " + std::to_string(options.first) + " to " + std::to_string(last) +
                                    " is not part of a network of " + std::to_string(blocks.size()));
  }
  const auto begin = static_cast<std::size_t>(options.first), end = static_cast<std::size_t>(last);
  const auto take = [this](std::size_t size) {
    const std::size_t offset = bytes;
    bytes += size;
    return offset;
  };

  // What stays.
  if (begin > 0) input = place(blocks[begin - 1]->output(), take(bytes_of({blocks[begin - 1]->output()})));
  for (std::size_t i = begin; i < end; ++i) {
    const ActivationSpec output = blocks[i]->output();
    outputs.push_back(output.dims.rank() > 0 ? place(output, take(bytes_of({output}))) : Tensor{});
  }
  const std::size_t own_saved = begin + sharing(options, end - begin);
  std::size_t largest_shared = 0, largest_scratch = 0;
  for (std::size_t i = begin; i < end; ++i) {
    if (i < own_saved) largest_shared = std::max(largest_shared, bytes_of(blocks[i]->saved()));
    largest_scratch = std::max(largest_scratch, bytes_of(blocks[i]->scratch()));
  }
  const std::size_t shared_saved = take(largest_shared);
  for (std::size_t i = begin; i < end; ++i) {
    const std::vector<ActivationSpec> specs = blocks[i]->saved();
    saved.push_back(place_all(specs, i < own_saved ? shared_saved : take(bytes_of(specs))));
  }

  // What is used again and again.
  const std::size_t shared_scratch = take(largest_scratch);
  scratch_bytes = largest_scratch;
  for (std::size_t i = begin; i < end; ++i) scratch.push_back(place_all(blocks[i]->scratch(), shared_scratch));
  std::array<std::size_t, 2> slot_bytes{};  // the gradient of the output of block i lies in slot i % 2
  for (std::size_t i = begin == 0 ? 0 : begin - 1; i < end; ++i) {
    slot_bytes[i % 2] = std::max(slot_bytes[i % 2], bytes_of({blocks[i]->output()}));
  }
  const std::array<std::size_t, 2> slot = {take(slot_bytes[0]), take(slot_bytes[1])};
  if (begin > 0) input_gradient = place(blocks[begin - 1]->output(), slot[(begin - 1) % 2]);
  for (std::size_t i = begin; i < end; ++i) {
    const ActivationSpec output = blocks[i]->output();
    output_gradients.push_back(output.dims.rank() > 0 ? place(output, slot[i % 2]) : Tensor{});
  }
  const auto leaves_two = [&](std::size_t i) { return i > 0 && blocks[i]->leaves_two_gradients(); };
  std::size_t largest_second = 0;
  for (std::size_t i = begin; i < end; ++i)
    if (leaves_two(i)) largest_second = std::max(largest_second, bytes_of({blocks[i - 1]->output()}));
  const std::size_t second = take(largest_second);
  for (std::size_t i = begin; i < end; ++i)
    second_input_gradients.push_back(leaves_two(i) ? place(blocks[i - 1]->output(), second) : Tensor{});
}

void ActivationPlan::bind(void* region) {
  const auto move = [region](Tensor& tensor) {
    if (tensor) tensor.data = static_cast<char*>(region) + (reinterpret_cast<std::uintptr_t>(tensor.data) - 1);
  };
  move(input);
  move(input_gradient);
  for (auto* list : {&outputs, &output_gradients, &second_input_gradients}) {
    for (Tensor& tensor : *list) move(tensor);
  }
  for (auto* lists : {&saved, &scratch}) {
    for (std::vector<Tensor>& list : *lists) {
      for (Tensor& tensor : list) move(tensor);
    }
  }
}

Executor::Executor(Device& device, Stream& stream, const std::vector<std::unique_ptr<Block>>& blocks,
                   const ExecutorOptions& options)
    : device_(device), stream_(stream), plan_(blocks, options), region_(device, plan_.bytes) {
  plan_.bind(region_.data());
  sharing_ = sharing(options, plan_.outputs.size());
  for (std::size_t i = 0; i < plan_.outputs.size(); ++i) {
    Block* block = blocks[static_cast<std::size_t>(options.first) + i].get();
    blocks_.push_back(block);
    for (NamedPlan& named : block->plans()) {
      if (auto* weight_plan = dynamic_cast<WeightPlan*>(named.plan.get())) weight_plans_.push_back(weight_plan);
      plans_.push_back(std::move(named.plan));
    }
    const int index = options.first + static_cast<int>(i);
    BlockRun run{stream_};
    run.saved = plan_.saved[i];
    run.scratch = plan_.scratch[i];
    run.gradient_ready = [this, index](int parameter) {
      if (listener_ != nullptr && *listener_) (*listener_)(index, parameter);
    };
    runs_.push_back(std::move(run));
  }
}

BlockRun& Executor::prepare(std::size_t i, const MicroBatch& batch, bool training) {
  BlockRun& run = runs_[i];
  run.accumulate = batch.accumulate;
  run.tokens_or_images = batch.inputs;
  run.targets = batch.targets;
  run.loss = batch.loss;
  run.correct = batch.correct;
  run.scalars = batch.scalars;
  run.backward_follows = training;
  run.update_statistics = training;
  return run;
}

void Executor::forward(const MicroBatch& batch, bool training) {
  for (std::size_t i = 0; i < blocks_.size(); ++i)
    blocks_[i]->forward(prepare(i, batch, training), input_of(i), plan_.outputs[i]);
}

void Executor::backward(const MicroBatch& batch, const Listener& listener) {
  listener_ = &listener;
  for (std::size_t i = blocks_.size(); i-- > 0;) {
    BlockRun& run = prepare(i, batch, true);
    if (i + 1 < sharing_) {  // those of the last that shares are still there
      run.update_statistics = false;
      blocks_[i]->forward(run, input_of(i), plan_.outputs[i]);
    }
    const Tensor dx = i == 0 ? plan_.input_gradient : plan_.output_gradients[i - 1];
    const bool is_behind_two = i + 1 < blocks_.size() && blocks_[i]->takes_two_gradients();
    run.dy_more = is_behind_two ? plan_.second_input_gradients[i + 1] : Tensor{};
    run.dx_more = plan_.second_input_gradients[i];
    blocks_[i]->backward(run, input_of(i), plan_.outputs[i], plan_.output_gradients[i], dx);
    if (run.dx_more && !(i > 0 && blocks_[i - 1]->takes_two_gradients())) device_.add(stream_, {dx, run.dx_more, dx});
  }
  listener_ = nullptr;
}

std::vector<std::pair<std::string, Tensor>> Executor::kept() const {
  std::vector<std::pair<std::string, Tensor>> tensors;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const std::string block = blocks_[i]->name();
    if (plan_.outputs[i]) tensors.emplace_back(block + "/output", plan_.outputs[i]);
    if (i < sharing_) continue;
    const std::vector<ActivationSpec> specs = blocks_[i]->saved();
    for (std::size_t k = 0; k < specs.size(); ++k) tensors.emplace_back(block + "/" + specs[k].name, plan_.saved[i][k]);
  }
  return tensors;
}

void Executor::refresh() {
  for (WeightPlan* plan : weight_plans_) plan->refresh(stream_);
}

}  // namespace tw::models
