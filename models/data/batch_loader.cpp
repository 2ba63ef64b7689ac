#include "models/data/batch_loader.hpp"

#include <algorithm>
#include <span>

#include "models/data/image_source.hpp"

namespace tw::models {
namespace {

std::vector<std::byte> bytes_of(const auto& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// What a device makes the samples from; empty where it makes none of these.
std::vector<std::byte> device_table(const SyntheticData& samples) {
  if (samples.images()) return bytes_of(samples.images()->table());
  if (samples.tokens()) return bytes_of(samples.tokens()->table());
  if (samples.clicks()) return bytes_of(samples.click_slots());
  return {};
}

}  // namespace

BatchLoader::BatchLoader(Device& device, const NetworkDescription& network, DType precision, std::int64_t micro_batch,
                         std::int64_t seq_len, std::uint64_t seed, DataShare share)
    : device_(device),
      samples_(network, precision, micro_batch, seq_len, seed, std::max(1, device.info().threads), share),
      inputs_(samples_.inputs()),
      targets_(samples_.targets()) {
  input_memory_ = Buffer(device, inputs_.bytes());
  target_memory_ = Buffer(device, targets_.bytes());
  inputs_.data = input_memory_.data();
  targets_.data = target_memory_.data();
  const std::vector<std::byte> table = device.generates_samples() ? device_table(samples_) : std::vector<std::byte>();
  if (!table.empty()) {
    table_ = Buffer(device, table.size());
    const std::unique_ptr<Stream> stream = device.create_stream();
    device.copy_from_host(*stream, table_.data(), table.data(), table_.bytes());
    stream->synchronize();
    if (!device.is_asynchronous()) return;
    ahead_ = std::make_unique<Ahead>();
    Ahead& ahead = *ahead_;
    ahead.input_memory = Buffer(device, inputs_.bytes());
    ahead.target_memory = Buffer(device, targets_.bytes());
    ahead.inputs = inputs_, ahead.inputs.data = ahead.input_memory.data();
    ahead.targets = targets_, ahead.targets.data = ahead.target_memory.data();
    ahead.stream = device.create_stream();
    ahead.made = device.create_event();
    ahead.taken = device.create_event();
    return;
  }
  for (int buffers = device.is_asynchronous() ? 2 : 1; buffers > 0; --buffers)
    staging_.push_back(
        {HostBuffer(device, inputs_.bytes()), HostBuffer(device, targets_.bytes()), device.create_waited_event()});
}

void BatchLoader::generate(Stream& stream, Split split, std::uint64_t first_sample, const Tensor& inputs,
                           const Tensor& targets) {
  if (samples_.images()) {
    GenerateImages args = samples_.images()->on_device(split, first_sample);
    args.frequencies = {table_.data(), DType::int32, {static_cast<std::int64_t>(table_.bytes() / 8), 2}};
    args.inputs = inputs;
    args.targets = targets;
    return device_.generate_images(stream, args);
  }
  if (samples_.clicks()) {
    const ClickLayout& layout = samples_.click_layout();
    GenerateClicks args = samples_.clicks()->on_device(split, first_sample, layout, samples_.share().rank);
    args.tables = static_cast<const ClickTable*>(table_.data());
    args.dense = layout.dense_of(inputs);
    args.indices = layout.indices_of(inputs);
    args.targets = targets;
    return device_.generate_clicks(stream, args);
  }
  GenerateTokens args = samples_.tokens()->on_device(split, first_sample);
  args.table = {table_.data(), DType::int32, {samples_.tokens()->vocabulary()}};
  args.inputs = inputs;
  args.targets = targets;
  device_.generate_tokens(stream, args);
}

void BatchLoader::load_ahead(Split split, std::uint64_t first_sample) {
  if (!ahead_) return;
  if (ahead_->was_taken) ahead_->stream->wait(*ahead_->taken);
  generate(*ahead_->stream, split, first_sample, ahead_->inputs, ahead_->targets);
  ahead_->made->record(*ahead_->stream);
  ahead_->is_full = true;
  ahead_->split = split;
  ahead_->first_sample = first_sample;
}

void BatchLoader::load(Stream& stream, Split split, std::uint64_t first_sample) {
  if (ahead_ && ahead_->is_full && ahead_->split == split && ahead_->first_sample == first_sample) {
    stream.wait(*ahead_->made);
    device_.copy(stream, inputs_.data, ahead_->inputs.data, inputs_.bytes());
    device_.copy(stream, targets_.data, ahead_->targets.data, targets_.bytes());
    ahead_->taken->record(stream);
    ahead_->was_taken = true;
    ahead_->is_full = false;
    return;
  }
  if (table_) return generate(stream, split, first_sample, inputs_, targets_);
  Staging& staging = staging_[next_];
  next_ = (next_ + 1) % staging_.size();
  if (staging.in_use) staging.is_read->synchronize();
  samples_.generate(split, first_sample, staging.inputs.data(), staging.targets.data());
  device_.copy_from_host(stream, inputs_.data, staging.inputs.data(), inputs_.bytes());
  device_.copy_from_host(stream, targets_.data, staging.targets.data(), targets_.bytes());
  staging.is_read->record(stream);
  staging.in_use = true;
}

std::size_t BatchLoader::bytes() const {
  std::size_t bytes = inputs_.bytes() + targets_.bytes() + table_.bytes();
  if (ahead_) bytes += ahead_->inputs.bytes() + ahead_->targets.bytes();
  for (const Staging& staging : staging_) bytes += staging.inputs.bytes() + staging.targets.bytes();
  return bytes;
}

}  // namespace tw::models
