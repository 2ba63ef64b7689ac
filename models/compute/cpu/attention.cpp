// Attention by blocks of query rows: each thread takes whole heads of a sample, in backward those query heads together
// that share a key and value head, whose gradients add up. Every product is a small primitive made for one thread. A
// block sees the keys up to its last row, so the upper half of a causal mask costs nothing beyond the diagonal blocks.
// Scores stay in a thread's own scratch, never in memory of size (batch, heads, seq, seq).
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <exception>

#include "models/compute/cpu/context.hpp"
#include "models/compute/error.hpp"

namespace tw::models::cpu {

namespace {

using dnnl::memory;
using Sum = Product::Sum;

std::size_t padded(std::size_t bytes) { return (bytes + 127) / 128 * 128; }

class CpuAttentionPlan final : public AttentionPlan {
 public:
  CpuAttentionPlan(Context& context, const AttentionShape& shape)
      : AttentionPlan(context.device(), shape), context_(context) {
    block_rows_ = std::min<Index>(shape.seq, shape.seq >= 1024 ? 128 : 64);
    for (Index first = 0; first < shape.seq; first += block_rows_) {
      Block block;
      block.first = first;
      block.rows = std::min(block_rows_, shape.seq - first);
      block.keys = shape.causal ? first + block.rows : shape.seq;
      blocks_.push_back(block);
    }
    const ThreadScope scope(1);
    threads_.resize(static_cast<std::size_t>(std::min<Index>(context.threads(), shape.batch * shape.heads)));
    for (auto& thread : threads_) {
      for (const Block& block : blocks_) thread.push_back(make_products(block, &block == &blocks_.back()));
    }
    const auto scores = static_cast<std::size_t>(block_rows_ * shape.seq), type_bytes = size_of(shape.dtype);
    offsets_.scores = padded(scratchpad_bytes_);
    offsets_.d_probabilities = offsets_.scores + padded(scores * 4);
    offsets_.probabilities = offsets_.d_probabilities + padded(scores * 4);
    offsets_.d_scores = offsets_.probabilities + padded(scores * type_bytes);
    offsets_.d_key = offsets_.d_scores + padded(scores * type_bytes);
    offsets_.d_value = offsets_.d_key + padded(static_cast<std::size_t>(shape.seq * shape.head_dim) * 4);
    offsets_.delta = offsets_.d_value + padded(static_cast<std::size_t>(shape.seq * shape.head_dim) * 4);
    scratch_bytes_ = offsets_.delta + padded(static_cast<std::size_t>(block_rows_) * 4);
    scratch_bytes_ = (scratch_bytes_ + 4095) / 4096 * 4096;
    context.reserve_workspace(scratch_bytes_ * threads_.size());
  }

  std::string description() const override {
    return "blocks of " + std::to_string(block_rows_) + " rows, " + implementation_;
  }

 protected:
  void do_forward(Stream&, const AttentionForward& args) override {
    over_heads(shape().heads, [&](int thread, Index batch, Index head) { forward_head(thread, batch, head, args); });
  }
  void do_backward(Stream&, const AttentionBackward& args) override {
    over_heads(shape().kv_heads, [&](int thread, Index batch, Index kv_head) {
      const Index first = kv_head * shape().group();
      for (Index head = first; head < first + shape().group(); ++head) {
        backward_head(thread, batch, head, head == first, args);
      }
      store_key_gradients(thread, batch, kv_head, args);
    });
  }

 private:
  struct Block {
    Index first = 0, rows = 0, keys = 0;
  };
  struct BlockProducts {
    Call scores, output;                            // q·kᵀ, p·v
    Call d_probabilities, d_query, d_key, d_value;  // d_out·vᵀ, ds·k, dsᵀ·q, pᵀ·d_out
    Call more_d_key, more_d_value;  // of the last block where a query head is not the first of its group
  };
  struct Offsets {
    std::size_t scores, d_probabilities, probabilities, d_scores, d_key, d_value, delta;
  };

  Call product(Product wanted) {
    wanted.math = shape().math;
    MadeProduct made = make_product(context_, wanted);
    scratchpad_bytes_ = std::max(scratchpad_bytes_, made.call.scratchpad_bytes());
    if (implementation_.find(made.implementation) == std::string::npos) {
      implementation_ += (implementation_.empty() ? "" : "+") + made.implementation;
    }
    return std::move(made.call);
  }

