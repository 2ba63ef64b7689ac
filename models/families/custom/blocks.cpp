// The chain of a described network: a block for each piece (description.hpp). A block runs its operations in their
// order, and backwards. Gradients inside a block lie in slots that are used again once they are done with; what several
// operations read gets the sum of their gradients.
#include <algorithm>

#include "models/compute/error.hpp"
#include "models/families/build_blocks.hpp"
#include "models/families/custom/work.hpp"
#include "models/layers/blocks.hpp"

namespace tw::models::family::custom {
namespace {

using Kind = Operation::Kind;

/// Hands out slots of memory that are as large as their largest user.
class Slots {
 public:
  int take(std::int64_t elements) {
    const auto is_better = [&](int a, int b) {  // the smallest that is large enough, else the largest
      const bool a_fits = elements_[at(a)] >= elements, b_fits = elements_[at(b)] >= elements;
      if (a_fits != b_fits) return a_fits;
      return a_fits ? elements_[at(a)] < elements_[at(b)] : elements_[at(a)] > elements_[at(b)];
    };
    const auto best = std::ranges::min_element(free_, is_better);
    if (best == free_.end()) {
      elements_.push_back(elements);
      return static_cast<int>(elements_.size()) - 1;
    }
    const int slot = *best;
    free_.erase(best);
    elements_[at(slot)] = std::max(elements_[at(slot)], elements);
    return slot;
  }
  void give(int slot) { free_.push_back(slot); }
  const std::vector<std::int64_t>& elements() const { return elements_; }

 private:
  static std::size_t at(int slot) { return static_cast<std::size_t>(slot); }
  std::vector<std::int64_t> elements_;
  std::vector<int> free_;
};

class Piece final : public Block {
 public:
  Piece(const CustomDescription& network, int first, int end, const Batch& batch)
      : batch_(batch), is_first_(first == 0), is_last_(end == static_cast<int>(network.operations.size())) {
    for (int i = first; i < end; ++i) add_node(network, first, i);
    plan_backward();
  }
  std::string name() const override { return nodes_.back().name; }
  std::vector<ParameterSpec> parameters() const override { return of_all(&Work::parameters); }
  std::vector<ParameterSpec> statistics() const override { return of_all(&Work::statistics); }
  ActivationSpec output() const override {
    return is_last_ ? ActivationSpec{} : ActivationSpec{name(), nodes_.back().dims, batch_.dtype()};
  }
  std::vector<ActivationSpec> saved() const override {
    std::vector<ActivationSpec> specs = of_all(&Work::saved);
    for (const Node& node : nodes_)
      if (node.output >= 0) specs.push_back({node.output_name, node.dims, batch_.dtype()});
    return specs;
  }
  std::vector<ActivationSpec> scratch() const override {
    std::vector<ActivationSpec> specs;
    for (const std::int64_t elements : slots_.elements())
      specs.push_back({"gradient" + std::to_string(specs.size()), {elements}, batch_.dtype()});
    add_rounded_gradient(specs, of_all(&Work::layers));
    return specs;
  }
  void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>&,
             const std::vector<Tensor>& statistics) override {
    device_ = &device;
    auto parameter = own.begin();
    auto statistic = statistics.begin();
    for (const Node& node : nodes_) {
      if (!node.work) continue;
      const auto parameters_end = parameter + static_cast<std::ptrdiff_t>(node.work->parameters().size());
      const auto statistics_end = statistic + static_cast<std::ptrdiff_t>(node.work->statistics().size());
      node.work->build(device, {parameter, parameters_end}, {statistic, statistics_end});
      parameter = parameters_end, statistic = statistics_end;
    }
  }
  std::vector<NamedPlan> plans() const override { return of_all(&Work::plans); }

  void forward(BlockRun& run, Tensor x, Tensor y) override {
    for (const Node& node : nodes_)
      if (node.work) node.work->forward(run, values(run, node, x, y));
  }

  void backward(BlockRun& run, Tensor x, Tensor y, Tensor dy, Tensor dx) override {
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      const Node& node = nodes_[i];
      if (!node.work) continue;
      const auto gradient = [&](int slot, const Dims& dims) -> Tensor {
        if (slot == no_slot) return {};
        if (slot == output_slot) return dy;
        if (slot == input_slot) return dx.reshaped(dims);
        return run.scratch[static_cast<std::size_t>(slot)].slice(0, dims);
      };
      std::vector<Tensor> d_in;
      for (const Target& target : node.targets) d_in.push_back(gradient(target.written, target.dims));
      node.work->backward(run, values(run, node, x, y), gradient(node.gradient, node.dims), d_in);
      for (const Target& target : node.targets) {
        if (target.sum == no_slot) continue;
        const Tensor sum = gradient(target.sum, target.dims);
        device_->add(run.stream, {sum, gradient(target.written, target.dims), sum});
      }
      if (node.parameter_count > 0)
        announce(run, node.first_parameter + node.parameter_count - 1, node.first_parameter);
    }
  }

 private:
  static constexpr int no_slot = -1, output_slot = -2, input_slot = -3;
  /// Where the gradient of an input goes: `written` by the operation, then added to `sum` where another one has written
  /// that.
  struct Target {
    int written = no_slot, sum = no_slot;
    Dims dims;
  };
  struct Node {
    std::string name, output_name;
    std::unique_ptr<Work> work;  // none: a view of its input
    std::vector<int> inputs;     // places in the piece; −1: what the piece before makes, or the network's input
    Dims dims;                   // of its output
    int output = -1;             // place among saved(); −1: the block's own, a view or none
    int first_saved = 0;
    int first_parameter = 0, parameter_count = 0;
    int gradient = no_slot;       // of its output
    std::vector<Target> targets;  // of each input
  };

