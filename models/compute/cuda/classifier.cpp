// The output head in chunks of rows: logits of a chunk by cuBLASLt, their gradient in place, then its two products. The
// logits of all rows are never there at once.
//
// Logits are stored in the step's type, as frameworks store them, and the loss is of these: a logit z is off by up to
// 2^-9·|z| in bf16 (2^-12 in fp16), to either side, so that the mean over n rows is off by about 2^-9·|z| / sqrt(3·n)
// against the cpu device, whose logits are float32. Logits in float32 would be 4 bytes more, once written and once read
// (the second pass finds them in the cache): 6.6 GB a step of 32 x 1024 tokens of GPT-2, 2 ms of an H100's memory
// against some 70 ms for all of it. Chunks that stay in the cache would avoid that, but then the weights' gradient is
// read and written once for each of hundreds of chunks, which takes ten times as long.
//
// Which algorithms cuBLASLt has goes by the extents, not by how far rows lie apart: at 50257 classes all three products
// would run on kernels of GPUs two generations back, which load element by element. So the products are of all rows
// that the shape reserves, which networks round up to whole tiles: the softmax ignores the logits behind the last
// class, and their gradients are 0. Where that is no multiple of 8, the few classes behind one have small products of
// their own.
#include <algorithm>
#include <utility>
#include <vector>

#include "models/compute/cuda/blas.hpp"
#include "models/compute/cuda/kernels/kernels.hpp"
#include "models/compute/cuda/plans.hpp"

namespace tw::models::cuda {
namespace {

/// Of the logits of a chunk: each chunk reads and writes the weights' gradient once more, so that few are better;
/// little beside what a network holds. It is part of the arena, and so of the planned memory.
std::size_t most_chunk_bytes(const Context& context) {
  return std::min(std::size_t{1} << 30, context.memory_bytes() / 64);
}
constexpr Index row_step = 128;  // chunks are multiples of it: whole tiles of the products

Index chunk_rows(const Context& context, const ClassifierShape& s, Index ld) {
  const auto row_bytes = static_cast<std::size_t>(ld) * size_of(s.dtype);
  const Index most =
      std::max<Index>(1, static_cast<Index>(most_chunk_bytes(context) / row_bytes) / row_step) * row_step;
  const Index chunks = (s.rows + most - 1) / most;
  return std::min(s.rows, ((s.rows + chunks - 1) / chunks + row_step - 1) / row_step * row_step);
}

/// Of logits that are computed: all rows of memory that the weights have.
Index columns_of(const ClassifierShape& s) { return std::max(s.classes, s.reserved_classes); }

/// Classes [first, first + count), reserved ones among them.
struct Classes {
  Index first, count;
  bool operator==(const Classes&) const = default;
};

/// The few first: of the two roundings of dx theirs is the lesser. Never one alone beside others: for products with a
/// vector cuBLASLt has a way of its own, and 13.1 was seen to divide by zero in it (float32, gradient of the weights).
std::vector<Classes> parts_of(Index classes) {
  Index whole = classes / 8 * 8;
  if (classes - whole == 1 && whole > 0) whole -= 8;
  std::vector<Classes> parts;
  if (whole < classes) parts.push_back({whole, classes - whole});
  if (whole > 0) parts.push_back({0, whole});
  return parts;
}

class CudaClassifier final : public ClassifierPlan {
 public:
  CudaClassifier(Context& context, const ClassifierShape& shape)
      : ClassifierPlan(context.device(), shape),
        context_(context),
        ld_((columns_of(shape) + 63) / 64 * 64),
        chunk_(chunk_rows(context, shape, ld_)),
        parts_(parts_of(columns_of(shape))) {
    for (const Index rows : {chunk_, shape.rows % chunk_}) {
      if (rows == 0) continue;
      for (const Classes& part : parts_) {
        for (const Kind kind : {Kind::logits, Kind::input, Kind::weights}) product(kind, rows, part, 16, nullptr);
      }
    }
    context.reserve(lay_out(nullptr).bytes);
  }

  std::string description() const override {
    std::string text = "cuBLASLt, chunks of " + std::to_string(chunk_) + " rows";
    for (const Kept& kept : products_) {
      if (kept.rows == chunk_ && kept.alignment == 16) text += "; " + kept.product.name();
    }
    return text;
  }

