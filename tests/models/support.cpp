#include "tests/models/support.hpp"

#include <algorithm>
#include <cmath>

namespace tw::test {

using namespace models;

NetworkDescription micro_gpt2() {
  NetworkDescription network;
  network.name = "gpt2-micro";
  Gpt2Description shape;
  shape.layers = 2;
  shape.width = 16;
  shape.heads = 2;
  shape.vocabulary = 19;
  shape.max_seq = 9;
  network.shape = family::gpt2::shape(shape);
  network.default_micro_batch = 3;
  network.default_seq_len = 7;
  return network;
}

NetworkDescription micro_llama(bool tied_head) {
  NetworkDescription network;
  network.name = tied_head ? "llama-micro" : "llama-micro-untied";
  LlamaDescription shape;
  shape.layers = 2;
  shape.width = 16;
  shape.heads = 4;
  shape.kv_heads = 2;
  shape.hidden = 48;
  shape.vocabulary = 19;
  shape.tied_head = tied_head;
  shape.rope_original_seq = 8;
  shape.max_seq = 9;
  network.shape = family::llama::shape(shape);
  network.default_micro_batch = 3;
  network.default_seq_len = 7;
  return network;
}

NetworkDescription micro_bert() {
  NetworkDescription network;
  network.name = "bert-micro";
  BertDescription shape;
  shape.layers = 2;
  shape.width = 16;
  shape.heads = 2;
  shape.hidden = 48;
  shape.vocabulary = 19;
  shape.max_seq = 17;
  network.shape = family::bert::shape(shape);
  network.default_micro_batch = 3;
  network.default_seq_len = 15;
  return network;
}

NetworkDescription micro_resnet(bool pool) {
  NetworkDescription network;
  network.name = "resnet-micro";
  ResnetDescription shape;
  shape.blocks = {2, 1};
  shape.stem_width = 4;
  shape.stem_kernel = pool ? 7 : 3;
  shape.stem_stride = pool ? 2 : 1;
  shape.stem_pool = pool;
  shape.image_size = pool ? 16 : 8;
  shape.classes = 5;
  network.shape = family::resnet::shape(shape);
  network.default_micro_batch = 4;
  return network;
}

NetworkDescription micro_inception(bool pools) {
  NetworkDescription network;
  network.name = "inception-micro";
  InceptionDescription shape;
  shape.pool_features = {32};
  shape.factorised_channels = {128};
  shape.wide_modules = 1;
  shape.narrowing = 32;
  shape.stem_stride = 1;
  shape.stem_pools = pools;
  shape.image_size = pools ? 55 : 17;
  shape.auxiliary_kernel = 1;
  shape.classes = 5;
  network.shape = family::inception::shape(shape);
  network.default_micro_batch = 4;
  return network;
}

TrainerConfig micro_config(const NetworkDescription& network, Precision precision) {
  TrainerConfig config;
  config.network = network;
  config.precision = precision;
  config.micro_batch = network.default_micro_batch;
  config.seq_len = network.default_seq_len;
  if (precision == Precision::fp8 && network.has_sequence())
    config.micro_batch = 4, config.seq_len = 8;  // rows by 16, as on GPUs
  config.optimizer = default_optimizer(network);
  return config;
}

std::unique_ptr<Device> reference_device() { return create_device("reference", {}); }

std::vector<float> values_of(Device& device, Tensor tensor) {
  std::vector<float> values(static_cast<std::size_t>(tensor.count()));
  const auto stream = device.create_stream();
  device.copy_to_host(*stream, values.data(), tensor.data, tensor.bytes());
  stream->synchronize();
  return values;
}

double normalised_error(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, scale = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    scale = std::max(scale, std::abs(static_cast<double>(b[i])));
  }
  return scale > 0 ? difference / scale : difference;
}

}  // namespace tw::test
