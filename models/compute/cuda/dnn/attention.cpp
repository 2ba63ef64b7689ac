// Fused attention by cuDNN: forward keeps its output and the log of the sum of exponentials, nothing of size seq × seq.
#include <algorithm>
#include <cmath>
#include <limits>

#include "models/compute/cuda/dnn/dnn.hpp"
#include "models/compute/cuda/dnn/graphs.hpp"

namespace tw::models::cuda {
namespace {

using dnn::Runner;

/// Backward's gradient of the probabilities takes 2 · batch · heads · seq² bytes where it is deterministic.
constexpr std::size_t most_workspace_bytes = std::size_t{8} << 30;
constexpr std::size_t oldest_version = 91501;  // older ones want lengths beside sequences that 128 does not divide

class DnnAttention final : public AttentionPlan {
 public:
  DnnAttention(Context& context, std::shared_ptr<Dnn> dnn, const AttentionShape& shape)
      : AttentionPlan(context.device(), shape),
        context_(context),
        dnn_(std::move(dnn)),
        deterministic_(context.deterministic()),
        scale_(1 / std::sqrt(static_cast<float>(shape.head_dim))) {}

  bool build(std::string* why) {
    const AttentionShape& s = shape();
    const Dims one{s.batch, s.seq, s.heads, s.head_dim}, row{s.batch, s.heads, s.seq};
    const dnn::Wish wish = {.demands = {.deterministic = deterministic_}, .most_workspace_bytes = most_workspace_bytes};
    const std::string name = s.packed().str() + (s.causal ? " causal " : " ") +
                             std::string(to_string(s.dtype)) + (deterministic_ ? " deterministic" : "");
    // q, k and v of a measurement lie one behind the other, with the strides of the packed tensor.
    const Dims packed = s.packed();
    std::vector<dnn::Need> needs = {{dnn::uid_q, packed, s.dtype},
                                    {dnn::uid_k, packed, s.dtype},
                                    {dnn::uid_v, packed, s.dtype},
                                    {dnn::uid_out, one, s.dtype},
                                    {dnn::uid_log_sum_exp, row, DType::float32}};
    std::vector<dnn::Operand> scalars = {{dnn::uid_scale, &scale_}};
    if (s.causal) scalars.push_back({dnn::uid_masked, &masked_});
    forward_ = Runner(find_measured(context_, *dnn_, "attention_forward " + name,
                                    dnn::attention_forward_graph(*dnn_->target, s), wish, needs, scalars, why));
    if (!forward_) return false;
    for (const std::int64_t uid : {dnn::uid_dq, dnn::uid_dk, dnn::uid_dv}) needs.push_back({uid, packed, s.dtype});
    needs.push_back({dnn::uid_d_out, one, s.dtype});
    needs.push_back({dnn::uid_row_dot, row, DType::float32});
    if (!deterministic_) needs.push_back({dnn::uid_dq_sum, one, DType::float32});
    scalars.push_back({dnn::uid_one, &one_});
    backward_ = Runner(find_measured(context_, *dnn_, "attention_backward " + name,
                                     dnn::attention_backward_graph(*dnn_->target, s, deterministic_), wish, needs,
                                     scalars, why));
    if (!backward_) return false;
    context_.reserve(std::max(forward_.plan().workspace_bytes(), scratch_at() + row_bytes() + sum_bytes()));
    return true;
  }

  std::string description() const override {
    return "cuDNN, fused: forward " + forward_.plan().description() + "; backward " + backward_.plan().description() +
           (deterministic_ ? ", deterministic" : "");
  }

