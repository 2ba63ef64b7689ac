// Fails if the steps that checking a report takes grow faster than its trials. A step is a basic block of the readers,
// which are compiled to count them (-fsanitize-coverage=trace-pc), so that the result is the same on a busy machine.
// Not detected: what grows inside a library's call that takes one step, such as the moves of a vector that loses its
// first value.
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "results/analysis/run_rules.hpp"
#include "results/record/report_io.hpp"
#include "results/validation/validate.hpp"
#include "tests/fuzz/steps.hpp"
#include "tests/results/validation/large_report.hpp"

namespace tw::fuzz {
namespace {

/// Two intervals of sizes. Below 1001 items a list is held against the schema item by item.
constexpr std::size_t least = 2000, middle = 4000, most = 16'000;
/// How many times as many steps a further trial may take in the upper interval. Linear: 1. Sorting: 1.1 of a small
/// part. All pairs: 3.3.
constexpr double most_growth = 1.1;

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

/// By how much the steps of a further trial grow from the lower interval to the upper one; what does not depend on the
/// trials cancels out. 0 where nothing was counted.
double growth_of(const char* what, double (*steps_of)(std::size_t)) {
  const double of_least = steps_of(least), of_middle = steps_of(middle), of_most = steps_of(most);
  const double few = (of_middle - of_least) / static_cast<double>(middle - least),
               many = (of_most - of_middle) / static_cast<double>(most - middle), growth = few > 0 ? many / few : 0;
  std::printf("%s: %.0f steps for a further trial from %zu on, %.0f from %zu to %zu: %.3f times as many\n", what, few,
              least, many, middle, most, growth);
  return growth;
}

}  // namespace
}  // namespace tw::fuzz

int main() {
  using namespace tw::fuzz;
  const double of_report = growth_of("validate", steps_of_report), of_pairs = growth_of("all pairs", steps_of_pairs);
  if (of_report < 1 / most_growth) std::puts("the steps were not counted");
  if (of_report > most_growth)
    std::printf("the steps grow faster than the trials: at most %.2f is allowed\n", most_growth);
  if (of_pairs < 3) std::puts("a loop over all pairs was not seen");
  return of_report >= 1 / most_growth && of_report <= most_growth && of_pairs >= 3 ? 0 : 1;
}
