#include "results/compare/ratio.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "results/analysis/run_rules.hpp"

namespace tw::results {
namespace {

/// Why no number of replicates would decide.
std::string never(const Contrast& contrast, Replicates replicates) {
  if (contrast.value == 0) return "their means are the same";
  return fmt::format(
      "more {} would not decide: their common uncertainty is as large as the difference",
      words::noun(replicates));
}

double mean_of(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Adds `weight` times the other's logarithms, run by run.
void add_weighted(std::vector<double>& sum, const std::vector<double>& logs, double weight, bool is_first) {
  if (is_first) sum.assign(logs.size(), 0);
  for (std::size_t k = 0; k < logs.size(); ++k) sum[k] += weight * logs[k];
}
/// The same of groups of earlier runs. A group that lacks the figure in some row says nothing of the sum: it is empty.
void add_earlier(std::vector<std::vector<double>>& sums, const std::vector<std::vector<double>>& groups, double weight,
                 bool is_first) {
  if (is_first) sums.resize(groups.size());
  for (std::size_t g = 0; g < sums.size(); ++g) {
    if (g >= groups.size() || (!is_first && sums[g].size() != groups[g].size()))
      sums[g].clear();
    else
      add_weighted(sums[g], groups[g], weight, is_first);
  }
}

/// What moves a run moves all its rows: only whole runs are independent, so that the rows of each are added up first.
RunSample sum_over_rows(const std::vector<const RunSample*>& rows, const std::vector<double>& weights) {
  RunSample sum;
  bool is_first = true;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const double weight = weights[row];
    if (weight == 0) continue;
    const LogSample& runs = rows[row]->runs;
    add_weighted(sum.runs.logs, runs.logs, weight, is_first);
    sum.runs.common += weight * runs.common, sum.runs.within += weight * weight * runs.within;
    sum.runs.drop_extremes = runs.drop_extremes;
    add_earlier(sum.runs.earlier, runs.earlier, weight, is_first);
    sum.machine = rows[row]->machine;
    is_first = false;
  }
  return sum;
}

/// Where only one of the two was run once, on the other's machine, the other's runs say how its runs differ.
RunSample with_spread_of(const RunSample& one, const RunSample& other) {
  RunSample result = one;
  const bool has_earlier =
      std::ranges::any_of(one.runs.earlier, [](const std::vector<double>& group) { return group.size() > 1; });
  const bool can_borrow = one.runs.logs.size() == 1 && !has_earlier && other.runs.logs.size() > 1 &&
                          !one.machine.empty() && one.machine == other.machine;
  if (can_borrow) result.runs.earlier = {other.runs.logs};
  return result;
}

/// Over runs; without degrees of freedom where nothing is known of how those of one differ.
Contrast over_runs(const RunSample& a, const RunSample& b) {
  Contrast contrast = of_runs(with_spread_of(a, b).runs, with_spread_of(b, a).runs);
  contrast.single_run = !(contrast.freedom > 0);
  return contrast;
}
bool were_run_once(const RunSample& a, const RunSample& b) { return !a.trials.logs.empty() && !b.trials.logs.empty(); }
Contrast over_trials(const RunSample& a, const RunSample& b) {
  Contrast contrast = independent(a.trials, b.trials);
  contrast.single_run = true;
  return contrast;
}

}  // namespace

void add_run(RunSample& sample, const std::vector<double>& trial_logs, bool of_several) {
  sample.runs.logs.push_back(mean_of(trial_logs));
  if (of_several) return;
  sample.trials = {trial_logs, sample.runs.common, sample.runs.drop_extremes};
  const double n = static_cast<double>(trial_logs.size());
  double squares = 0;
  for (const double log : trial_logs) squares += (log - sample.runs.logs[0]) * (log - sample.runs.logs[0]);
  sample.runs.within = trial_logs.size() > 1 ? squares / (n - 1) / n : 0;
}

Replicates replicates_of(const std::vector<SystemInput>& systems, bool learned, std::string& note) {
  const std::size_t count = systems[0].runs.size();
  if (std::ranges::all_of(systems, [](const SystemInput& s) { return s.runs.size() == 1; })) {
    note = learned
               ? "each system was run once: where earlier runs of its machine have the figure, the interval is over "
                 "runs, by their spread; elsewhere it is over trials, and nothing is decided"
               : "each system was run once: the intervals are over its trials and do not include the variation between "
                 "runs, so none is named better";
    return learned ? Replicates::runs : Replicates::trials;
  }
  if (std::ranges::any_of(systems, [&](const SystemInput& s) { return s.runs.size() != count; })) {
    note =
        "the systems have different numbers of runs: the intervals are over runs, taken as independent; one that was "
        "run once takes its spread from earlier runs of its machine, or from the other's runs on the same machine";
    return Replicates::runs;
  }
  for (std::size_t block = 0; block + 1 < count; ++block) {
    std::string ended, last_start, begins = "~";  // RFC 3339 in UTC sorts as text
    for (const SystemInput& system : systems) {
      const Context &now = system.runs[block].context, &next = system.runs[block + 1].context;
      ended = std::max(ended, (now.finished_at.empty() ? now.started_at : now.finished_at).substr(0, 19));
      begins = std::min(begins, next.started_at.substr(0, 19));
      last_start = std::max(last_start, now.started_at.substr(0, 19));
    }
    if (ended > begins || last_start >= begins) {
      note = fmt::format(
          "the runs did not take turns (a run of block {} began before block {} had ended): the intervals "
          "are over runs, taken as independent",
          block + 2, block + 1);
      return Replicates::runs;
    }
  }
  note = fmt::format(
      "the systems took turns in {} blocks: the intervals are over the differences within a block, without "
      "changes of the machine between blocks",
      count);
  return Replicates::paired_runs;
}

Contrast contrast_of(const RunSample& a, const RunSample& b, Replicates replicates) {
  if (replicates == Replicates::paired_runs) return paired(a.runs, b.runs);
  const Contrast contrast = over_runs(a, b);
  return contrast.single_run && were_run_once(a, b) ? over_trials(a, b) : contrast;
}

Contrast contrast_of(const std::vector<const RunSample*>& a, const std::vector<const RunSample*>& b,
                     const std::vector<double>& weights, Replicates replicates) {
  const RunSample sum_a = sum_over_rows(a, weights), sum_b = sum_over_rows(b, weights);
  if (replicates == Replicates::paired_runs) return paired(sum_a.runs, sum_b.runs);
  Contrast contrast = over_runs(sum_a, sum_b);
  if (!contrast.single_run) return contrast;
  std::vector<Contrast> contrasts;
  std::vector<double> shares;
  for (std::size_t row = 0; row < weights.size(); ++row) {
    if (weights[row] == 0) continue;
    if (!were_run_once(*a[row], *b[row])) return contrast;
    shares.push_back(weights[row]);
    contrasts.push_back(over_trials(*a[row], *b[row]));  // independent: nothing is said of what moves a run
  }
  return weighted(contrasts, shares);
}

Ratio judged(const Contrast& contrast, bool more_is_better, Replicates replicates, const words::Trials& trials) {
  Ratio ratio;
  ratio.value = std::exp(contrast.value), ratio.replicates = contrast.replicates;
  const auto set_range = [&] {
    ratio.is_range = true;
    ratio.low = std::exp(contrast.least), ratio.high = std::exp(contrast.most);
  };
  const auto set_interval = [&] {
    const double half = half_width(contrast);
    ratio.low = std::exp(contrast.value - half), ratio.high = std::exp(contrast.value + half);
  };
  if (const words::Open open = words::no_claim(trials); !open.code.empty()) {
    ratio.verdict = Claim::no_claim, ratio.code = open.code, ratio.reason = open.text;
    // One run each has no range of runs; what earlier runs say of their spread is an interval.
    if (contrast.most > contrast.least || !(contrast.freedom > 0))
      set_range();
    else
      set_interval();
    return ratio;
  }
  if (contrast.single_run) {
    ratio.verdict = Claim::single_run, ratio.code = "single_run", ratio.reason = words::single_run();
    if (contrast.freedom > 0 && contrast.replicates >= least_trials)
      set_interval();
    else
      set_range();
    return ratio;
  }
  set_interval();
  ratio.detectable = detectable_share(contrast);
  if (*ratio.low > 1 || *ratio.high < 1) {
    ratio.verdict = (*ratio.low > 1) == more_is_better ? Claim::better : Claim::worse;
    return ratio;
  }
  ratio.verdict = Claim::no_difference;
  ratio.needed = replicates_needed(contrast, most_replicates);
  if (!ratio.needed) ratio.reason = never(contrast, replicates);
  return ratio;
}

}  // namespace tw::results
