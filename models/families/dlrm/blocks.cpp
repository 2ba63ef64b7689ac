// DLRM's blocks: a layer of an MLP with its ReLU, the interaction with the tables in front of it, and the head. Names
// are those of facebookresearch/dlrm: bot_l.0, bot_l.2, …, emb_l.0, …, top_l.0, ….
#include <cmath>
#include <optional>
#include <utility>

#include "models/catalog/table_placement.hpp"
#include "models/compute/error.hpp"
#include "models/data/click_source.hpp"
#include "models/families/build_blocks.hpp"
#include "models/families/dlrm/description.hpp"
#include "models/layers/blocks.hpp"

namespace tw::models::family::dlrm {
namespace {

/// A linear layer with a bias. It starts as facebookresearch/dlrm's: weights normal(0, sqrt(2/(in + out))), biases
/// normal(0, sqrt(1/out)).
class Linear {
 public:
  Linear(std::string name, std::int64_t batch, std::int64_t in, std::int64_t out, Precision precision)
      : name_(std::move(name)),
        shape_{batch,
               in,
               out,
               storage(precision),
               Activation::none,
               beside_fp8(in, out) ? math_beside_linear(precision) : math(precision)} {}

  const std::string& name() const { return name_; }
  const LinearShape& shape() const { return shape_; }
  Dims output() const { return {shape_.rows, shape_.out_features}; }
  std::vector<ParameterSpec> parameters() const {
    const auto in = static_cast<double>(shape_.in_features), out = static_cast<double>(shape_.out_features);
    ParameterSpec bias = vector_of(name_ + ".bias", shape_.out_features, 0);
    bias.initialiser = normal(std::sqrt(1 / out));
    return {matrix(name_ + ".weight", {shape_.out_features, shape_.in_features}, std::sqrt(2 / (in + out))), bias};
  }
  void build(Device& device, const std::vector<Parameter>& own) {
    weight_ = own[0];
    bias_ = own[1];
    plan_ = device.plan(shape_);
    plan_->bind(weight_.weight);
  }
  NamedPlan plan() const { return {"linear", plan_}; }
  /// Of a block without other saved tensors and scratch than these and those in front of them.
  void add_saved(std::vector<ActivationSpec>& specs) const { save_rounded(specs, name_ + ".input", shape_); }
  void add_scratch(std::vector<ActivationSpec>& specs) const { add_rounded_gradient(specs, {shape_}); }
  void forward(BlockRun& run, const Tensor& x, const Tensor& y) {
    plan_->forward(run.stream, {x, bias_.weight, {}, {}, y, run.update_statistics, rounded(run)});
  }
  /// dx is absent for the first layer.
  void backward(BlockRun& run, const Tensor& x, const Tensor& dy, const Tensor& dx) {
    const Tensor left = rounded(run);
    const Tensor operand = weights_backward(run, *plan_, left ? left : x, dy, weight_.gradient, bias_.gradient);
    announce(run, 1, 0);
    if (dx) plan_->backward_input(run.stream, {operand, {}, dx});
  }

 private:
  /// In fp8, of add_saved().
  Tensor rounded(const BlockRun& run) const { return shape_.math == Math::fp8 ? run.saved.back() : Tensor{}; }

