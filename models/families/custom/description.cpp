#include "models/families/custom/description.hpp"

#include <algorithm>
#include <cmath>
#include <set>

#include "models/catalog/families.hpp"

namespace tw::models::family::custom {
namespace {

using Kind = Operation::Kind;

class CustomShape final : public ShapeOf<CustomDescription> {
 public:
  explicit CustomShape(CustomDescription description) : ShapeOf(std::move(description)), ends_(pieces(d)) {}
  std::string family() const override { return "custom"; }
  DataDescription data() const override { return d.data; }
  /// The first piece is the stem, the last one the head.
  LayerCount layers() const override {
    const int between = std::max(0, static_cast<int>(ends_.size()) - 2);
    return {between, between, "pieces between the first and the last"};
  }
  std::shared_ptr<const NetworkShape> cut(int) const override { return shape(d); }

  std::int64_t count_parameters() const override {
    std::int64_t total = 0;
    for (const Operation& operation : d.operations) total += custom::count_parameters(d, operation);
    return total;
  }

  std::vector<Product> products(std::int64_t micro_batch, std::int64_t seq_len, int layers) const override {
    const bool is_whole = layers >= this->layers().count;
    const int end = is_whole ? ends_.back() : ends_[static_cast<std::size_t>(layers)];
    std::vector<Product> list;
    for (int i = 0; i < end; ++i) add(list, d.operations[static_cast<std::size_t>(i)], micro_batch, seq_len);
    return list;
  }

  std::vector<Norm> norms(std::int64_t micro_batch, std::int64_t seq_len) const override {
    std::vector<Norm> list;
    std::set<std::string> seen;
    for (const Operation& o : d.operations) {
      if (o.kind != Kind::batch_norm && o.kind != Kind::layer_norm && o.kind != Kind::rms_norm) continue;
      const std::int64_t positions = o.out.positions(seq_len);
      Norm norm{.channels = o.out.channels};
      if (o.kind == Kind::batch_norm) {
        norm.kind = Norm::Kind::batch, norm.batch = micro_batch;
        norm.height = o.out.height, norm.width = positions / o.out.height;
      } else {
        norm.kind = o.kind == Kind::rms_norm ? Norm::Kind::rms : Norm::Kind::layer;
        norm.rows = micro_batch * positions;
      }
      norm.name = "p" + std::to_string(positions) + "_" + std::to_string(o.out.channels);
      if (seen.insert(norm.name + std::to_string(static_cast<int>(norm.kind))).second) list.push_back(norm);
    }
    return list;
  }

  OptimizerConfig default_optimizer(std::int64_t) const override { return d.optimizer; }
  std::string summary() const override {
    const std::string of = d.data.kind == DataKind::tokens ? "vocabulary " + std::to_string(d.data.vocabulary)
                           : d.data.kind == DataKind::series
                               ? std::to_string(d.data.variables) + " variables"
                               : d.input.str() + " images, " + std::to_string(d.data.classes) +
                                     (has_values(d.data.kind) ? " gratings" : " classes");
    return d.name + ": " + std::to_string(d.operations.size()) + " operations, " + of;
  }
  std::vector<Fact> sizes() const override { return {{"layers_json", d.json}}; }
  std::vector<Fact> constants() const override { return {{"batch_norm_momentum", norm_momentum}, {"gelu", "erf"}}; }
  /// Batch norm needs two values of each channel. Bytes are counted in 64 bits: 4 of each element, and a step holds
  /// other tensors beside the outputs.
  std::string why_no_micro_batch(std::int64_t micro_batch, std::int64_t seq_len) const override {
    const double most_elements = std::ldexp(1.0, 56);
    double elements = 0;
    for (const Operation& o : d.operations)
      elements += static_cast<double>(o.out.positions(seq_len)) * static_cast<double>(o.out.channels);
    if (elements * static_cast<double>(micro_batch) > most_elements)
      return "the outputs of all layers together have more than 2^56 elements: choose a smaller micro-batch";
    const auto has_one = [seq_len](const Operation& o) {
      return o.kind == Kind::batch_norm && o.out.positions(seq_len) == 1;
    };
    const auto found = std::ranges::find_if(d.operations, has_one);
    if (micro_batch > 1 || found == d.operations.end()) return {};
    return "batch norm '" + found->name +
           "' sees one value of each channel of a sample: choose a micro-batch of 2 or more" +
           (found->out.kind == Extent::Kind::sequence ? ", or longer samples" : "");
  }
  bool has_relu() const override {
    return std::ranges::any_of(d.operations, [](const Operation& o) {
      return o.relu || (o.kind == Kind::activation && o.function == Operation::Function::relu);
    });
  }

