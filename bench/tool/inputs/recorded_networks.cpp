#include "bench/tool/inputs/recorded_networks.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/plan/options/layers_file.hpp"
#include "models/catalog/description.hpp"
#include "models/catalog/floors.hpp"
#include "models/catalog/sequences.hpp"
#include "models/catalog/tasks.hpp"
#include "results/record/known_texts.hpp"
#include "results/record/launches.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"
#include "results/record/version.hpp"

namespace tw::bench::tool {
namespace {

using BrokenAt = std::function<void(const std::string& where, const std::string& what)>;

/// A task is marked that nobody had trained: whoever takes the mark away claims that its target was reached before.
void check_extrapolation(const results::Record& record, const models::NetworkDescription& network,
                         const BrokenAt& broken) {
  if (!record.target || record.workload.layers) return;
  const std::optional<models::TaskDescription> task = models::task_of(network);
  if (!task || task->name != record.target->task || task->extrapolated_from.empty()) return;
  if (const std::string its = record.target->extrapolated_from.value_or(""); its != task->extrapolated_from)
    broken("/target/extrapolated_from",
           fmt::format("is {}, the task {} of {} is extrapolated from {}", its.empty() ? "null" : "\"" + its + "\"",
                       task->name, network.task ? "the plan's layers_file" : "this version", task->extrapolated_from));
}

/// No rank holds its weights in less memory than their numbers take, 2 bytes at least each; of tables, which ranks
/// share, the largest rank plans the mean share of float32 at least.
void check_memory(const results::Record& record, const models::NetworkDescription& network, const BrokenAt& broken) {
  const results::Summary& s = record.summary;
  const results::Workload& w = record.workload;
  if (!has_run(record)) return;
  const double weights = 2 * static_cast<double>(models::count_dense_parameters(network)),
               tables = 4 * static_cast<double>(network.shape->tables().elements()) / std::max(1, w.ranks);
  const auto check = [&](const char* key, std::uint64_t bytes, double least) {
    if (bytes > 0 && static_cast<double>(bytes) < least)
      broken(std::string("/summary/") + key,
             fmt::format("is {}, and the weights of {} alone take {:.0f}", bytes, w.model, least));
  };
  check("planned_bytes_per_rank", s.planned_bytes_per_rank, weights + tables);
  if (w.known_device() != results::DeviceKind::cuda)  // whose weights are not in the host's memory
    check("peak_resident_bytes_per_rank", s.peak_resident_bytes_per_rank, weights);
}

/// Nothing is computed again, or what the execution says: hardware FLOPs follow from it and the network. Where it is
/// missing, all layers are the most.
void check_hardware_flops(const results::Record& record, const models::NetworkDescription& network,
                          const BrokenAt& broken) {
  const std::optional<double>& stated = record.summary.hardware_flops_per_sample;
  const std::optional<results::Execution>& execution = record.execution;
  const std::int64_t seq_len = record.workload.seq_len.value_or(0);
  const int all = models::layer_count(network);
  // Older reports do not say how many layers, which then were all.
  const int layers =
      !execution ? all : std::clamp(execution->recomputed_layers.value_or(execution->recompute ? all : 0), 0, all);
  const double own =
      models::model_flops_per_sample(network, seq_len) + models::recomputed_flops_per_sample(network, seq_len, layers);
  const bool is_same = stated && std::abs(*stated - own) <= 1e-9 * own, is_less = stated && *stated < own;
  const bool is_right = !execution ? !stated || is_same || is_less : layers > 0 ? is_same : !stated || is_same;
  if (!is_right)
    broken("/summary/hardware_flops_per_sample",
           fmt::format("is {}, {} with {} recomputed has {}", stated ? fmt::format("{}", *stated) : "null",
                       record.workload.model, results::text::count(layers, "layer"), own));
}

/// What a target has otherwise than the task of this version, each "most_steps is 400, not 800".
std::vector<std::string> task_differences(const results::Target& target, const models::TaskDescription& task) {
  std::vector<std::string> found;
  const auto same = [&](const char* key, const auto& stated, const auto& own) {
    if (stated != own) found.push_back(fmt::format("{} is {}, not {}", key, stated, own));
  };
  same("task", target.task, task.name);
  same("metric", std::string(to_string(target.metric)), std::string(models::to_string(task.metric)));
  same("drawn_tokens", target.drawn_tokens.value_or(0), task.drawn_tokens);
  same("held_out_samples", target.held_out_samples, task.held_out_samples);
  same("evaluation_interval", target.evaluation_interval, task.evaluation_interval);
  same("most_steps", target.most_steps, task.most_steps);
  same("schedule/learning_rate", target.schedule.learning_rate, task.learning_rate);
  same("schedule/final_share", target.schedule.final_share, task.final_learning_rate_share);
  same("schedule/warmup_steps", target.schedule.warmup_steps, task.warmup_steps);
  same("schedule/decay_steps", target.schedule.decay_steps, task.decay_steps);
  // The opposite is looked for by check_extrapolation(), also in reports of other versions.
  if (task.extrapolated_from.empty() && target.extrapolated_from)
    found.push_back(fmt::format("extrapolated_from is \"{}\", and the task has been trained",
                                results::text::printable(*target.extrapolated_from)));
  return found;
}

/// The task is the network's: only the target's value and the batch are whoever's who runs it. Another task has no
/// reference to compare with, so whoever renames it escapes that. Other versions may have other tasks, but a file of
/// layers says the same to all.
void check_task(const results::Record& record, const models::NetworkDescription& network, const std::string& at,
                bool is_own, results::Validation& found) {
  if (!record.target) return;
  const results::Workload& w = record.workload;
  const bool is_described = is_name_of_layers(w.model);
  const std::optional<models::TaskDescription> task = w.layers ? std::nullopt : models::task_of(network);
  std::string what;
  if (!task && is_described) {
    what = fmt::format("the plan's layers_file, which describes {}, has no task", w.model);
  } else if (!task) {
    what = fmt::format("this version trains {}{} to no target", w.model,
                       w.layers ? " with " + results::text::count(*w.layers, "layer") : "");
  } else {
    const std::vector<std::string> differences = task_differences(*record.target, *task);
    if (differences.empty()) return;
    what = fmt::format("is not the task {} of {}: {}", task->name,
                       is_described ? "the plan's layers_file" : "this version", fmt::join(differences, "; "));
  }
  (is_own || is_described ? found.violations : found.warnings).push_back({"task_differs", at + "/target", what});
}

/// What the networks of this version say about a record. `is_own`: of a launch by the program that checks it.
void check_network(const results::Record& record, const std::string& layers, const std::string& at, bool is_own,
                   results::Validation& found) {
  const results::Workload& w = record.workload;
  if (w.known_device() == results::DeviceKind::command) return;  // not one of ours
  const auto broken = [&](const std::string& where, const std::string& what) {
    found.violations.push_back({"network_differs", at + where, what});
  };
  models::NetworkDescription network;
  try {
    network = is_name_of_layers(w.model) ? recorded_network(w.model, layers) : models::find_network(w.model);
  } catch (const std::invalid_argument& error) {
    if (is_name_of_layers(w.model)) return broken("/workload/model", error.what());
    if (is_own) return broken("/workload/model", "is not a network of the program that the report names");
    found.warnings.push_back(
        {"network_unknown", at + "/workload/model",
         "\"" + w.model + "\" is not a network of this version: its parameters and FLOPs were not checked"});
    return;
  }
  try {
    if (w.layers) network = models::cut_layers(network, *w.layers);
  } catch (const std::invalid_argument& error) {
    return broken("/workload/layers", error.what());
  }
  try {
    if (w.table_rows_at_most) network = models::limit_table_rows(network, *w.table_rows_at_most);
  } catch (const std::invalid_argument& error) {
    return broken("/workload/table_rows_at_most", error.what());
  }
  if (const std::string kind = models::to_string(network.data().kind); w.data && *w.data != kind)
    broken("/workload/data", fmt::format("is \"{}\", {} has {}", *w.data, w.model, kind));
  else if (!w.data && is_own)
    broken("/workload/data", "is missing: the program that the report names always writes it");
  if (const std::string kind = models::to_string(models::default_optimizer(network).kind); w.optimizer != kind)
    broken("/workload/optimizer", fmt::format("is \"{}\", {} is trained with {}", w.optimizer, w.model, kind));
  if (network.has_sequence() != w.seq_len.has_value() ||
      (w.seq_len && !models::why_no_seq_len(network, *w.seq_len).empty()))
    return broken("/workload/seq_len", "is not a length that " + w.model + " can have");
  if (has_run(record))
    if (const std::string why = network.shape->why_no_micro_batch(w.micro_batch, w.seq_len.value_or(0)); !why.empty())
      broken("/workload/micro_batch", fmt::format("is {}, which {} cannot train on: {}", w.micro_batch, w.model, why));
  if (const std::int64_t parameters = models::count_parameters(network); w.parameters != parameters)
    broken("/workload/parameters", fmt::format("is {}, {} has {}", w.parameters, w.model, parameters));
  if (record.target) {
    network.drawn_tokens = record.target->drawn_tokens.value_or(0);
    if (const std::int64_t vocabulary = network.data().vocabulary; network.drawn_tokens > vocabulary)
      return broken("/target/drawn_tokens",
                    fmt::format("is {}, {} has {} tokens", network.drawn_tokens, w.model, vocabulary));
    if (const double floor = models::exact_floor(network, w.seq_len.value_or(0));
        !(std::abs(record.target->floor - floor) <= 1e-9))  // NaN: it has no target
      broken("/target/floor", fmt::format("is {}, that of {} is {}", record.target->floor, w.model, floor));
  }
  check_task(record, network, at, is_own, found);
  check_extrapolation(record, network, broken);
  check_memory(record, network, broken);
  const results::Summary& s = record.summary;
  if (s.flops_rule.empty()) return;
  if (!results::rule_of_flops.is(s.flops_rule)) {
    if (is_own) return broken("/summary/flops_rule", "is not the rule of the program that the report names");
    found.warnings.push_back(
        {"flops_rule_unknown", at + "/summary/flops_rule",
         "is not the rule of this version; the FLOPs were not checked, and no figure of them is shown"});
    return;
  }
  const double flops = models::model_flops_per_sample(network, w.seq_len.value_or(0));
  if (std::abs(s.model_flops_per_sample - flops) > 1e-9 * flops)
    broken("/summary/model_flops_per_sample",
           fmt::format("is {}, {} has {}", s.model_flops_per_sample, w.model, flops));
  check_hardware_flops(record, network, broken);
}

/// The file of layers in a plan; empty without one.
std::string layers_of(const std::string& canonical_json) {
  if (!results::json_fault(canonical_json).empty()) return {};
  const auto plan = nlohmann::json::parse(canonical_json);
  const auto layers = plan.is_object() ? plan.find("layers_file") : plan.end();
  return layers != plan.end() && layers->is_object() ? layers->dump() : "";
}

}  // namespace

void check_networks(const results::Report& report, results::Validation& found) {
  const std::string layers = layers_of(report.plan.canonical_json);
  for (const results::RecordedLaunch& launch : results::launches_of(report)) {
    const bool is_own = results::is_this_program(*launch.program);
    for (const std::size_t place : launch.records)
      check_network(report.records[place], layers, "/records/" + std::to_string(place), is_own, found);
  }
}

}  // namespace tw::bench::tool
