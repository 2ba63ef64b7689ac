#include "models/ledger/ledger.hpp"

#include "models/data/synthetic_data.hpp"
#include "models/ledger/counting_device.hpp"
#include "models/network/executor.hpp"
#include "models/network/parameters.hpp"
#include "models/optimizers/optimizer.hpp"

namespace tw::models {

std::vector<LedgerRow> ledger(const LedgerStep& step) {
  const auto& [network, precision, micro_batch, seq_len, accumulate] = step;
  CountingDevice device;
  const std::unique_ptr<Stream> stream = device.create_stream();
  auto blocks = build_blocks(network, precision, micro_batch, seq_len);
  const ParameterStore store(device, storage(precision), blocks);
  Optimizer optimizer(device, default_optimizer(network), store, scales_loss(precision), 1);
  store.build(blocks);
  Executor executor(device, *stream, blocks, {});

  MicroBatch batch;
  batch.inputs = SyntheticData::inputs_shape(network, storage(precision), micro_batch, seq_len);
  batch.targets = SyntheticData::targets_shape(network, micro_batch, seq_len);
  batch.loss = {nullptr, DType::float32, {1}};
  batch.correct = {nullptr, DType::int32, {1}};
  for (Tensor* tensor : {&batch.inputs, &batch.targets, &batch.loss, &batch.correct})
    tensor->data = device.allocate(tensor->bytes());
  if (scales_loss(precision)) batch.scalars = optimizer.device_scalars();

  executor.refresh();  // that a step begins with them is what the last one left
  device.clear();
  for (const bool is_first : {true, false}) {
    if (!is_first && accumulate == 1) break;
    device.repeat(is_first ? 1 : static_cast<double>(accumulate - 1));
    batch.accumulate = !is_first;
    executor.forward(batch);
    executor.backward(batch, {});
  }
  device.repeat(1);
  optimizer.update(*stream);
  executor.refresh();
  return device.rows();
}

}  // namespace tw::models
