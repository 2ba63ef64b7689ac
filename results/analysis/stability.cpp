#include "results/analysis/stability.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "results/analysis/statistics.hpp"
#include "results/analysis/trials.hpp"
#include "results/record/text.hpp"

namespace tw::results {
namespace {

constexpr double ceilings_apart = 0.05;

std::string percent(double share) { return text::significant(100 * std::abs(share), 2) + " %"; }

/// A figure of each valid trial.
struct Series {
  std::string unit;
  std::vector<double> values;
};

std::vector<Series> figures_of(const Record& record, const std::vector<const Trial*>& trials) {
  std::vector<Series> all = {{"samples/s", {}}};
  for (const Trial* trial : trials) all[0].values.push_back(throughput_of(record, *trial));
  for (const auto& [scope, joules] : record.summary.samples_per_j) {
    if (!joules) continue;
    Series& series = all.emplace_back(Series{"samples/J (" + scope + ")", {}});
    for (const Trial* trial : trials) series.values.push_back(samples_of(record, *trial) / joules_of(*trial, scope));
  }
  std::erase_if(all, [](const Series& series) {
    return !std::ranges::all_of(series.values, [](double v) { return std::isfinite(v); });
  });
  return all;
}

/// What makes the ceilings of two records timings of the same products on the same machine.
auto ceiling_key(const Record& record) {
  const Workload& w = record.workload;
  std::map<std::string, std::pair<double, std::string>> requested;
  for (const auto& [name, setting] : record.setting)
    if (setting.requested) requested[name] = {setting.requested->number, setting.requested->name};
  return std::tuple(w.hash, w.device, w.precision, w.micro_batch, w.ranks, w.threads_per_rank, requested);
}

}  // namespace

std::vector<Instability> find_instability(const Record& record) {
  std::vector<Instability> found;
  const std::vector<const Trial*> trials = valid_trials(record);
  std::vector<std::size_t> numbers;  // of the valid trials, as people count
  for (std::size_t i = 0; i < record.trials.size(); ++i)
    if (is_valid(record.trials[i])) numbers.push_back(i + 1);
  const std::vector<Series> figures = figures_of(record, trials);
  for (const Series& figure : figures) {
    const std::vector<std::size_t> out = outliers(figure.values);
    double others = 0;
    for (std::size_t i = 0; i < figure.values.size(); ++i)
      if (!std::ranges::binary_search(out, i))  // they are in order
        others += figure.values[i] / static_cast<double>(figure.values.size() - out.size());
    for (const std::size_t i : out)
      found.push_back({Flag::outlier, "trial " + std::to_string(numbers[i]) + ": " + text::si(figure.values[i]) + " " +
                                      figure.unit + ", " + percent(figure.values[i] / others - 1) +
                                      (figure.values[i] < others ? " below" : " above") + " the others"});
  }
  std::vector<double> step_times;
  for (const Trial* trial : trials)
    step_times.insert(step_times.end(), trial->step_time_s.begin(), trial->step_time_s.end());
  const auto judge_drift = [&](const std::string& what, const std::vector<double>& values) {
    if (const std::optional<double> change = drift(values))
      found.push_back({Flag::drift, what + (*change > 0 ? " rise by " : " fall by ") + percent(*change) +
                                    " from the first to the last"});
  };
  judge_drift("step times", step_times);
  for (const Series& figure : figures)
    if (figure.unit != "samples/s") judge_drift(figure.unit, figure.values);  // the step times have told of these
  return found;
}

void judge_stability(Record& record) {
  for (const Instability& one : find_instability(record))
    if (!has_flag(record, one.flag)) record.verdict.flags.push_back(one.flag);
}

std::string run_drift(const std::vector<Record>& records) {
  struct Pair {
    const Record *first, *last;
  };
  std::map<decltype(ceiling_key(Record())), Pair> same;
  for (const Record& record : records)
    if (record.summary.ceiling_flops_per_s && !has_flag(record, Flag::ceiling_once) && !record.trials.empty())
      same.try_emplace(ceiling_key(record), Pair{&record, &record}).first->second.last = &record;
  double most = ceilings_apart;
  std::string text;
  for (const auto& [key, pair] : same) {
    const double change = *pair.last->summary.ceiling_flops_per_s / *pair.first->summary.ceiling_flops_per_s - 1;
    if (!(std::abs(change) > most)) continue;
    most = std::abs(change);
    text = pair.last->id + " timed the same products alone as " + pair.first->id + ", and they ran " + percent(change) +
           (change < 0 ? " slower" : " faster") +
           ": the machine changed along the run, and other points may differ by as much for no other cause";
  }
  return text;
}

}  // namespace tw::results