  void add_node(const CustomDescription& network, int first, int place) {
    const Operation& o = network.operations[static_cast<std::size_t>(place)];
    Node node;
    node.name = o.name;
    const bool is_relu = o.relu || (o.kind == Kind::activation && o.function == Operation::Function::relu);
    node.output_name = (is_relu ? "relu." : "") + o.name;
    for (const int from : o.inputs) node.inputs.push_back(from < first ? -1 : from - first);
    input_dims_ = place == first ? batch_.dims(network.in(o)) : input_dims_;
    if (!o.is_loss()) node.dims = batch_.dims(o.out);
    if (!o.is_view()) {
      node.work = make_work(network, place, batch_);
      node.first_saved = saved_count_, node.first_parameter = parameter_count_;
      node.parameter_count = static_cast<int>(node.work->parameters().size());
      saved_count_ += static_cast<int>(node.work->saved().size());
      parameter_count_ += node.parameter_count;
    }
    nodes_.push_back(std::move(node));
  }

  const Dims& dims_of(int place) const {
    return place < 0 ? input_dims_ : nodes_[static_cast<std::size_t>(place)].dims;
  }
  /// Whose memory a value is.
  int owner(int place) const {
    while (place >= 0 && !nodes_[static_cast<std::size_t>(place)].work)
      place = nodes_[static_cast<std::size_t>(place)].inputs.front();
    return place;
  }

  void plan_backward() {
    int outputs = saved_count_;
    for (std::size_t i = 0; i + 1 < nodes_.size(); ++i)
      if (nodes_[i].work) nodes_[i].output = outputs++;
    if (!is_last_) nodes_.back().gradient = output_slot;
    bool input_is_written = false;
    for (std::size_t i = nodes_.size(); i-- > 0;) {
      Node& node = nodes_[i];
      if (!node.work) continue;
      std::vector<int> done;
      for (const int input : node.inputs) {
        const int from = owner(input);
        Target target;
        target.dims = dims_of(input);
        const std::int64_t elements = target.dims.count();
        if (from < 0 && is_first_) {
          if (node.work->always_writes()) done.push_back(target.written = slots_.take(elements));
        } else {
          int& home = from < 0 ? input_home_ : nodes_[static_cast<std::size_t>(from)].gradient;
          const bool is_written = from < 0 ? input_is_written : home != no_slot;
          if (!is_written) {
            if (from < 0)
              home = input_slot, input_is_written = true;
            else
              home = slots_.take(elements);
            target.written = home;
          } else {
            target.sum = home;
            done.push_back(target.written = slots_.take(elements));
          }
        }
        node.targets.push_back(target);
      }
      for (const int slot : done) slots_.give(slot);
      if (node.gradient >= 0) slots_.give(node.gradient);
    }
  }

  Tensor value(const BlockRun& run, int place, const Tensor& x, const Tensor& y) const {
    if (place < 0) return x ? x : run.tokens_or_images;
    const Node& node = nodes_[static_cast<std::size_t>(place)];
    if (!node.work) return value(run, node.inputs.front(), x, y).reshaped(node.dims);
    return node.output >= 0 ? run.saved[static_cast<std::size_t>(node.output)] : y;
  }
  Work::Values values(const BlockRun& run, const Node& node, const Tensor& x, const Tensor& y) const {
    Work::Values all;
    for (const int input : node.inputs) all.in.push_back(value(run, input, x, y));
    const int own = static_cast<int>(&node - nodes_.data());
    if (node.dims.rank() > 0) all.out = value(run, own, x, y);
    all.saved = run.saved.data() + node.first_saved;
    return all;
  }

  template <class Specs>
  Specs of_all(Specs (Work::*specs)() const) const {
    Specs all;
    for (const Node& node : nodes_)
      if (node.work)
        for (auto& one : ((*node.work).*specs)()) all.push_back(std::move(one));
    return all;
  }

  Batch batch_;
  bool is_first_, is_last_;
  Device* device_ = nullptr;
  std::vector<Node> nodes_;
  Dims input_dims_;
  int saved_count_ = 0, parameter_count_ = 0;
  int input_home_ = no_slot;
  Slots slots_;
};

}  // namespace

std::vector<std::unique_ptr<Block>> blocks(const NetworkDescription& network, Precision precision,
                                           std::int64_t micro_batch, std::int64_t seq_len) {
  const CustomDescription& d = network.as<CustomDescription>();
  if (network.has_sequence() && (seq_len < 1 || seq_len > d.data.longest_sequence))
    throw Error(Failure::usage, network.name + " takes sequences of 1 to " + std::to_string(d.data.longest_sequence) +
                                    " tokens, not " + std::to_string(seq_len));
  if (const std::string why = network.shape->why_no_micro_batch(micro_batch, seq_len); !why.empty())
    throw Error(Failure::usage, network.name + ": " + why);
  std::vector<std::unique_ptr<Block>> chain;
  int first = 0;
  for (const int end : pieces(d)) {
    chain.push_back(std::make_unique<Piece>(d, first, end, Batch{precision, micro_batch, seq_len}));
    first = end;
  }
  return chain;
}

}  // namespace tw::models::family::custom
