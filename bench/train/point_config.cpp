#include "bench/train/point_config.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "bench/ceiling/ceiling.hpp"
#include "bench/inventory/inventory.hpp"

namespace tw {
namespace {

/// "needs 9.1 GiB on node1 (4 ranks × 2.3 GiB), 8.0 GiB are available"; empty where they are. Of the job at most `most_ranks`
/// ranks count.
std::string why_no_memory(const Job& job, std::size_t rank_bytes, int most_ranks) {
  constexpr double gib = 1024.0 * 1024 * 1024;
  const int ranks = std::min(job.local_size(), most_ranks);
  const double each = static_cast<double>(rank_bytes) / gib, needed = each * ranks;
  const auto available = memory_available_bytes();
  const double there = available ? static_cast<double>(*available) / gib : 0;
  if (!available || needed <= there) return {};
  return fmt::format("needs {:.1f} GiB on {} ({} ranks × {:.1f} GiB), {:.1f} GiB are available", needed, job.host(),
                     ranks, each, there);
}

}  // namespace

DType dtype_of(const std::string& precision) { return precision == "bf16" ? DType::bf16 : DType::float32; }

TrainerConfig trainer_config(const Point& point, const RunPlan& plan, int rank) {
  TrainerConfig config;
  config.network = point.network;
  config.precision = dtype_of(point.precision);
  config.micro_batch = point.micro_batch;
  config.seq_len = point.seq_len;
  config.accumulate = point.accumulate;
  config.optimizer = default_optimizer(point.network);
  if (point.task) {
    config.optimizer.learning_rate = static_cast<float>(point.task->learning_rate);
    config.optimizer.final_learning_rate_share = static_cast<float>(point.task->final_learning_rate_share);
    config.optimizer.warmup_steps = point.task->warmup_steps;
    config.optimizer.decay_steps = point.task->decay_steps;
  }
  config.seed = plan.seed;
  config.recompute = plan.recompute;
  config.rank = rank;
  config.ranks = point.ranks;
  return config;
}

std::string why_unsupported(const Point& point, const Device& device) {
  if (point.precision != "float32" && point.precision != "bf16")
    return fmt::format("{} has no {} yet: choose float32 or bf16", to_string(device.info().kind), point.precision);
  const DType dtype = dtype_of(point.precision);
  if (const std::string why = device.why_unsupported(dtype); !why.empty()) return fmt::format("{}: {}", point.precision, why);
  const Op heavy = point.network.is_tokens() ? Op::linear_forward : Op::convolution_forward;
  if (!device.supports(heavy, dtype))
    return fmt::format("{} has no {} in {}", to_string(device.info().kind), to_string(heavy), point.precision);
  return {};
}

std::string why_too_large(const Point& point, const RunPlan& plan, const Job& job, int threads) {
  if (job.rank() >= point.ranks) return {};  // it sleeps
  const std::string why = why_no_memory(job, plan_memory(trainer_config(point, plan, job.rank()), threads).total(), point.ranks);
  if (why.empty()) return {};
  return fmt::format("{} {}: use a smaller --micro-batch, --recompute, fewer ranks per node or a smaller network",
                     point.id, why);
}

std::string why_no_ceiling(const Point& point, const Job& job, int threads) {
  const std::string why = why_no_memory(
      job, ceiling_bytes(point.network, dtype_of(point.precision), point.micro_batch, point.seq_len, threads), point.ranks);
  return why.empty() ? why : "timing the products alone " + why;
}

}  // namespace tw
