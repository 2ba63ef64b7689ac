#include "models/compute/cpu/products.hpp"

#include <omp.h>

#include <algorithm>
#include <exception>

#include "models/compute/error.hpp"

namespace tw::models::cpu {

namespace {

using dnnl::memory;
using Sum = Product::Sum;

constexpr std::size_t page = 4096;
std::size_t whole_pages(std::size_t bytes) { return (bytes + page - 1) / page * page; }
std::size_t bytes_of(Index count, DType type) { return static_cast<std::size_t>(count) * size_of(type); }

MadeProduct make_weight_product(Context& context, const WeightProduct::Shape& shape, Index rows,
                                const memory::desc& weight, Sum sum) {
  Product product{matrix(shape.type, rows, shape.inner), weight, matrix(shape.type, rows, shape.columns),
                  memory::desc(), sum};
  product.math = shape.math;
  if (shape.bias) product.bias = matrix(shape.type, 1, shape.columns);
  MadeProduct made = make_product(context, product);
  context.reserve_scratchpad(made.call.scratchpad_bytes());
  return made;
}

}  // namespace

std::string choice_key(const std::string& name, Index rows, Index in, Index out, DType type, Math math) {
  return name + " " + std::to_string(rows) + " " + std::to_string(in) + " " + std::to_string(out) + " " +
         std::string(to_string(type)) + (math == Math::standard ? "" : std::string(" ") + to_string(math));
}

std::shared_ptr<Buffer> measured_operand(Context& context, Index count, DType type) {
  auto buffer = std::make_shared<Buffer>(context.device(), bytes_of(count, type));
  if (count > 0) context.kernels().fill(context.threads(), type, buffer->data(), count, 0.5f);
  return buffer;
}

WeightProduct::WeightProduct(Context& context, const std::string& name, const Shape& shape)
    : context_(&context), bias_(shape.bias) {
  const ThreadScope scope(context.threads());
  const memory::desc any = any_matrix(shape.type, shape.inner, shape.columns);
  const Index rows = std::min(shape.rows, measured_rows);
  constexpr int packed = 1;  // what is taken where it is fixed
  const std::string key = choice_key(name, rows, shape.inner, shape.columns, shape.type, shape.math);
  const int choice = context.fastest(key, packed, [&] {
    auto a = measured_operand(context, rows * shape.inner, shape.type);
    auto c = measured_operand(context, rows * shape.columns, shape.type);
    auto bias = measured_operand(context, shape.columns, shape.type);
    std::vector<std::function<void()>> candidates;
    for (const memory::desc& layout : {shape.weight, any}) {
      auto made = std::make_shared<MadeProduct>(make_weight_product(context, shape, rows, layout, Sum::none));
      auto w = measured_operand(context, static_cast<Index>(made->b.get_size() / size_of(shape.type)), shape.type);
      candidates.push_back([&context, made, a, w, c, bias, with_bias = shape.bias] {
        if (with_bias) {
          made->call.run(context.stream(), context.scratchpad(), a->data(), w->data(), c->data(), bias->data());
        } else {
          made->call.run(context.stream(), context.scratchpad(), a->data(), w->data(), c->data());
        }
      });
    }
    return candidates;
  });
  made_[0] = make_weight_product(context, shape, shape.rows, choice == packed ? any : shape.weight, Sum::none);
  const memory::desc& layout = made_[0].b;
  if (shape.sums) {
    for (const Sum sum : {Sum::into_c, Sum::other})
      made_[static_cast<std::size_t>(sum)] = make_weight_product(context, shape, shape.rows, layout, sum);
  }
  if (layout == shape.weight) return;
  pack_ = Reorder(context, shape.weight, layout);
  context.reserve_scratchpad(pack_.scratchpad_bytes());
  packed_weight_ = Buffer(context.device(), layout.get_size());
}

void WeightProduct::refresh(const void* weight) {
  if (packed_weight_) pack_.run(*context_, weight, packed_weight_.data());
}

void WeightProduct::run(const void* a, const void* weight, void* c, const void* bias, Sum sum, const void* other) {
  const void* w = packed_weight_ ? packed_weight_.data() : weight;
  Call& call = made_[static_cast<std::size_t>(sum)].call;
  dnnl::stream& stream = context_->stream();
  void* scratchpad = context_->scratchpad();
  if (!bias_) {
    sum == Sum::other ? call.run(stream, scratchpad, a, w, c, other) : call.run(stream, scratchpad, a, w, c);
  } else {
    sum == Sum::other ? call.run(stream, scratchpad, a, w, c, bias, other)
                      : call.run(stream, scratchpad, a, w, c, bias);
  }
}

namespace {

using Shape = GradientProduct::Shape;

/// All rows at once, by the library's threads: dy as a transposed view or transposed into the workspace, x plain or
/// packed into the workspace. The library blocks a product that adds to its result otherwise than one that overwrites
/// it: clearing the result first, and adding to it, is one more way to try.
class WholeGradient final : public GradientProduct {
 public:
  WholeGradient(Context& context, const Shape& shape, bool transpose_dy, bool pack_x, bool clear)
      : context_(context), shape_(shape), transpose_dy_(transpose_dy), clear_(clear) {
    const ThreadScope scope(context.threads());
    const Index rows = shape.rows, in = shape.in, out = shape.out;
    for (const bool accumulate : {false, true}) {
      made_[accumulate] = make_product(
          context,
          {transpose_dy ? matrix(shape.type, out, rows) : transposed_matrix(shape.type, out, rows),
           !pack_x      ? matrix(shape.type, rows, in)
           : accumulate ? made_[0].b
                        : any_matrix(shape.type, rows, in),
           matrix(DType::float32, out, in), memory::desc(), accumulate ? Sum::into_c : Sum::none, 1, shape.math});
      context.reserve_scratchpad(made_[accumulate].call.scratchpad_bytes());
    }
    gathered_at_ = transpose_dy ? whole_pages(bytes_of(rows * out, shape.type)) : 0;
    packed_at_ = gathered_at_ + (shape.gather ? whole_pages(bytes_of(rows * in, shape.type)) : 0);
    packed_ = made_[0].b != matrix(shape.type, rows, in);
    if (packed_) {
      pack_ = Reorder(context, matrix(shape.type, rows, in), made_[0].b);
      context.reserve_scratchpad(pack_.scratchpad_bytes());
    }
    context.reserve_workspace(packed_at_ + (packed_ ? made_[0].b.get_size() : 0));
  }
  std::string description() const override {
    return std::string(transpose_dy_ ? "dy transposed, " : "") + (shape_.gather ? "x gathered, " : "") +
           (packed_ ? "x packed, " : "") + (clear_ ? "cleared, " : "") + made_[0].implementation;
  }
  void run(const void* x, const void* dy, void* dw, bool accumulate) override {
    const Kernels& kernels = context_.kernels();
    if (transpose_dy_) {
      kernels.transpose(context_.threads(), shape_.type, dy, shape_.rows, shape_.out, context_.workspace());
      dy = context_.workspace();
    }
    if (shape_.gather) {
      shape_.gather(context_.threads(), x, 0, shape_.rows, context_.workspace() + gathered_at_);
      x = context_.workspace() + gathered_at_;
    }
    if (packed_) {
      pack_.run(context_, x, context_.workspace() + packed_at_);
      x = context_.workspace() + packed_at_;
    }
    if (clear_ && !accumulate) kernels.fill(context_.threads(), DType::float32, dw, shape_.in * shape_.out, 0.0f);
    made_[accumulate || clear_].call.run(context_.stream(), context_.scratchpad(), dy, x, dw);
  }

