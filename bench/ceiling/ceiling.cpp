#include "bench/ceiling/ceiling.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>

#include "bench/ceiling/operands.hpp"
#include "models/compute/error.hpp"

namespace tw::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int minimum_rounds = 3, maximum_rounds = 25;
constexpr double keep_within = 1.15;      // candidates slower than this × the best are not timed again
constexpr std::size_t most_kept = 2;      // those that a glance saw first: more would take the time of rounds
constexpr double shortest_timed = 1e-3;   // seconds: a shorter product runs several times between two events
constexpr double longest_warmed = 20e-3;  // a longer product fills the caches itself
constexpr std::int64_t row_chunk = 256;

constexpr float weight_scale = 0.02f;

const char* const classifier_way = "classifier operator";

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// One way to run one pass of one product.
struct Candidate {
  std::string name;            ///< empty: the plan as it is
  std::string implementation;  ///< as the plan or the library describes it
  std::function<void()> run;
  std::vector<double> samples;  ///< seconds of one run

  double median() const {
    if (samples.empty()) return std::numeric_limits<double>::infinity();
    std::vector<double> sorted = samples;
    std::ranges::sort(sorted);
    const std::size_t middle = sorted.size() / 2;
    return sorted.size() % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
  }
};

/// One pass of one product: candidates compete.
struct Pass {
  std::string name;
  double flops = 0;  ///< of one run
  int count = 1;
  std::vector<Candidate> candidates;

  const Candidate& best() const { return *std::ranges::min_element(candidates, {}, &Candidate::median); }
};

std::string times(const std::vector<std::int64_t>& extents) {
  std::string text;
  for (const std::int64_t extent : extents) {
    if (!text.empty()) text += 'x';
    text += std::to_string(extent);
  }
  return text;
}

class Measurement {
 public:
  Measurement(models::Device& device, models::Precision precision, const std::vector<models::Product>& all,
              const Ceiling* earlier, const std::function<void()>& pause)
      : device_(device),
        dtype_(models::storage(precision)),
        math_(models::math(precision)),
        head_math_(models::math_beside_linear(precision)),
        all_(all),
        earlier_(earlier),
        pause_(pause ? pause : [] {}),
        stream_(device.create_stream()),
        before_(device.create_event()),
        after_(device.create_event()),
        sizes_(operand_sizes(all)) {}

  Ceiling run(double budget_seconds) {
    start_ = Clock::now();
    budget_seconds_ = budget_seconds;
    double model_flops = 0;
    for (const models::Product& product : all_) model_flops += product.flops();
    allocate();
    for (const models::Product& product : all_) pause_(), add(product);
    make_room_for_library();
    time_all();
    return sum_up(model_flops);
  }

 private:
  // ---- operands ----
  void allocate() {
    const std::size_t element = models::size_of(dtype_);
    const auto bytes = [](std::int64_t count, std::size_t size) { return static_cast<std::size_t>(count) * size; };
    x_ = models::Buffer(device_, bytes(sizes_.input, element));
    dx_ = models::Buffer(device_, bytes(sizes_.input, element));
    y_ = models::Buffer(device_, bytes(sizes_.output, element));
    dy_ = models::Buffer(device_, bytes(sizes_.output, element));
    weight_ = models::Buffer(device_, bytes(sizes_.weight, element));
    d_weight_ = models::Buffer(device_, bytes(sizes_.weight, sizeof(float)));
    if (sizes_.rows > 0) {
      targets_ = models::Buffer(device_, bytes(sizes_.rows, sizeof(std::int32_t)));
      const std::vector<std::int32_t> zeros(static_cast<std::size_t>(sizes_.rows), 0);
      device_.copy_from_host(*stream_, targets_.data(), zeros.data(), targets_.bytes());
      loss_ = models::Buffer(device_, sizeof(float));
    }
    // Outputs too: it touches their pages. Weights are as small as a network's own: with large logits the classifier's
    // gradients would be denormal numbers, which a CPU multiplies a hundred times slower than those of a real step.
    for (const models::Buffer* buffer : {&x_, &dy_, &weight_, &dx_, &y_})
      fill(*buffer, dtype_, buffer == &weight_ ? weight_scale : 1.0f);
    fill(d_weight_, models::DType::float32);
  }
  void fill(const models::Buffer& buffer, models::DType dtype, float scale = 1) {
    const auto count = static_cast<std::int64_t>(buffer.bytes() / models::size_of(dtype));
    fill_random(device_, *stream_, models::Tensor{buffer.data(), dtype, {count}}, scale);
  }

