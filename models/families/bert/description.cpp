#include "models/families/bert/description.hpp"

#include "models/catalog/families.hpp"

namespace tw::models::family::bert {
namespace {

class BertShape final : public ShapeOf<BertDescription> {
 public:
  using ShapeOf::ShapeOf;
  std::string family() const override { return "bert"; }
  DataDescription data() const override {
    return {.kind = DataKind::masked_tokens, .vocabulary = d.vocabulary, .longest_sequence = d.max_seq};
  }
  LayerCount layers() const override { return {d.layers, 1, "transformer layers"}; }
  std::shared_ptr<const NetworkShape> cut(int layers) const override { return shape(first_layers(d, layers)); }

  std::int64_t count_parameters() const override {
    const std::int64_t c = d.width, norm = 2 * c, square = c * c + c;
    const std::int64_t embedding = (d.vocabulary + d.max_seq + d.segments) * c + norm;
    const std::int64_t mlp = c * d.hidden + d.hidden + d.hidden * c + c;
    const std::int64_t masked_head = square + norm + d.vocabulary;  // its decoder is the token table
    const std::int64_t pooler = square, next_sentence = 2 * c + 2;
    return embedding + d.layers * (4 * square + mlp + 2 * norm) + pooler + masked_head + next_sentence;
  }

  // FLOPs of forward and backward for a sequence of T tokens; M = masked_positions(T) of them go through the head:
  // 6·N_layers·T + 12·layers·C·T² (each token sees all) + 6·(C² + V·C)·M + 6·(C² + 2·C).
  std::vector<Product> products(std::int64_t micro_batch, std::int64_t seq_len, int layers) const override {
    using Epilogue = Product::Epilogue;
    std::vector<Product> list;
    const std::int64_t rows = micro_batch * seq_len, c = d.width, masked = masked_rows(micro_batch, seq_len);
    const auto linear = [&](const char* name, std::int64_t of_rows, std::int64_t in, std::int64_t out,
                            Epilogue epilogue, int count) {
      Product p;
      p.rows = of_rows, p.in_features = in, p.out_features = out, p.count = count;
      p.name = name, p.epilogue = epilogue, p.beside_fp8 = of_rows != rows;
      add_product(list, p);
    };
    const auto classifier = [&](const char* name, std::int64_t of_rows, std::int64_t classes) {
      Product p{.kind = Product::Kind::classifier, .name = name};
      p.rows = of_rows, p.in_features = c, p.out_features = classes;
      add_product(list, p);
    };
    linear("qkv", rows, c, 3 * c, Epilogue::bias, layers);
    Product attention{.kind = Product::Kind::attention, .causal = false, .count = layers};
    attention.batch = micro_batch, attention.seq = seq_len, attention.heads = d.heads, attention.head_dim = c / d.heads;
    add_product(list, attention);
    linear("attention_out", rows, c, c, Epilogue::bias_residual, layers);
    linear("mlp_up", rows, c, d.hidden, Epilogue::bias, layers);  // the GELU is a pass of its own
    linear("mlp_down", rows, d.hidden, c, Epilogue::bias_residual, layers);
    if (layers < d.layers) return list;
    linear("masked_transform", masked, c, c, Epilogue::bias, 1);
    linear("pooler", micro_batch, c, c, Epilogue::bias, 1);
    classifier("", masked, d.vocabulary);
    classifier("next_sentence", micro_batch, 2);
    return list;
  }
  std::vector<Norm> norms(std::int64_t micro_batch, std::int64_t seq_len) const override {
    return {
        {.kind = Norm::Kind::layer, .rows = micro_batch * seq_len, .channels = d.width},
        {.kind = Norm::Kind::layer, .name = of_masked, .rows = masked_rows(micro_batch, seq_len), .channels = d.width}};
  }
  std::vector<Elementwise> elementwise(std::int64_t micro_batch, std::int64_t seq_len) const override {
    using Kind = Elementwise::Kind;
    return {{.kind = Kind::gelu, .rows = micro_batch * seq_len, .width = d.hidden},
            {.kind = Kind::gelu, .name = of_masked, .rows = masked_rows(micro_batch, seq_len), .width = d.width}};
  }