  std::string name_;
  LinearShape shape_;
  Parameter weight_, bias_;
  std::shared_ptr<LinearPlan> plan_;
};

// y = relu(linear(x)).
class MlpLayer final : public Block {
 public:
  /// `dense`: of the first layer, whose x are the dense features of the batch.
  MlpLayer(Linear linear, std::optional<ClickLayout> dense) : linear_(std::move(linear)), dense_(dense) {}
  std::string name() const override { return linear_.name(); }
  std::vector<ParameterSpec> parameters() const override { return linear_.parameters(); }
  ActivationSpec output() const override { return {linear_.name(), linear_.output(), linear_.shape().dtype}; }
  void use_tables(const TableUse& use) override {
    if (dense_) dense_->ranks = use.ranks;
  }
  std::vector<ActivationSpec> saved() const override {
    std::vector<ActivationSpec> specs;
    if (is_narrowed())
      specs.push_back({"dense", {linear_.shape().rows, linear_.shape().in_features}, linear_.shape().dtype});
    linear_.add_saved(specs);
    return specs;
  }
  std::vector<ActivationSpec> scratch() const override {
    std::vector<ActivationSpec> specs;
    linear_.add_scratch(specs);
    return specs;
  }
  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>&,
             const std::vector<Tensor>&) override {
    device_ = &device;
    linear_.build(device, own);
  }
  std::vector<NamedPlan> plans() const override { return {linear_.plan()}; }
  void forward(BlockRun& run, Tensor x, Tensor y) override {
    if (is_narrowed()) device_->cast(run.stream, {dense_->dense_of(run.tokens_or_images), run.saved[0]});
    linear_.forward(run, input(run, x), y);
    device_->activation_forward(run.stream, {y, y, Activation::relu});
  }
  void backward(BlockRun& run, Tensor x, Tensor y, Tensor dy, Tensor dx) override {
    device_->activation_backward(run.stream, {dy, y, dy, Activation::relu});
    linear_.backward(run, input(run, x), dy, dx);
  }

 private:
  bool is_narrowed() const { return dense_ && is_half(linear_.shape().dtype); }
  Tensor input(const BlockRun& run, const Tensor& x) const {
    return !dense_ ? x : is_narrowed() ? run.saved[0] : dense_->dense_of(run.tokens_or_images);
  }
  Linear linear_;
  std::optional<ClickLayout> dense_;
  Device* device_ = nullptr;
};

// x: the dense vector. Each rank looks up the bags of its tables for the samples of all ranks; all_to_all brings each
// rank the bags of its own samples, and in backward brings their gradients back. These are kept, with the indices,
// until the update.
class InteractionBlock final : public Block {
 public:
  InteractionBlock(const DlrmDescription& d, DType dtype, std::int64_t batch) : d_(d), dtype_(dtype), batch_(batch) {
    use_tables({});
  }
  std::string name() const override { return "interaction"; }
  std::vector<ParameterSpec> parameters() const override { return {}; }
  ActivationSpec output() const override { return {"interaction", {batch_, d_.interactions()}, dtype_}; }
  std::vector<ActivationSpec> saved() const override { return {{"bags", by_shard(), dtype_}}; }
  std::vector<ActivationSpec> scratch() const override {
    // The bags as they leave, or their gradients.
    return is_split() ? std::vector<ActivationSpec>{{"sent", by_shard(), dtype_}} : std::vector<ActivationSpec>{};
  }
  std::size_t constant_bytes() const override {
    return static_cast<std::size_t>(2 * layout_.slots + static_cast<std::int64_t>(d_.table_rows.size())) *
           sizeof(std::int32_t);
  }

  void use_tables(const TableUse& use) override {
    use_ = use;
    placement_ = place_tables({d_.table_rows.begin(), d_.table_rows.end()}, use.ranks);
    layout_ = {batch_, d_.dense_features, placement_.slots, d_.hot, use.ranks};
  }
  std::vector<TableSpec> tables() const override {
    std::vector<TableSpec> specs;
    for (std::size_t i = 0; i < d_.table_rows.size(); ++i) {
      const auto bound = static_cast<float>(std::sqrt(1.0 / d_.table_rows[i]));
      specs.push_back({"emb_l." + std::to_string(i) + ".weight", d_.table_rows[i], d_.width(),
                       Initialiser{Initialiser::Kind::uniform, bound},
                       placement_.places[i] / placement_.slots == use_.rank});
    }
    return specs;
  }
  std::size_t table_gradient_bytes() const override {
    return static_cast<std::size_t>(use_.accumulate) * (Tensor{nullptr, dtype_, by_sample()}.bytes() + index_bytes());
  }
  void build(Device& device, const std::vector<Parameter>&, const std::vector<Parameter>&,
             const std::vector<Tensor>&) override {
    device_ = &device;
    std::vector<std::int32_t> constants;
    std::int32_t first = 0;
    for (const int table : placement_.of_rank[static_cast<std::size_t>(use_.rank)]) {
      constants.insert(constants.end(), {first, d_.table_rows[static_cast<std::size_t>(table)]});
      first += constants.back();
    }
    constants.resize(static_cast<std::size_t>(2 * layout_.slots), 0);
    constants.insert(constants.end(), placement_.places.begin(), placement_.places.end());
    constants_ = Buffer(device, constants.size() * sizeof(std::int32_t));
    const std::unique_ptr<Stream> stream = device.create_stream();
    device.copy_from_host(*stream, constants_.data(), constants.data(), constants_.bytes());
    stream->synchronize();
    const auto steps = static_cast<std::size_t>(use_.accumulate);
    gradients_ = Buffer(device, steps * Tensor{nullptr, dtype_, by_sample()}.bytes());
    indices_ = Buffer(device, steps * index_bytes());
  }
  void bind_tables(Tensor rows) override { rows_ = rows; }
  void connect(Exchange& exchange) override { exchange_ = &exchange; }

