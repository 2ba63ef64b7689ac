#include <fmt/format.h>

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
  }
  return sha256_hex(text);
}

}  // namespace tw::results