  // Devlin et al., appendix A.2, and the released optimizer (google-research/bert, optimization.py: epsilon 1e-6, decay
  // of all but norms and biases, clipping at 1), as AdamW. MLPerf's LAMB is not there. The tiny network trains faster
  // at more.
  OptimizerConfig default_optimizer(std::int64_t) const override {
    OptimizerConfig config{.learning_rate = d.width < 768 ? 1e-3f : 1e-4f};
    config.beta1 = 0.9f, config.beta2 = 0.999f, config.epsilon = 1e-6f;
    config.weight_decay = 0.01f, config.clip_norm = 1.0f;
    return config;
  }

  std::string summary() const override {
    return std::to_string(d.layers) + " layers, width " + std::to_string(d.width) + ", " + std::to_string(d.heads) +
           " heads, MLP " + std::to_string(d.hidden) + ", vocabulary " + std::to_string(d.vocabulary);
  }
  std::vector<Fact> sizes() const override {
    return {{"layers", d.layers},         {"width", d.width},     {"heads", d.heads},      {"hidden", d.hidden},
            {"vocabulary", d.vocabulary}, {"max_seq", d.max_seq}, {"segments", d.segments}};
  }
  std::vector<Fact> constants() const override {
    return {{"layer_norm_epsilon", norm_epsilon}, {"activation", "gelu"}};
  }

 private:
  /// The head on the masked positions of all sequences, and how many these are.
  static constexpr const char* of_masked = "masked";
  static std::int64_t masked_rows(std::int64_t micro_batch, std::int64_t seq_len) {
    return micro_batch * masked_positions(seq_len);
  }
};

}  // namespace

std::shared_ptr<const NetworkShape> shape(const BertDescription& sizes) { return std::make_shared<BertShape>(sizes); }

static std::vector<BlockElements> elements_of_blocks(const NetworkDescription& network, std::int64_t micro_batch,
                                                     std::int64_t seq_len) {
  return equal_blocks(network, micro_batch, seq_len, network.as<BertDescription>().width);
}

Family describe() {
  // Sizes: Devlin et al., §3, as released (uncased). {layers, width, heads, hidden, vocabulary, max_seq}, default
  // micro-batch, default sequence
  Family family;
  family.blocks = elements_of_blocks;
  family.networks = {{"bert-tiny", shape({2, 128, 4, 512, 128, 128}), 8, 128},
                     {"bert-base", shape({12, 768, 12, 3072, 30522, 512}), 1, 512},
                     {"bert-large", shape({24, 1024, 16, 4096, 30522, 512}), 1, 512}};
  // Masked tokens and next sentences with an exact floor (models/data/masked_source.hpp). +0.5 shows that both heads
  // and attention work: a model that guesses next sentences stays ln 2 = 0.69 above the floor, and one that does not
  // see the other tokens 1.1. The rate is twice the network's own.
  family.tasks = {{.name = "masked",
                   .model = "bert-tiny",
                   .seq_len = 32,
                   .global_batch = 64,
                   .learning_rate = 2e-3,
                   .final_learning_rate_share = 0.1,
                   .warmup_steps = 50,
                   .decay_steps = 1000,
                   .metric = TaskDescription::Metric::excess_loss,
                   .target = 0.5,
                   .held_out_samples = 512,
                   .evaluation_interval = 10,
                   .most_steps = 1000},
                  // The same at the size of a GPU and with the published vocabulary. The rate is the network's own. To
                  // predict each of the rarest tokens as often as bert-tiny needs takes 1400 steps, and the warm-up
                  // half of its own.
                  {.name = "masked_large",
                   .model = "bert-large",
                   .seq_len = 512,
                   .global_batch = 64,
                   .learning_rate = 1e-4,
                   .final_learning_rate_share = 0.1,
                   .warmup_steps = 500,
                   .decay_steps = 4000,
                   .metric = TaskDescription::Metric::excess_loss,
                   .target = 0.5,
                   .held_out_samples = 256,
                   .evaluation_interval = 50,
                   .most_steps = 4000,
                   .extrapolated_from = "bert-tiny with 128 to 512 tokens (bench/README.md)"}};
  return family;
}

}  // namespace tw::models::family::bert
