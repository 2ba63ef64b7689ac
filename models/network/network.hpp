// A network is a list of blocks; the executor plans their memory and runs them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/catalog/description.hpp"
#include "models/compute/device.hpp"
#include "models/compute/exchange.hpp"
#include "models/compute/precision.hpp"

namespace tw::models {

/// How a parameter starts: normal(0, stddev), uniform in ±bound, a constant, or the published scheme's stddev computed
/// by the block.
struct Initialiser {
  enum class Kind { normal, uniform, constant } kind = Kind::constant;
  float value = 0;  ///< stddev, bound or the constant
};

/// A range of rows of a parameter under a name of its own.
struct NamedRows {
  std::string name;
  std::int64_t rows = 0;
};

struct ParameterSpec {
  std::string name;  ///< as PyTorch / Hugging Face names it: "h.0.attn.c_attn.weight", "layer1.0.conv1.weight"
  Dims dims;         ///< in our layout: linear (out, in), convolution (out, kh, kw, in)
  Initialiser initialiser;
  bool decay = false;         ///< weight decay applies (matrices and kernels; not biases, norms)
  bool keep_float32 = false;  ///< used in float32 in every precision (batch norm)
  enum class Export { as_is, transpose, nhwc_to_nchw } export_layout = Export::as_is;  ///< to the framework's layout
  bool looked_up = false;  ///< its block reads rows by index, and no product multiplies it (another block's may)
  std::vector<NamedRows> exported_as{};  ///< the parts that the public definition splits it into; empty: one, `name`
  /// Rows of memory from the first one on; 0: dims[0]. Those behind dims[0] are 0 and stay so, and are no parameters.
  std::int64_t reserved_rows = 0;
};

/// The weight (classes, in) of an output head, with rows reserved so that its products are of whole tiles. The head's
/// plan takes them as ClassifierShape::reserved_classes.
inline ParameterSpec of_head(ParameterSpec spec) {
  spec.reserved_rows = whole_tiles_of_classes(spec.dims[0]);
  return spec;
}

/// A parameter where it lives: views of the flat buffers.
struct Parameter {
  ParameterSpec spec;
  Tensor weight;            ///< compute dtype (the master itself in float32 or keep_float32)
  Tensor master;            ///< float32
  Tensor gradient;          ///< float32
  std::int64_t offset = 0;  ///< element offset in the flat buffers (reverse gradient order, 128-byte aligned)
};

/// A table of rows that are looked up by index (catalog's Tables): float32 in every precision, outside the flat
/// buffers. A step changes the rows that it has read, by plain SGD; there is no dense gradient and no moment.
struct TableSpec {
  std::string name;  ///< "emb_l.0.weight"
  std::int64_t rows = 0, width = 0;
  Initialiser initialiser;
  bool is_here = true;  ///< this rank holds it
};

struct Table {
  TableSpec spec;
  Tensor values;  ///< float32 (rows, width); absent where another rank holds it
};

/// How a rank takes part in the lookups of a step.
struct TableUse {
  int rank = 0, ranks = 1;
  std::int64_t accumulate = 1;  ///< micro-batches of a step, whose gradients of rows are kept until the update
};

struct ActivationSpec {
  std::string name;
  Dims dims;
  DType dtype = DType::float32;
};

/// What a block sees while it runs. All tensors were planned; nothing is allocated.
struct BlockRun {
  Stream& stream;
  bool accumulate = false;        ///< parameter gradients: += (micro-batch > 0) or =
  std::vector<Tensor> saved{};    ///< in the order of Block::saved()
  std::vector<Tensor> scratch{};  ///< in the order of Block::scratch(); contents undefined on entry
  Tensor tokens_or_images{};      ///< the network's input batch
  Tensor targets{};               ///< int32 labels, or float32 (has_values())
  /// As dy, in backward of a block that takes two gradients, where the block behind leaves two: the gradient of y is
  /// dy + dy_more, rounded to their dtype.
  Tensor dy_more{};
  /// As dx, in backward of a block that leaves two gradients. Begins where dy_more does: written once dy_more has been
  /// read, or element by element in its place.
  Tensor dx_more{};
  /// float32 (1). The last block overwrites it in backward, and a block in front that has a loss too adds its own. In
  /// forward for evaluation the first block with a loss overwrites it, and those behind add theirs.
  Tensor loss{};
  Tensor correct{};                      ///< int32 (1), written by the last block where targets are labels
  const StepScalars* scalars = nullptr;  ///< device memory; where the loss is scaled: by its loss_scale
  bool backward_follows = true;          ///< false: evaluation, the last block's forward computes the loss only
  bool update_statistics = true;  ///< false: leave running statistics and scales alone (evaluation, recomputed forward)
  /// Called by backward once its work is enqueued, with an index into the block's parameters(), last parameter first. A
  /// parameter is announced by its owner, after every block that shares it.
  std::function<void(int)> gradient_ready{};
};

/// A plan of a block and what it computes: "linear", "convolution", "attention", "classifier".
struct NamedPlan {
  std::string product;
  std::shared_ptr<Plan> plan;
};

/// One link of the chain: x → y. Residual branches lie inside a block. Blocks keep no tensors between calls but what
/// `saved()` declares, so that an executor may drop and recompute them, or run stages on different ranks.
class Block {
 public:
  virtual ~Block() = default;
  virtual std::string name() const = 0;
  virtual std::vector<ParameterSpec> parameters() const = 0;
  virtual ActivationSpec output() const = 0;                          ///< rank 0 for the last block (loss)
  virtual std::vector<ActivationSpec> saved() const { return {}; }    ///< written by forward, read by backward
  virtual std::vector<ActivationSpec> scratch() const { return {}; }  ///< shared by all blocks
  /// The names of parameters owned by another block that this one uses too (tied output head).
  virtual std::vector<std::string> shared_parameters() const { return {}; }
  /// float32 values that forward updates and no gradient reaches: batch norm's running mean and variance.
  virtual std::vector<ParameterSpec> statistics() const { return {}; }
  /// Bytes of device memory that build() fills once and keeps, besides plans. Of what several blocks share, one counts.
  virtual std::size_t constant_bytes() const { return 0; }
  /// Before anything else of a block with tables, which one of a network may have.
  virtual void use_tables(const TableUse&) {}
  virtual std::vector<TableSpec> tables() const { return {}; }
  /// Bytes of device memory that build() takes for the gradients of rows.
  virtual std::size_t table_gradient_bytes() const { return 0; }
  /// float32 (rows of the tables that are here, in the order of tables(), width).
  virtual void bind_tables(Tensor /*rows*/) {}
  /// Where the tables lie on several ranks, before the first forward: it outlives the block. Forward and backward, but
  /// of the same micro-batch on all ranks, are then collective.
  virtual void connect(Exchange&) {}
  /// SGD of `rows` (as bound, or as many others) by what backward of the micro-batches since the last one that did not
  /// accumulate has left. `scalars`: device memory.
  virtual void update_tables(Stream&, Tensor /*rows*/, const StepScalars*) {}
  /// Build plans and bind weights; `own` in the order of parameters(), `shared` of shared_parameters(), `statistics`
  /// likewise.
  virtual void build(Device& device, const std::vector<Parameter>& own, const std::vector<Parameter>& shared,
                     const std::vector<Tensor>& statistics) = 0;
  /// All plans after build(); the weight plans among them need refresh() whenever weights have changed.
  virtual std::vector<NamedPlan> plans() const { return {}; }
  /// Whether backward leaves the gradient of x as two tensors to be added, dx and run.dx_more: the branches of a
  /// residual block. A block in front that takes two adds them in its own pass; for any other the executor does.
  virtual bool leaves_two_gradients() const { return false; }
  virtual bool takes_two_gradients() const { return false; }
  virtual void forward(BlockRun& run, Tensor x, Tensor y) = 0;
  /// dx is absent for the first block, and run.dx_more with it. x and y are the tensors forward saw and wrote; dy may
  /// be overwritten.
  virtual void backward(BlockRun& run, Tensor x, Tensor y, Tensor dy, Tensor dx) = 0;
};

}  // namespace tw::models
