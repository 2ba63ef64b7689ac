#include "results/compare/ratio.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "results/analysis/run_rules.hpp"
#include "results/analysis/statistics.hpp"

namespace tw::results {
namespace {

/// Why no number of replicates would decide.
std::string never(const Contrast& contrast, Replicates replicates) {
  if (contrast.value == 0) return "their means are the same";
  return fmt::format("more {} would not decide: their common uncertainty is as large as the difference",
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

constexpr double confidence = 0.975, power = 0.8;  // two-sided 95 %; seen in 8 of 10
constexpr double normal_975 = 1.959963984540054;

struct Center {
  double mean = 0, variance = 0, freedom = 0;  // of the mean
};

/// Of the whole sample, or without its ends: then the variance is of the sample with the ends moved in (winsorised),
/// and the degrees of freedom are those of what is left.
Center center_of(std::vector<double> values, bool drop_extremes) {
  std::ranges::sort(values);
  const std::size_t trim = drop_extremes && values.size() >= trimmed_from ? 1 : 0;
  const auto n = static_cast<double>(values.size()), left = static_cast<double>(values.size() - 2 * trim);
  Center center;
  center.mean = std::accumulate(values.begin() + trim, values.end() - trim, 0.0) / left;
  if (values.size() < 2) return center;
  if (trim == 1) values.front() = values[1], values.back() = values[values.size() - 2];
  const double middle = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double v : values) squares += (v - middle) * (v - middle);
  center.variance = squares / (left * (left - 1));
  center.freedom = left - 1;
  return center;
}

/// Sum of squared deviations from the mean of a group of runs, and its degrees of freedom.
std::pair<double, double> spread_of(std::span<const double> logs) {
  if (logs.size() < 2) return {0, 0};
  const double n = static_cast<double>(logs.size()), middle = std::accumulate(logs.begin(), logs.end(), 0.0) / n;
  double squares = 0;
  for (const double log : logs) squares += (log - middle) * (log - middle);
  return {squares, n - 1};
}

/// Of a side of a comparison of runs: its spread, and where it has earlier runs theirs too.
Center run_center(const LogSample& sample) {
  Center center = center_of(sample.logs, sample.drop_extremes);
  if (sample.earlier.empty() || sample.logs.size() >= trimmed_from) return center;
  auto [squares, freedom] = spread_of(sample.logs);
  for (const std::vector<double>& group : sample.earlier) {
    const auto [more, degrees] = spread_of(group);
    squares += more, freedom += degrees;
  }
  if (!(freedom > 0)) return center;
  center.variance = squares / freedom / static_cast<double>(sample.logs.size());
  if (sample.logs.size() == 1) center.variance = std::max(center.variance, sample.within);
  center.freedom = freedom;
  return center;
}

/// Degrees of freedom of a sum of variances.
double satterthwaite(std::span<const double> variances, std::span<const double> freedoms) {
  double sum = 0, parts = 0, least = freedoms[0];
  for (std::size_t i = 0; i < variances.size(); ++i) {
    if (!(freedoms[i] > 0)) return 0;
    sum += variances[i];
    parts += variances[i] * variances[i] / freedoms[i];
    least = std::min(least, freedoms[i]);
  }
  return parts > 0 ? sum * sum / parts : least;
}

double error_with_common(double variance, double common) {
  return std::hypot(std::sqrt(variance), common / normal_975);
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
          "the systems were not run alternately (a run {} began before all runs {} had ended): the intervals are over "
          "runs, taken as independent",
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

Contrast independent(const LogSample& a, const LogSample& b) {
  const Center of_a = center_of(a.logs, a.drop_extremes), of_b = center_of(b.logs, b.drop_extremes);
  Contrast result;
  result.value = of_b.mean - of_a.mean;
  result.variance = of_a.variance + of_b.variance;
  const double variances[] = {of_a.variance, of_b.variance}, freedoms[] = {of_a.freedom, of_b.freedom};
  result.freedom = satterthwaite(variances, freedoms);
  result.common = std::hypot(a.common, b.common);
  result.replicates = static_cast<int>(std::min(a.logs.size(), b.logs.size()));
  result.least = std::ranges::min(b.logs) - std::ranges::max(a.logs);
  result.most = std::ranges::max(b.logs) - std::ranges::min(a.logs);
  return result;
}

Contrast paired(const LogSample& a, const LogSample& b) {
  std::vector<double> differences;
  for (std::size_t i = 0; i < a.logs.size(); ++i) differences.push_back(b.logs[i] - a.logs[i]);
  const Center center = center_of(differences, a.drop_extremes && b.drop_extremes);
  return {center.mean,
          center.variance,
          center.freedom,
          std::hypot(a.common, b.common),
          static_cast<int>(differences.size()),
          std::ranges::min(differences),
          std::ranges::max(differences)};
}

Contrast of_runs(const LogSample& a, const LogSample& b) {
  Contrast result = independent({a.logs, a.common, a.drop_extremes}, {b.logs, b.common, b.drop_extremes});
  const Center of_a = run_center(a), of_b = run_center(b);
  result.variance = of_a.variance + of_b.variance;
  result.freedom = std::min(of_a.freedom, of_b.freedom);
  return result;
}

Contrast weighted(std::span<const Contrast> contrasts, std::span<const double> weights) {
  Contrast result;
  std::vector<double> variances, freedoms;
  result.replicates = contrasts[0].replicates;
  result.single_run = std::ranges::any_of(contrasts, &Contrast::single_run);
  for (std::size_t i = 0; i < contrasts.size(); ++i) {
    const Contrast& one = contrasts[i];
    result.value += weights[i] * one.value;
    result.variance += weights[i] * weights[i] * one.variance;
    result.common += weights[i] * one.common;
    result.least += weights[i] * one.least;
    result.most += weights[i] * one.most;
    result.replicates = std::min(result.replicates, one.replicates);
    variances.push_back(weights[i] * weights[i] * one.variance);
    freedoms.push_back(one.freedom);
  }
  result.freedom = satterthwaite(variances, freedoms);
  return result;
}

double half_width(const Contrast& contrast) {
  return std::hypot(student_t_quantile(confidence, contrast.freedom) * std::sqrt(contrast.variance), contrast.common);
}

double detectable_share(const Contrast& contrast) {
  const double t = student_t_quantile(confidence, contrast.freedom) + student_t_quantile(power, contrast.freedom);
  return std::expm1(t * error_with_common(contrast.variance, contrast.common));
}

std::optional<int> replicates_needed(const Contrast& contrast, int most) {
  const auto shows = [&](int count) {  // with as many, of the same spread
    const double n = count, now = contrast.replicates;
    const double freedom = now > 1 ? contrast.freedom * (n - 1) / (now - 1) : contrast.freedom;  // of earlier runs
    const double t = student_t_quantile(confidence, freedom) + student_t_quantile(power, freedom);
    return t * error_with_common(contrast.variance * now / n, contrast.common) <= std::abs(contrast.value);
  };
  constexpr double normal_sum = normal_975 + 0.8416212335729143;  // of infinitely many
  if (normal_sum * contrast.common / normal_975 >= std::abs(contrast.value)) return std::nullopt;
  if (!shows(most)) return most;
  int low = 1, high = most;  // of one replicate nothing is known
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (shows(middle) ? high : low) = middle;
  }
  return high;
}

}  // namespace tw::results
