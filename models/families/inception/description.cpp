#include "models/families/inception/description.hpp"

#include <algorithm>
#include <set>

#include "models/catalog/families.hpp"

namespace tw::models::family::inception {
namespace {

Product convolution(const Unit& unit, std::int64_t micro_batch) {
  Product p;
  p.kind = Product::Kind::convolution;
  p.batch = micro_batch, p.height = p.width = unit.size;
  p.in_channels = unit.in_channels, p.out_channels = unit.out_channels;
  p.kernel = unit.kernel, p.stride = unit.stride, p.padding = unit.padding;
  return p;
}

Product classifier(std::int64_t micro_batch, std::int64_t in, const InceptionDescription& d) {
  Product p{.kind = Product::Kind::classifier, .label_smoothing = d.label_smoothing};
  p.rows = micro_batch, p.in_features = in, p.out_features = d.classes;
  return p;
}

class InceptionShape final : public ShapeOf<InceptionDescription> {
 public:
  using ShapeOf::ShapeOf;
  std::string family() const override { return "inception"; }
  DataDescription data() const override {
    return {
        .kind = DataKind::images, .image_size = d.image_size, .image_channels = d.image_channels, .classes = d.classes};
  }
  LayerCount layers() const override {
    // One of each kind is always there.
    return {static_cast<int>(d.pool_features.size() + d.factorised_channels.size()) + d.wide_modules + 2, 5, "modules"};
  }
  /// Filled from the front, at least one module of each kind.
  std::shared_ptr<const NetworkShape> cut(int layers) const override {
    InceptionDescription first = d;
    int spare = layers - 5;
    const auto kept = [&](std::size_t modules) {
      const int more = std::min(spare, static_cast<int>(modules) - 1);
      spare -= more;
      return static_cast<std::size_t>(1 + more);
    };
    first.pool_features.resize(kept(d.pool_features.size()));
    first.factorised_channels.resize(kept(d.factorised_channels.size()));
    first.wide_modules = static_cast<int>(kept(static_cast<std::size_t>(d.wide_modules)));
    return shape(first);
  }

  std::int64_t count_parameters() const override {
    const Layout all = layout(d);
    std::int64_t total = 0;
    const auto add = [&](const std::vector<Unit>& units) {
      for (const Unit& unit : units)
        total += unit.in_channels * unit.out_channels * unit.kernel.area() + 2 * unit.out_channels;
    };
    add(all.stem);
    for (const Module& module : all.modules) add(module.units);
    add(all.auxiliary.units);
    for (const std::int64_t features : {all.auxiliary.units.back().out_channels, all.channels})
      total += features * d.classes + d.classes;
    return total;
  }

  std::vector<Product> products(std::int64_t micro_batch, std::int64_t, int layers) const override {
    const Layout all = layout(d);
    std::vector<Product> list;
    const auto add = [&](const std::vector<Unit>& units) {
      for (const Unit& unit : units) {
        Product p = convolution(unit, micro_batch);
        p.backward_input = !list.empty();
        add_product(list, p);
      }
    };
    add(all.stem);
    for (std::size_t i = 0; i < all.modules.size(); ++i) {
      if (static_cast<int>(i) == layers) return list;
      if (i == all.auxiliary.module) {
        add(all.auxiliary.units);
        Product head = classifier(micro_batch, all.auxiliary.units.back().out_channels, d);
        head.name = "auxiliary_head";
        add_product(list, head);
      }
      add(all.modules[i].units);
    }
    add_product(list, classifier(micro_batch, all.channels, d));
    return list;
  }

  std::vector<Norm> norms(std::int64_t micro_batch, std::int64_t) const override {
    return batch_norms(products(micro_batch, 0, layers().count));
  }

