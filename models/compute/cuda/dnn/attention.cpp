// Fused attention by cuDNN: forward keeps its output and the log of the sum of exponentials, nothing of size seq × seq.
#include <algorithm>
#include <cmath>
#include <limits>

#include "models/compute/cuda/dnn/dnn.hpp"
#include "models/compute/cuda/dnn/graphs.hpp"

namespace tw::models::cuda {
namespace {

using dnn::Runner;

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
    const dnn::Wish wish = {.demands = dnn::attention_demands(deterministic_, context_.memory_bytes())};
    const std::string name = s.packed().str() + " of " + std::to_string(s.heads) + " heads" +
                             (s.causal ? " causal " : " ") + std::string(to_string(s.dtype)) +
                             (deterministic_ ? " deterministic" : "");
    // q, k and v of a measurement lie one behind the other, with the strides of the packed tensor.
    std::vector<dnn::Need> needs = {{dnn::uid_q, s.packed(), s.dtype},
                                    {dnn::uid_k, s.packed(), s.dtype},
                                    {dnn::uid_v, s.packed(), s.dtype},
                                    {dnn::uid_out, s.unpacked(), s.dtype},
                                    {dnn::uid_log_sum_exp, s.row_values(), DType::float32}};
    std::vector<dnn::Operand> scalars = {{dnn::uid_scale, &scale_}};
    if (s.causal) scalars.push_back({dnn::uid_masked, &masked_});
    forward_ = Runner(find_measured(context_, *dnn_, "attention_forward " + name,
                                    dnn::attention_forward_graph(*dnn_->target, s), wish, needs, scalars, why));
    if (!forward_) return false;
    for (const std::int64_t uid : {dnn::uid_dq, dnn::uid_dk, dnn::uid_dv}) needs.push_back({uid, s.packed(), s.dtype});
    needs.push_back({dnn::uid_d_out, s.unpacked(), s.dtype});
    needs.push_back({dnn::uid_row_dot, s.row_values(), DType::float32});
    scalars.push_back({dnn::uid_one, &one_});
    dnn::Complaints complaints;
    for (const dnn::DqSums sums : dnn::dq_sums(deterministic_, context_.architecture(), dnn_->library->version())) {
      sums_ = sums;
      part_ = dnn::fitting_part(*dnn_->target, s, sums, wish.demands);
      const std::int64_t count = s.batch / part_.batch * (s.kv_heads / part_.kv_heads);
      std::vector<dnn::Need> all = needs;
      if (has_dq_sum(sums)) all.push_back({dnn::uid_dq_sum, s.unpacked(), DType::float32});
      const std::shared_ptr<const dnn::ExecutionPlan> plan =
          find_measured(context_, *dnn_,
                        "attention_backward " + name + (sums == dnn::DqSums::in_turn ? " in turn " : " ") +
                            std::to_string(count) + " parts",
                        dnn::attention_backward_graph(*dnn_->target, s, sums, part_), wish, all, scalars, why);
      for (std::int64_t i = 0; plan && i < count; ++i) backward_.emplace_back(plan);
      if (plan) break;
      complaints.add(*why);
    }
    if (backward_.empty()) {
      *why = complaints.text();
      return false;
    }
    context_.reserve(std::max(forward_.plan().workspace_bytes(), scratch_at() + row_bytes() + sum_bytes()));
    return true;
  }

  std::string description() const override {
    return "cuDNN, fused: forward " + forward_.plan().description() + "; backward " +
           backward_.front().plan().description() + (deterministic_ ? ", deterministic" : "") +
           (sums_ == dnn::DqSums::in_turn ? ", dq summed in turn" : "") +
           (backward_.size() > 1 ? ", in " + std::to_string(backward_.size()) + " parts" : "");
  }