 private:
  Context& context_;
  Shape shape_;
  bool transpose_dy_, clear_, packed_ = false;
  std::array<MadeProduct, 2> made_;  // overwriting, accumulating
  std::size_t gathered_at_ = 0, packed_at_ = 0;
  Reorder pack_;
};

/// Rows in chunks whose copies stay in a core's second-level cache. Each thread takes a share of the chunks and sums
/// into a dW of its own (the first thread into the result); those are added at the end.
class SlicedGradient final : public GradientProduct {
 public:
  /// Where a dW for each thread is small, and there are rows enough for all.
  static bool pays(const Context& context, const Shape& shape) {
    return bytes_of(shape.in * shape.out, DType::float32) <= largest_sum && shape.rows >= 256 * context.threads();
  }

  SlicedGradient(Context& context, const Shape& shape) : context_(context), shape_(shape) {
    const auto fitting = static_cast<Index>(chunk_bytes / bytes_of(shape.in + shape.out, shape.type));
    const Index most = std::clamp<Index>(fitting, 2 * packed_rows, 1024);
    const Index share = (shape.rows + context.threads() - 1) / context.threads();
    const Index shares = (share + most - 1) / most;  // chunks of each thread
    chunk_rows_ = ((share + shares - 1) / shares + packed_rows - 1) / packed_rows * packed_rows;
    chunks_ = (shape.rows + chunk_rows_ - 1) / chunk_rows_;
    slices_ = static_cast<int>(std::min<Index>(context.threads(), chunks_));
    const Index rest = shape.rows - (chunks_ - 1) * chunk_rows_;
    const ThreadScope scope(1);
    for (int slice = 0; slice < slices_; ++slice) full_.push_back(make_chunk(chunk_rows_));
    rest_ = make_chunk(rest);
    const std::size_t transposed = whole_pages(bytes_of(chunk_rows_ * shape.out, shape.type));
    const std::size_t copied = whole_pages(bytes_of(chunk_rows_ * shape.in, shape.type));
    gathered_at_ = whole_pages(scratchpad_bytes_) + transposed;
    packed_at_ = gathered_at_ + (shape.gather ? copied : 0);
    sum_at_ = packed_at_ + copied;
    slice_bytes_ = sum_at_ + whole_pages(bytes_of(shape.in * shape.out, DType::float32));
    context.reserve_workspace(slice_bytes_ * static_cast<std::size_t>(slices_));
  }
  std::string description() const override {
    return "chunks of " + std::to_string(chunk_rows_) + " rows, " + (full_[0].width > 0 ? "x packed, " : "") +
           full_[0].made[0].implementation;
  }