 protected:
  void do_forward_backward(Stream& on, const ClassifierForwardBackward& args) override {
    context_.use();
    const cudaStream_t stream = stream_of(on);
    const ClassifierShape& s = shape();
    const Space space = lay_out(context_.workspace(stream, lay_out(nullptr).bytes));
    const std::size_t element = size_of(s.dtype);
    // loss_weight / rows is applied to the products in float32, so that the gradients of the logits are exact where a
    // prediction is sure; a loss scale must be applied before they are rounded.
    const float mean = s.loss_weight / static_cast<float>(s.rows), in_logits = args.scalars != nullptr ? mean : 1,
                in_products = args.scalars != nullptr ? 1 : mean;
    for (Index first = 0; first < s.rows; first += chunk_) {
      const Index rows = std::min(chunk_, s.rows - first);
      char* const x = args.x.as<char>() + static_cast<std::size_t>(first * s.in_features) * element;
      const int alignment = alignment_of(
          {x, weight().data, args.backward ? args.dx.data : nullptr, args.backward ? args.d_weight.data : nullptr},
          s.dtype);
      const std::size_t row_bytes = static_cast<std::size_t>(s.in_features) * element;  // of a class's weights
      for (const Classes& part : parts_) {
        const auto from = static_cast<std::size_t>(part.first);
        product(Kind::logits, rows, part, alignment, stream)
            .run(stream, {.a = x, .b = weight().as<char>() + from * row_bytes, .d = space.logits + from * element},
                 space.library);
      }
      ClassifierRows chunk;
      chunk.dtype = s.dtype;
      chunk.logits = space.logits;
      chunk.bias = args.bias.data;
      chunk.targets = args.targets.as<std::int32_t>() + first;
      chunk.rows = rows;
      chunk.classes = s.classes;
      chunk.ld = ld_;
      chunk.label_smoothing = s.label_smoothing;
      chunk.backward = args.backward;
      chunk.gradient_factor = in_logits;
      chunk.scalars = args.scalars;
      chunk.row_loss = space.row_loss + first;
      chunk.row_correct = space.row_correct + first;
      classifier_rows(stream, chunk);
      if (!args.backward) continue;
      const bool accumulate = args.accumulate || first > 0;
      char* const dx = args.dx.as<char>() + static_cast<std::size_t>(first * s.in_features) * element;
      bool more = false;  // the sum over all classes: a part is added in float32 to what is there
      for (const Classes& part : parts_) {
        const auto from = static_cast<std::size_t>(part.first);
        product(Kind::input, rows, part, alignment, stream)
            .run(stream,
                 {.a = space.logits + from * element,
                  .b = weight().as<char>() + from * row_bytes,
                  .d = dx,
                  .alpha = in_products,
                  .beta = std::exchange(more, true) ? 1.0f : 0.0f},
                 space.library);
        product(Kind::weights, rows, part, alignment, stream)
            .run(stream,
                 {.a = space.logits + from * element,
                  .b = x,
                  .d = args.d_weight.as<float>() + part.first * s.in_features,
                  .alpha = in_products,
                  .beta = accumulate ? 1.0f : 0.0f},
                 space.library);
      }
      if (args.d_bias) {
        column_sums(stream, s.dtype, space.logits, rows, s.classes, ld_, in_products, args.d_bias.as<float>(),
                    accumulate, space.sums);
      }
    }
    classifier_totals(stream, space.row_loss, space.row_correct, s.rows, s.loss_weight, args.loss.as<float>(),
                      args.correct.as<std::int32_t>());
  }

 private:
  enum class Kind { logits, input, weights };
  struct Kept {
    Kind kind;
    Index rows;
    Classes part;
    int alignment;
    Product product;
  };
  struct Space {
    void *library, *sums;
    char* logits;
    float* row_loss;
    std::int32_t* row_correct;
    std::size_t bytes;
  };

  Space lay_out(void* base) const {
    const ClassifierShape& s = shape();
    Parts parts(base);
    Space space{};
    space.library = parts.take(context_.blas().workspace_bytes());
    space.logits = parts.take(static_cast<std::size_t>(chunk_ * ld_) * size_of(s.dtype));
    space.sums = parts.take(column_sums_scratch(chunk_, s.classes));
    space.row_loss = parts.take<float>(static_cast<std::size_t>(s.rows) * sizeof(float));
    space.row_correct = parts.take<std::int32_t>(static_cast<std::size_t>(s.rows) * sizeof(std::int32_t));
    space.bytes = parts.bytes();
    return space;
  }

  const Product& product(Kind kind, Index rows, const Classes& part, int alignment, cudaStream_t stream) {
    for (const Kept& kept : products_) {
      if (kept.kind == kind && kept.rows == rows && kept.part == part && kept.alignment == alignment)
        return kept.product;
    }
    const ClassifierShape& s = shape();
    LinearShape layer;
    layer.rows = rows;
    layer.in_features = s.in_features;
    layer.out_features = part.count;
    layer.dtype = s.dtype;
    layer.math = s.math;
    ProductShape wanted = linear_product(layer, kind == Kind::logits  ? LinearPass::forward
                                                : kind == Kind::input ? LinearPass::backward_input
                                                                      : LinearPass::backward_weights);
    (kind == Kind::logits ? wanted.d : wanted.a).ld = ld_;
    wanted.alignment = alignment;
    products_.push_back({kind, rows, part, alignment, Product(context_.blas(), wanted, stream)});
    const Product& made = products_.back().product;
    if (!made) throw_no_algorithm(context_, wanted, "the classifier");
    return made;
  }

  Context& context_;
  Index ld_, chunk_;
  const std::vector<Classes> parts_;  // each with its products
  std::deque<Kept> products_;
};

}  // namespace

std::unique_ptr<ClassifierPlan> make_classifier(Context& context, const ClassifierShape& shape) {
  return std::make_unique<CudaClassifier>(context, shape);
}

}  // namespace tw::models::cuda
