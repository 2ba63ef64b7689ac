#include "results/ratio.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "results/run_rules.hpp"

namespace tw {
namespace {

const char* noun(Replicates replicates) { return replicates == Replicates::trials ? "trials" : "runs"; }

/// Why no number of replicates would decide.
std::string never(const Contrast& contrast, Replicates replicates) {
  if (contrast.value == 0) return "their means are the same";
  return fmt::format(
      "more {} would not decide: what all of them have in common is as uncertain as the difference is large",
      noun(replicates));
}

}  // namespace

Replicates replicates_of(const std::vector<SystemInput>& systems, std::string& note) {
  const std::size_t count = systems[0].runs.size();
  if (std::ranges::all_of(systems, [](const SystemInput& s) { return s.runs.size() == 1; })) {
    note =
        "each system was run once: the intervals are over its trials, and what changes from one run to the next is not "
        "in them";
    return Replicates::trials;
  }
  if (std::ranges::any_of(systems, [&](const SystemInput& s) { return s.runs.size() != count; })) {
    note = "the systems have several runs, not as many each: the intervals are over runs, taken as independent";
    return Replicates::runs;
  }
  for (std::size_t block = 0; block + 1 < count; ++block) {
    std::string ended, begins = "~";  // RFC 3339 in UTC sorts as text
    for (const SystemInput& system : systems) {
      const Context &now = system.runs[block].context, &next = system.runs[block + 1].context;
      ended = std::max(ended, (now.finished_at.empty() ? now.started_at : now.finished_at).substr(0, 19));
      begins = std::min(begins, next.started_at.substr(0, 19));
    }
    if (ended > begins) {
      note = fmt::format(
          "the runs did not take turns (a run of block {} began before block {} had ended): the intervals "
          "are over runs, taken as independent",
          block + 2, block + 1);
      return Replicates::runs;
    }
  }
  note = fmt::format(
      "the systems took turns in {} blocks: the intervals are over the differences within a block, free of "
      "what moved the machine from block to block",
      count);
  return Replicates::paired_runs;
}

Contrast contrast_of(const LogSample& a, const LogSample& b, Replicates replicates) {
  return replicates == Replicates::paired_runs ? paired(a, b) : independent(a, b);
}

Contrast contrast_of(const std::vector<const LogSample*>& a, const std::vector<const LogSample*>& b,
                     const std::vector<double>& weights, Replicates replicates) {
  std::vector<Contrast> contrasts;
  std::vector<double> shares;
  LogSample sums[2];
  for (std::size_t row = 0; row < weights.size(); ++row) {
    if (weights[row] == 0) continue;
    shares.push_back(weights[row]);
    contrasts.push_back(contrast_of(*a[row], *b[row], replicates));
    const LogSample* of[] = {a[row], b[row]};
    for (int i = 0; i < 2 && replicates != Replicates::trials; ++i) {
      sums[i].logs.resize(of[i]->logs.size());
      for (std::size_t k = 0; k < of[i]->logs.size(); ++k) sums[i].logs[k] += weights[row] * of[i]->logs[k];
      sums[i].common += weights[row] * of[i]->common;
      sums[i].drop_extremes = of[i]->drop_extremes;
    }
  }
  // What moves a run moves all its rows: only whole runs are independent.
  return replicates == Replicates::trials ? weighted(contrasts, shares) : contrast_of(sums[0], sums[1], replicates);
}

Ratio judged(const Contrast& contrast, bool more_is_better, Replicates replicates, const words::Trials& trials) {
  Ratio ratio;
  ratio.value = std::exp(contrast.value), ratio.replicates = contrast.replicates;
  ratio.reason = words::range_only(contrast.replicates, replicates, trials);
  if (!ratio.reason.empty()) {
    ratio.is_range = true;
    ratio.low = std::exp(contrast.least), ratio.high = std::exp(contrast.most);
    ratio.verdict = "no claim";
    if (contrast.replicates >= least_replicates) return ratio;  // more of the same would decide nothing
    const auto needed = contrast.freedom > 0 ? replicates_needed(contrast, most_replicates) : std::nullopt;
    ratio.needed = std::max(least_replicates, needed.value_or(least_replicates));
    return ratio;
  }
  const double half = half_width(contrast);
  ratio.low = std::exp(contrast.value - half), ratio.high = std::exp(contrast.value + half);
  ratio.detectable = detectable_share(contrast);
  if (*ratio.low > 1 || *ratio.high < 1) {
    ratio.verdict = (*ratio.low > 1) == more_is_better ? "better" : "worse";
    return ratio;
  }
  ratio.verdict = "no difference shown";
  ratio.needed = replicates_needed(contrast, most_replicates);
  if (!ratio.needed) ratio.reason = never(contrast, replicates);
  return ratio;
}

}  // namespace tw