  models::Tensor view(const models::Buffer& buffer, models::Dims dims, std::int64_t offset = 0) const {
    return models::Tensor{buffer.data(), dtype_, {}}.slice(offset, dims);
  }
  models::Tensor left(models::Dims dims) {
    models::Tensor tensor{nullptr, models::DType::byte, dims};
    if (dims.rank() == 0) return tensor;
    left_.emplace_back(device_, tensor.bytes());
    tensor.data = left_.back().data();
    return tensor;
  }
  models::Tensor gradient(models::Dims dims, std::int64_t offset = 0) const {
    return models::Tensor{d_weight_.data(), models::DType::float32, {}}.slice(offset, dims);
  }

  // ---- products ----
  void need(models::Op op) const {
    if (device_.supports(op, dtype_)) return;
    throw models::Error(models::Failure::unsupported, std::string("ceiling: ") + models::to_string(op) + " in " +
                                                          std::string(models::to_string(dtype_)) + ": " +
                                                          device_.why_unsupported(dtype_));
  }

  void add(const models::Product& p) {
    if (p.kind == models::Product::Kind::attention || p.kind == models::Product::Kind::interaction) return;
    const bool convolution = p.kind == models::Product::Kind::convolution;
    const std::string extents =
        convolution ? "convolution " + p.kernel.str() + "/" + p.stride.brief() + " " +
                          times({p.batch, p.height, p.width, p.in_channels}) + "->" + std::to_string(p.out_channels)
                    : std::string(p.kind == models::Product::Kind::linear ? "linear " : "classifier ") +
                          times({p.rows, p.in_features, p.out_features});
    const double flops = p.flops() / p.count / (p.backward_input ? 3 : 2);
    const auto named = [&](const char* pass) {
      return Pass{extents + " " + pass + (p.count > 1 ? " x" + std::to_string(p.count) : ""), flops, p.count, {}};
    };
    forward_ = named("forward");
    backward_input_ = named("backward_input");
    backward_weights_ = named("backward_weights");
    if (convolution) {
      add_convolution(p);
    } else {
      // A head of tens of thousands of classes takes seconds a run when whole, and tiles are faster in every library
      // seen.
      if (p.kind != models::Product::Kind::classifier || p.out_features <= widest_whole)
        add_linear(p.rows, p.in_features, p.out_features, 1, 1, "", p.beside_fp8 ? head_math_ : math_);
      if (p.kind == models::Product::Kind::classifier) add_classifier(p);
    }
    passes_.push_back(std::move(forward_));
    if (p.backward_input) passes_.push_back(std::move(backward_input_));
    passes_.push_back(std::move(backward_weights_));
  }

  /// row_tiles × column_tiles products of (rows, in, out) each, so that together they do the whole. The tiles share one
  /// packed weight; activations and gradients move on from tile to tile as they would in the whole.
  void add_linear(std::int64_t rows, std::int64_t in, std::int64_t out, std::int64_t row_tiles,
                  std::int64_t column_tiles, const std::string& name, models::Math math) {
    pause_();  // a plan is built by timing the ways that it has
    for (const models::Op op : linear_passes) need(op);
    const models::LinearShape shape{rows, in, out, dtype_, models::Activation::none, math};
    std::shared_ptr<models::LinearPlan> plan = device_.plan(shape);
    plan->bind(view(weight_, {out, in}));
    plan->refresh(*stream_);
    // In fp8 this product's rounded operands; it then has one tile.
    const models::Tensor left_x = left(shape.x_for_weights()), left_dy = left(shape.dy_for_input());
    const auto each_tile = [=](auto&& body) {
      for (std::int64_t row = 0; row < row_tiles; ++row)
        for (std::int64_t column = 0; column < column_tiles; ++column)
          body(row * rows * in, (row * column_tiles + column) * rows * out, column * out * in);
    };
    const auto add = [&](Pass& pass, const auto& run_tile) {
      pass.candidates.push_back({name, plan->description(), [=] { each_tile(run_tile); }, {}});
    };
    add(forward_, [=, this](std::int64_t x, std::int64_t y, std::int64_t) {
      plan->forward(*stream_, {view(x_, {rows, in}, x), {}, {}, {}, view(y_, {rows, out}, y), true, left_x});
    });
    add(backward_input_, [=, this](std::int64_t x, std::int64_t y, std::int64_t) {
      plan->backward_input(*stream_, {left_dy ? left_dy : view(dy_, {rows, out}, y), {}, view(dx_, {rows, in}, x)});
    });
    add(backward_weights_, [=, this](std::int64_t x, std::int64_t y, std::int64_t w) {
      plan->backward_weights(*stream_, {left_x ? left_x : view(x_, {rows, in}, x),
                                        view(dy_, {rows, out}, y),
                                        gradient({out, in}, w),
                                        {},
                                        false,
                                        left_dy});
    });
    if (left_x) {  // each pass is timed alone, on what the others have left
      forward_.candidates.back().run();
      backward_weights_.candidates.back().run();
    }
    if (row_tiles > 1) return;
    add_library(forward_, shape, models::Op::linear_forward, column_tiles, name);
    add_library(backward_input_, shape, models::Op::linear_backward_input, column_tiles, name);
    add_library(backward_weights_, shape, models::Op::linear_backward_weights, column_tiles, name);
  }

