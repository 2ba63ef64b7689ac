#include "bench/plan/batch.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "results/record/text.hpp"

namespace tw::bench {

using results::text::count;

Indivisible::Words Indivisible::words(bool is_suite, bool is_kit) const {
  std::string reason = why;
  const std::string option = key_ref("global_batch");  // nobody gave it to a suite
  if (const std::size_t at = reason.find(option); is_suite && at != std::string::npos)
    reason.replace(at, option.size(), "global batch");
  const bool is_fixed = (is_suite || is_kit) && !ranks.empty();
  const std::string advised = reason + ": " + (is_fixed ? ranks : advice);
  return {is_fixed ? advised : reason, advised};
}

std::string choose_ranks(std::int64_t parts, int ranks) {
  constexpr std::size_t most_numbers = 6;
  const std::int64_t most = std::min(parts, std::int64_t{100} * ranks);  // else a prime is searched to its end
  std::vector<std::string> numbers;
  for (std::int64_t number = 1; number <= most; ++number) {
    if (parts % number != 0) continue;
    numbers.push_back(std::to_string(number));
    if (number > ranks) break;
  }
  if (numbers.empty()) return {};
  if (numbers.size() > most_numbers) numbers.erase(numbers.begin(), numbers.end() - most_numbers);
  const std::string last = numbers.back();
  numbers.pop_back();
  if (numbers.empty()) return "choose 1 rank";
  return fmt::format("choose {} or {} ranks", fmt::join(numbers, ", "), last);
}

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
        fmt::format("choose a multiple of {}", pass),
        *global % per_micro == 0 ? choose_ranks(*global / per_micro, point.ranks) : std::string());
  const std::int64_t rest = *global / pass;
  point.micro_batch = accumulate ? rest : per_micro;
  point.accumulate = accumulate ? *accumulate : rest;
}

void share_out_task(Point& point, std::optional<std::int64_t> micro, std::optional<std::int64_t> accumulate) {
  const std::int64_t batch = point.task->global_batch, each = micro ? *micro : accumulate.value_or(1);
  if (batch % (each * point.ranks) != 0) {
    const std::string ranks = batch % each == 0 ? choose_ranks(batch / each, point.ranks) : std::string();
    throw Indivisible(
        micro ? "micro_batch" : "accumulate",
        fmt::format("{}: {} {} × {} does not divide the {} samples of a step of the task {}", point.network.name,
                    micro ? "micro-batch" : "accumulate", each, count(point.ranks, "rank"), batch, point.task->name),
        (ranks.empty() ? "choose a number that divides them" : ranks) + ", or set " + key_ref("global_batch"), ranks);
  }
  solve_batch(point, micro, micro || accumulate ? accumulate : 1, batch);
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
        fmt::format("choose a multiple of {}", point.ranks), choose_ranks(*global, point.ranks));
  point.accumulate = *global / point.ranks;
  if (const std::int64_t most = find_axis("accumulate")->type.most; point.accumulate > most)
    throw bad_value("global_batch", std::to_string(*global),
                    fmt::format("value too large (maximum {} on {}): with {} auto the search begins at 1 sample, which "
                                "is accumulated at most {} times: choose a smaller one, more ranks or a number for {}",
                                most * point.ranks, count(point.ranks, "rank"), key_ref("micro_batch"), most,
                                key_ref("micro_batch")));
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
                    "choose fewer ranks, or set " + key_ref("global_batch"), "choose fewer ranks");
}

void check_evaluation(const Point& point) {
  const std::int64_t pass = point.micro_batch * point.ranks;
  if (point.task->held_out_samples % pass != 0)
    throw Indivisible(
        "micro_batch",
        fmt::format("micro-batch {} × {} do not divide the {} held-out samples of the task {}", point.micro_batch,
                    count(point.ranks, "rank"), point.task->held_out_samples, point.task->name),
        "choose a micro-batch that divides them", "choose another number of ranks");
}

std::optional<Point> with_micro_batch(const Point& point, std::int64_t micro_batch, std::string& why) {
  Point sized = point;
  sized.micro_batch = micro_batch;
  const std::int64_t pass = micro_batch * point.ranks;
  if (micro_batch > find_axis("micro_batch")->type.most) {
    why = fmt::format("value too large (maximum {})", find_axis("micro_batch")->type.most);
    return std::nullopt;
  }
  why = point.network.shape->why_no_micro_batch(micro_batch, point.seq_len);
  if (!why.empty()) return std::nullopt;
  if (point.fixed_global && *point.fixed_global % pass != 0) {
    why = fmt::format("{} × {} do not divide the global batch {}", count(micro_batch, "sample"),
                      count(point.ranks, "rank"), *point.fixed_global);
    return std::nullopt;
  }
  if (point.task && point.task->held_out_samples % pass != 0) {
    why = fmt::format("{} × {} do not divide the {} held-out samples of the task {}", count(micro_batch, "sample"),
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

Point at_declared_size(const Point& point, const RunPlan& plan) {
  if (!point.is_automatic || !plan.declared_micro_batch) return point;
  std::string why;  // make_plan has refused a size that is none
  return with_micro_batch(point, *plan.declared_micro_batch, why).value_or(point);
}

int steps_to_time(double step_seconds) {
  constexpr double least = 3, most = 20;
  return static_cast<int>(std::clamp(std::ceil(timed_seconds_of_size / std::max(step_seconds, 1e-9)), least, most));
}

int count_sizes(const Point& point) {
  int sizes = 0;
  std::string why;
  for (std::int64_t size = 1; with_micro_batch(point, size, why); size *= 2) ++sizes;
  return sizes;
}

}  // namespace tw::bench
