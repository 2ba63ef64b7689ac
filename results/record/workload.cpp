#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "results/record/names_format.hpp"
#include "results/record/report_io.hpp"

namespace tw::results {

std::string workload_hash(const Workload& w, const std::optional<Target>& target) {
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  std::string text = "workload-1|" + w.model + "|" + number(w.layers.value_or(-1)) + "|" +
                     number(w.seq_len.value_or(0)) + "|" + w.optimizer + "|" + number(w.parameters);
  if (target) {
    const Schedule& s = target->schedule;
    text += fmt::format("|target-1|{}|{}|{}|{}|{}|{}|{}|{}|{}", target->task, target->metric, target->value,
                        target->held_out_samples, target->evaluation_interval, s.learning_rate, s.final_share,
                        s.warmup_steps, s.decay_steps);
    if (target->drawn_tokens) text += fmt::format("|drawn|{}", *target->drawn_tokens);
  }
  return sha256_hex(text);
}

std::string suite_words(const PlanInfo& plan) {
  if (!json_fault(plan.canonical_json).empty()) return plan.suite;
  const auto json = nlohmann::json::parse(plan.canonical_json);
  const auto of_class = json.find("device_class");
  if (of_class == json.end() || !of_class->is_string()) return plan.suite;
  return plan.suite + ", sizes of device class " + of_class->get<std::string>();
}

}  // namespace tw::results
