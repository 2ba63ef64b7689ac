// Attention where cuDNN's fused one is not there or refuses: scores by cuBLASLt in float32, softmax by our own kernels,
// for as many heads at once as a bounded workspace holds.
#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "models/compute/cuda/blas.hpp"
#include "models/compute/cuda/kernels/kernels.hpp"
#include "models/compute/cuda/plans.hpp"

namespace tw::models::cuda {
namespace {

/// Of the scores of a chunk, their gradient and both as dtype.
std::size_t most_chunk_bytes(const Context& context) {
  return std::min(std::size_t{512} << 20, context.memory_bytes() / 32);
}

class CudaAttention final : public AttentionPlan {
 public:
  CudaAttention(Context& context, const AttentionShape& shape, std::string why_not_fused)
      : AttentionPlan(context.device(), shape), context_(context), why_not_fused_(std::move(why_not_fused)) {
    const auto matrix = static_cast<std::size_t>(shape.seq * shape.seq);
    const std::size_t head_bytes = matrix * (2 * sizeof(float) + 2 * size_of(shape.dtype));  // backward's
    chunk_ = std::clamp<Index>(static_cast<Index>(most_chunk_bytes(context) / head_bytes), 1, shape.heads);
    for (const Index heads : {chunk_, shape.heads % chunk_}) {
      for (int kind = 0; kind < kinds && heads > 0; ++kind) product(static_cast<Kind>(kind), heads, 16, nullptr);
    }
    context.reserve(lay_out(nullptr).bytes);
  }

  std::string description() const override {
    return "cuBLASLt and own softmax, " + std::to_string(chunk_) + " of " + std::to_string(shape().heads) +
           " heads at once (fused: " + why_not_fused_ + ")";
  }

 protected:
  void do_forward(Stream& on, const AttentionForward& args) override {
    context_.use();
    const cudaStream_t stream = stream_of(on);
    const AttentionShape& s = shape();
    const Space space = lay_out(context_.workspace(stream, lay_out(nullptr).bytes));
    each_chunk([&](Index batch, Index head, Index heads) {
      const void *q = packed(args.qkv, batch, 0, head), *k = packed(args.qkv, batch, 1, head),
                 *v = packed(args.qkv, batch, 2, head);
      void* const out = unpacked(args.out, batch, head);
      const int alignment = alignment_of({q, k, v, out}, s.dtype);
      product(Kind::scores, heads, alignment, stream).run(stream, {.a = q, .b = k, .d = space.scores}, space.library);
      attention_softmax(stream, s.dtype, space.scores, heads, s.seq, s.causal, scale(), space.p,
                        args.log_sum_exp.as<float>() + (batch * s.heads + head) * s.seq);
      product(Kind::out, heads, alignment, stream).run(stream, {.a = space.p, .b = v, .d = out}, space.library);
    });
  }

  void do_backward(Stream& on, const AttentionBackward& args) override {
    context_.use();
    const cudaStream_t stream = stream_of(on);
    const AttentionShape& s = shape();
    const Space space = lay_out(context_.workspace(stream, lay_out(nullptr).bytes));
    attention_delta(stream, s.dtype, args.d_out.data, args.out.data, s.batch, s.seq, s.heads, s.head_dim, space.delta);
    each_chunk([&](Index batch, Index head, Index heads) {
      const void *q = packed(args.qkv, batch, 0, head), *k = packed(args.qkv, batch, 1, head),
                 *v = packed(args.qkv, batch, 2, head), *d_out = unpacked(args.d_out, batch, head);
      void *const dq = packed(args.d_qkv, batch, 0, head), *const dk = packed(args.d_qkv, batch, 1, head),
                  *const dv = packed(args.d_qkv, batch, 2, head);
      const int alignment = alignment_of({q, k, v, d_out, dq, dk, dv}, s.dtype);
      const auto run = [&](Kind kind, const void* a, const void* b, void* d) {
        product(kind, heads, alignment, stream).run(stream, {.a = a, .b = b, .d = d}, space.library);
      };
      const Index row = (batch * s.heads + head) * s.seq;
      run(Kind::scores, q, k, space.scores);
      run(Kind::dp, d_out, v, space.dp);
      attention_gradient(stream, s.dtype, space.scores, space.dp, heads, s.seq, s.causal, scale(),
                         args.log_sum_exp.as<float>() + row, space.delta + row, space.p, space.ds);
      run(Kind::dq, space.ds, k, dq);
      run(Kind::dk, space.ds, q, dk);
      run(Kind::dv, space.p, d_out, dv);
    });
  }