  void forward(BlockRun& run, Tensor x, Tensor y) override {
    const Tensor& bags = run.saved[0];
    const Tensor local = is_split() ? run.scratch[0] : bags;
    device_->embedding_bag_forward(
        run.stream, {rows_, slots(), layout_.indices_of(run.tokens_or_images), local.reshaped(by_sample())});
    if (is_split()) exchange(run.stream, local, bags);
    device_->interaction_forward(run.stream, {x, bags, places(), y});
  }
  void backward(BlockRun& run, Tensor x, Tensor, Tensor dy, Tensor dx) override {
    micro_ = run.accumulate ? micro_ + 1 : 0;
    if (micro_ >= use_.accumulate)
      throw Error(Failure::internal,
                  "tables: more micro-batches than the " + std::to_string(use_.accumulate) + " of a step");
    const Tensor all = gradients(micro_), d_bags = is_split() ? run.scratch[0] : all.reshaped(by_shard());
    if (layout_.slots * use_.ranks > d_.features() - 1) device_->fill(run.stream, {d_bags, 0});  // of empty slots
    device_->interaction_backward(run.stream, {dy, x, run.saved[0], places(), dx, d_bags});
    if (is_split()) exchange(run.stream, d_bags, all);
    device_->copy(run.stream, static_cast<char*>(indices_.data()) + static_cast<std::size_t>(micro_) * index_bytes(),
                  layout_.indices_of(run.tokens_or_images).data, index_bytes());
  }
  void update_tables(Stream& stream, Tensor rows, const StepScalars* scalars) override {
    const std::int64_t samples = use_.accumulate * use_.ranks * batch_;
    device_->embedding_bag_update(stream, {rows,
                                           slots(),
                                           {indices_.data(), DType::int32, {samples, layout_.slots, layout_.hot}},
                                           {gradients_.data(), dtype_, {samples, layout_.slots, d_.width()}},
                                           scalars});
  }

 private:
  bool is_split() const { return use_.ranks > 1; }
  /// The same memory: by the rank that holds the table, and by sample of all ranks, as that rank has them.
  Dims by_shard() const { return {use_.ranks, batch_, layout_.slots, d_.width()}; }
  Dims by_sample() const { return {use_.ranks * batch_, layout_.slots, d_.width()}; }
  std::size_t index_bytes() const { return static_cast<std::size_t>(layout_.index_values()) * sizeof(std::int32_t); }
  Tensor slots() const { return {constants_.data(), DType::int32, {layout_.slots, 2}}; }
  Tensor places() const { return slots().slice(2 * layout_.slots, {static_cast<std::int64_t>(d_.table_rows.size())}); }
  Tensor gradients(std::int64_t micro) const {
    return Tensor{gradients_.data(), dtype_, {}}.slice(micro * by_sample().count(), by_sample());
  }
  void exchange(Stream& stream, const Tensor& from, const Tensor& to) const {
    if (exchange_ == nullptr) throw Error(Failure::internal, "tables on several ranks, which are not connected");
    exchange_->all_to_all(stream, from.reshaped({from.count()}), to.reshaped({to.count()}));
  }

