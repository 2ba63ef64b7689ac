#include "tests/models/support.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "models/catalog/described.hpp"

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

NetworkDescription micro_dlrm() {
  NetworkDescription network;
  network.name = "dlrm-micro";
  DlrmDescription shape;
  shape.dense_features = 3;
  shape.bottom = {6, 4};
  shape.top = {7, 5};
  shape.table_rows = {12, 5, 2};
  shape.hot = 2;
  network.shape = family::dlrm::shape(shape);
  network.default_micro_batch = 6;
  return network;
}

NetworkDescription micro_custom_images() {
  return described_network("custom", R"({
    "name": "micro-images", "micro_batch": 3,
    "input": {"kind": "segmented_images", "size": 8, "channels": 3, "classes": 5},
    "layers": [
      {"layer": "convolution", "channels": 4, "kernel": 3, "padding": 1},
      {"layer": "batch_norm", "name": "full"},
      {"layer": "max_pool", "kernel": 2},
      {"layer": "convolution", "channels": 6, "kernel": 3, "stride": 1, "padding": 1},
      {"layer": "layer_norm", "name": "half"},
      {"layer": "attention", "heads": 2},
      {"layer": "residual", "with": "half"},
      {"layer": "residual", "name": "twice", "with": "half"},
      {"layer": "transposed_convolution", "channels": 4, "kernel": 2, "stride": 2},
      {"layer": "activation", "function": "tanh"},
      {"layer": "residual", "with": "full"},
      {"layer": "transposed_convolution", "channels": 6, "kernel": 3, "padding": 1},
      {"layer": "convolution", "name": "wide", "channels": 6, "kernel": [1, 3], "padding": [0, 1], "groups": 2},
      {"layer": "average_pool", "kernel": [3, 1], "stride": 1, "padding": [1, 0]},
      {"layer": "concatenation", "with": ["wide", "input", "wide"]},
      {"layer": "rms_norm"},
      {"layer": "linear", "channels": 8},
      {"layer": "swiglu"},
      {"layer": "loss", "name": "fc", "per": "position", "label_smoothing": 0.1}
    ]})");
}

NetworkDescription micro_custom_vectors() {
  return described_network("custom", R"({
    "name": "micro-vectors", "micro_batch": 4,
    "input": {"kind": "images", "size": 8, "channels": 2, "classes": 9},
    "optimizer": {"kind": "sgd", "learning_rate": 0.05, "weight_decay": 0, "clip_norm": 0},
    "layers": [
      {"layer": "layer_norm"},
      {"layer": "convolution", "channels": 6, "kernel": 3, "stride": 2, "padding": 1},
      {"layer": "batch_norm", "name": "seen", "relu": true},
      {"layer": "flatten"},
      {"layer": "linear", "channels": 12},
      {"layer": "activation", "function": "relu"},
      {"layer": "linear", "name": "left", "channels": 6, "bias": false},
      {"layer": "global_average_pool", "from": "seen"},
      {"layer": "residual", "with": "left"},
      {"layer": "batch_norm"},
      {"layer": "loss", "name": "fc", "per": "sample", "bias": false}
    ]})");
}

NetworkDescription micro_custom_tokens() {
  return described_network("custom", R"({
    "name": "micro-tokens", "micro_batch": 3, "seq_len": 7,
    "input": {"kind": "tokens", "vocabulary": 19, "longest_sequence": 9},
    "layers": [
      {"layer": "embedding", "name": "wte", "channels": 16, "positions": true},
      {"layer": "rms_norm"},
      {"layer": "attention", "heads": 4, "kv_heads": 2, "causal": true, "bias": false},
      {"layer": "residual", "name": "mixed", "with": "wte"},
      {"layer": "layer_norm"},
      {"layer": "linear", "channels": 32},
      {"layer": "activation", "function": "gelu"},
      {"layer": "linear", "channels": 16},
      {"layer": "residual", "with": "mixed"},
      {"layer": "loss", "name": "fc", "per": "position"}
    ]})");
}