 private:
  /// Products of one head, (seq, seq) with the packed or unpacked tensors: scores = q·kᵀ, out = p·v, dp = d_out·vᵀ,
  /// dq = ds·k, dk = dsᵀ·q, dv = pᵀ·d_out.
  enum class Kind { scores, out, dp, dq, dk, dv };
  static constexpr int kinds = 6;
  struct Kept {
    Kind kind;
    Index heads;
    int alignment;
    Product product;
  };
  struct Space {
    void* library;
    float *scores, *dp, *delta;
    void *p, *ds;
    std::size_t bytes;
  };

  float scale() const { return 1 / std::sqrt(static_cast<float>(shape().head_dim)); }

  /// (batch, seq, 3·heads, head_dim)
  void* packed(const Tensor& qkv, Index batch, Index which, Index head) const {
    const AttentionShape& s = shape();
    return qkv.slice(((batch * s.seq * 3 + which) * s.heads + head) * s.head_dim, {1}).data;
  }
  /// (batch, seq, heads, head_dim)
  void* unpacked(const Tensor& out, Index batch, Index head) const {
    const AttentionShape& s = shape();
    return out.slice((batch * s.seq * s.heads + head) * s.head_dim, {1}).data;
  }

  template <class Body>
  void each_chunk(Body&& body) const {
    for (Index batch = 0; batch < shape().batch; ++batch) {
      for (Index head = 0; head < shape().heads; head += chunk_) {
        body(batch, head, std::min(chunk_, shape().heads - head));
      }
    }
  }

  Space lay_out(void* base) const {
    const AttentionShape& s = shape();
    const auto matrices = static_cast<std::size_t>(chunk_ * s.seq * s.seq);
    Parts parts(base);
    Space space{};
    space.library = parts.take(context_.blas().workspace_bytes());
    space.scores = parts.take<float>(matrices * sizeof(float));
    space.dp = parts.take<float>(matrices * sizeof(float));
    space.p = parts.take(matrices * size_of(s.dtype));
    space.ds = parts.take(matrices * size_of(s.dtype));
    space.delta = parts.take<float>(static_cast<std::size_t>(s.batch * s.heads * s.seq) * sizeof(float));
    space.bytes = parts.bytes();
    return space;
  }

  ProductShape shape_of(Kind kind, Index heads) const {
    const AttentionShape& s = shape();
    const cudaDataType_t type = cuda_type(s.dtype);
    const Index width = s.heads * s.head_dim;
    const Operand in_qkv{.type = type, .ld = 3 * width, .stride = s.head_dim},
        in_out{.type = type, .ld = width, .stride = s.head_dim},
        matrix{.type = type, .ld = s.seq, .stride = s.seq * s.seq};
    Operand sums = matrix;
    sums.type = CUDA_R_32F;
    const auto turned = [](Operand operand) {
      operand.transposed = true;
      return operand;
    };
    ProductShape p;
    p.batch = heads;
    p.compute = compute_type(s.math == Math::tf32 ? Math::tf32 : Math::standard);
    p.m = s.seq;
    const bool to_matrix = kind == Kind::scores || kind == Kind::dp;
    p.n = to_matrix ? s.seq : s.head_dim;
    p.k = to_matrix ? s.head_dim : s.seq;
    const std::tuple<Operand, Operand, Operand> operands[kinds] = {
        {in_qkv, turned(in_qkv), sums},    // scores
        {matrix, in_qkv, in_out},          // out
        {in_out, turned(in_qkv), sums},    // dp
        {matrix, in_qkv, in_qkv},          // dq
        {turned(matrix), in_qkv, in_qkv},  // dk
        {turned(matrix), in_out, in_qkv},  // dv
    };
    std::tie(p.a, p.b, p.d) = operands[static_cast<std::size_t>(kind)];
    return p;
  }

  const Product& product(Kind kind, Index heads, int alignment, cudaStream_t stream) {
    for (const Kept& kept : products_) {
      if (kept.kind == kind && kept.heads == heads && kept.alignment == alignment) return kept.product;
    }
    ProductShape wanted = shape_of(kind, heads);
    // Each matrix of the batch must begin as aligned as the first.
    const auto element = static_cast<Index>(size_of(shape().dtype));
    const bool strides = shape().head_dim * element % 16 == 0 && shape().seq * shape().seq * element % 16 == 0;
    wanted.alignment = heads == 1 || strides ? alignment : static_cast<int>(element);
    products_.push_back({kind, heads, alignment, Product(context_.blas(), wanted, stream)});
    const Product& made = products_.back().product;
    if (!made) throw_no_algorithm(context_, wanted, "attention");
    return made;
  }

  Context& context_;
  std::string why_not_fused_;
  Index chunk_ = 1;
  std::deque<Kept> products_;
};

}  // namespace

std::unique_ptr<AttentionPlan> make_attention(Context& context, const AttentionShape& shape,
                                              std::string why_not_fused) {
  return std::make_unique<CudaAttention>(context, shape, std::move(why_not_fused));
}

}  // namespace tw::models::cuda