  /// The library's bare products, `tiles` times: weight and y move on from tile to tile, x stays.
  template <class Shape>
  void add_library(Pass& pass, const Shape& shape, models::Op op, std::int64_t tiles, const std::string& name) {
    const bool to_x = op == models::Op::linear_backward_input || op == models::Op::convolution_backward_input;
    const bool to_weight = op == models::Op::linear_backward_weights || op == models::Op::convolution_backward_weights;
    const models::Buffer &x = to_x ? dx_ : x_, &weight = to_weight ? d_weight_ : library_weight_,
                         &y = to_x || to_weight ? dy_ : y_;
    const auto count = static_cast<std::size_t>(tiles);
    for (models::LibraryProduct& product : device_.library_products(shape, op)) {
      const auto [x_bytes, weight_bytes, y_bytes] = product.bytes;
      library_needs_.x = std::max(library_needs_.x, x_bytes);
      library_needs_.y = std::max(library_needs_.y, count * y_bytes);
      std::size_t& weights = to_weight ? library_needs_.d_weight : library_needs_.weight;
      weights = std::max(weights, count * weight_bytes);
      pass.candidates.push_back({"library " + product.layout + (name.empty() ? "" : ", " + name),
                                 product.implementation,
                                 // clang captures no structured binding with OpenMP
                                 [=, this, &x, &weight, &y, weight_size = weight_bytes, y_size = y_bytes,
                                  run = std::move(product.run)] {
                                   for (std::size_t tile = 0; tile < count; ++tile)
                                     run(*stream_, x.data(), at(weight, tile * weight_size), at(y, tile * y_size));
                                 },
                                 {}});
    }
  }
  static void* at(const models::Buffer& buffer, std::size_t bytes) { return static_cast<char*>(buffer.data()) + bytes; }

  /// The library's own layouts may be padded. No plan is bound to what grows here.
  void make_room_for_library() {
    const auto grow = [this](models::Buffer& buffer, std::size_t bytes, models::DType dtype, float scale = 1) {
      if (bytes <= buffer.bytes()) return;
      buffer = models::Buffer();
      buffer = models::Buffer(device_, bytes);
      fill(buffer, dtype, scale);
    };
    for (models::Buffer* buffer : {&x_, &dx_}) grow(*buffer, library_needs_.x, dtype_);
    for (models::Buffer* buffer : {&y_, &dy_}) grow(*buffer, library_needs_.y, dtype_);
    grow(library_weight_, library_needs_.weight, dtype_, weight_scale);
    grow(d_weight_, library_needs_.d_weight, models::DType::float32);
  }

  /// Other ways for the output head, whose width (50,257 classes) suits no library.
  void add_classifier(const models::Product& p) {
    const std::int64_t classes = p.out_features, padded = round_up(classes, class_padding);
    const bool whole = classes <= widest_whole;
    if (whole && padded != classes && classes > class_padding)
      add_linear(p.rows, p.in_features, padded, 1, 1, "padded classes", head_math_);
    for (const std::int64_t wanted : {smallest_tile, large_tile}) {
      if (classes < 2 * wanted) continue;
      const std::int64_t tiles = (classes + wanted - 1) / wanted;
      const std::int64_t tile = round_up((classes + tiles - 1) / tiles, class_padding);
      add_linear(p.rows, p.in_features, tile, 1, tiles, "tiles of " + std::to_string(tile) + " classes", head_math_);
    }
    if (whole && p.rows >= 2 * row_chunk && p.rows % row_chunk == 0 && classes >= smallest_tile)
      add_linear(row_chunk, p.in_features, padded, p.rows / row_chunk, 1,
                 "chunks of " + std::to_string(row_chunk) + " rows", head_math_);
    whole_heads_.push_back({passes_.size(), p});
  }

