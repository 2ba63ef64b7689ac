#include "models/catalog/tasks.hpp"

#include "models/catalog/families.hpp"

namespace tw::models {

const char* to_string(TaskDescription::Metric metric) {
  return metric == TaskDescription::Metric::error ? "error" : "excess_loss";
}

const std::vector<TaskDescription>& tasks() {
  static const std::vector<TaskDescription> all = [] {
    std::vector<TaskDescription> of_all;
    for (const auto& [name, family] : families()) of_all.insert(of_all.end(), family.tasks.begin(), family.tasks.end());
    return of_all;
  }();
  return all;
}

std::optional<TaskDescription> task_of(const std::string& model) {
  for (const TaskDescription& task : tasks())
    if (task.model == model) return task;
  return std::nullopt;
}

NetworkDescription network_of(const TaskDescription& task) {
  NetworkDescription network = find_network(task.model);
  network.drawn_tokens = task.drawn_tokens;
  return network;
}

}  // namespace tw::models