  /// Pools and joins, each shape once.
  std::vector<Elementwise> elementwise(std::int64_t micro_batch, std::int64_t) const override {
    std::vector<Elementwise> list;
    std::set<std::string> seen;
    const auto add = [&](Elementwise::Kind kind, std::int64_t size, std::int64_t channels, std::int64_t width,
                         int kernel, int stride, int padding) {
      if (!seen.insert(std::to_string(static_cast<int>(kind)) + " " + std::to_string(size) + " " +
                       std::to_string(channels) + " " + std::to_string(width) + " " + std::to_string(kernel))
               .second)
        return;
      Elementwise e;
      e.kind = kind, e.batch = micro_batch, e.image = static_cast<int>(size), e.channels = channels, e.width = width;
      e.kernel = kernel, e.stride = stride, e.padding = padding;
      list.push_back(e);
    };
    using Kind = Elementwise::Kind;
    const Layout all = layout(d);
    for (std::size_t i = 0; i < all.stem.size(); ++i) {
      if (!all.stem_pools[i]) continue;
      add(Kind::max_pool, all.stem[i].out_size(), all.stem[i].out_channels, 0, max_kernel, max_stride, 0);
    }
    for (const Module& module : all.modules) {
      if (module.has_average_pool())
        add(Kind::average_pool, module.size, module.in_channels, 0, branch_pool_kernel, 1, branch_pool_kernel / 2);
      if (module.joins_max_pool) add(Kind::max_pool, module.size, module.in_channels, 0, max_kernel, max_stride, 0);
      for (const Unit& unit : module.units)
        if (unit.joined) add(Kind::concatenation, module.out_size, module.out_channels, unit.out_channels, 0, 1, 0);
    }
    const Auxiliary& auxiliary = all.auxiliary;
    add(Kind::average_pool, auxiliary.size, auxiliary.in_channels, 0, auxiliary_pool_kernel, auxiliary_pool_stride, 0);
    add(Kind::average_pool, auxiliary.units.back().out_size(), auxiliary.units.back().out_channels, 0, 0, 1, 0);
    add(Kind::average_pool, all.size, all.channels, 0, 0, 1, 0);  // kernel 0: the whole image
    return list;
  }

  /// A single value of a channel has no variance.
  std::string why_no_micro_batch(std::int64_t micro_batch, std::int64_t) const override {
    if (micro_batch > 1) return {};
    for (const Unit& unit : layout(d).auxiliary.units) {
      if (unit.out_size() == 1)
        return "value too small (minimum 2): AuxLogits." + unit.name +
               ".bn, a batch norm of the auxiliary head, has a single value per channel and image";
    }
    return {};
  }

  // Szegedy et al., arXiv 1512.00567, §8: momentum with decay 0.9 in earlier experiments (the best models were trained
  // by RMSProp), rate 0.045, gradients clipped at 2, replicas of batch 32. The rate is scaled linearly to the network's
  // default micro-batch, once. Weight decay 4e-5: the authors' code (TensorFlow models, inception_v3). The tiny
  // network's rate was found by trial.
  OptimizerConfig default_optimizer(std::int64_t default_micro_batch) const override {
    return {.kind = OptimizerConfig::Kind::sgd,
            .learning_rate = d.narrowing > 1 ? 0.05f : 0.045f * static_cast<float>(default_micro_batch) / 32.0f,
            .momentum = 0.9f,
            .weight_decay = 4e-5f,
            .clip_norm = 2.0f};
  }

