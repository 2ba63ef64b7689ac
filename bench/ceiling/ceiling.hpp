// The rate that this device reaches on a network's own matrix products and convolutions, run alone: the denominator of
// `of_ceiling`.
//
// What is timed: forward, backward-input and backward-weights of every linear layer, convolution and the output head,
// at the network's shapes, through the device's plans or its library, in this process and dtype, without epilogues (no
// bias, activation, residual or softmax; the weight gradient overwrites, the weights are already packed). Attention is
// left out, since it is no plain product; `covered_flops_share` says how much of the model FLOPs that leaves.
//
// The choices all raise the ceiling rather than lower it, so that `of_ceiling` never flatters:
// - Operands stay where they are from run to run (as in the library's own benchmark), so small ones are found in the
//   cache; in a real step each weight comes from memory.
// - Where there are several ways to run a product, each pass takes the fastest: the plan's own layouts (a plan picks by
//   measurement), the library's bare product in each of its own layouts (what its benchmark times: conversions that a
//   network would need are not counted), a 1×1 convolution as a matrix product, and the output head whole (up to 16384
//   classes), padded to 64, in tiles of classes, in chunks of rows, or as the classifier operator itself if that,
//   softmax included, is faster.
// - Of the runs of one product the median counts, over rounds that go through all products, so that a slow moment
//   of the machine does not hit one of them alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "models/catalog/description.hpp"
#include "models/compute/device.hpp"

namespace tw::bench {

struct Ceiling {
  double flops_per_s = 0;              ///< model FLOPs of all entries ÷ their seconds
  double seconds_per_micro_batch = 0;  ///< of all entries
  /// One pass of one product shape.
  struct Entry {
    std::string product;  ///< "linear 1024x768x3072 forward x12": rows × in × out, times per micro-batch
    double flops = 0;     ///< of all repetitions in a micro-batch
    double seconds = 0;   ///< likewise
    double flops_per_s = 0;
    std::string way;             ///< which of the several ways above won; empty: the plan as it is
    std::string implementation;  ///< that way and the plan's own description
  };
  std::vector<Entry> entries;
  double covered_flops_share = 0;  ///< entries' FLOPs ÷ model FLOPs of the micro-batch
};

/// An upper estimate of the memory that measure_ceiling() takes on a cpu device with so many threads.
std::size_t ceiling_bytes(const models::NetworkDescription& network, models::Precision precision,
                          std::int64_t micro_batch, std::int64_t seq_len, int threads);

/// Takes about `budget_seconds`, and more where a glance at each way and three runs of the best two take longer.
/// Allocates (and frees) operands on the device: best called while no network is there. Throws Error{unsupported} if
/// the device lacks an operator in this dtype.
///
/// `earlier`, a ceiling of the same arguments: each pass is timed again in the way that won there, in no other.
/// `pause` is called between products and between the ways of one; what it throws ends the timing.
Ceiling measure_ceiling(models::Device& device, const models::NetworkDescription& network, models::Precision precision,
                        std::int64_t micro_batch, std::int64_t seq_len, double budget_seconds,
                        const Ceiling* earlier = nullptr, const std::function<void()>& pause = {});

}  // namespace tw::bench
