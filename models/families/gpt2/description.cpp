#include "models/families/gpt2/description.hpp"

#include "models/catalog/families.hpp"

namespace tw::models::family::gpt2 {
namespace {

class Gpt2Shape final : public ShapeOf<Gpt2Description> {
 public:
  using ShapeOf::ShapeOf;
  std::string family() const override { return "gpt2"; }
  DataDescription data() const override {
    return {.kind = DataKind::tokens, .vocabulary = d.vocabulary, .longest_sequence = d.max_seq};
  }
  LayerCount layers() const override { return {d.layers, 1, "transformer layers"}; }
  std::shared_ptr<const NetworkShape> cut(int layers) const override { return shape(first_layers(d, layers)); }

  std::int64_t count_parameters() const override {
    const std::int64_t c = d.width;
    const std::int64_t norm = 2 * c;
    const std::int64_t attention = c * 3 * c + 3 * c + c * c + c;
    const std::int64_t mlp = c * 4 * c + 4 * c + 4 * c * c + c;
    return d.vocabulary * c + d.max_seq * c + d.layers * (2 * norm + attention + mlp) + norm;
  }

  // 6·N_mat + 6·layers·width·seq FLOPs a token, forward and backward.
  std::vector<Product> products(std::int64_t micro_batch, std::int64_t seq_len, int layers) const override {
    using Epilogue = Product::Epilogue;
    std::vector<Product> list;
    const std::int64_t rows = micro_batch * seq_len, c = d.width;
    const auto linear = [&](const char* name, std::int64_t in, std::int64_t out, Epilogue epilogue) {
      Product p;
      p.rows = rows, p.in_features = in, p.out_features = out, p.count = layers;
      p.name = name, p.epilogue = epilogue, p.input_from_gelu = in == 4 * c;
      add_product(list, p);
    };
    linear("qkv", c, 3 * c, Epilogue::bias);
    Product attention{.kind = Product::Kind::attention, .count = layers};
    attention.batch = micro_batch, attention.seq = seq_len, attention.heads = d.heads, attention.head_dim = c / d.heads;
    add_product(list, attention);
    linear("attention_out", c, c, Epilogue::bias_residual);
    linear("mlp_up", c, 4 * c, Epilogue::bias_gelu);
    linear("mlp_down", 4 * c, c, Epilogue::bias_residual);
    if (layers < d.layers) return list;
    add_product(list,
                {.kind = Product::Kind::classifier, .rows = rows, .in_features = c, .out_features = d.vocabulary});
    return list;
  }
  std::vector<Norm> norms(std::int64_t micro_batch, std::int64_t seq_len) const override {
    return {{.kind = Norm::Kind::layer, .rows = micro_batch * seq_len, .channels = d.width}};
  }

  // β, decay and clipping of GPT-3 (Brown et al., arXiv 2005.14165, appendix B), its learning rates by size
  // (table 2.1); GPT-2's own were not published. Narrower networks train faster at more (anchor: 3e-3 at width 128).
  OptimizerConfig default_optimizer(std::int64_t) const override {
    OptimizerConfig config;
    config.kind = OptimizerConfig::Kind::adamw;
    config.learning_rate = d.width < 768    ? 3e-3f
                           : d.width < 1024 ? 6e-4f
                           : d.width < 1280 ? 3e-4f
                           : d.width < 1600 ? 2.5e-4f
                                            : 2e-4f;
    return config;
  }

  std::string summary() const override {
    return std::to_string(d.layers) + " layers, width " + std::to_string(d.width) + ", " + std::to_string(d.heads) +
           " heads, vocabulary " + std::to_string(d.vocabulary);
  }
  std::vector<Fact> sizes() const override {
    return {{"layers", d.layers},
            {"width", d.width},
            {"heads", d.heads},
            {"vocabulary", d.vocabulary},
            {"max_seq", d.max_seq}};
  }
  std::vector<Fact> constants() const override {
    return {{"layer_norm_epsilon", norm_epsilon}, {"activation", "gelu_tanh"}};
  }
};

}  // namespace

std::shared_ptr<const NetworkShape> shape(const Gpt2Description& sizes) { return std::make_shared<Gpt2Shape>(sizes); }

static std::vector<BlockElements> elements_of_blocks(const NetworkDescription& network, std::int64_t micro_batch,
                                                     std::int64_t seq_len) {
  return equal_blocks(network, micro_batch, seq_len, network.as<Gpt2Description>().width);
}

Family describe() {
  Family family;
  family.blocks = elements_of_blocks;
  // Sizes: Radford et al. 2019, table 2, as released (width 1024, 1280, 1600).
  // {layers, width, heads, vocabulary, max_seq}, default micro-batch, default sequence
  family.networks = {{"gpt2-tiny", shape({2, 128, 4, 128, 128}), 8, 128},
                     {"gpt2-124m", shape({12, 768, 12, 50257, 1024}), 1, 1024},
                     {"gpt2-355m", shape({24, 1024, 16, 50257, 1024}), 1, 1024},
                     {"gpt2-774m", shape({36, 1280, 20, 50257, 1024}), 1, 1024},
                     {"gpt2-1558m", shape({48, 1600, 25, 50257, 1024}), 1, 1024}};
  // Next tokens of a second-order source with an exact entropy rate (models/data/token_source.hpp). No model that sees
  // one token only gets under +0.109 nats over the floor of these sequences (0.1098 to 0.1301 over 300 seeds), so that
  // +0.10 shows that attention works. The schedule is the network's own.
  family.tasks = {{.name = "markov",
                   .model = "gpt2-tiny",
                   .seq_len = 32,
                   .global_batch = 32,
                   .learning_rate = 3e-3,
                   .final_learning_rate_share = 0.1,
                   .warmup_steps = 10,
                   .decay_steps = 1000,
                   .metric = TaskDescription::Metric::excess_loss,
                   .target = 0.10,
                   .held_out_samples = 256,
                   .evaluation_interval = 25,
                   .most_steps = 2000},
                  // The same source at the size of a GPU; the bound of one token is +0.12 here. With as many visits to
                  // each token of the vocabulary as gpt2-tiny needs, 3500 steps; at most twice as many.
                  {.name = "markov_124m",
                   .model = "gpt2-124m",
                   .seq_len = 1024,
                   .global_batch = 64,
                   .learning_rate = 6e-4,
                   .final_learning_rate_share = 0.1,
                   .warmup_steps = 100,
                   .decay_steps = 3500,
                   .metric = TaskDescription::Metric::excess_loss,
                   .target = 0.10,
                   .held_out_samples = 64,
                   .evaluation_interval = 50,
                   .most_steps = 7000,
                   .extrapolated_from = "gpt2-tiny with vocabularies of 64 and 128 (bench/README.md)"}};
  return family;
}

}  // namespace tw::models::family::gpt2
