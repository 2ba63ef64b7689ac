// What a training step computes and moves, operator by operator: the ledger that a measured profile is compared with.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/catalog/description.hpp"
#include "models/compute/operators.hpp"
#include "models/compute/precision.hpp"

namespace tw::models {

/// All calls of one operator with one shape in a step, or one kernel of all these calls.
struct LedgerRow {
  Op op;
  std::string kernel{};  ///< "product", "round" (to fp8), "gelu", "softmax"; empty where the operator is one kernel
  std::string shape;     ///< "1024 x 768 -> 2304"; of operators without a product the extents of what they write
  double calls = 0;      ///< of the operator
  double flops = 0;      ///< of products, as in model_flops_per_sample(); 0 elsewhere
  double read = 0;       ///< bytes
  double written = 0;    ///< bytes
  Math math = Math::standard;  ///< of products
  double bytes() const { return read + written; }
};

struct LedgerStep {
  NetworkDescription network;
  Precision precision = Precision::float32;
  std::int64_t micro_batch = 1, seq_len = 0, accumulate = 1;
};

/// The rows of one optimizer step of one rank, in the order of first use, from the blocks that a Trainer runs, on a
/// device that only counts. Making samples and communication are not counted.
///
/// Bytes are the least that an operator moves between the device's memory and its processors: each operand once for
/// each pass over it that the operator's result needs. Batch norm passes twice over its input. The classifier writes
/// its logits, replaces them by their gradient and reads that for each of its two gradients. fp8 rounds each operand
/// once into both layouts: x in the operator that makes it or else in forward, dy in backward_weights; and GELU reads
/// what the product has written. Of tables, only the rows that are looked up count.
/// What can only run one after another has a row for each: the products of linear layers and of the classifier, and
/// rounding, GELU in fp8 or softmax in front of or behind them. The cuda device runs them so.
/// Workspaces, and what a device does in several kernels where one would do, come on top.
///
/// Throws Error{usage} for sizes that the network cannot have.
std::vector<LedgerRow> ledger(const LedgerStep& step);

/// What the blocks of a step ask a device to plan, each shape once, in the order of the blocks.
struct PlannedShapes {
  std::vector<LinearShape> linear;
  std::vector<ConvolutionShape> convolution;
  std::vector<AttentionShape> attention;
  std::vector<ClassifierShape> classifier;
};
/// Throws as ledger(). `accumulate` changes nothing.
PlannedShapes planned_shapes(const LedgerStep& step);

}  // namespace tw::models