 private:
  void add(std::vector<Product>& list, const Operation& o, std::int64_t micro_batch, std::int64_t seq_len) const {
    if (o.inputs.empty()) return;
    const Extent& in = d.in(o);
    Product p;
    p.backward_input = d.owner(o.inputs.front()) != network_input;
    switch (o.kind) {
      case Kind::linear:
      case Kind::loss:
        p.kind = o.kind == Kind::loss ? Product::Kind::classifier : Product::Kind::linear;
        p.rows = micro_batch * in.positions(seq_len);
        p.in_features = in.channels, p.out_features = o.out.channels;
        p.label_smoothing = o.label_smoothing;
        if (o.kind == Kind::linear && o.bias) p.epilogue = Product::Epilogue::bias;
        if (o.kind == Kind::loss) p.backward_input = true;
        break;
      case Kind::convolution:
      case Kind::transposed_convolution: {
        // A transposed convolution is the backward-input pass of a convolution of its output.
        const bool is_plain = o.kind == Kind::convolution;
        const Extent &large = is_plain ? in : o.out, &small = is_plain ? o.out : in;
        p.kind = Product::Kind::convolution, p.batch = micro_batch;
        p.height = large.height, p.width = large.width;
        p.in_channels = large.channels, p.out_channels = small.channels, p.groups = o.groups;
        p.kernel = o.kernel, p.stride = o.stride, p.padding = o.padding;
        break;
      }
      case Kind::attention:
        p.kind = Product::Kind::attention, p.batch = micro_batch, p.seq = in.positions(seq_len);
        p.heads = o.heads, p.kv_heads = o.kv_heads == o.heads ? 0 : o.kv_heads, p.head_dim = d.head_dim(o),
        p.causal = o.causal;
        break;
      default:
        return;
    }
    add_product(list, p);
  }

  std::vector<int> ends_;
};

}  // namespace

std::string Extent::str() const {
  const std::string last = std::to_string(channels);
  if (kind == Kind::vector) return last;
  if (kind == Kind::sequence) return "positions x " + last;
  return std::to_string(height) + " x " + std::to_string(width) + " x " + last;
}

std::int64_t count_parameters(const CustomDescription& network, const Operation& o) {
  if (o.inputs.empty()) return 0;
  const std::int64_t in = network.in(o).channels, out = o.out.channels;
  const std::int64_t bias = o.bias ? out : 0;
  switch (o.kind) {
    case Kind::embedding:
      return (o.rows + o.positions) * out;
    case Kind::linear:
    case Kind::loss:
      return in * out + bias;
    case Kind::convolution:
    case Kind::transposed_convolution:
      return o.kernel.area() * (in / o.groups) * out + bias;
    case Kind::batch_norm:
    case Kind::layer_norm:
      return 2 * out;
    case Kind::rms_norm:
      return out;
    default:
      return 0;
  }
}

std::vector<int> pieces(const CustomDescription& network) {
  const int count = static_cast<int>(network.operations.size());
  std::vector<int> last_use(static_cast<std::size_t>(count) + 1, 0);  // of the input, then of each operation
  for (int i = 0; i < count; ++i)
    for (const int from : network.operations[static_cast<std::size_t>(i)].inputs)
      last_use[static_cast<std::size_t>(from + 1)] = i;
  std::vector<int> ends;
  int open = last_use[0];  // until where what lies before the candidate is read
  for (int i = 0; i + 1 < count; ++i) {
    if (open <= i && !network.operations[static_cast<std::size_t>(i)].is_view()) ends.push_back(i + 1);
    open = std::max(open, last_use[static_cast<std::size_t>(i) + 1]);
  }
  ends.push_back(count);
  return ends;
}

std::shared_ptr<const NetworkShape> shape(const CustomDescription& description) {
  return std::make_shared<CustomShape>(description);
}

static NetworkDescription of_layers(const std::string& json) {
  const CustomDescription description = read_layers(json);
  NetworkDescription network{"custom-" + description.name, shape(description), description.micro_batch,
                             description.seq_len};
  network.task = read_task(description.json, network);
  return network;
}

static double elements_of(const Extent& extent, std::int64_t micro_batch, std::int64_t seq_len) {
  return static_cast<double>(micro_batch) * static_cast<double>(extent.positions(seq_len)) *
         static_cast<double>(extent.channels);
}

/// Branches read one tensor, which is kept once.
static double read_by_products(const NetworkDescription& network, std::int64_t micro_batch, std::int64_t seq_len,
                               int layers) {
  const auto& d = network.as<CustomDescription>();
  const std::vector<int> ends = pieces(d);
  const int end = layers >= layer_count(network) ? ends.back() : ends[static_cast<std::size_t>(layers)];
  std::set<int> read;
  for (int i = 0; i < end; ++i) {
    const Operation& o = d.operations[static_cast<std::size_t>(i)];
    using enum Kind;
    const bool is_product = o.kind == linear || o.kind == loss || o.kind == convolution ||
                            o.kind == transposed_convolution || o.kind == attention;
    if (is_product && !o.inputs.empty()) read.insert(d.owner(o.inputs.front()));
  }
  read.erase(network_input);
  double all = 0;
  for (const int place : read) all += elements_of(d.extent(place), micro_batch, seq_len);
  return all;
}

static std::vector<BlockElements> elements_of_blocks(const NetworkDescription& network, std::int64_t micro_batch,
                                                     std::int64_t seq_len) {
  const auto& d = network.as<CustomDescription>();
  std::vector<BlockElements> blocks;
  int first = 0;
  for (const int end : pieces(d)) {
    BlockElements block;
    for (int i = first; i < end; ++i) {
      const Operation& o = d.operations[static_cast<std::size_t>(i)];
      const double elements = elements_of(o.out, micro_batch, seq_len);
      if (i + 1 == end)
        block.output = elements;
      else if (!o.is_view())
        block.saved += elements;
    }
    blocks.push_back(block);
    first = end;
  }
  blocks.pop_back();  // the head
  return blocks;
}

Family describe() {
  return {.of_layers = of_layers, .blocks = elements_of_blocks, .read_by_products = read_by_products};
}

}  // namespace tw::models::family::custom