  /// `last`: the last block sees all keys; it is the first of a backward pass and overwrites the sums of dk and dv,
  /// unless these hold those of another query head.
  BlockProducts make_products(const Block& block, bool last) {
    const DType type = shape().dtype;
    const Index width = shape().head_dim, ld = shape().packed_heads() * width, out_ld = shape().heads * width;
    const Index rows = block.rows, keys = block.keys;
    const memory::desc query = strided_matrix(type, rows, width, ld), key = strided_matrix(type, keys, width, ld);
    const memory::desc key_transposed({width, keys}, library_type(type), memory::dims{1, ld});
    const memory::desc out = strided_matrix(type, rows, width, out_ld);
    const memory::desc scores = matrix(DType::float32, rows, keys), probabilities = matrix(type, rows, keys);
    const memory::desc probabilities_transposed = transposed_matrix(type, keys, rows);
    const memory::desc sums = matrix(DType::float32, keys, width), none;
    const Sum into = last ? Sum::none : Sum::into_c;
    BlockProducts made;
    made.scores = product({query, key_transposed, scores, none});
    made.output = product({probabilities, key, matrix(DType::float32, rows, width), none});
    made.d_probabilities = product({out, key_transposed, scores, none});
    const memory::desc d_query = width > 1 ? query : matrix(DType::float32, rows, width);  // is_miscomputed
    made.d_query = product({probabilities, key, d_query, none});
    made.d_key = product({probabilities_transposed, query, sums, none, into});
    made.d_value = product({probabilities_transposed, out, sums, none, into});
    if (last && shape().group() > 1) {
      made.more_d_key = product({probabilities_transposed, query, sums, none, Sum::into_c});
      made.more_d_value = product({probabilities_transposed, out, sums, none, Sum::into_c});
    }
    return made;
  }