 protected:
  void do_forward(Stream& on, const AttentionForward& args) override {
    context_.use();
    const cudaStream_t stream = stream_of(on);
    operands_ = {{dnn::uid_q, part(args.qkv, 0)},
                 {dnn::uid_k, part(args.qkv, 1)},
                 {dnn::uid_v, part(args.qkv, 2)},
                 {dnn::uid_out, args.out.data},
                 {dnn::uid_log_sum_exp, args.log_sum_exp.data},
                 {dnn::uid_scale, &scale_}};
    if (shape().causal) operands_.push_back({dnn::uid_masked, &masked_});
    forward_.run(stream, operands_.data(), operands_.size(),
                 context_.workspace(stream, forward_.plan().workspace_bytes()));
  }
  void do_backward(Stream& on, const AttentionBackward& args) override {
    context_.use();
    const cudaStream_t stream = stream_of(on);
    char* const workspace = static_cast<char*>(context_.workspace(stream, scratch_at() + row_bytes() + sum_bytes()));
    operands_ = {{dnn::uid_q, part(args.qkv, 0)},
                 {dnn::uid_k, part(args.qkv, 1)},
                 {dnn::uid_v, part(args.qkv, 2)},
                 {dnn::uid_out, args.out.data},
                 {dnn::uid_log_sum_exp, args.log_sum_exp.data},
                 {dnn::uid_d_out, args.d_out.data},
                 {dnn::uid_dq, part(args.d_qkv, 0)},
                 {dnn::uid_dk, part(args.d_qkv, 1)},
                 {dnn::uid_dv, part(args.d_qkv, 2)},
                 {dnn::uid_row_dot, workspace + scratch_at()},
                 {dnn::uid_scale, &scale_},
                 {dnn::uid_one, &one_}};
    if (shape().causal) operands_.push_back({dnn::uid_masked, &masked_});
    if (!deterministic_) operands_.push_back({dnn::uid_dq_sum, workspace + scratch_at() + row_bytes()});
    backward_.run(stream, operands_.data(), operands_.size(), workspace);
  }

 private:
  /// Where q (0), k (1) or v (2) of the first position begins.
  void* part(const Tensor& packed, std::int64_t which) const {
    return packed.slice(which * shape().heads * shape().head_dim, {1}).data;
  }
  /// Our scratch behind the library's workspace.
  std::size_t scratch_at() const { return dnn::aligned(backward_.plan().workspace_bytes()); }
  std::size_t row_bytes() const {
    return dnn::aligned(static_cast<std::size_t>(shape().batch * shape().heads * shape().seq) * sizeof(float));
  }
  std::size_t sum_bytes() const {
    return deterministic_ ? 0 : row_bytes() * static_cast<std::size_t>(shape().head_dim);
  }

  Context& context_;
  std::shared_ptr<Dnn> dnn_;  // outlives the runners
  bool deterministic_;
  float scale_, one_ = 1, masked_ = -std::numeric_limits<float>::infinity();  // read by the library in each run
  Runner forward_, backward_;
  std::vector<dnn::Operand> operands_;
};

/// What the library is not asked for; the rest it refuses by itself.
std::string refusal(const Context& context, const AttentionShape& s) {
  if (!is_half(s.dtype)) return "cuDNN's fused attention takes bf16 and fp16, not " + std::string(to_string(s.dtype));
  if (s.head_dim % 8 != 0)
    return "cuDNN's fused attention wants a head_dim that 8 divides, not " + std::to_string(s.head_dim);
  if (s.seq == 1) return "cuDNN's fused attention has no backward for one position";
  if (context.architecture() < 80) return "cuDNN's fused attention wants sm_80 or later";
  if (context.deterministic() && context.architecture() >= 100)
    return "cuDNN's deterministic attention is for sm_80 to sm_90, this is sm_" +
           std::to_string(context.architecture()) + ": --deterministic no has another one";
  return {};
}

}  // namespace

std::unique_ptr<AttentionPlan> make_dnn_attention(Context& context, const AttentionShape& shape, std::string* why) {
  *why = refusal(context, shape);
  if (!why->empty()) return nullptr;
  std::shared_ptr<Dnn> dnn = dnn::open(context, why);
  if (!dnn) return nullptr;
  if (dnn->library->version() < oldest_version) {
    *why = "cuDNN " + dnn->library->version_text() + " is too old for fused attention: 9.15.1 or later";
    return nullptr;
  }
  auto plan = std::make_unique<DnnAttention>(context, std::move(dnn), shape);
  if (!plan->build(why)) return nullptr;
  return plan;
}

}  // namespace tw::models::cuda
