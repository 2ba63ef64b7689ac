// The wording of show.cpp: lists, counts, what is absent, and what a picture is drawn of.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "results/record/names_format.hpp"
#include "results/record/record.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"

namespace tw::results::show {

using text::count, text::join_said;

/// "quick, plan 3963975972f9", and the kit that it is of.
inline std::string plan_words(const PlanInfo& plan) {
  const std::string words = suite_words(plan) + ", plan " + sha256_hex(plan.canonical_json).substr(0, 12);
  return plan.kit ? join_said({words, join_said({"kit", plan.kit->title}, " "), "SHA-256 " + plan.kit->sha256}, ", ")
                  : words;
}
inline std::string time_or_absent(const std::optional<double>& value) {
  return value ? text::duration(*value) : "absent";
}
inline std::string percent(double share) { return text::significant(100 * share, share < 0.01 ? 2 : 3) + " %"; }

/// "0-3,8"
inline std::string ranges(std::vector<int> numbers) {
  std::ranges::sort(numbers);
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t j = i;
    while (j + 1 < numbers.size() && numbers[j + 1] == numbers[j] + 1) ++j;
    text += (text.empty() ? "" : ",") + std::to_string(numbers[i]) + (j > i ? "-" + std::to_string(numbers[j]) : "");
    i = j + 1;
  }
  return text;
}

/// "eager, gradients by mpi (host memory), loss scale 65536 at the end, 2 steps skipped"
inline std::string execution(const Execution& e) {
  const std::string recomputed = !e.recompute          ? ""
                                 : e.recomputed_layers ? fmt::format(", activations of the first {} recomputed",
                                                                     count(*e.recomputed_layers, "layer"))
                                                       : ", activations recomputed";
  std::string text = fmt::format(
      "{}{}, gradients{} by {} ({})", e.step_mode == StepMode::graph ? "recorded as graphs" : "call by call",
      recomputed, e.reduce_precision.value_or("float32") == "float32" ? "" : " in " + *e.reduce_precision,
      e.communicator, e.route);
  if (e.deterministic == false) text += ", last bits may differ between runs";
  if (e.loss_scaling)
    text += fmt::format(", loss scale {:g} at the end, {} skipped", e.loss_scaling->final_scale,
                        count(e.loss_scaling->skipped_steps, "step"));
  return text;
}
/// "41.2 % of 989 TFLOP/s, the vendor's dense peak", with the rule that FLOPs are counted by.
inline std::string mfu(const Summary& s) {
  if (!s.mfu) return "absent: " + s.mfu_reason;
  return fmt::format("{} of {}, the vendor's dense peak{}", percent(*s.mfu),
                     s.peak_flops_per_s ? text::si(*s.peak_flops_per_s, "FLOP/s") : "its peak",
                     s.flops_rule.empty() ? "" : "; by " + s.flops_rule);
}
inline std::string gpu_use(const GpuUse& gpu) {
  const auto share = [](const char* what, const std::optional<double>& value) {
    return value ? std::string(what) + " " + percent(*value) : std::string();
  };
  const auto bytes = [](std::uint64_t value) { return text::bytes(static_cast<double>(value)); };
  const std::string used = gpu.memory_used_bytes ? bytes(*gpu.memory_used_bytes) + " in use" : "";
  const std::string all = gpu.memory_bytes ? bytes(*gpu.memory_bytes) : "";
  return join_said({text::count(gpu.gpus, "GPU"), share("busy", gpu.utilisation), share("SM active", gpu.sm_active),
                    used.empty() || all.empty() ? used + (all.empty() ? "" : all + " of memory") : used + " of " + all,
                    gpu.reason.empty() ? "" : "absent: " + gpu.reason},
                   ", ");
}
/// ", data: segmented images"; empty if the report does not say.
inline std::string data_words(const Workload& w) {
  std::string words = w.data.value_or("");
  std::ranges::replace(words, '_', ' ');
  return words.empty() ? words : ", data: " + words;
}
/// "micro-batch 8 found; doubling …; 1: 40.1 samples/s, 2: …, 16: does not fit".
inline std::string micro_batch_search(const MicroBatchSearch& search) {
  std::vector<std::string> trials;
  for (const MicroBatchTrial& trial : search.trials)
    trials.push_back(fmt::format("{}: {}", trial.micro_batch,
                                 trial.samples_per_s ? text::si(*trial.samples_per_s, "samples/s") : trial.reason));
  return join_said({fmt::format("micro-batch {}", search.chosen) + (trials.empty() ? "" : " found"),
                    search.stopped_by, join_said(trials, ", ")},
                   "; ");
}
/// Of a telemetry quantity whose name ends as its unit.
inline std::string value_of(const std::string& name, double value) {
  return name.ends_with("_bytes") ? text::bytes(value) : text::significant(value);
}
inline std::string memory(const Summary& s) {
  const auto bytes = [](std::uint64_t value) { return text::bytes(static_cast<double>(value)); };
  return fmt::format(
      "peak {} resident{}, planned {} (largest rank)", bytes(s.peak_resident_bytes_per_rank),
      s.peak_device_memory_bytes_per_rank ? ", " + bytes(*s.peak_device_memory_bytes_per_rank) + " on the device" : "",
      bytes(s.planned_bytes_per_rank));
}
inline std::string flops_of_sample(const Summary& s) {
  std::string text = text::si(s.model_flops_per_sample, "FLOP/sample");
  if (s.hardware_flops_per_sample)
    text += fmt::format(" ({} with what is recomputed)", text::si(*s.hardware_flops_per_sample, "FLOP/sample"));
  return text;
}

inline std::vector<double> joined(const Record& r, std::vector<double> Trial::*member) {
  std::vector<double> all;
  for (const Trial& t : r.trials) all.insert(all.end(), (t.*member).begin(), (t.*member).end());
  return all;
}

/// How many of the finite values fall into each of `buckets` equal parts of their range; empty if that has no width.
inline std::vector<double> histogram(std::vector<double> values, std::size_t buckets) {
  std::erase_if(values, [](double v) { return !std::isfinite(v); });
  if (values.empty()) return {};
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double range = *high - *low;
  if (!(range > 0) || !std::isfinite(range)) return {};
  std::vector<double> counts(buckets, 0);
  for (double v : values)
    ++counts[std::min(buckets - 1, static_cast<std::size_t>((v - *low) / range * static_cast<double>(buckets)))];
  return counts;
}

/// Of a run to a target whose prices are known, or why it is absent; empty for all others.
inline std::string cost_words(const Record& r) {
  const auto& reached = r.summary.to_target;
  if (!r.prices || !reached || !reached->steps) return {};
  if (!reached->cost) return "absent: " + reached->cost_reason.value_or("not known");
  std::vector<std::string> runs;
  for (const double one : reached->cost_of_runs.value_or(std::vector<double>{})) runs.push_back(text::significant(one));
  const Estimate& e = *reached->cost;
  const std::string ends =
      e.low && e.high ? " [" + text::significant(*e.low) + ", " + text::significant(*e.high) + "]" : "";
  const std::string of_joules =
      reached->cost_scope ? fmt::format(" and {} per kWh of {} joules", r.prices->kwh_price, *reached->cost_scope) : "";
  return fmt::format("{}{}, by seed {}; at {} per hour{}", text::significant(e.value), ends, join_said(runs, ", "),
                     r.prices->hour_price, of_joules);
}

}  // namespace tw::results::show