  void add_convolution(const models::Product& p) {
    for (const models::Op op : {models::Op::convolution_forward, models::Op::convolution_backward_weights}) need(op);
    if (p.backward_input) need(models::Op::convolution_backward_input);
    const models::ConvolutionShape shape = convolution_shape(p, dtype_, math_);
    std::shared_ptr<models::ConvolutionPlan> plan = device_.plan(shape);
    const models::Dims x = shape.in(), y = shape.out(), w = shape.weight();
    plan->bind(view(weight_, w));
    plan->refresh(*stream_);
    const auto add = [&](Pass& pass, std::function<void()> body) {
      pass.candidates.push_back({"", plan->description(), std::move(body), {}});
    };
    add(forward_, [=, this] { plan->forward(*stream_, {view(x_, x), view(y_, y)}); });
    add(backward_input_, [=, this] { plan->backward_input(*stream_, {view(dy_, y), view(dx_, x)}); });
    add(backward_weights_, [=, this] {
      plan->backward_weights(*stream_, {view(x_, x), view(dy_, y), gradient(w), false});
    });
    add_library(forward_, shape, models::Op::convolution_forward, 1, "");
    if (p.backward_input) add_library(backward_input_, shape, models::Op::convolution_backward_input, 1, "");
    add_library(backward_weights_, shape, models::Op::convolution_backward_weights, 1, "");
    if (p.kernel == 1 && p.stride == 1 && p.padding == 0 && p.groups == 1 &&
        device_.supports(models::Op::linear_forward, dtype_))
      add_linear(p.batch * p.height * p.width, p.in_channels, p.out_channels, 1, 1, "as a matrix product", math_);
  }

  // ---- timing ----
  /// The way in which a pass is timed again; null if all compete.
  const std::string* known_way(std::size_t pass) const { return earlier_ ? &earlier_->entries.at(pass).way : nullptr; }

  bool affords(double more_seconds) const { return seconds_since(start_) + more_seconds <= budget_seconds_; }

  /// Seconds of one run, by the device's clock. `warms`: behind a run that is not timed: an asynchronous device is
  /// busy with it while the host enqueues the timed ones, and does not wait for the host in between.
  double time(Candidate& candidate, int runs, bool warms) {
    pause_();
    stream_->synchronize();
    if (warms) candidate.run();
    before_->record(*stream_);
    for (int i = 0; i < runs; ++i) candidate.run();
    after_->record(*stream_);
    return after_->seconds_since(*before_) / runs;
  }

  /// Caches are filled first, but by a product so long that it fills them itself.
  void sample(Candidate& candidate) {
    const double expected = candidate.samples.empty() ? glance(candidate) : candidate.median();
    const double wanted = shortest_timed / std::max(expected, 1e-7);
    const int runs = wanted > 1 && affords(0) ? static_cast<int>(std::ceil(wanted)) : 1;
    const bool has_just_run = candidate.samples.empty() && !device_.is_asynchronous();
    candidate.samples.push_back(time(candidate, runs, !has_just_run && expected < longest_warmed));
  }

  /// A first timing, to choose by: one run, and one more where the first is short enough to have been spoilt by being
  /// first.
  double glance(Candidate& candidate) {
    const double first = time(candidate, 1, false);
    return first > 5 * longest_warmed ? first : time(candidate, 1, device_.is_asynchronous());
  }

  void time_all() {
    for (std::size_t i = 0; i < passes_.size(); ++i)
      if (const std::string* way = known_way(i))
        std::erase_if(passes_[i].candidates, [&](const Candidate& candidate) { return candidate.name != *way; });
    for (Pass& pass : passes_) {
      if (pass.candidates.size() <= 1) continue;
      std::vector<std::pair<double, std::size_t>> glances;
      for (std::size_t i = 0; i < pass.candidates.size(); ++i) glances.emplace_back(glance(pass.candidates[i]), i);
      std::ranges::sort(glances);
      std::vector<Candidate> kept;
      for (const auto& [seconds, i] : glances)
        if (kept.size() < most_kept && seconds <= keep_within * glances[0].first)
          kept.push_back(std::move(pass.candidates[i]));
      pass.candidates = std::move(kept);
    }
    for (int round = 0; round < maximum_rounds; ++round) {
      const Clock::time_point round_start = Clock::now();
      for (Pass& pass : passes_)
        for (Candidate& candidate : pass.candidates) sample(candidate);
      if (round + 1 >= minimum_rounds && !affords(seconds_since(round_start))) break;
    }
    time_heads();
  }