  void run(const void* x, const void* dy, void* dw, bool accumulate) override {
    std::exception_ptr failure;
#pragma omp parallel num_threads(slices_)
    {
      const int parts = omp_get_num_threads(), part = omp_get_thread_num();
      try {
        for (int slice = part; slice < slices_; slice += parts) run_slice(slice, x, dy, dw, accumulate);
      } catch (...) {
#pragma omp critical(tw_gradient_failure)
        failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
    for (int slice = 1; slice < slices_; ++slice) {
      context_.kernels().add(context_.threads(), DType::float32, dw, at(slice) + sum_at_, dw, shape_.in * shape_.out);
    }
  }

 private:
  static constexpr std::size_t largest_sum = std::size_t{4} << 20, chunk_bytes = std::size_t{1} << 20;
  static constexpr Index packed_rows = 32;

  /// Memory objects are not shared between threads, so each slice has its own.
  struct Chunk {
    std::array<MadeProduct, 2> made;  // overwriting, accumulating
    Index width = 0;                  // of the blocks in which the device's kernel packs x; 0: x as it is
  };

  Chunk make_chunk(Index rows) {
    Chunk chunk;
    const memory::desc plain = matrix(shape_.type, rows, shape_.in);
    const auto make = [&](const memory::desc& b, bool accumulate) {
      MadeProduct made = make_product(
          context_, {matrix(shape_.type, shape_.out, rows), b, matrix(DType::float32, shape_.out, shape_.in),
                     memory::desc(), accumulate ? Sum::into_c : Sum::none, 1, shape_.math});
      scratchpad_bytes_ = std::max(scratchpad_bytes_, made.call.scratchpad_bytes());
      return made;
    };
    chunk.made[0] = make(any_matrix(shape_.type, rows, shape_.in), false);
    if (const Reorder pack(context_, plain, chunk.made[0].b); pack.is_own()) {
      chunk.width = pack.width();
    } else {
      chunk.made[0] = make(plain, false);
    }
    chunk.made[1] = make(chunk.made[0].b, true);
    return chunk;
  }

  char* at(int slice) const { return context_.workspace() + static_cast<std::size_t>(slice) * slice_bytes_; }

  void run_slice(int slice, const void* x, const void* dy, void* dw, bool accumulate) {
    const Kernels& kernels = context_.kernels();
    char* mine = at(slice);
    char *transposed = mine + whole_pages(scratchpad_bytes_), *packed = mine + packed_at_;
    void* sum = slice == 0 ? dw : mine + sum_at_;
    bool into = slice == 0 && accumulate;
    for (Index i = chunks_ * slice / slices_; i < chunks_ * (slice + 1) / slices_; ++i) {
      const Index first = i * chunk_rows_, rows = std::min(chunk_rows_, shape_.rows - first);
      Chunk& chunk = i + 1 == chunks_ ? rest_ : full_[static_cast<std::size_t>(slice)];
      kernels.transpose(1, shape_.type, static_cast<const char*>(dy) + bytes_of(first * shape_.out, shape_.type), rows,
                        shape_.out, transposed);
      const char* b = static_cast<const char*>(x) + bytes_of(first * shape_.in, shape_.type);
      if (shape_.gather) {
        shape_.gather(1, x, first, rows, mine + gathered_at_);
        b = mine + gathered_at_;
      }
      if (chunk.width > 0) {
        kernels.pack_row_pairs(1, b, false, rows, shape_.in, shape_.in, chunk.width, packed);
        b = packed;
      }
      chunk.made[into].call.run(context_.stream_of(slice), mine, transposed, b, sum);
      into = true;
    }
  }

  Context& context_;
  Shape shape_;
  Index chunk_rows_ = 0, chunks_ = 0;
  int slices_ = 0;
  std::vector<Chunk> full_;
  Chunk rest_;  // the last one, run by the last slice
  std::size_t scratchpad_bytes_ = 0, gathered_at_ = 0, packed_at_ = 0, sum_at_ = 0, slice_bytes_ = 0;
};

}  // namespace

std::vector<int> gradient_ways(const Context& context, const GradientProduct::Shape& shape) {
  std::vector<int> ways{0, transpose_dy, pack_x, transpose_dy | pack_x, transpose_dy | pack_x | clear};
  if (SlicedGradient::pays(context, shape)) ways.push_back(sliced);
  return ways;
}

std::unique_ptr<GradientProduct> make_gradient_product(Context& context, const std::string& name, const Shape& shape) {
  const std::vector<int> ways = gradient_ways(context, shape);
  const Index measured = std::min(shape.rows, ways.back() == sliced ? measured_slices_rows : measured_rows);
  const auto make = [&](int way, Index rows) -> std::unique_ptr<GradientProduct> {
    Shape wanted = shape;
    wanted.rows = rows;
    if (way == sliced) return std::make_unique<SlicedGradient>(context, wanted);
    return std::make_unique<WholeGradient>(context, wanted, (way & transpose_dy) != 0, (way & pack_x) != 0,
                                           (way & clear) != 0);
  };
  // Where it is fixed: copies of both operands where each element is read often, plain operands elsewhere.
  constexpr Index least_for_copies = 512;
  const int fixed =
      std::min(shape.in, shape.out) >= least_for_copies ? (transpose_dy | pack_x) : 0;  // index = way up to there
  const std::string key = choice_key(name, measured, shape.in, shape.out, shape.type, shape.math);
  const int choice = context.fastest(key, fixed, [&] {
    auto x = measured_operand(context, shape.gather ? shape.source : measured * shape.in, shape.type);
    auto dy = measured_operand(context, measured * shape.out, shape.type);
    auto dw = measured_operand(context, shape.out * shape.in, DType::float32);
    std::vector<std::function<void()>> candidates;
    for (const int way : ways) {
      std::shared_ptr<GradientProduct> made = make(way, measured);
      candidates.push_back([&context, made, x, dy, dw] {
        const ThreadScope scope(context.threads());
        made->run(x->data(), dy->data(), dw->data(), false);
      });
    }
    return candidates;
  });
  return make(ways[static_cast<std::size_t>(choice)], shape.rows);
}

}  // namespace tw::models::cpu