 protected:
  void do_forward(Stream& on, const AttentionForward& args) override {
    context_.use();
    const cudaStream_t stream = stream_of(on);
    operands_ = {{dnn::uid_q, query(args.qkv, 0, 0)},           {dnn::uid_k, key(args.qkv, 0, 0)},
                 {dnn::uid_v, value(args.qkv, 0, 0)},           {dnn::uid_out, args.out.data},
                 {dnn::uid_log_sum_exp, args.log_sum_exp.data}, {dnn::uid_scale, &scale_}};
    if (shape().causal) operands_.push_back({dnn::uid_masked, &masked_});
    forward_.run(stream, operands_.data(), operands_.size(),
                 context_.workspace(stream, forward_.plan().workspace_bytes()));
  }
  void do_backward(Stream& on, const AttentionBackward& args) override {
    context_.use();
    const cudaStream_t stream = stream_of(on);
    const AttentionShape& s = shape();
    char* const workspace = static_cast<char*>(context_.workspace(stream, scratch_at() + row_bytes() + sum_bytes()));
    auto* const row_dot = reinterpret_cast<float*>(workspace + scratch_at());
    auto runner = backward_.begin();
    for (std::int64_t sample = 0; sample < s.batch; sample += part_.batch) {
      for (std::int64_t head = 0; head < s.kv_heads; head += part_.kv_heads, ++runner) {
        const std::int64_t row = (sample * s.heads + head * s.group()) * s.seq;
        operands_ = {{dnn::uid_q, query(args.qkv, sample, head)},
                     {dnn::uid_k, key(args.qkv, sample, head)},
                     {dnn::uid_v, value(args.qkv, sample, head)},
                     {dnn::uid_out, unpacked(args.out, sample, head)},
                     {dnn::uid_log_sum_exp, args.log_sum_exp.slice(row, {1}).data},
                     {dnn::uid_d_out, unpacked(args.d_out, sample, head)},
                     {dnn::uid_dq, query(args.d_qkv, sample, head)},
                     {dnn::uid_dk, key(args.d_qkv, sample, head)},
                     {dnn::uid_dv, value(args.d_qkv, sample, head)},
                     {dnn::uid_row_dot, row_dot + row},
                     {dnn::uid_scale, &scale_},
                     {dnn::uid_one, &one_}};
        if (s.causal) operands_.push_back({dnn::uid_masked, &masked_});
        if (has_dq_sum(sums_)) operands_.push_back({dnn::uid_dq_sum, workspace + scratch_at() + row_bytes()});
        runner->run(stream, operands_.data(), operands_.size(), workspace);
      }
    }
  }

 private:
  /// Where, in the first position of a sample, the query heads of a key head begin, or the key or value head.
  void* query(const Tensor& qkv, std::int64_t sample, std::int64_t head) const {
    return packed(qkv, sample, head * shape().group());
  }
  void* key(const Tensor& qkv, std::int64_t sample, std::int64_t head) const {
    return packed(qkv, sample, shape().heads + head);
  }
  void* value(const Tensor& qkv, std::int64_t sample, std::int64_t head) const {
    return packed(qkv, sample, shape().heads + shape().kv_heads + head);
  }
  void* packed(const Tensor& qkv, std::int64_t sample, std::int64_t head) const {
    const AttentionShape& s = shape();
    return qkv.slice((sample * s.seq * s.packed_heads() + head) * s.head_dim, {1}).data;
  }
  void* unpacked(const Tensor& out, std::int64_t sample, std::int64_t head) const {
    const AttentionShape& s = shape();
    return out.slice((sample * s.seq * s.heads + head * s.group()) * s.head_dim, {1}).data;
  }
  /// Our scratch behind the library's workspace.
  std::size_t scratch_at() const { return dnn::aligned(backward_.front().plan().workspace_bytes()); }
  std::size_t row_bytes() const {
    return dnn::aligned(static_cast<std::size_t>(shape().row_values().count()) * sizeof(float));
  }
  std::size_t sum_bytes() const {
    return has_dq_sum(sums_) ? row_bytes() * static_cast<std::size_t>(shape().head_dim) : 0;
  }

  Context& context_;
  std::shared_ptr<Dnn> dnn_;  // outlives the runners
  bool deterministic_;
  float scale_, one_ = 1, masked_ = -std::numeric_limits<float>::infinity();  // read by the library in each run
  Runner forward_;
  dnn::DqSums sums_{};            // of backward
  dnn::AttentionPart part_;       // that it computes at once
  std::vector<Runner> backward_;  // of each part
  std::vector<dnn::Operand> operands_;
};

}  // namespace

std::unique_ptr<AttentionPlan> make_dnn_attention(Context& context, const AttentionShape& shape, std::string* why) {
  *why = dnn::why_no_attention(shape, context.architecture(), context.deterministic());
  if (!why->empty()) return nullptr;
  std::shared_ptr<Dnn> dnn = dnn::open(context, why);
  if (!dnn) return nullptr;
  *why = dnn::why_too_old(*dnn->library, context.architecture(), context.deterministic());
  if (!why->empty()) return nullptr;
  auto plan = std::make_unique<DnnAttention>(context, std::move(dnn), shape);
  if (!plan->build(why)) return nullptr;
  return plan;
}

}  // namespace tw::models::cuda
