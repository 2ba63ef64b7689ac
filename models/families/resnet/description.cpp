#include "models/families/resnet/description.hpp"

#include <algorithm>
#include <numeric>

#include "models/catalog/families.hpp"

namespace tw::models::family::resnet {
namespace {

std::int64_t pooled(std::int64_t extent) { return (extent + 2 * pool_padding - pool_kernel) / pool_stride + 1; }

class ResnetShape final : public ShapeOf<ResnetDescription> {
 public:
  using ShapeOf::ShapeOf;
  std::string family() const override { return "resnet"; }
  DataDescription data() const override {
    return {
        .kind = DataKind::images, .image_size = d.image_size, .image_channels = d.image_channels, .classes = d.classes};
  }
  LayerCount layers() const override { return {bottlenecks(), static_cast<int>(d.blocks.size()), "bottlenecks"}; }
  /// Filled stage by stage, at least one bottleneck in each.
  std::shared_ptr<const NetworkShape> cut(int layers) const override {
    ResnetDescription first = d;
    int spare = layers - static_cast<int>(first.blocks.size());
    for (int& stage : first.blocks) {
      const int more = std::min(spare, stage - 1);
      stage = 1 + more;
      spare -= more;
    }
    return shape(first);
  }

  std::int64_t count_parameters() const override {
    const auto convolution_and_norm = [](std::int64_t in, std::int64_t out, std::int64_t kernel) {
      return in * out * kernel * kernel + 2 * out;
    };
    std::int64_t total = convolution_and_norm(d.image_channels, d.stem_width, d.stem_kernel);
    std::int64_t in = d.stem_width, width = d.stem_width;
    for (const int blocks : d.blocks) {
      const std::int64_t out = width * expansion;
      for (int block = 0; block < blocks; ++block) {
        total += convolution_and_norm(in, width, 1) + convolution_and_norm(width, width, 3) +
                 convolution_and_norm(width, out, 1);
        if (block == 0) total += convolution_and_norm(in, out, 1);  // projection shortcut
        in = out;
      }
      width *= 2;
    }
    return total + in * d.classes + d.classes;
  }

  std::vector<Product> products(std::int64_t micro_batch, std::int64_t, int layers) const override {
    std::vector<Product> list;
    // Returns the extent of the output.
    const auto convolution = [&](std::int64_t extent, std::int64_t in, std::int64_t out, int kernel, int stride) {
      Product p;
      p.kind = Product::Kind::convolution;
      p.batch = micro_batch, p.height = p.width = extent, p.in_channels = in, p.out_channels = out;
      p.kernel = kernel, p.stride = stride, p.padding = kernel / 2;
      p.backward_input = !list.empty();
      add_product(list, p);
      return p.out_height();
    };
    std::int64_t extent = convolution(d.image_size, d.image_channels, d.stem_width, d.stem_kernel, d.stem_stride);
    if (d.stem_pool) extent = pooled(extent);
    std::int64_t in = d.stem_width, width = d.stem_width;
    for (std::size_t stage = 0; stage < d.blocks.size(); ++stage) {
      const std::int64_t out = expansion * width;
      for (int block = 0; block < d.blocks[stage]; ++block) {
        if (layers-- == 0) return list;
        const int stride = stage > 0 && block == 0 ? 2 : 1;
        if (block == 0) convolution(extent, in, out, 1, stride);
        convolution(extent, in, width, 1, 1);
        extent = convolution(extent, width, width, 3, stride);
        convolution(extent, width, out, 1, 1);
        in = out;
      }
      width *= 2;
    }
    Product head{.kind = Product::Kind::classifier, .label_smoothing = d.label_smoothing};
    head.rows = micro_batch, head.in_features = in, head.out_features = d.classes;
    add_product(list, head);
    return list;
  }
  std::vector<Norm> norms(std::int64_t micro_batch, std::int64_t) const override {
    return batch_norms(products(micro_batch, 0, bottlenecks()));
  }
  /// The stem's max pool, and the head's average pool of the whole image.
  std::vector<Elementwise> elementwise(std::int64_t micro_batch, std::int64_t) const override {
    std::vector<Elementwise> list;
    const auto pool = [&](Elementwise::Kind kind, std::int64_t extent, std::int64_t channels) {
      Elementwise e;
      e.kind = kind, e.batch = micro_batch, e.image = static_cast<int>(extent), e.channels = channels;
      if (kind == Elementwise::Kind::max_pool) e.kernel = pool_kernel, e.stride = pool_stride, e.padding = pool_padding;
      list.push_back(e);
    };
    const std::vector<Product> all = products(micro_batch, 0, bottlenecks());
    if (d.stem_pool) pool(Elementwise::Kind::max_pool, all.front().out_height(), d.stem_width);
    const Product& last = all[all.size() - 2];  // in front of the classifier
    pool(Elementwise::Kind::average_pool, last.out_height(), all.back().in_features);
    return list;
  }