  std::string summary() const override {
    const std::string size = std::to_string(d.image_size);
    return std::to_string(layers().count) + " modules, auxiliary head, " + size + " x " + size + " images, " +
           std::to_string(d.classes) + " classes";
  }
  std::vector<Fact> sizes() const override {
    return {{"pool_features", d.pool_features},
            {"factorised_channels", d.factorised_channels},
            {"wide_modules", d.wide_modules},
            {"narrowing", d.narrowing},
            {"stem_stride", d.stem_stride},
            {"stem_pools", d.stem_pools},
            {"image_size", d.image_size},
            {"image_channels", d.image_channels},
            {"auxiliary_kernel", d.auxiliary_kernel},
            {"auxiliary_weight", d.auxiliary_weight},
            {"classes", d.classes},
            {"label_smoothing", d.label_smoothing}};
  }
  std::vector<Fact> constants() const override {
    return {{"batch_norm_epsilon", norm_epsilon}, {"batch_norm_momentum", norm_momentum}};
  }
  bool has_relu() const override { return true; }
};

}  // namespace

std::shared_ptr<const NetworkShape> shape(const InceptionDescription& sizes) {
  return std::make_shared<InceptionShape>(sizes);
}

static std::vector<BlockElements> elements_of_blocks(const NetworkDescription& network, std::int64_t micro_batch,
                                                     std::int64_t) {
  const Layout all = layout(network.as<InceptionDescription>());
  const auto elements = [micro_batch](std::int64_t size, std::int64_t channels) {
    return static_cast<double>(micro_batch) * static_cast<double>(size * size * channels);
  };
  const auto saved = [&](const std::vector<Unit>& units) {  // of the batch norms: what the convolutions make
    double sum = 0;
    for (const Unit& unit : units) sum += elements(unit.out_size(), unit.out_channels);
    return sum;
  };
  const Module& first = all.modules.front();
  std::vector<BlockElements> blocks = {{elements(first.size, first.in_channels), saved(all.stem)}};
  for (const Module& module : all.modules)
    blocks.push_back({elements(module.out_size, module.out_channels), saved(module.units)});
  return blocks;
}

Family describe() {
  // One module of each kind, an eighth of the channels; no reduction in the stem, so that small images leave the
  // modules maps of 17, 8 and 3 pixels.
  const InceptionDescription tiny = {.pool_features = {32},
                                     .factorised_channels = {128},
                                     .wide_modules = 1,
                                     .narrowing = 8,
                                     .stem_stride = 1,
                                     .stem_pools = false,
                                     .image_size = 23,
                                     .auxiliary_kernel = 2,
                                     .classes = 10};
  Family family;
  family.blocks = elements_of_blocks;
  family.networks = {{"inception-tiny", shape(tiny), 16, 0}, {"inception-v3", shape({}), 8, 0}};
  // The gratings, batch, rate and target of resnet-tiny's task (models/data/image_source.hpp), here on images of 23
  // pixels. 23 is a prime, so that each class shows each of 23 phases in equally many pixels: a model that sees pixels
  // without their places has an error of 0.9, as one that guesses.
  family.tasks = {{.name = "gratings_inception",
                   .model = "inception-tiny",
                   .seq_len = 0,
                   .global_batch = 64,
                   .micro_batches = {32},
                   .learning_rate = 0.01,
                   .final_learning_rate_share = 0.1,
                   .warmup_steps = 10,
                   .decay_steps = 1000,
                   .metric = TaskDescription::Metric::error,
                   .target = 0.02,
                   .held_out_samples = 1024,
                   .evaluation_interval = 10,
                   .most_steps = 600},
                  // The same with 1000 classes at the size of a GPU. Neighbouring classes differ by 6 waves per image
                  // (5 above), and each class has at least 13 equally frequent phases. The rate is the published one.
                  {.name = "gratings_inception_1000",
                   .model = "inception-v3",
                   .seq_len = 0,
                   .global_batch = 256,
                   // 32 images per replica, as the recipe has (Szegedy et al., arXiv 1512.00567, §8).
                   .micro_batches = {32},
                   .learning_rate = 0.045,
                   .final_learning_rate_share = 0.1,
                   .warmup_steps = 100,
                   .decay_steps = 4000,
                   .metric = TaskDescription::Metric::error,
                   .target = 0.02,
                   .held_out_samples = 4096,
                   .evaluation_interval = 100,
                   .most_steps = 6400,
                   .extrapolated_from = "inception-tiny with 10 classes (bench/README.md)"}};
  return family;
}

}  // namespace tw::models::family::inception