  /// The classifier operator does the head's three products and the softmax: where that is faster than the products as
  /// timed above, they must be slower than they need to be.
  void time_heads() {
    if (!device_.supports(models::Op::classifier, dtype_)) return;
    for (const auto& [first, head] : whole_heads_) {
      const auto& p = head;  // clang captures no structured binding with OpenMP
      if (const std::string* way = known_way(first); way && *way != classifier_way) continue;
      std::shared_ptr<models::ClassifierPlan> plan =
          device_.plan(models::ClassifierShape{p.rows, p.in_features, p.out_features, 0.0f, dtype_, head_math_, 1.0f,
                                               models::whole_tiles_of_classes(p.out_features)});
      plan->bind(view(weight_, {p.out_features, p.in_features}));
      plan->refresh(*stream_);
      Candidate whole{classifier_way,
                      plan->description(),
                      [=, this] {
                        models::ClassifierForwardBackward args;
                        args.x = view(x_, {p.rows, p.in_features});
                        args.targets = models::Tensor{targets_.data(), models::DType::int32, {p.rows}};
                        args.loss = models::Tensor{loss_.data(), models::DType::float32, {1}};
                        args.dx = view(dx_, {p.rows, p.in_features});
                        args.d_weight = gradient({p.out_features, p.in_features});
                        plan->forward_backward(*stream_, args);
                      },
                      {}};
      std::array<double, 3> part{};  // the three passes' shares
      for (std::size_t i = 0; i < 3; ++i)
        part[i] = earlier_ ? earlier_->entries[first + i].seconds / passes_[first + i].count
                           : passes_[first + i].best().median();
      const double products = part[0] + part[1] + part[2];
      if (!earlier_ && glance(whole) > 2 * keep_within * products) continue;
      for (int round = 0; round < minimum_rounds; ++round) sample(whole);
      if (!earlier_ && whole.median() >= products) continue;
      for (std::size_t i = 0; i < 3; ++i) {
        Candidate share = whole;
        for (double& seconds : share.samples) seconds *= part[i] / products;
        passes_[first + i].candidates.push_back(std::move(share));
      }
    }
  }

  Ceiling sum_up(double model_flops) const {
    Ceiling ceiling;
    double flops = 0;
    for (const Pass& pass : passes_) {
      if (pass.candidates.empty())
        throw models::Error(models::Failure::internal, "ceiling: every implementation of " + pass.name + " failed");
      const Candidate& best = pass.best();
      Ceiling::Entry entry;
      entry.way = best.name;
      entry.product = pass.name;
      entry.flops = pass.flops * pass.count;
      entry.seconds = best.median() * pass.count;
      entry.flops_per_s = entry.flops / entry.seconds;
      const char* between = best.name.empty() || best.implementation.empty() ? "" : ": ";
      entry.implementation = best.name + between + best.implementation;
      flops += entry.flops;
      ceiling.seconds_per_micro_batch += entry.seconds;
      ceiling.entries.push_back(std::move(entry));
    }
    ceiling.flops_per_s = flops / ceiling.seconds_per_micro_batch;
    ceiling.covered_flops_share = flops / model_flops;
    return ceiling;
  }

  models::Device& device_;
  models::DType dtype_;
  models::Math math_, head_math_;
  const std::vector<models::Product>& all_;
  const Ceiling* earlier_;
  const std::function<void()> pause_;
  std::unique_ptr<models::Stream> stream_;
  std::unique_ptr<models::Event> before_, after_;  // what is timed
  Clock::time_point start_;
  double budget_seconds_ = 0;
  OperandSizes sizes_;
  models::Buffer x_, dx_, y_, dy_, weight_, d_weight_, targets_, loss_;
  std::vector<models::Buffer> left_;
  struct {
    std::size_t x = 0, weight = 0, d_weight = 0, y = 0;  // bytes
  } library_needs_;
  models::Buffer library_weight_;
  Pass forward_, backward_input_, backward_weights_;  // of the product being added
  std::vector<Pass> passes_;
  std::vector<std::pair<std::size_t, models::Product>> whole_heads_;  // index of the first of its three passes
};

}  // namespace

Ceiling measure_ceiling(models::Device& device, const models::NetworkDescription& network, models::Precision precision,
                        std::int64_t micro_batch, std::int64_t seq_len, double budget_seconds, const Ceiling* earlier,
                        const std::function<void()>& pause) {
  const std::vector<models::Product> all = models::products(network, micro_batch, seq_len);
  return Measurement(device, precision, all, earlier, pause).run(budget_seconds);
}

}  // namespace tw::bench