NetworkDescription micro_custom_restored() {
  return described_network("custom", R"({
    "name": "micro-restored", "micro_batch": 3,
    "input": {"kind": "restored_images", "size": 6, "channels": 2, "gratings": 4, "scale": 2},
    "layers": [
      {"layer": "convolution", "channels": 6, "kernel": 3, "padding": 1, "bias": true},
      {"layer": "activation", "name": "small", "function": "tanh"},
      {"layer": "upsample", "factor": [1, 2]},
      {"layer": "upsample", "factor": [2, 1]},
      {"layer": "convolution", "name": "smooth", "channels": 6, "kernel": 3, "padding": 1, "groups": 2, "bias": true},
      {"layer": "transposed_convolution", "from": "small", "channels": 6, "kernel": 2, "stride": 2, "bias": true},
      {"layer": "residual", "with": "smooth"},
      {"layer": "activation", "function": "gelu"},
      {"layer": "convolution", "channels": 1, "kernel": 1, "bias": true},
      {"layer": "mean_squared_error", "per": "position"}
    ]})");
}

NetworkDescription micro_custom_series() {
  return described_network("custom", R"({
    "name": "micro-series", "micro_batch": 3, "seq_len": 7,
    "input": {"kind": "series", "variables": 16, "longest_sequence": 9},
    "layers": [
      {"layer": "linear", "name": "seen", "channels": 16},
      {"layer": "attention", "heads": 2, "causal": true},
      {"layer": "residual", "with": "seen"},
      {"layer": "layer_norm"},
      {"layer": "linear", "channels": 16},
      {"layer": "mean_squared_error", "per": "position"}
    ]})");
}

NetworkDescription micro_custom_measured() {
  return described_network("custom", R"({
    "name": "micro-measured", "micro_batch": 4,
    "input": {"kind": "measured_images", "size": 8, "channels": 2, "gratings": 3},
    "layers": [
      {"layer": "flatten"},
      {"layer": "linear", "channels": 2},
      {"layer": "mean_squared_error", "per": "sample"}
    ]})");
}

NetworkDescription custom_example(const std::string& name) {
  std::ostringstream text;
  text << std::ifstream(TW_SOURCE_DIR "/models/custom/examples/" + name + ".json").rdbuf();
  if (text.str().empty()) throw std::runtime_error("no example " + name);
  return described_network("custom", text.str());
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

std::vector<NetworkDescription> micro_networks() {
  return {micro_gpt2(),        micro_llama(),        micro_llama(false),
          micro_bert(),        micro_dlrm(),         micro_resnet(true), micro_inception(),
          micro_custom_images(), micro_custom_vectors(), micro_custom_tokens(),
          micro_custom_restored(), micro_custom_series()};
}

std::vector<NetworkDescription> micro_families() {
  std::vector<NetworkDescription> one_each;
  for (const NetworkDescription& network : micro_networks())
    if (one_each.empty() || one_each.back().shape->family() != network.shape->family()) one_each.push_back(network);
  return one_each;
}

std::vector<std::string> tiny_networks() {
  std::vector<std::string> names;
  for (const NetworkDescription& network : catalog())
    if (network.name.ends_with("-tiny")) names.push_back(network.name);
  return names;
}

bool rows_fit_fp8(const NetworkDescription& network) {
  return network.name != micro_custom_images().name && network.name != micro_custom_vectors().name &&
         network.name != micro_custom_measured().name;
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

void ThreadExchange::all_to_all(Stream& stream, Tensor input, Tensor output) {
  stream.synchronize();
  point_.inputs[static_cast<std::size_t>(rank_)] = input;
  point_.meet.arrive_and_wait();
  const std::size_t block = input.bytes() / point_.inputs.size();
  for (std::size_t peer = 0; peer < point_.inputs.size(); ++peer)
    std::memcpy(static_cast<char*>(output.data) + peer * block,
                static_cast<const char*>(point_.inputs[peer].data) + static_cast<std::size_t>(rank_) * block, block);
  point_.meet.arrive_and_wait();
}
void ThreadExchange::refuse() { throw std::logic_error("this exchange has all_to_all only"); }

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