  /// body(thread, batch, head) for each of the heads of each sample.
  template <class Body>
  void over_heads(Index heads, Body&& body) {
    const ThreadScope scope(static_cast<int>(threads_.size()));  // alone, a primitive made for one thread sees one
    const Index pairs = shape().batch * heads;
    std::exception_ptr failure;
#pragma omp parallel num_threads(static_cast <int>(threads_.size()))
    {
      const int thread = omp_get_thread_num();
      const Index parts = omp_get_num_threads();
      try {
        for (Index pair = pairs * thread / parts; pair < pairs * (thread + 1) / parts; ++pair) {
          body(thread, pair / heads, pair % heads);
        }
      } catch (...) {
#pragma omp critical(tw_attention_failure)
        failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
  }

  char* scratch(int thread) const { return context_.workspace() + static_cast<std::size_t>(thread) * scratch_bytes_; }
  template <class Byte>
  Byte* at(Byte* base, Index element) const {
    return base + element * static_cast<Index>(size_of(shape().dtype));
  }
  /// Where a key head or value head begins in one position of the packed tensor.
  Index key_at(Index kv_head) const { return (shape().heads + kv_head) * shape().head_dim; }
  Index value_at(Index kv_head) const { return key_at(shape().kv_heads + kv_head); }
  float scale() const { return 1.0f / std::sqrt(static_cast<float>(shape().head_dim)); }

  void forward_head(int thread, Index batch, Index head, const AttentionForward& args) {
    const AttentionShape& s = shape();
    dnnl::stream& stream = context_.stream_of(thread);
    char* mine = scratch(thread);
    auto* scores = reinterpret_cast<float*>(mine + offsets_.scores);
    auto* inverse_sum = reinterpret_cast<float*>(mine + offsets_.delta);
    auto* sums = reinterpret_cast<float*>(mine + offsets_.d_value);
    void* exponentials = mine + offsets_.probabilities;
    const Kernels& kernels = context_.kernels();
    const Index width = s.head_dim, plane = s.heads * width, ld = s.packed_heads() * width;
    const char* sample = at(args.qkv.as<const char>(), batch * s.seq * ld);
    const char *q = at(sample, head * width), *k = at(sample, key_at(head / s.group())),
               *v = at(sample, value_at(head / s.group()));
    char* out = at(args.out.as<char>(), batch * s.seq * plane + head * width);
    float* log_sum_exp = args.log_sum_exp.as<float>() + (batch * s.heads + head) * s.seq;
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
      const Block& block = blocks_[i];
      BlockProducts& products = threads_[static_cast<std::size_t>(thread)][i];
      products.scores.run(stream, mine, at(q, block.first * ld), k, scores);
      kernels.attention_exponentials(s.dtype, scores, block.rows, block.first, block.keys, block.keys, s.causal,
                                     scale(), exponentials, inverse_sum, log_sum_exp + block.first);
      products.output.run(stream, mine, exponentials, v, sums);
      kernels.store_rows(s.dtype, sums, block.rows, width, inverse_sum, at(out, block.first * plane), plane);
    }
  }

  /// dq, and in the thread's scratch the sums of dk and dv: overwritten by the `first` query head of a group.
  void backward_head(int thread, Index batch, Index head, bool first, const AttentionBackward& args) {
    const AttentionShape& s = shape();
    const Kernels& kernels = context_.kernels();
    dnnl::stream& stream = context_.stream_of(thread);
    char* mine = scratch(thread);
    auto* scores = reinterpret_cast<float*>(mine + offsets_.scores);
    auto* d_probabilities = reinterpret_cast<float*>(mine + offsets_.d_probabilities);
    auto* delta = reinterpret_cast<float*>(mine + offsets_.delta);
    auto* d_key = reinterpret_cast<float*>(mine + offsets_.d_key);
    auto* d_value = reinterpret_cast<float*>(mine + offsets_.d_value);
    void *probabilities = mine + offsets_.probabilities, *d_scores = mine + offsets_.d_scores;
    const Index width = s.head_dim, plane = s.heads * width, ld = s.packed_heads() * width;
    const Index sample_at = batch * s.seq * ld, out_at = batch * s.seq * plane + head * width;
    const char* sample = at(args.qkv.as<const char>(), sample_at);
    const char *q = at(sample, head * width), *k = at(sample, key_at(head / s.group())),
               *v = at(sample, value_at(head / s.group()));
    char* dq = at(args.d_qkv.as<char>(), sample_at + head * width);
    const char *out = at(args.out.as<const char>(), out_at), *d_out = at(args.d_out.as<const char>(), out_at);
    const float* log_sum_exp = args.log_sum_exp.as<float>() + (batch * s.heads + head) * s.seq;
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      const Block& block = blocks_[i];
      BlockProducts& products = threads_[static_cast<std::size_t>(thread)][i];
      const char *q_rows = at(q, block.first * ld), *d_out_rows = at(d_out, block.first * plane);
      products.scores.run(stream, mine, q_rows, k, scores);
      products.d_probabilities.run(stream, mine, d_out_rows, v, d_probabilities);
      kernels.row_dots(s.dtype, d_out_rows, plane, at(out, block.first * plane), plane, block.rows, width, delta);
      kernels.attention_gradient(s.dtype, scores, d_probabilities, block.rows, block.first, block.keys, block.keys,
                                 s.causal, scale(), log_sum_exp + block.first, delta, probabilities, d_scores);
      const bool more = !first && i + 1 == blocks_.size();
      (more ? products.more_d_value : products.d_value).run(stream, mine, probabilities, d_out_rows, d_value);
      (more ? products.more_d_key : products.d_key).run(stream, mine, d_scores, q_rows, d_key);
      char* dq_rows = at(dq, block.first * ld);
      if (width > 1) {
        products.d_query.run(stream, mine, d_scores, k, dq_rows);
      } else {
        products.d_query.run(stream, mine, d_scores, k, scores);
        kernels.store_rows(s.dtype, scores, block.rows, width, nullptr, dq_rows, ld);
      }
    }
  }

  void store_key_gradients(int thread, Index batch, Index kv_head, const AttentionBackward& args) {
    const AttentionShape& s = shape();
    const Index width = s.head_dim, ld = s.packed_heads() * width;
    char* d_sample = at(args.d_qkv.as<char>(), batch * s.seq * ld);
    const auto store = [&](std::size_t sums, Index element) {
      context_.kernels().store_rows(s.dtype, reinterpret_cast<const float*>(scratch(thread) + sums), s.seq, width,
                                    nullptr, at(d_sample, element), ld);
    };
    store(offsets_.d_key, key_at(kv_head));
    store(offsets_.d_value, value_at(kv_head));
  }

  Context& context_;
  Index block_rows_ = 0;
  std::vector<Block> blocks_;
  std::vector<std::vector<BlockProducts>> threads_;  // memory objects are not shared between threads
  std::size_t scratchpad_bytes_ = 0, scratch_bytes_ = 0;
  Offsets offsets_{};
  std::string implementation_;
};

}  // namespace

std::unique_ptr<AttentionPlan> make_attention(Context& context, const AttentionShape& shape) {
  return std::make_unique<CpuAttentionPlan>(context, shape);
}

}  // namespace tw::models::cpu
