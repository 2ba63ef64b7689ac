#include "bench/plan/batch.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "results/record/text.hpp"

namespace tw::bench {

using results::text::count;

void solve_batch(Point& point, std::optional<std::int64_t> micro, std::optional<std::int64_t> accumulate,
                 std::optional<std::int64_t> global) {
  if (!global) {
    point.micro_batch = micro.value_or(point.network.default_micro_batch);
    point.accumulate = accumulate.value_or(1);
    return;
  }
  if (micro && accumulate)
    throw UsageError("options-conflict", "global_batch",
                     fmt::format("{}, {} and {} over-determine the batch: leave one out", key_ref("micro_batch"),
                                 key_ref("accumulate"), key_ref("global_batch")));
  const std::int64_t per_micro = accumulate ? *accumulate : micro.value_or(point.network.default_micro_batch);
  const std::int64_t pass = per_micro * point.ranks;
  if (*global % pass != 0)
    throw Indivisible(
        "global_batch",
        fmt::format("{} {} is not divisible by {} {} × {} = {}", key_ref("global_batch"), *global,
                    accumulate ? key_ref("accumulate") : "micro-batch", per_micro, count(point.ranks, "rank"), pass),
        fmt::format("choose a multiple of {}", pass));
  const std::int64_t rest = *global / pass;
  point.micro_batch = accumulate ? rest : per_micro;
  point.accumulate = accumulate ? *accumulate : rest;
}

void leave_batch_open(Point& point, std::optional<std::int64_t> accumulate, std::optional<std::int64_t> global) {
  const auto norms = point.network.shape->norms(1, std::max<std::int64_t>(1, point.network.default_seq_len));
  if (std::ranges::any_of(norms, [](const models::Norm& norm) { return norm.kind == models::Norm::Kind::batch; }))
    throw UsageError(
        "option-does-not-apply", "micro_batch",
        fmt::format("{} auto: does not apply to {}: its batch norm computes over the micro-batch, which is "
                    "a part of the workload: give a number",
                    key_ref("micro_batch"), point.network.name));
  if (!global && point.task) global = point.task->global_batch;
  if (accumulate && global)
    throw UsageError("options-conflict", "accumulate",
                     fmt::format("{} auto and a fixed global batch determine {}: leave it out", key_ref("micro_batch"),
                                 key_ref("accumulate")));
  point.is_automatic = true, point.fixed_global = global;
  point.micro_batch = 1, point.accumulate = accumulate.value_or(1);
  if (!global) return;
  if (*global % point.ranks != 0)
    throw Indivisible(
        "global_batch",
        fmt::format("{} {} is not divisible by {}", key_ref("global_batch"), *global, count(point.ranks, "rank")),
        fmt::format("choose a multiple of {}", point.ranks));
  point.accumulate = *global / point.ranks;
}

void check_micro_batch(const Point& point, bool is_given) {
  const std::string why = point.network.shape->why_no_micro_batch(point.micro_batch, point.seq_len);
  if (why.empty()) return;
  if (is_given || !point.task) throw bad_value("micro_batch", std::to_string(point.micro_batch), why);
  throw Indivisible("micro_batch",
                    fmt::format("{}: accumulate {} × {} leave a micro-batch of {} of the {} samples of a step of the "
                                "task {}: {}",
                                point.network.name, point.accumulate, count(point.ranks, "rank"), point.micro_batch,
                                point.task->global_batch, point.task->name, why),
                    "choose fewer ranks, or set " + key_ref("global_batch"));
}

void check_evaluation(const Point& point) {
  const std::int64_t pass = point.micro_batch * point.ranks;
  if (point.task->held_out_samples % pass != 0)
    throw Indivisible(
        "micro_batch",
        fmt::format("micro-batch {} × {} do not divide the {} held-out samples of the task {}", point.micro_batch,
                    count(point.ranks, "rank"), point.task->held_out_samples, point.task->name),
        "choose a micro-batch that divides them");
}

std::optional<Point> with_micro_batch(const Point& point, std::int64_t micro_batch, std::string& why) {
  Point sized = point;
  sized.micro_batch = micro_batch;
  const std::int64_t pass = micro_batch * point.ranks;
  if (micro_batch > find_axis("micro_batch")->type.most) {
    why = fmt::format("value too large (maximum {})", find_axis("micro_batch")->type.most);
    return std::nullopt;
  }
  if (point.fixed_global && *point.fixed_global % pass != 0) {
    why = fmt::format("{} samples × {} do not divide the global batch {}", micro_batch, count(point.ranks, "rank"),
                      *point.fixed_global);
    return std::nullopt;
  }
  if (point.task && point.task->held_out_samples % pass != 0) {
    why = fmt::format("{} samples × {} do not divide the {} held-out samples of the task {}", micro_batch,
                      count(point.ranks, "rank"), point.task->held_out_samples, point.task->name);
    return std::nullopt;
  }
  if (point.fixed_global) sized.accumulate = *point.fixed_global / pass;
  if (sized.global_batch() > find_axis("global_batch")->type.most) {
    why = fmt::format("the global batch becomes too large (maximum {})", find_axis("global_batch")->type.most);
    return std::nullopt;
  }
  return sized;
}

}  // namespace tw::bench
