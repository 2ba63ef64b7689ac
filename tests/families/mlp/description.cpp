#include "tests/families/mlp/description.hpp"

#include "models/catalog/families.hpp"

namespace tw::models::family::mlp {
namespace {

class MlpShape final : public ShapeOf<MlpDescription> {
 public:
  using ShapeOf::ShapeOf;
  std::string family() const override { return "mlp"; }
  DataDescription data() const override {
    return {.kind = DataKind::images, .image_size = d.image_size, .image_channels = 3, .classes = d.classes};
  }
  LayerCount layers() const override { return {d.layers, 1, "layers"}; }
  std::shared_ptr<const NetworkShape> cut(int layers) const override { return shape(first_layers(d, layers)); }
  std::int64_t count_parameters() const override {
    const auto layer = [&](std::int64_t in) { return (in + 1) * 2 * d.width + (2 * d.width + 1) * d.width; };
    return layer(d.pixels()) + d.layers * layer(d.width) + (d.width + 1) * d.classes;
  }
  std::vector<Product> products(std::int64_t micro_batch, std::int64_t, int layers) const override {
    std::vector<Product> list;
    const auto linear = [&](const char* name, std::int64_t in, std::int64_t out, int count) {
      Product p;
      p.rows = micro_batch, p.in_features = in, p.out_features = out, p.count = count;
      p.backward_input = !list.empty(), p.name = name, p.input_from_gelu = in == 2 * d.width;
      p.epilogue = p.input_from_gelu ? Product::Epilogue::bias : Product::Epilogue::bias_gelu;
      add_product(list, p);
    };
    linear("stem", d.pixels(), 2 * d.width, 1);
    linear("down", 2 * d.width, d.width, 1 + layers);
    linear("up", d.width, 2 * d.width, layers);
    if (layers < d.layers) return list;
    Product head;
    head.kind = Product::Kind::classifier;
    head.rows = micro_batch, head.in_features = d.width, head.out_features = d.classes;
    add_product(list, head);
    return list;
  }
  std::vector<Norm> norms(std::int64_t, std::int64_t) const override { return {}; }
  OptimizerConfig default_optimizer(std::int64_t) const override {
    OptimizerConfig config;
    config.learning_rate = 3e-3f;
    return config;
  }
  std::string summary() const override {
    return std::to_string(d.layers) + " layers of width " + std::to_string(d.width);
  }
  std::vector<Fact> sizes() const override {
    return {{"layers", d.layers}, {"width", d.width}, {"image_size", d.image_size}, {"classes", d.classes}};
  }
  std::vector<Fact> constants() const override { return {{"activation", "gelu_tanh"}}; }
};

}  // namespace

std::shared_ptr<const NetworkShape> shape(const MlpDescription& sizes) { return std::make_shared<MlpShape>(sizes); }

static std::vector<BlockElements> elements_of_blocks(const NetworkDescription& network, std::int64_t micro_batch,
                                                     std::int64_t) {
  const auto& d = network.as<MlpDescription>();
  const auto output = static_cast<double>(micro_batch * d.width);
  return std::vector<BlockElements>(static_cast<std::size_t>(d.layers) + 1, BlockElements{output, 0});
}

Family describe() {
  Family family;
  family.blocks = elements_of_blocks;
  family.networks = {{"mlp-tiny", shape({.layers = 2}), 8, 0}};
  family.tasks = {{.name = "blobs", .model = "mlp-tiny", .global_batch = 8, .metric = TaskDescription::Metric::error}};
  return family;
}

}  // namespace tw::models::family::mlp
