// Fails if the steps that checking a report takes grow faster than its trials. A step is a basic block of the readers, which
// are compiled to count them (-fsanitize-coverage=trace-pc), so that the result is the same on a busy machine. Not detected:
// what grows inside a library's call that takes one step, such as the moves of a vector that loses its first value.
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "results/analysis/run_rules.hpp"
#include "results/record/report_io.hpp"
#include "tests/fuzz/steps.hpp"
#include "tests/results/validation/large_report.hpp"

namespace tw::fuzz {
namespace {

constexpr std::size_t few = 1000, times = 16;
/// Sorting takes n log n steps: log 16000 / log 1000 = 1.4 times as many for each trial, and it is a small part. Comparing all
/// pairs takes 16 times as many for each trial.
constexpr double most_growth = 1.15 * times;

double steps_of_report(std::size_t trials) {
  const std::string text = results::to_json(testing::large_report(trials));
  std::optional<results::Report> report;
  steps = 0;
  const results::Validation found = results::validate_report(text, report);
  if (report) results::check_run_rules(*report);
  const auto taken = static_cast<double>(steps);
  if (!found.violations.empty() || !report) std::printf("%zu trials: not a good report\n", trials);
  return found.violations.empty() && report ? taken : 0;
}

/// A loop over all pairs, whose growth has to be seen.
double steps_of_pairs(std::size_t trials) {
  steps = 0;
  volatile std::size_t pairs = 0;
  for (std::size_t i = 0; i < trials; ++i)
    for (std::size_t j = 0; j < i; ++j) pairs = pairs + 1;
  return static_cast<double>(steps);
}

/// Whether the steps of 16 times as many trials are within the limit.
bool is_linear(const char* what, double (*steps_of)(std::size_t)) {
  const double of_few = steps_of(few), of_many = steps_of(times * few), growth = of_few > 0 ? of_many / of_few : 0;
  std::printf("%s: %.0f steps with %zu trials, %.2f times as many with %zu times as many (most %.1f)\n", what, of_few,
              few, growth, times, most_growth);
  return growth > 0.5 * times && growth <= most_growth;
}

}  // namespace
}  // namespace tw::fuzz

int main() {
  const bool is_good = tw::fuzz::is_linear("validate", tw::fuzz::steps_of_report);
  const bool sees_pairs = !tw::fuzz::is_linear("all pairs", tw::fuzz::steps_of_pairs);
  if (!sees_pairs) std::puts("a loop over all pairs was not seen");
  return is_good && sees_pairs ? 0 : 1;
}
