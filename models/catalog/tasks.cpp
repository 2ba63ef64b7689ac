#include "models/catalog/tasks.hpp"

#include <array>
#include <cstdio>

#include "models/catalog/families.hpp"
#include "models/catalog/floors.hpp"

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

std::optional<TaskDescription> task_of(const NetworkDescription& network) {
  if (!network.task) return task_of(network.name);
  TaskDescription task = *network.task;
  task.model = network.name;
  return task;
}

std::string why_no_target(const TaskDescription& task, const NetworkDescription& network, std::int64_t seq_len) {
  const bool is_error = task.metric == TaskDescription::Metric::error;
  const double floor = exact_floor(network, seq_len), of_guess = guess(network) - (is_error ? 0 : floor);
  const auto why = [&](const char* side, double bound, const char* of_whom) {
    std::array<char, 32> number{};
    static_cast<void>(std::snprintf(number.data(), number.size(), "%.4g", bound));
    return std::string("must be ") + side + " " + number.data() + ", the " + of_whom + " the task " + task.name;
  };
  if (!(task.target < of_guess))
    return why("below", of_guess, is_error ? "error of a guess in" : "excess loss of a guess in");
  if (is_error && !(task.target > floor)) return why("above", floor, "error of the best classifier of");
  return {};
}

NetworkDescription network_of(const TaskDescription& task) {
  NetworkDescription network = find_network(task.model);
  network.drawn_tokens = task.drawn_tokens;
  return network;
}

}  // namespace tw::models
