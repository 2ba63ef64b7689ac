#include "models/catalog/description.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>

#include "models/catalog/nearest.hpp"

namespace tw {
namespace {

constexpr std::int64_t bottleneck_expansion = 4;

std::int64_t count_gpt2(const Gpt2Description& d) {
  const std::int64_t c = d.width;
  const std::int64_t norm = 2 * c;
  const std::int64_t attention = c * 3 * c + 3 * c + c * c + c;
  const std::int64_t mlp = c * 4 * c + 4 * c + 4 * c * c + c;
  return d.vocabulary * c + d.max_seq * c + d.layers * (2 * norm + attention + mlp) + norm;
}

std::int64_t count_resnet(const ResnetDescription& d) {
  const auto convolution_and_norm = [](std::int64_t in, std::int64_t out, std::int64_t kernel) {
    return in * out * kernel * kernel + 2 * out;
  };
  std::int64_t total = convolution_and_norm(d.image_channels, d.stem_width, d.stem_kernel);
  std::int64_t in = d.stem_width, width = d.stem_width;
  for (const int blocks : d.blocks) {
    const std::int64_t out = width * bottleneck_expansion;
    for (int block = 0; block < blocks; ++block) {
      total += convolution_and_norm(in, width, 1) + convolution_and_norm(width, width, 3) + convolution_and_norm(width, out, 1);
      if (block == 0) total += convolution_and_norm(in, out, 1);  // projection shortcut
      in = out;
    }
    width *= 2;
  }
  return total + in * d.classes + d.classes;
}

std::vector<NetworkDescription> make_catalog() {
  std::vector<NetworkDescription> networks;
  const auto gpt2 = [&](const char* name, int layers, int width, int heads, std::int64_t vocabulary, std::int64_t max_seq,
                        std::int64_t micro_batch, std::int64_t seq_len) {
    networks.push_back({name, Gpt2Description{layers, width, heads, vocabulary, max_seq}, micro_batch, seq_len});
  };
  const auto resnet = [&](const char* name, std::vector<int> blocks, int stem_width, int stem_kernel, int stem_stride,
                          bool stem_pool, int image_size, std::int64_t classes, std::int64_t micro_batch) {
    ResnetDescription d;
    d.blocks = std::move(blocks);
    d.stem_width = stem_width;
    d.stem_kernel = stem_kernel;
    d.stem_stride = stem_stride;
    d.stem_pool = stem_pool;
    d.image_size = image_size;
    d.classes = classes;
    networks.push_back({name, d, micro_batch, 0});
  };
#define TW_UNPACK(...) {__VA_ARGS__}
#define TW_GPT2(...) gpt2(__VA_ARGS__);
#define TW_RESNET(name, blocks, ...) resnet(name, TW_UNPACK blocks, __VA_ARGS__);
#include "models/catalog/models.def"
#undef TW_RESNET
#undef TW_GPT2
#undef TW_UNPACK
  return networks;
}

}  // namespace

const std::vector<NetworkDescription>& catalog() {
  static const std::vector<NetworkDescription> networks = make_catalog();
  return networks;
}

NetworkDescription find_network(const std::string& name) {
  std::vector<std::string> names;
  std::string list;
  for (const NetworkDescription& network : catalog()) {
    if (network.name == name) return network;
    names.push_back(network.name);
    list += (list.empty() ? "" : ", ") + network.name;
  }
  const std::string meant = nearest(name, names);
  throw std::invalid_argument("unknown model '" + cut_word(name) + "'" + (meant.empty() ? "" : ", did you mean '" + meant + "'?") +
                              " (known: " + list + ")");
}

NetworkDescription cut_layers(NetworkDescription network, int layers) {
  const auto refuse = [&](int least, int most, const char* what) {
    throw std::invalid_argument("cannot cut " + network.name + " to " + std::to_string(layers) + " layers: it has " +
                                std::to_string(most) + " " + what + ", choose " + std::to_string(least) + " to " +
                                std::to_string(most));
  };
  if (network.is_tokens()) {
    auto& shape = std::get<Gpt2Description>(network.shape);
    if (layers < 1 || layers > shape.layers) refuse(1, shape.layers, "transformer layers");
    shape.layers = layers;
    return network;
  }
  std::vector<int>& blocks = std::get<ResnetDescription>(network.shape).blocks;
  const int stages = static_cast<int>(blocks.size());
  const int most = std::accumulate(blocks.begin(), blocks.end(), 0);
  if (layers < stages || layers > most) refuse(stages, most, "bottlenecks");
  int spare = layers - stages;
  for (int& stage : blocks) {
    const int more = std::min(spare, stage - 1);
    stage = 1 + more;
    spare -= more;
  }
  return network;
}

int layer_count(const NetworkDescription& network) {
  if (network.is_tokens()) return network.gpt2().layers;
  const std::vector<int>& blocks = network.resnet().blocks;
  return std::accumulate(blocks.begin(), blocks.end(), 0);
}

std::int64_t count_parameters(const NetworkDescription& network) {
  return network.is_tokens() ? count_gpt2(network.gpt2()) : count_resnet(network.resnet());
}

}  // namespace tw
