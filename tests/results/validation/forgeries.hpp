// Ways to make a report look better than its run was, each with everything else computed again to match.
#pragma once

#include <string>
#include <vector>

#include "results/record/record.hpp"

namespace tw::testing {

struct Forgery {
  std::string name;
  std::string code;                        ///< of the fault that `validate` must find, beside others
  void (*forge)(results::Report& report);  ///< of a report with joules, whose first record ran on two ranks or more
  bool is_of_figures = false;              ///< changes a figure of the summary, which computing the figures would undo
};
const std::vector<Forgery>& forgeries();
/// The report after it, with the figures and verdicts of its new samples. Throws std::out_of_range for an unknown name.
results::Report forged(results::Report report, const std::string& name);

}  // namespace tw::testing
