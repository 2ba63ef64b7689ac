#include "tests/results/validation/large_report.hpp"

#include <string>
#include <string_view>

#include "results/analysis/verdict.hpp"
#include "tests/results/samples.hpp"

namespace tw::testing {

using namespace results;

Report large_report(std::size_t trials) {
  Report report = sample_energy_report();
  report.context.meters.clear(), report.context.idle_power.clear();
  std::string& plan = report.plan.canonical_json;
  constexpr std::string_view three = R"("trials":3)";
  plan.replace(plan.find(three), three.size(), R"("trials":)" + std::to_string(trials));
  Record& record = report.records[0];
  Trial one = record.trials[0];
  one.energy.clear(), one.series.clear(), one.counters.clear();
  one.phase_s = {{"forward", 20}};
  record.trials.clear();
  for (std::size_t t = 0; t < trials; ++t) {
    Trial& trial = record.trials.emplace_back(one);
    const double off = static_cast<double>(t * 7919 % 100'003) * (t % 4 == 0 ? 4 : 1);
    trial.step_time_s = {29.0 + 1e-6 * off, 29.0 + 1.1e-6 * off};
    trial.window_s = 60 + 2.2e-6 * off;
    trial.loss.assign(2, 5 - 1e-9 * static_cast<double>(t)), trial.gradient_norm.assign(2, 1);
    trial.first_step = 3 + 2 * static_cast<std::int64_t>(t);
    trial.start_s = 10 + 62.0 * static_cast<double>(t);
  }
  report.context.finished_at = "2126-03-01T10:00:00Z";
  summarise(report);
  return report;
}

}  // namespace tw::testing