  // He et al., arXiv 1512.03385, §3.4: SGD, 0.1 at batch 256, momentum 0.9, decay 1e-4, never clipped. The rate is
  // scaled linearly (Goyal et al., arXiv 1706.02677) to the network's default micro-batch, once: it does not follow
  // the batch of a run. The tiny network's rate was found by trial.
  OptimizerConfig default_optimizer(std::int64_t default_micro_batch) const override {
    const bool tiny = d.stem_width < 64;
    return {.kind = OptimizerConfig::Kind::sgd,
            .learning_rate = tiny ? 0.05f : 0.1f * static_cast<float>(default_micro_batch) / 256.0f,
            .momentum = 0.9f,
            .weight_decay = 1e-4f,
            .clip_norm = 0};
  }

  std::string summary() const override {
    std::string stages;
    for (const int blocks : d.blocks) stages += (stages.empty() ? "" : "+") + std::to_string(blocks);
    const std::string size = std::to_string(d.image_size);
    return stages + " bottlenecks, " + size + " x " + size + " images, " + std::to_string(d.classes) + " classes";
  }
  std::vector<Fact> sizes() const override {
    return {{"blocks", d.blocks},
            {"stem_width", d.stem_width},
            {"stem_kernel", d.stem_kernel},
            {"stem_stride", d.stem_stride},
            {"stem_pool", d.stem_pool},
            {"image_size", d.image_size},
            {"image_channels", d.image_channels},
            {"classes", d.classes},
            {"label_smoothing", d.label_smoothing}};
  }
  std::vector<Fact> constants() const override {
    return {{"batch_norm_epsilon", norm_epsilon}, {"batch_norm_momentum", norm_momentum}};
  }
  bool has_relu() const override { return true; }

 private:
  int bottlenecks() const { return std::accumulate(d.blocks.begin(), d.blocks.end(), 0); }
};

}  // namespace

std::shared_ptr<const NetworkShape> shape(const ResnetDescription& sizes) {
  return std::make_shared<ResnetShape>(sizes);
}

static std::vector<BlockElements> elements_of_blocks(const NetworkDescription& network, std::int64_t micro_batch,
                                                     std::int64_t) {
  const auto& d = network.as<ResnetDescription>();
  const auto elements = [micro_batch](std::int64_t extent, std::int64_t channels) {
    return static_cast<double>(micro_batch) * static_cast<double>(extent * extent * channels);
  };
  std::vector<BlockElements> blocks;
  const std::int64_t convolved = (d.image_size + 2 * (d.stem_kernel / 2) - d.stem_kernel) / d.stem_stride + 1;
  std::int64_t extent = d.stem_pool ? pooled(convolved) : convolved, width = d.stem_width;
  blocks.push_back({elements(extent, width), elements(convolved, width)});
  for (std::size_t stage = 0; stage < d.blocks.size(); ++stage, width *= 2)
    for (int block = 0; block < d.blocks[stage]; ++block) {
      const std::int64_t before = extent;
      if (stage > 0 && block == 0) extent = (extent - 1) / 2 + 1;
      const double out = elements(extent, expansion * width);
      // The batch norms keep what the three convolutions make.
      blocks.push_back({out, elements(before, width) + elements(extent, width) + out});
    }
  return blocks;
}

Family describe() {
  // The first stage has two bottlenecks, so that both kinds of shortcut (projection, identity) are in the tiny one too.
  const ResnetDescription tiny = {.blocks = {2, 1, 1},
                                  .stem_width = 16,
                                  .stem_kernel = 3,
                                  .stem_stride = 1,
                                  .stem_pool = false,
                                  .image_size = 16,
                                  .classes = 10};
  Family family;
  family.blocks = elements_of_blocks;
  family.networks = {{"resnet-tiny", shape(tiny), 16, 0}, {"resnet-50", shape({}), 8, 0}};
  // Classes in noise, a tenth of the training labels random, held-out labels right (models/data/image_source.hpp): the
  // best error is 0, and untrained weights have 0.9. A fifth of the network's own rate, at which most of the time is
  // evaluation, so that the curve has a shape. 0.02 lies where it still falls steeply, well over the 0.001 to 0.006 on
  // which it ends up at any micro-batch: neither what a set of 1024 has drawn nor the noise of a late curve decides
  // when it is reached.
  family.tasks = {{.name = "gratings",
                   .model = "resnet-tiny",
                   .seq_len = 0,
                   .global_batch = 64,
                   .micro_batches = {32, 8},
                   .learning_rate = 0.01,
                   .final_learning_rate_share = 0.1,
                   .warmup_steps = 10,
                   .decay_steps = 1000,
                   .metric = TaskDescription::Metric::error,
                   .target = 0.02,
                   .held_out_samples = 1024,
                   .evaluation_interval = 10,
                   .most_steps = 600},
                  {.name = "gratings_1000",
                   .model = "resnet-50",
                   .seq_len = 0,
                   .global_batch = 256,
                   // 32 images per GPU, as the recipe has (Goyal et al., arXiv 1706.02677, §5.1).
                   .micro_batches = {32},
                   .learning_rate = 0.1,
                   .final_learning_rate_share = 0.1,
                   .warmup_steps = 100,
                   .decay_steps = 4000,
                   .metric = TaskDescription::Metric::error,
                   .target = 0.02,
                   .held_out_samples = 4096,
                   .evaluation_interval = 100,
                   .most_steps = 6400,
                   .extrapolated_from = "resnet-tiny with 10 and 20 classes (bench/README.md)"}};
  return family;
}

}  // namespace tw::models::family::resnet
