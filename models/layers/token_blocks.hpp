// What the families of transformers share: the sizes of a batch of sequences, norms and products over its rows, the
// token embedding in front and the output head.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/layers/blocks.hpp"

namespace tw::models {

struct TokenBatch {
  Precision precision;
  std::int64_t batch, seq;
  DType dtype = storage(precision);
  std::int64_t rows() const { return Dims{batch, seq}.count(); }
  Dims rows_by(std::int64_t columns) const { return {rows(), columns}; }
  /// Of (batch, seq, heads, head_dim), the rows.
  Tensor flat(const Tensor& t) const { return t.reshaped(rows_by(t.count() / rows())); }
};

/// Throws Error{usage} where the network has no positions for such a sequence.
void check_sequence(std::int64_t seq_len, std::int64_t max_seq);

/// A block's parameters by their places, and what it computes with them.
struct Weights {
  Device* device = nullptr;
  std::vector<Parameter> parameter;

  const Tensor& weight(int index) const { return parameter[static_cast<std::size_t>(index)].weight; }
  const Tensor& gradient(int index) const { return parameter[static_cast<std::size_t>(index)].gradient; }
  std::shared_ptr<LinearPlan> linear(const LinearShape& shape, int index) const;
  /// Layer norm, whose bias is behind its weight; without a mean RMS norm, which has no bias.
  void norm_forward(BlockRun& run, const Tensor& x, int index, float epsilon, const LinearInput& y, const Tensor& mean,
                    const Tensor& rstd) const;
  /// `by_pass`: the gradient past the norm, which is added; may be absent.
  void norm_backward(BlockRun& run, const Tensor& dy, const Tensor& x, int index, const Tensor& mean,
                     const Tensor& rstd, const Tensor& by_pass, const Tensor& dx) const;
  /// Of a product; a bias is behind its weight. Returns dy as backward_input takes it (blocks.hpp).
  Tensor weights_backward(BlockRun& run, LinearPlan& plan, const Tensor& x, const Tensor& dy, int index,
                          bool has_bias) const;
};

/// The table of tokens, and of positions where there is one; `is_tied`: the head multiplies by the table of tokens, and
/// has then written its gradient.
struct EmbeddingOptions {
  std::vector<ParameterSpec> tables;
  bool is_tied = true;
};
std::unique_ptr<Block> token_embedding(const TokenBatch& sizes, EmbeddingOptions options);

/// The final norm, and the classifier over the tokens. Its weight is a table of the embedding or its own.
struct TokenHeadOptions {
  std::string norm;                ///< as saved activations are called
  std::vector<ParameterSpec> own;  ///< weight and, of a layer norm, bias of the norm; weight of a head that is not tied
  std::string tied_to;             ///< the name of the table; empty: its own weight
  float epsilon = 1e-5f;
  bool is_layer_norm = true;
  std::int64_t width = 0, vocabulary = 0;
};
std::unique_ptr<Block> token_head(const TokenBatch& sizes, TokenHeadOptions options);

}  // namespace tw::models
