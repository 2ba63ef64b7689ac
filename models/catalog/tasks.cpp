#include "models/catalog/tasks.hpp"

namespace tw {

const char* to_string(TaskDescription::Metric metric) {
  return metric == TaskDescription::Metric::error ? "error" : "excess_loss";
}

const std::vector<TaskDescription>& tasks() {
  static const std::vector<TaskDescription> all = {
#define TW_TASK(name, model, seq_len, global_batch, rate, share, warmup, decay, metric, target, samples, interval, \
                most)                                                                                              \
  {name,   model,   seq_len,  global_batch, rate, share, warmup, decay, TaskDescription::Metric::metric,           \
   target, samples, interval, most},
#include "models/catalog/tasks.def"
#undef TW_TASK
  };
  return all;
}

std::optional<TaskDescription> task_of(const std::string& model) {
  for (const TaskDescription& task : tasks())
    if (task.model == model) return task;
  return std::nullopt;
}

}  // namespace tw
