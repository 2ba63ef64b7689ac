#include "bench/plan/pace.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/plan/batch.hpp"
#include "models/catalog/memory.hpp"
#include "results/devices/device_figures.hpp"
#include "results/record/text.hpp"

namespace tw::bench {
namespace {

constexpr double gib = 1024.0 * 1024 * 1024;
constexpr double least_step_seconds = 0.005;

/// Launching or calling an operator, forward and twice backward, where a micro-batch is small.
constexpr double gpu_call_seconds = 10e-6, cpu_call_seconds = 25e-6;
/// Between ranks of a node: GPUs without NVLink; MPI from 64 MiB on, as measured.
constexpr double gpu_exchanged_bytes_per_s = 25e9, cpu_exchanged_bytes_per_s = 2e9;
constexpr double core_bytes_per_s = 5e9, share_of_bandwidth = 0.7;
/// What optimizer and clipping read and write of a parameter: weight, gradient, two moments, and the rounded weight.
constexpr double update_bytes = 34;
/// Building the plans of the operators (on a GPU, by timing candidates), and drawing the initial weights on the host.
constexpr double gpu_set_up_seconds = 2, cpu_set_up_seconds = 1, gpu_parameters_per_s = 0.6e9,
                 cpu_parameters_per_s = 0.3e9;

}  // namespace

std::optional<DevicePace> DevicePace::of(const Abilities& node, const std::string& device, int nodes, int job_ranks) {
  DevicePace pace;
  pace.is_gpu_ = device == "cuda";
  pace.ranks_per_node_ = (job_ranks + nodes - 1) / nodes;
  for (const KnobAbility& knob : node.knobs)
    if (knob.kind == (pace.is_gpu_ ? power::KnobKind::gpu_clock : power::KnobKind::cpu_frequency))
      pace.clocks_.push_back(knob);
  if (!pace.is_gpu_) {
    if (node.cores < 1 || device != "cpu") return std::nullopt;
    const double cores = static_cast<double>(node.cores) / pace.ranks_per_node_;
    for (const char* precision : {"float32", "float32_bf16"}) pace.flops_per_s_[precision] = cores * core_flops_per_s;
    pace.flops_per_s_["bf16"] = cores * core_flops_per_s_in_bf16;
    pace.bytes_per_s_ = cores * core_bytes_per_s;
    pace.exchanged_bytes_per_s_ = cpu_exchanged_bytes_per_s, pace.call_seconds_ = cpu_call_seconds;
    pace.memory_bytes_ = static_cast<double>(node.memory_bytes.value_or(0));
    pace.words_ =
        fmt::format("{} at {:.0f} GFLOP/s each in float32 and {:.0f} in bf16", results::text::count(node.cores, "core"),
                    core_flops_per_s / 1e9, core_flops_per_s_in_bf16 / 1e9);
    return pace;
  }
  if (node.gpus.empty()) return std::nullopt;
  const auto gpus = static_cast<int>(node.gpus.size());
  const int shared_by = (pace.ranks_per_node_ + gpus - 1) / gpus;  // ranks on a GPU
  const results::VendorPeak* peak = results::find_vendor_peak(node.gpus.front());
  if (peak == nullptr) return std::nullopt;
  for (const std::string& precision : precision_names()) {
    // Beside the products in fp8 all else is in bf16, and takes longer than these gain.
    const std::optional<double> flops = peak->flops_per_s(precision == "fp8" && peak->fp8 > 0 ? "bf16" : precision);
    if (flops) pace.flops_per_s_[precision] = *flops * transformers_share / shared_by;
  }
  pace.others_ = others_share / transformers_share;
  pace.bytes_per_s_ = peak->bandwidth_gb_per_s * 1e9 * share_of_bandwidth / shared_by;
  pace.exchanged_bytes_per_s_ = gpu_exchanged_bytes_per_s, pace.call_seconds_ = gpu_call_seconds;
  pace.memory_bytes_ = peak->memory_gb * gib / shared_by;
  pace.words_ = fmt::format("{} at {:.0f} % of its peak with transformers and {:.0f} % with others", peak->device,
                            100 * transformers_share, 100 * others_share);
  return pace;
}

double DevicePace::clock_share(const Point& point) const {
  double share = 1;
  for (const KnobAbility& knob : clocks_)
    if (const auto found = point.setting.find(knob.kind); found != point.setting.end() && knob.maximum > 0)
      share = std::min(share, found->second / knob.maximum);
  return std::clamp(share, 0.1, 1.0);
}

std::optional<double> DevicePace::step_seconds(const Point& point) const {
  const auto flops_per_s = flops_per_s_.find(point.precision);
  if (flops_per_s == flops_per_s_.end()) return std::nullopt;
  const double rate = flops_per_s->second * (point.network.has_sequence() ? 1 : others_) * clock_share(point);
  const double flops = models::model_flops_per_sample(point.network, point.seq_len) +
                       models::recomputed_flops_per_sample(point.network, point.seq_len, point.recomputed_layers);
  double calls = 0;
  for (const models::Product& product : models::products(point.network, 1, point.seq_len)) calls += 3 * product.count;
  const auto micro_batch = static_cast<double>(point.micro_batch);
  const double compute = std::max(micro_batch * flops / rate, calls * call_seconds_);
  const auto parameters = static_cast<double>(models::count_dense_parameters(point.network));
  const double exchanged = 2.0 * (point.ranks - 1) / point.ranks * parameters * sizeof(float);
  return std::max(least_step_seconds, static_cast<double>(point.accumulate) * compute +
                                          parameters * update_bytes / bytes_per_s_ +
                                          exchanged / exchanged_bytes_per_s_);
}

double DevicePace::set_up_seconds(const Point& point) const {
  const auto parameters = static_cast<double>(models::count_dense_parameters(point.network));
  return is_gpu_ ? gpu_set_up_seconds + parameters / gpu_parameters_per_s
                 : cpu_set_up_seconds + parameters / cpu_parameters_per_s;
}

bool DevicePace::fits(const Point& point) const {
  if (memory_bytes_ <= 0) return true;
  const double each = models::least_memory(point.network, point.precision, point.micro_batch, point.seq_len,
                                           point.recomputed_layers, point.ranks)
                          .total();
  return each * (is_gpu_ ? 1 : std::min(point.ranks, ranks_per_node_)) <= memory_bytes_;
}

std::vector<Point> fitting_sizes(const Point& point, const DevicePace& pace) {
  std::vector<Point> sizes;
  std::string why;
  for (std::int64_t size = 1;; size *= 2) {
    const std::optional<Point> sized = with_micro_batch(point, size, why);
    if (!sized || (!sizes.empty() && !pace.fits(*sized))) return sizes;
    sizes.push_back(*sized);
  }
}

}  // namespace tw::bench
