// What a network is, as plain data and arithmetic: no devices, no operators. Also built with -DTRAINWATT_HPC=OFF.
// A family of networks implements NetworkShape in its folder (models/families); nothing else knows which families there
// are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "models/catalog/tasks.hpp"

namespace tw::models {

/// What a sample is. The synthetic source and the shape of a batch (models/data), the exported batch (models/export)
/// and the exact floor (floors.hpp) follow from it.
/// masked_tokens: two segments, of whose tokens some are to be predicted, and whether they belong together. clicks:
/// dense features, indices into tables, and whether somebody clicked. segmented_images: images with a label for each
/// pixel. restored_images: noisy images, the targets of whose pixels are the values without noise. measured_images:
/// images with a few numbers to be estimated. series: sequences of numbers, of which the next ones are forecast.
enum class DataKind {
  tokens,
  images,
  masked_tokens,
  clicks,
  segmented_images,
  restored_images,
  measured_images,
  series
};
const char* to_string(DataKind kind);    ///< "tokens", "images", "masked_tokens", "clicks", "segmented_images", …
const char* sample_name(DataKind kind);  ///< "sequence", "image", "impression"
/// Whether the targets are numbers (float32), for a loss by squared error; else they are labels (int32).
constexpr bool has_values(DataKind kind) {
  return kind == DataKind::restored_images || kind == DataKind::measured_images || kind == DataKind::series;
}
/// Targets of one of the measured_images: cosine and sine of a phase.
constexpr std::int64_t measured_values = 2;
struct DataDescription {
  DataKind kind = DataKind::tokens;
  std::int64_t vocabulary = 0;
  std::int64_t drawn_tokens = 0;  ///< of the vocabulary, the first ones: samples have no others; 0: all
  /// How many different tokens samples have.
  constexpr std::int64_t different_tokens() const { return drawn_tokens > 0 ? drawn_tokens : vocabulary; }
  std::int64_t longest_sequence = 0;         ///< that the network takes; 0: its samples have no sequence length
  int image_size = 0, image_channels = 0;    ///< size × size × channels, NHWC
  std::int64_t classes = 0;                  ///< of restored and measured images: different gratings
  int scale = 1;                             ///< restored_images: of the targets' height and width to the image's
  std::int64_t variables = 0;                ///< series: numbers at each time
  std::int64_t dense_features = 0, hot = 0;  ///< clicks: `hot` indices into each table
  std::vector<std::int64_t> table_rows{};    ///< clicks: of each table
};
/// Positions to be predicted in a sequence of masked tokens: 15 % (Devlin et al., arXiv 1810.04805, §3.1), rounded down
/// and at least 1: 76 of 512, MLPerf's max_predictions_per_seq. All sequences have so many, where the released data
/// have at most so many.
constexpr std::int64_t masked_positions(std::int64_t seq_len) { return seq_len < 7 ? 1 : seq_len * 15 / 100; }

// ---- what a training step is made of ----

/// One matrix product or convolution of forward, backward-input or backward-weights, with how often a micro-batch runs
/// it.
struct Product {
  /// Along the height and the width of an image; one number is both.
  struct PerAxis {
    int height = 0, width = 0;
    constexpr PerAxis() = default;
    constexpr PerAxis(int both) : height(both), width(both) {}  // NOLINT(google-explicit-constructor): as a number
    constexpr PerAxis(int the_height, int the_width) : height(the_height), width(the_width) {}
    constexpr std::int64_t area() const { return std::int64_t{height} * width; }
    /// "3x3"
    std::string str() const { return std::to_string(height) + "x" + std::to_string(width); }
    /// "3" where both are equal, else "1x7"
    std::string brief() const { return height == width ? std::to_string(height) : str(); }
    bool operator==(const PerAxis&) const = default;
  };
  enum class Kind { linear, convolution, classifier, attention, interaction } kind = Kind::linear;
  // linear/classifier: rows × in → out. convolution: as ConvolutionShape. attention: batch, seq, heads, kv_heads,
  // head_dim. interaction: the dot products of each pair of `heads` vectors of width head_dim, batch times.
  std::int64_t rows = 0, in_features = 0, out_features = 0;
  std::int64_t batch = 0, height = 0, width = 0, in_channels = 0, out_channels = 0, groups = 1;
  PerAxis kernel = 1, stride = 1, padding = 0;
  std::int64_t seq = 0, heads = 0, kv_heads = 0, head_dim = 0;  // kv_heads: 0 as many as heads
  bool causal = true;          ///< attention: each position sees those up to itself, else all
  bool backward_input = true;  ///< false for the first layer
  int count = 1;
  // How a network uses it, for trainwatt-ops; no part of the shape by which equal ones are merged.
  std::string name{};  ///< of a linear layer or classifier: "qkv"; empty: by its shape, a classifier "head"
  /// What forward of a linear layer adds behind the product; its backward-weights has a bias where this one has.
  enum class Epilogue { none, bias, bias_gelu, bias_residual, residual } epilogue = Epilogue::none;
  bool beside_fp8 = false;       ///< a linear layer that is not computed in fp8 (math_beside_linear)
  bool input_from_gelu = false;  ///< a linear layer's input gradient passes the GELU in front of it
  float label_smoothing = 0;     ///< of a classifier
  /// FLOPs of forward of all `count` of them for one micro-batch.
  double forward_flops() const;
  /// Model FLOPs of forward + backward of all `count` of them for one micro-batch (2 per multiply-add).
  double flops() const;
  std::int64_t out_height() const { return (height + 2 * padding.height - kernel.height) / stride.height + 1; }
  std::int64_t out_width() const { return (width + 2 * padding.width - kernel.width) / stride.width + 1; }
};
/// "linear", "convolution", "classifier", "attention", "interaction".
const char* to_string(Product::Kind kind);
/// Appends a product, or raises the count of the one of equal shape.
void add_product(std::vector<Product>& list, const Product& product);

/// A norm of forward and backward. layer, rms: over the last axis of rows × channels; batch: (batch, height, width,
/// channels) with a ReLU behind it.
struct Norm {
  enum class Kind { layer, rms, batch } kind = Kind::layer;
  std::string name{};     ///< "h56_64", "masked"; empty: of the network's first or only shape
  std::int64_t rows = 0;  ///< layer, rms
  std::int64_t batch = 0, height = 0, width = 0;
  std::int64_t channels = 0;
};

/// Work of forward and backward between products that is neither a norm nor a product's epilogue. rotary: the first
/// `rotated` heads of (batch, seq, heads, head_dim); swiglu: (rows, 2·width) → (rows, width); gelu: by
/// erf, (rows, width). bags: of `heads` tables, `seq` indices for each of `batch` samples, of rows of `width`. Of
/// images: windows of max_pool and average_pool over (batch, image, channels), kernel 0 the whole image;
/// concatenation: `width` channels become some of the `channels` of another.
struct Elementwise {
  enum class Kind { rotary, swiglu, gelu, bags, max_pool, average_pool, concatenation } kind = Kind::rotary;
  std::string name{};  ///< "masked"; empty: an image's is that of its sizes, rows are the network's first or only ones
  std::int64_t batch = 0, seq = 0, heads = 0, rotated = 0, head_dim = 0;
  std::int64_t rows = 0, width = 0;
  Product::PerAxis image = 0, kernel = 0, stride = 1, padding = 0;  // image: its extents
  std::int64_t channels = 0;
};

/// An optimizer's settings; models/optimizers runs it.
struct OptimizerConfig {
  enum class Kind { adamw, sgd } kind = Kind::adamw;
  float learning_rate = 6e-4f;             ///< the peak
  float final_learning_rate_share = 0.1f;  ///< of the peak, from decay_steps on; above 0: no step is without effect
  std::int64_t warmup_steps = 10, decay_steps = 1000;
  float beta1 = 0.9f, beta2 = 0.95f, epsilon = 1e-8f, momentum = 0.9f;
  float weight_decay = 0.1f;
  float clip_norm = 1.0f;  ///< 0: no clipping
  /// Float32 values of state that each parameter has.
  int moments() const { return kind == Kind::adamw ? 2 : 1; }
};
inline const char* to_string(OptimizerConfig::Kind kind) {
  return kind == OptimizerConfig::Kind::adamw ? "adamw" : "sgd";
}

// ---- networks ----

/// A named size or constant of a network, for people and programs that build the same one elsewhere.
struct Fact {
  std::string name;
  std::variant<std::int64_t, bool, float, std::string, std::vector<int>> value;
};

/// Tables whose rows are looked up by index, of one width. A step reads and changes few of their rows: they are float32
/// in every precision, and have no dense gradient and no moments.
struct Tables {
  std::vector<std::int64_t> rows;
  std::int64_t width = 0;
  std::int64_t all_rows() const;
  std::int64_t elements() const { return all_rows() * width; }
};

/// What `--layers` counts: how many there are, to how few they can be cut, and their name in messages ("bottlenecks").
struct LayerCount {
  int count = 0, least = 1;
  std::string name;
};

/// The sizes of one network of a family, and what follows from them by arithmetic. A batch is `micro_batch` samples;
/// seq_len is their length, ignored where samples have none.
class NetworkShape {
 public:
  virtual ~NetworkShape() = default;
  /// The family's name in families.def.
  virtual std::string family() const = 0;
  virtual DataDescription data() const = 0;
  virtual LayerCount layers() const = 0;
  /// With `layers` of them, least ≤ layers ≤ count: which ones is the family's choice.
  virtual std::shared_ptr<const NetworkShape> cut(int layers) const = 0;
  virtual std::int64_t count_parameters() const = 0;
  /// Products of one micro-batch by add_product(): of what is in front of the layers, of the first `layers` of these,
  /// and of the head where these are all.
  virtual std::vector<Product> products(std::int64_t micro_batch, std::int64_t seq_len, int layers) const = 0;
  /// Norms of one micro-batch, each shape once.
  virtual std::vector<Norm> norms(std::int64_t micro_batch, std::int64_t seq_len) const = 0;
  /// Other work over activations of one micro-batch, each shape once.
  virtual std::vector<Elementwise> elementwise(std::int64_t /*micro_batch*/, std::int64_t /*seq_len*/) const {
    return {};
  }
  /// Why it does not train on micro-batches of this size, with what does; empty where it does.
  virtual std::string why_no_micro_batch(std::int64_t /*micro_batch*/, std::int64_t /*seq_len*/) const { return {}; }
  /// The published recipe, for runs at the network's default micro-batch.
  virtual OptimizerConfig default_optimizer(std::int64_t default_micro_batch) const = 0;
  /// One line for people: "12 layers, width 768, 12 heads, vocabulary 50257".
  virtual std::string summary() const = 0;
  /// All sizes, for programs.
  virtual std::vector<Fact> sizes() const = 0;
  /// What else its public definition needs to compute the same: an exported step has both.
  virtual std::vector<Fact> constants() const = 0;
  /// Whether gradients jump where a ReLU's input crosses zero: an exported step then has which side each took.
  virtual bool has_relu() const { return false; }
  /// None in most networks. Part of count_parameters().
  virtual Tables tables() const;
  /// The same network with no table longer than `most` rows. Null where it has no tables.
  virtual std::shared_ptr<const NetworkShape> with_table_rows_at_most(std::int64_t /*most*/) const { return nullptr; }
};

/// A NetworkShape over a plain struct of sizes.
template <class Sizes>
class ShapeOf : public NetworkShape {
 public:
  explicit ShapeOf(Sizes the_sizes) : d(std::move(the_sizes)) {}
  const Sizes d;
};

struct NetworkDescription {
  std::string name;  ///< "gpt2-124m"
  std::shared_ptr<const NetworkShape> shape;
  std::int64_t default_micro_batch = 1, default_seq_len = 0;  ///< 0: no sequence
  std::int64_t drawn_tokens = 0;                              ///< of its vocabulary, by a task (tasks.hpp); 0: all
  std::optional<TaskDescription> task{};  ///< that a file describes beside its network; else tasks() has it
  DataDescription data() const {
    DataDescription data = shape->data();
    data.drawn_tokens = drawn_tokens;
    return data;
  }
  bool has_sequence() const { return data().longest_sequence > 0; }
  /// The sizes, by those who know the family: itself and tests. Throws std::bad_cast where it is another one.
  template <class Sizes>
  const Sizes& as() const {
    return dynamic_cast<const ShapeOf<Sizes>&>(*shape).d;
  }
};

/// All networks of all families, in the order of families.def.
const std::vector<NetworkDescription>& catalog();
/// Throws std::invalid_argument that lists the names and suggests the nearest.
NetworkDescription find_network(const std::string& name);
/// `--layers N`. Throws std::invalid_argument where the network has fewer, or cannot have so few.
NetworkDescription cut_layers(NetworkDescription network, int layers);

/// `--table-rows-at-most N`. Throws std::invalid_argument where the network has no tables, or no table may be so short.
NetworkDescription limit_table_rows(NetworkDescription network, std::int64_t most);

/// How many of what `--layers` counts (LayerCount) the network has.
int layer_count(const NetworkDescription& network);

std::int64_t count_parameters(const NetworkDescription& network);

/// Those in the flat buffers: all but the tables'.
std::int64_t count_dense_parameters(const NetworkDescription& network);

/// The published recipe's defaults for a network.
OptimizerConfig default_optimizer(const NetworkDescription& network);

/// All products of one micro-batch, equal shapes merged. Throws std::invalid_argument where its tokens overflow.
std::vector<Product> products(const NetworkDescription& network, std::int64_t micro_batch, std::int64_t seq_len);
/// Whether it has products of this kind.
bool has_products(const NetworkDescription& network, Product::Kind kind);
/// Why this network is not trained in fp8, which is of linear layers; empty where it has some.
std::string why_no_fp8(const NetworkDescription& network);

/// Model FLOPs of a training step for one sample (flops_rule(): 6·N_mat + 6·L·C·T a token, causal, or 12·L·C·T where
/// each token sees all; convolutions and dot products of pairs 3× forward; less the first layer's input gradient).
/// Equals the sum over products(…, 1, seq_len).
double model_flops_per_sample(const NetworkDescription& network, std::int64_t seq_len);
/// FLOPs of a sample that recomputing the activations of the first `layers` layers in backward adds: forward once more
/// of their products, and of the stem's in front of them. No model FLOPs.
double recomputed_flops_per_sample(const NetworkDescription& network, std::int64_t seq_len, int layers);
/// Names the rule, beside every MFU. Another wording goes into results/record/known_texts.hpp too.
const char* flops_rule();

}  // namespace tw::models
