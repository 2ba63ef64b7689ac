// Attention where cuDNN's fused one is not there or refuses: scores by cuBLASLt in float32, softmax by our own kernels,
// for as many heads at once as a bounded workspace holds.
#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "models/compute/cuda/bench.hpp"
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
    if (is_grouped()) chunk_ = chunk_ < group() ? 1 : chunk_ / group() * group();
    for (const Index heads : {chunk_, shape.heads % chunk_}) {
      for (int kind = 0; kind < kinds && heads > 0; ++kind)
        product(static_cast<Kind>(kind), batch_of(heads), 16, nullptr);
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
    each_chunk([&](Index batch, Index first, Index heads) {
      each_member(first, heads, [&](Index head, Index at) {
        const void *q = query(args.qkv, batch, head), *k = key(args.qkv, batch, head);
        run(Kind::scores, heads, stream, q, k, space.scores + at * s.seq * s.seq, space.library);
      });
      attention_softmax(stream, s.dtype, space.scores, heads, s.seq, s.causal, scale(), space.p,
                        args.log_sum_exp.as<float>() + (batch * s.heads + first) * s.seq);
      each_member(first, heads, [&](Index head, Index at) {
        const void* v = value(args.qkv, batch, head);
        run(Kind::out, heads, stream, matrix(space.p, at), v, unpacked(args.out, batch, head), space.library);
      });
    });
  }

  void do_backward(Stream& on, const AttentionBackward& args) override {
    context_.use();
    const cudaStream_t stream = stream_of(on);
    const AttentionShape& s = shape();
    const Space space = lay_out(context_.workspace(stream, lay_out(nullptr).bytes));
    attention_delta(stream, s.dtype, args.d_out.data, args.out.data, s.batch, s.seq, s.heads, s.head_dim, space.delta);
    each_chunk([&](Index batch, Index first, Index heads) {
      const auto product = [&](Kind kind, const void* a, const void* b, void* d) {
        run(kind, heads, stream, a, b, d, space.library);
      };
      each_member(first, heads, [&](Index head, Index at) {
        product(Kind::scores, query(args.qkv, batch, head), key(args.qkv, batch, head), matrix(space.scores, at));
        product(Kind::dp, unpacked(args.d_out, batch, head), value(args.qkv, batch, head), matrix(space.dp, at));
      });
      const Index row = (batch * s.heads + first) * s.seq;
      attention_gradient(stream, s.dtype, space.scores, space.dp, heads, s.seq, s.causal, scale(),
                         args.log_sum_exp.as<float>() + row, space.delta + row, space.p, space.ds);
      each_member(first, heads, [&](Index head, Index at) {
        const Index each = head * s.seq * s.head_dim;  // grouped: of the float32 gradients for each query head
        const void *q = query(args.qkv, batch, head), *d_out = unpacked(args.d_out, batch, head);
        product(Kind::dq, matrix(space.ds, at), key(args.qkv, batch, head), query(args.d_qkv, batch, head));
        product(Kind::dk, matrix(space.ds, at), q, is_grouped() ? space.dk_each + each : key(args.d_qkv, batch, head));
        product(Kind::dv, matrix(space.p, at), d_out,
                is_grouped() ? space.dv_each + each : value(args.d_qkv, batch, head));
      });
      if (is_grouped() && first + heads == s.heads) {
        for (const bool of_keys : {true, false}) {
          attention_group_sums(stream, s.dtype, of_keys ? space.dk_each : space.dv_each, s.seq, s.key_heads(), group(),
                               s.head_dim, of_keys ? key(args.d_qkv, batch, 0) : value(args.d_qkv, batch, 0),
                               s.packed_heads() * s.head_dim);
        }
      }
    });
  }

 private:
  /// Products of one head, (seq, seq) with the packed or unpacked tensors: scores = q·kᵀ, out = p·v, dp = d_out·vᵀ,
  /// dq = ds·k, dk = dsᵀ·q, dv = pᵀ·d_out. Grouped, dk and dv are those of each query head, float32
  /// (heads, seq, head_dim), which a kernel then adds in their order.
  enum class Kind { scores, out, dp, dq, dk, dv };
  static constexpr int kinds = 6;
  struct Kept {
    Kind kind;
    Index batch;
    int alignment;
    Product product;
  };
  struct Space {
    void* library;
    float *scores, *dp, *delta;
    void *p, *ds;
    float *dk_each, *dv_each;  // grouped: of one sample
    std::size_t bytes;
  };

  float scale() const { return 1 / std::sqrt(static_cast<float>(shape().head_dim)); }
  Index group() const { return shape().group(); }
  bool is_grouped() const { return group() > 1; }

  /// Of the packed tensor or its gradient: query head `head`, and the key and value that it uses.
  void* packed(const Tensor& qkv, Index batch, Index head) const {
    const AttentionShape& s = shape();
    return qkv.slice((batch * s.seq * s.packed_heads() + head) * s.head_dim, {1}).data;
  }
  void* query(const Tensor& qkv, Index batch, Index head) const { return packed(qkv, batch, head); }
  void* key(const Tensor& qkv, Index batch, Index head) const {
    return packed(qkv, batch, shape().heads + head / group());
  }
  void* value(const Tensor& qkv, Index batch, Index head) const {
    return packed(qkv, batch, shape().heads + shape().key_heads() + head / group());
  }
  /// (batch, seq, heads, head_dim)
  void* unpacked(const Tensor& out, Index batch, Index head) const {
    const AttentionShape& s = shape();
    return out.slice((batch * s.seq * s.heads + head) * s.head_dim, {1}).data;
  }
  /// Matrix `at` of a chunk.
  float* matrix(float* base, Index at) const { return base + at * shape().seq * shape().seq; }
  void* matrix(void* base, Index at) const {
    const Index bytes = at * shape().seq * shape().seq * static_cast<Index>(size_of(shape().dtype));
    return static_cast<char*>(base) + bytes;
  }

  template <class Body>
  void each_chunk(Body&& body) const {
    for (Index batch = 0; batch < shape().batch; ++batch) {
      for (Index head = 0; head < shape().heads; head += chunk_) {
        body(batch, head, std::min(chunk_, shape().heads - head));
      }
    }
  }
  /// A product's matrices lie at equal distances, which those of query heads and of shared keys do not do together. So
  /// one product takes the same member of each group of a chunk, or all heads where each has its own key.
  /// body(the first head, its place in the chunk)
  template <class Body>
  void each_member(Index first, Index heads, Body&& body) const {
    const Index members = heads / batch_of(heads);
    for (Index member = 0; member < members; ++member) body(first + member, member);
  }
  Index batch_of(Index heads) const { return heads < group() ? 1 : heads / group(); }

  Space lay_out(void* base) const {
    const AttentionShape& s = shape();
    const auto matrices = static_cast<std::size_t>(chunk_ * s.seq * s.seq);
    const auto each = static_cast<std::size_t>(is_grouped() ? s.heads * s.seq * s.head_dim : 0);
    Parts parts(base);
    Space space{};
    space.library = parts.take(context_.blas().workspace_bytes());
    space.scores = parts.take<float>(matrices * sizeof(float));
    space.dp = parts.take<float>(matrices * sizeof(float));
    space.p = parts.take(matrices * size_of(s.dtype));
    space.ds = parts.take(matrices * size_of(s.dtype));
    space.delta = parts.take<float>(static_cast<std::size_t>(s.batch * s.heads * s.seq) * sizeof(float));
    space.dk_each = parts.take<float>(each * sizeof(float));
    space.dv_each = parts.take<float>(each * sizeof(float));
    space.bytes = parts.bytes();
    return space;
  }

  ProductShape shape_of(Kind kind, Index batch) const {
    const AttentionShape& s = shape();
    const cudaDataType_t type = cuda_type(s.dtype);
    const Operand in_q{.type = type, .ld = s.packed_heads() * s.head_dim, .stride = group() * s.head_dim},
        in_out{.type = type, .ld = s.heads * s.head_dim, .stride = group() * s.head_dim},
        matrix{.type = type, .ld = s.seq, .stride = group() * s.seq * s.seq},
        each{.type = CUDA_R_32F, .ld = s.head_dim, .stride = group() * s.seq * s.head_dim};
    Operand sums = matrix, in_kv = in_q;
    sums.type = CUDA_R_32F;
    in_kv.stride = s.head_dim;
    const Operand d_kv = is_grouped() ? each : in_kv;
    const auto turned = [](Operand operand) {
      operand.transposed = true;
      return operand;
    };
    ProductShape p;
    p.batch = batch;
    p.compute = compute_type(s.math == Math::tf32 ? Math::tf32 : Math::standard);
    p.m = s.seq;
    const bool to_matrix = kind == Kind::scores || kind == Kind::dp;
    p.n = to_matrix ? s.seq : s.head_dim;
    p.k = to_matrix ? s.head_dim : s.seq;
    const std::tuple<Operand, Operand, Operand> operands[kinds] = {
        {in_q, turned(in_kv), sums},     // scores
        {matrix, in_kv, in_out},         // out
        {in_out, turned(in_kv), sums},   // dp
        {matrix, in_kv, in_q},           // dq
        {turned(matrix), in_q, d_kv},    // dk
        {turned(matrix), in_out, d_kv},  // dv
    };
    std::tie(p.a, p.b, p.d) = operands[static_cast<std::size_t>(kind)];
    return p;
  }

  /// For the same member of `heads` heads' groups.
  void run(Kind kind, Index heads, cudaStream_t stream, const void* a, const void* b, void* d, void* workspace) {
    const int alignment = alignment_of({a, b, d}, shape().dtype);
    product(kind, batch_of(heads), alignment, stream).run(stream, {.a = a, .b = b, .d = d}, workspace);
  }

  const Product& product(Kind kind, Index batch, int alignment, cudaStream_t stream) {
    // Each matrix must begin as aligned as the first.
    const auto element = static_cast<Index>(size_of(shape().dtype));
    const bool strides = shape().head_dim * element % 16 == 0 && shape().seq * shape().seq * element % 16 == 0;
    if (!strides && (batch > 1 || is_grouped())) alignment = static_cast<int>(element);
    for (const Kept& kept : products_) {
      if (kept.kind == kind && kept.batch == batch && kept.alignment == alignment) return kept.product;
    }
    ProductShape wanted = shape_of(kind, batch);
    wanted.alignment = alignment;
    products_.push_back({kind, batch, alignment, Product(context_.blas(), wanted, stream)});
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
