// Points of one report that train the same, on other numbers of ranks or in another split.
#include <map>
#include <tuple>

#include "results/analysis/losses.hpp"
#include "results/record/text.hpp"
#include "results/validation/checks.hpp"

namespace tw::results {

void check_losses(const Report& report, Findings& found) {
  std::map<std::tuple<std::string, std::string, std::uint64_t, std::int64_t, std::int64_t>, std::size_t> first_of;
  for (std::size_t i = 0; i < report.records.size(); ++i) {
    const Record& record = report.records[i];
    bool is_set = false;  // what a set point does to losses is the flag "unstable"
    for (const auto& [name, setting] : record.setting) is_set = is_set || setting.requested;
    if (record.trials.empty() || record.target || is_set || !is_valid(record)) continue;
    const Workload& w = record.workload;
    const auto [first, is_new] =
        first_of.try_emplace({w.hash, w.precision, w.seed, w.global_batch, w.seq_len ? 0 : w.micro_batch}, i);
    if (is_new) continue;
    const auto pair = furthest_first_losses(report.records[first->second], record);
    if (pair && losses_differ(*pair, w.precision))
      found.broken("losses_differ", place_of(i) + "/trials/0/loss",
                   "step " + std::to_string(pair->step) + " has the loss " + text::significant(pair->b) + ", and " +
                       text::significant(pair->a) + " in " + place_of(first->second) + ", which trains the same");
  }
}

}  // namespace tw::results
