#include "bench/train/sweep/short_result.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "results/analysis/verdict.hpp"

namespace tw::bench {
namespace {

double most_foreign_share(const results::Record& record) {
  double most = 0;
  for (const results::Trial& trial : record.trials) most = std::max(most, trial.foreign_share.value_or(0));
  return most;
}

}  // namespace

std::string short_result(const results::Record& record) {
  if (record.verdict.status == results::Status::unsupported || record.verdict.status == results::Status::failed)
    return results::to_string(record.verdict.status) + std::string(": ") +
           (record.verdict.reasons.empty() ? "" : record.verdict.reasons.front());
  const results::Summary& s = record.summary;
  std::string text = results::to_string(record.verdict.status);
  if (s.to_target && s.to_target->time_s)
    text +=
        fmt::format(" · target after {:.4g} steps, {:.4g} s", s.to_target->steps->value, s.to_target->time_s->value);
  else if (s.to_target)
    text += " · " + s.to_target->reason;
  const auto& rate = s.tokens_per_s ? s.tokens_per_s : s.samples_per_s;
  if (rate) text += fmt::format(" · {:.4g} {}", rate->value, s.tokens_per_s ? "tokens/s" : "samples/s");
  if (results::has_flag(record, results::Flag::busy_host))
    text += fmt::format(" · busy_host: others had {:.0f} % of the CPU", 100 * most_foreign_share(record));
  if (const auto share = results::credible_of_ceiling(s)) text += fmt::format(" · {:.2f} of ceiling", *share);
  if (results::has_flag(record, results::Flag::above_ceiling))
    text += " · above_ceiling";
  if (s.loss_first && s.loss_last) text += fmt::format(" · loss {:.3f} → {:.3f}", *s.loss_first, *s.loss_last);
  return text;
}

}  // namespace tw::bench
