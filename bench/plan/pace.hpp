// How long a step is estimated to take where nobody has timed one: its FLOPs against what such devices reach.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "bench/plan/abilities.hpp"
#include "bench/plan/plan.hpp"

namespace tw::bench {

/// Shares of a GPU's peak, and FLOP/s of a core of a CPU, that an estimate assumes. This project has not measured the
/// shares; llm.c, MosaicML and Megatron-LM report 38 to 61 % on H100 and A100. The figures of a core are below those of
/// gpt2-124m in results/reference, which bench/README.md lists under "The pace of a forecast".
inline constexpr double transformers_share = 0.35, others_share = 0.10;
inline constexpr double core_flops_per_s = 75e9, core_flops_per_s_in_bf16 = 140e9;

/// The devices that a plan's ranks train on.
class DevicePace {
 public:
  /// Of the node's GPUs, which vendors state peaks of, or of its cores; nullopt where neither is known. Points of fewer
  /// ranks than the job's have the share of so many ranks.
  static std::optional<DevicePace> of(const Abilities& node, const std::string& device, int nodes, int job_ranks);

  /// Of one optimizer step at the point's micro-batch; nullopt for a precision without a peak.
  std::optional<double> step_seconds(const Point& point) const;
  /// Until the first step of a network that is built anew.
  double set_up_seconds(const Point& point) const;
  /// Whether the least memory of its ranks is there.
  bool fits(const Point& point) const;
  /// "NVIDIA H200 at 35 % of its peak with transformers and 10 % with others"
  const std::string& words() const { return words_; }

 private:
  double clock_share(const Point& point) const;

  std::string words_;
  std::map<std::string, double> flops_per_s_;  ///< of a rank with transformers, by precision
  double others_ = 1;                          ///< of this with other networks
  double bytes_per_s_ = 0, exchanged_bytes_per_s_ = 0, call_seconds_ = 0;
  double memory_bytes_ = 0;  ///< of a GPU, or of a node; 0: not known
  bool is_gpu_ = false;
  int ranks_per_node_ = 1;
  std::vector<KnobAbility> clocks_;
};

/// The sizes of an automatic point that fit, smallest first; the first one in any case.
std::vector<Point> fitting_sizes(const Point& point, const DevicePace& pace);

}  // namespace tw::bench
