#include "bench/train/point/point_config.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "bench/ceiling/ceiling.hpp"
#include "bench/inventory/inventory.hpp"
#include "bench/plan/abilities.hpp"
#include "bench/plan/batch.hpp"
#include "bench/train/job/outcome.hpp"
#include "models/catalog/fp8.hpp"
#include "models/catalog/table_placement.hpp"
#include "results/record/text.hpp"

namespace tw::bench {
namespace {

constexpr double gib = 1024.0 * 1024 * 1024;

/// "needs 9.1 GiB on node1 (4 ranks × 2.3 GiB), 5.2 of 8.0 GiB are available"; empty if they fit. At most `most_ranks`
/// ranks count.
std::string why_no_host_memory(const comm::Job& job, std::size_t rank_bytes, int most_ranks) {
  const int ranks = std::min(job.local_size(), most_ranks);
  const double each = static_cast<double>(rank_bytes) / gib, needed = each * ranks;
  const auto available = memory_available_bytes();
  const double there = available ? static_cast<double>(*available) / gib : 0;
  if (!available || needed <= there) return {};
  const auto all = memory_total_bytes();
  return fmt::format("needs {:.1f} GiB on {} ({} × {:.1f} GiB), {:.1f}{} GiB are available", needed, job.host(),
                     results::text::count(ranks, "rank"), each, there,
                     all ? fmt::format(" of {:.1f}", static_cast<double>(*all) / gib) : "");
}

/// "needs 91.2 GiB of a GPU, NVIDIA H100 has 79.6 GiB"; empty if it has them.
std::string why_no_device_memory(const models::DeviceInfo& info, std::size_t bytes) {
  if (info.memory_bytes == 0 || bytes <= info.memory_bytes) return {};
  return fmt::format("needs {:.1f} GiB of a GPU, {} has {:.1f} GiB", static_cast<double>(bytes) / gib, info.name,
                     static_cast<double>(info.memory_bytes) / gib);
}

/// What is the same on every device: packed weights and workspace are estimates of the CPU's.
std::size_t bytes_anywhere(const models::MemoryPlan& plan) {
  return plan.total() - plan.packed_weights - plan.workspace;
}

/// The mean over the ranks; each holds other tables.
std::size_t mean_bytes(const models::MemoryPlan& plan, const models::TrainerConfig& config) {
  const models::Tables tables = config.network.shape->tables();
  if (tables.rows.empty()) return plan.total();
  const models::TablePlacement placement = models::place_tables(tables.rows, config.ranks);
  std::int64_t rows = 0;
  for (const int table : placement.of_rank[static_cast<std::size_t>(config.rank)])
    rows += tables.rows[static_cast<std::size_t>(table)];
  const auto bytes = [&](std::int64_t of_rows) {
    return static_cast<std::size_t>(of_rows * tables.width) * sizeof(float);
  };
  return plan.total() + bytes(tables.all_rows()) / static_cast<std::size_t>(config.ranks) - bytes(rows);
}

/// Bytes of a rank that are known before anything is allocated.
std::size_t rank_bytes(const Point& point, const RunPlan& plan, const comm::Job& job, const models::DeviceInfo& info) {
  const models::TrainerConfig config = trainer_config(point, plan, job.rank());
  const models::MemoryPlan memory = models::plan_memory(config, info.threads);
  return info.kind == models::DeviceKind::cuda ? bytes_anywhere(memory) : mean_bytes(memory, config);
}

/// Whether the point exceeds what this rank's node, or its GPU, has where nothing else uses any.
bool exceeds_machine(const Point& point, const RunPlan& plan, const comm::Job& job, const models::DeviceInfo& info) {
  if (job.rank() >= point.ranks) return false;
  const auto bytes = static_cast<double>(rank_bytes(point, plan, job, info));
  if (info.kind == models::DeviceKind::cuda)
    return info.memory_bytes > 0 && bytes > static_cast<double>(info.memory_bytes);
  const auto all = memory_total_bytes();
  return all && bytes * std::min(job.local_size(), point.ranks) > static_cast<double>(*all);
}

}  // namespace

models::DeviceOptions device_options(const RunPlan& plan, int index, int threads) {
  const bool fixed = plan.device == "cpu" && plan.is_deterministic();
  return {index, threads, !fixed, plan.is_deterministic()};
}

models::Precision precision_of(const std::string& name) {
  const std::optional<models::Precision> precision = models::parse_precision(name);
  if (!precision) throw_unknown("precision", name, precision_names());
  return *precision;
}

models::DType reduce_type(const RunPlan& plan) {
  return plan.reduce_precision == "bf16" ? models::DType::bf16 : models::DType::float32;
}

models::TrainerConfig trainer_config(const Point& point, const RunPlan& plan, int rank) {
  models::TrainerConfig config;
  config.network = point.network;
  config.precision = precision_of(point.precision);
  config.micro_batch = point.micro_batch;
  config.seq_len = point.seq_len;
  config.accumulate = point.accumulate;
  config.optimizer = models::default_optimizer(point.network);
  if (point.task) {
    config.optimizer.learning_rate = static_cast<float>(point.task->learning_rate);
    config.optimizer.final_learning_rate_share = static_cast<float>(point.task->final_learning_rate_share);
    config.optimizer.warmup_steps = point.task->warmup_steps;
    config.optimizer.decay_steps = point.task->decay_steps;
  }
  config.seed = plan.seed;
  config.recomputed_layers = point.recomputed_layers;
  config.rank = rank;
  config.ranks = point.ranks;
  return config;
}

std::string why_unsupported(const Point& point, const models::Device& device) {
  const models::Precision precision = precision_of(point.precision);
  const char* kind = models::to_string(device.info().kind);
  if (const std::string why = device.why_unsupported(precision); !why.empty())
    return fmt::format("{} has no {}: {}: choose {}", kind, point.precision, why,
                       point.precision == "bf16" ? "float32" : "float32 or bf16");
  if (const std::string why = models::why_no_fp8(point.network);
      models::math(precision) == models::Math::fp8 && !why.empty())
    return why + ": choose bf16";
  if (models::math(precision) == models::Math::fp8 && device.info().kind == models::DeviceKind::cuda)
    if (std::string why = models::why_no_fp8_batch(point.network, point.micro_batch, point.seq_len); !why.empty())
      return why;
  using Kind = models::Product::Kind;
  for (const auto& [product, op] : {std::pair(Kind::linear, models::Op::linear_forward),
                                    std::pair(Kind::convolution, models::Op::convolution_forward)})
    if (models::has_products(point.network, product) && !device.supports(op, models::storage(precision)))
      return fmt::format("{} has no {} in {}", kind, models::to_string(op), point.precision);
  return {};
}

std::string memory_needed(const models::TrainerConfig& config, const models::Device& device) {
  const models::DeviceInfo info = device.info();
  const models::MemoryPlan plan = models::plan_memory(config, info.threads);
  const bool is_host = info.kind != models::DeviceKind::cuda;
  const auto part = [](std::size_t bytes) { return static_cast<double>(bytes) / gib; };
  return fmt::format(
      "needs {}{:.2f} GiB: {:.2f} activations, {:.2f} weights and gradients, {:.2f} optimizer{}",
      is_host ? "" : "at least ", part(is_host ? plan.total() : bytes_anywhere(plan)), part(plan.activations),
      part(plan.parameters + plan.gradients), part(plan.optimizer_state),
      is_host ? fmt::format(", {:.2f} packed weights and workspace", part(plan.packed_weights + plan.workspace)) : "");
}

RankMemory memory_of_rank(const Point& point, const RunPlan& plan, const models::Device& device) {
  const models::DeviceInfo info = device.info();
  const models::MemoryPlan memory = models::plan_memory(trainer_config(point, plan, 0), info.threads);
  const bool is_host = info.kind != models::DeviceKind::cuda;
  return {static_cast<double>(is_host ? memory.total() : bytes_anywhere(memory)), !is_host};
}

std::string why_too_large(const Point& point, const RunPlan& plan, const comm::Job& job, const models::Device& device) {
  if (job.rank() >= point.ranks) return {};  // it sleeps
  const models::DeviceInfo info = device.info();
  const bool is_gpu = info.kind == models::DeviceKind::cuda;
  const auto bytes = [&](const Point& one) { return rank_bytes(one, plan, job, info); };
  const std::string why =
      is_gpu ? why_no_device_memory(info, bytes(point)) : why_no_host_memory(job, bytes(point), point.ranks);
  if (why.empty()) return {};
  const MemoryLimit limit{static_cast<double>(is_gpu ? info.memory_bytes : memory_available_bytes().value_or(0)),
                          is_gpu ? 1 : std::min(job.local_size(), point.ranks),
                          [&](const Point& one) { return static_cast<double>(bytes(one)); }};
  const bool is_busy = !is_gpu && !exceeds_machine(point, plan, job, info);
  if (plan.kit && !point.is_automatic)
    return fmt::format("{} {}: the kit fixes its sizes: use a machine with more memory", point.id, why);
  return fmt::format("{} {}: {}{}", point.id, why,
                     advice_on_memory(point, point.is_automatic && !plan.declared_micro_batch, limit),
                     is_busy ? ", or end what else uses memory there" : "");
}

int exit_code_of_too_large(const Point& point, const RunPlan& plan, comm::Job& job, const models::Device& device) {
  const models::DeviceInfo info = device.info();
  const auto exceeds_anywhere = [&](const Point& one) {
    return job.maximum({exceeds_machine(one, plan, job, info) ? 1.0 : 0.0}).front() > 0;
  };
  const bool is_declared = point.is_automatic && plan.declared_micro_batch.has_value();
  const bool is_own = plan.has_own_sizes || (is_declared && !exceeds_anywhere(point));
  return is_own && exceeds_anywhere(at_declared_size(point, plan)) ? exit_usage : exit_environment;
}

std::string why_no_ceiling(const Point& point, const comm::Job& job, const models::Device& device) {
  const models::DeviceInfo info = device.info();
  const std::size_t bytes =
      ceiling_bytes(point.network, precision_of(point.precision), point.micro_batch, point.seq_len, info.threads);
  const std::string why = info.kind == models::DeviceKind::cuda ? why_no_device_memory(info, bytes)
                                                                : why_no_host_memory(job, bytes, point.ranks);
  return why.empty() ? why : "timing the products alone " + why;
}

}  // namespace tw::bench