  const DlrmDescription d_;
  DType dtype_;
  std::int64_t batch_, micro_ = 0;  // micro_: of the step, whose backward ran last
  TableUse use_;
  TablePlacement placement_;
  ClickLayout layout_;
  Device* device_ = nullptr;
  Exchange* exchange_ = nullptr;
  Tensor rows_;
  Buffer constants_, gradients_, indices_;  // the last two: of each micro-batch of a step
};

// The last layer and the loss.
class Head final : public Block {
 public:
  explicit Head(Linear linear) : linear_(std::move(linear)) {}
  std::string name() const override { return linear_.name(); }
  std::vector<ParameterSpec> parameters() const override { return linear_.parameters(); }
  ActivationSpec output() const override { return {}; }
  std::vector<ActivationSpec> saved() const override {
    std::vector<ActivationSpec> specs;
    linear_.add_saved(specs);
    return specs;
  }
  std::vector<ActivationSpec> scratch() const override {
    std::vector<ActivationSpec> specs = {{"logits", linear_.output(), linear_.shape().dtype}};
    linear_.add_scratch(specs);
    return specs;
  }
  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>&,
             const std::vector<Tensor>&) override {
    device_ = &device;
    linear_.build(device, own);
  }
  std::vector<NamedPlan> plans() const override { return {linear_.plan()}; }
  void forward(BlockRun& run, Tensor x, Tensor) override {
    if (!run.backward_follows) predict(run, x, false);
  }
  void backward(BlockRun& run, Tensor x, Tensor, Tensor, Tensor dx) override {
    predict(run, x, true);
    linear_.backward(run, x, run.scratch[0], dx);
  }

 private:
  /// The logits become their gradients.
  void predict(BlockRun& run, const Tensor& x, bool backward) {
    linear_.forward(run, x, run.scratch[0]);
    const Tensor logits = run.scratch[0].reshaped({linear_.shape().rows});
    device_->binary_cross_entropy(
        run.stream, {logits, run.targets, run.loss, run.correct, backward ? logits : Tensor{}, run.scalars});
  }
  Linear linear_;
  Device* device_ = nullptr;
};

}  // namespace

std::vector<std::unique_ptr<Block>> blocks(const NetworkDescription& network, Precision precision,
                                           std::int64_t micro_batch, std::int64_t) {
  const DlrmDescription& d = network.as<DlrmDescription>();
  if (d.dense_features < 1 || d.hot < 1 || d.table_rows.empty() || d.bottom.empty() || d.top.empty())
    throw Error(Failure::usage, "a DLRM needs dense features, tables, and layers in both of its MLPs");
  for (std::size_t i = 0; i < d.table_rows.size(); ++i)
    if (d.table_rows[i] < 2)
      throw Error(Failure::usage, "table " + std::to_string(i) + " has too few rows (" +
                                      std::to_string(d.table_rows[i]) + "): at least 2 are needed");
  std::vector<std::unique_ptr<Block>> chain;
  std::int64_t in = d.dense_features;
  const auto linear = [&](const char* mlp, std::size_t index, std::int64_t out) {
    return Linear(mlp + std::to_string(2 * index), micro_batch, std::exchange(in, out), out, precision);
  };
  for (std::size_t i = 0; i < d.bottom.size(); ++i) {
    const std::optional<ClickLayout> dense =
        i == 0 ? std::optional(ClickLayout{micro_batch, d.dense_features, 0, d.hot, 1}) : std::nullopt;
    chain.push_back(std::make_unique<MlpLayer>(linear("bot_l.", i, d.bottom[i]), dense));
  }
  chain.push_back(std::make_unique<InteractionBlock>(d, storage(precision), micro_batch));
  in = d.interactions();
  for (std::size_t i = 0; i < d.top.size(); ++i)
    chain.push_back(std::make_unique<MlpLayer>(linear("top_l.", i, d.top[i]), std::nullopt));
  chain.push_back(std::make_unique<Head>(linear("top_l.", d.top.size(), 1)));
  return chain;
}

}  // namespace tw::models::family::dlrm
