// Training that ends at a target: which network, on which of its synthetic data, in which batch, how good, and how that
// is looked at. Plain data, as all of the catalog.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tw::models {

struct NetworkDescription;

struct TaskDescription {
  /// excess_loss: held-out loss less its exact floor, nats a token; of series, whose variance is 1, the mean squared
  /// error. error: share of held-out images or clicks that are classified wrongly.
  enum class Metric { excess_loss, error };
  std::string name;          ///< "markov"
  std::string model;         ///< of the catalog
  std::int64_t seq_len = 0;  ///< 0: no sequences
  /// Of the network's vocabulary, the first ones: its samples have no others, so that those of a large vocabulary are
  /// seen often enough in minutes. The network, its head and its FLOPs stay as they are. 0: all.
  std::int64_t drawn_tokens = 0;
  std::int64_t global_batch = 0;  ///< samples of an optimizer step, whatever ranks and accumulation make of it
  /// Of networks with batch norm, which computes over the micro-batch: the sizes that a task is compared at, the usual
  /// one first. Each divides the global batch and the held-out samples. Empty: the task is the same at any micro-batch.
  std::vector<std::int64_t> micro_batches{};
  // The schedule (models/optimizers/optimizer.hpp); all else of the optimizer is the network's published recipe.
  double learning_rate = 0, final_learning_rate_share = 0;
  std::int64_t warmup_steps = 0, decay_steps = 0;
  Metric metric = Metric::excess_loss;
  double target = 0;                     ///< at or under it the target is reached
  std::int64_t held_out_samples = 0;     ///< of each evaluation, always the same ones
  std::int64_t evaluation_interval = 0;  ///< steps between evaluations
  std::int64_t most_steps = 0;           ///< not reached until then: not converged
  /// Nobody has trained it yet: what its number of steps was extrapolated from, with the place of the derivation. Empty
  /// where it was trained.
  std::string extrapolated_from{};
};
const char* to_string(TaskDescription::Metric metric);

/// All tasks of all families, in the order of families.def.
const std::vector<TaskDescription>& tasks();
/// The task that trains this network; none for most.
std::optional<TaskDescription> task_of(const std::string& model);
/// The same, or the task in the file that describes the network.
std::optional<TaskDescription> task_of(const NetworkDescription& network);

/// Why no network is trained to the task's target: a guess reaches it, or not even the best classifier does. With the
/// bound, for people; empty where it can be trained.
std::string why_no_target(const TaskDescription& task, const NetworkDescription& network, std::int64_t seq_len);
/// The task's network, with samples as the task draws them.
NetworkDescription network_of(const TaskDescription& task);

}  // namespace tw::models
