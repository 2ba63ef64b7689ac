// Reads the task of a file of layers: a target that its network is trained to.
#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "models/catalog/nearest.hpp"
#include "models/families/custom/description.hpp"
#include "models/families/custom/description_keys.hpp"

namespace tw::models::family::custom {
namespace {

using Json = nlohmann::json;
using Kind = Operation::Kind;

const std::string at_task = "/task";
constexpr std::size_t most_text = 400;

[[noreturn]] void refuse(const std::string& pointer, const std::string& text) {
  throw LayersFault("layers-task", pointer, text);
}

/// Kinds of input whose best possible figure is known exactly (floors.hpp). None: there is no task for it.
std::optional<TaskDescription::Metric> metric_of(DataKind kind) {
  switch (kind) {
    case DataKind::images:
    case DataKind::clicks:
      return TaskDescription::Metric::error;
    case DataKind::tokens:
    case DataKind::masked_tokens:
    case DataKind::series:
      return TaskDescription::Metric::excess_loss;
    case DataKind::segmented_images:
    case DataKind::restored_images:
    case DataKind::measured_images:
      break;
  }
  return std::nullopt;
}

/// The floor is that of a model which sees what comes before a position, and whose loss is the one that is evaluated.
void check_floor_is_least(const CustomDescription& d) {
  for (const Operation& o : d.operations) {
    if (o.label_smoothing > 0 && metric_of(d.data.kind) == TaskDescription::Metric::excess_loss)
      refuse(o.pointer + "/label_smoothing",
             "a loss with label smoothing does not have the floor of a task: leave it out, or remove the task");
    if (o.out.kind != Extent::Kind::sequence) continue;
    if (o.kind == Kind::attention && !o.causal)
      refuse(
          o.pointer,
          "attention that is not causal lets a position see the values that it must predict: add \"causal\": true, or "
          "remove the task");
    if (o.kind == Kind::batch_norm)
      refuse(o.pointer,
             "batch norm lets a position see later ones, which it must predict: use layer_norm or rms_norm, or remove "
             "the task");
  }
}

/// With batch norm the micro-batch is a part of what is computed: the file names it, and each step and evaluation is so
/// many whole ones.
void set_micro_batches(TaskDescription& task, const Json& file, const NetworkDescription& network) {
  const auto norms = network.shape->norms(2, std::max<std::int64_t>(1, network.default_seq_len));
  if (std::ranges::find(norms, Norm::Kind::batch, &Norm::kind) == norms.end()) return;
  const std::int64_t size = network.default_micro_batch;
  if (!file.contains("micro_batch"))
    refuse(at_task,
           "the network has batch norm, which computes over the micro-batch: add the key \"micro_batch\" to the file");
  if (const std::string why = network.shape->why_no_micro_batch(size, network.default_seq_len); !why.empty())
    refuse("/micro_batch", "is " + std::to_string(size) + ": " + why);
  for (const auto& [key, samples] :
       {std::pair("global_batch", task.global_batch), std::pair("held_out_samples", task.held_out_samples)})
    if (samples % size != 0)
      refuse(at_task + "/" + key, "is " + std::to_string(samples) + ", no multiple of the micro_batch " +
                                      std::to_string(size) + ", over which batch norm computes");
  task.micro_batches = {size};
}

/// The shortest decimal that is this float32, as a file would have it: 0.003, not 0.003000000026.
double shortest(float value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double found = 0;
  std::from_chars(text.data(), end, found);
  return found;
}

/// What it does not say is the optimizer's.
void set_schedule(TaskDescription& task, const Json& described, const OptimizerConfig& optimizer) {
  const std::string pointer = at_task + "/schedule";
  const Json json = described.value("schedule", Json::object());
  const Values schedule(json, pointer, schedule_keys(), "the schedule");
  task.learning_rate = schedule.number("learning_rate", shortest(optimizer.learning_rate));
  task.final_learning_rate_share = schedule.number("final_share", shortest(optimizer.final_learning_rate_share));
  task.warmup_steps = schedule.whole("warmup_steps", optimizer.warmup_steps);
  task.decay_steps = schedule.whole("decay_steps", optimizer.decay_steps);
  if (task.decay_steps <= task.warmup_steps)
    refuse(pointer, "the warm-up is a part of the decay_steps: these must be more than the " +
                        std::to_string(task.warmup_steps) + " warmup_steps, not " + std::to_string(task.decay_steps));
}

void set_texts(TaskDescription& task, const Values& described, const std::string& otherwise) {
  task.name = described.word("name", otherwise.c_str());
  if (!is_name(task.name) || task.name.size() > 32)
    throw LayersFault("layers-name", at_task + "/name",
                      "'" + cut_word(task.name) + "': " + name_rule + ", at most 32 of them");
  if (!described.has("extrapolated_from")) return;
  task.extrapolated_from = described.word("extrapolated_from");
  const auto is_control = [](unsigned char c) { return c < 0x20 || c == 0x7f; };
  if (task.extrapolated_from.empty() || task.extrapolated_from.size() > most_text ||
      std::ranges::any_of(task.extrapolated_from, is_control))
    throw LayersFault("layers-value", at_task + "/extrapolated_from",
                      "must be one line of 1 to " + std::to_string(most_text) + " bytes");
}

}  // namespace

std::optional<TaskDescription> read_task(const std::string& json, const NetworkDescription& network) {
  const Json file = Json::parse(json);
  if (!file.contains("task")) return std::nullopt;
  const Json& object = file.at("task");
  const auto& d = network.as<CustomDescription>();
  const std::optional<TaskDescription::Metric> metric = metric_of(d.data.kind);
  if (!metric)
    refuse(at_task, std::string("the best possible figure of samples of kind ") + to_string(d.data.kind) +
                        " is not known exactly, so that they have no task: kinds with one are images, series and "
                        "tokens. Remove the task, or choose another kind");
  const Values described(object, at_task, task_keys(), "the task");
  TaskDescription task;
  task.model = network.name;
  task.seq_len = network.default_seq_len;
  task.metric = *metric;
  set_texts(task, described, d.name);
  task.global_batch = described.whole("global_batch", 0);
  task.target = described.number("target", 0);
  task.held_out_samples = described.whole("held_out_samples", 0);
  task.evaluation_interval = described.whole("evaluation_interval", 0);
  task.most_steps = described.whole("most_steps", 0);
  if (task.evaluation_interval > task.most_steps)
    refuse(at_task + "/evaluation_interval", "is " + std::to_string(task.evaluation_interval) +
                                                 ", more than the most_steps of " + std::to_string(task.most_steps));
  set_schedule(task, object, d.optimizer);
  check_floor_is_least(d);
  set_micro_batches(task, file, network);
  if (const std::string why = why_no_target(task, network, task.seq_len); !why.empty())
    refuse(at_task + "/target", "is " + object.at("target").dump() + ", " + why);
  if (task.metric == TaskDescription::Metric::error && task.target * static_cast<double>(task.held_out_samples) < 1)
    refuse(at_task + "/held_out_samples", "is " + std::to_string(task.held_out_samples) + ", too few for a target of " +
                                              object.at("target").dump() + ": one wrong sample exceeds it");
  return task;
}

}  // namespace tw::models::family::custom
