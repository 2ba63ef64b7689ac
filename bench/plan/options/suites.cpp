// The built-in suites.
#include "bench/plan/options/request.hpp"
#include "models/catalog/tasks.hpp"
#include "results/analysis/run_rules.hpp"

namespace tw::bench {
namespace {

/// A transformer and a CNN, both precisions, accumulation 1 and 4: 8 points of about 11 s on 2 cores. For a look: the
/// windows are too short for a published figure.
Request quick() {
  Request request;
  request.suite = "quick";
  Axes& axes = request.axes.emplace_back();
  axes.model = {"gpt2-tiny", "resnet-tiny"};
  axes.precision = {"float32", "bf16"};
  axes.accumulate = {1, 4};
  request.measurement.window_seconds = 1.2;
  request.measurement.trials = results::least_replicates;
  request.measurement.ceiling_seconds = 2.0;
  return request;
}

/// Networks of the size that people train on one node, in windows that figures are published with, and as many of them
/// as a claim about two machines takes: 8 points of about 6 minutes.
Request standard() {
  Request request;
  request.suite = "standard";
  Axes& axes = request.axes.emplace_back();
  axes.model = {"gpt2-124m", "resnet-50"};
  axes.precision = {"float32", "bf16"};
  axes.accumulate = {1, 4};
  request.measurement.trials = results::least_replicates;
  return request;
}

/// The same in every precision; what a device lacks is recorded as unsupported. At most 24 points of about 6 minutes;
/// and 8 at two lower clocks of what trains, where it tells its range, which are unsupported where the user may not set
/// them.
Request procurement() {
  Request request;
  request.suite = "procurement";
  Axes& axes = request.axes.emplace_back();
  axes.model = {"gpt2-124m", "resnet-50"};
  axes.precision = precision_names();
  axes.accumulate = {1, 8};
  Axes clocks = axes;
  clocks.precision = {"float32", "bf16"};
  clocks.accumulate = {8};
  clocks.clock = {"50%", "75%"};
  request.axes.push_back(std::move(clocks));
  request.measurement.trials = results::least_replicates;
  return request;
}

/// All tasks to their targets, both precisions, accumulation 1 and 4 at the tasks' global batch.
Request convergence() {
  Request request;
  request.suite = "convergence";
  Axes& axes = request.axes.emplace_back();
  for (const models::TaskDescription& task : models::tasks()) axes.model.push_back(task.model);
  axes.precision = {"float32", "bf16"};
  axes.accumulate = {1, 4};
  request.target = TargetRequest{.value = {}, .seed_count = 3, .seeds = {}};
  return request;
}

}  // namespace

const std::vector<std::string>& suite_names() {
  static const std::vector<std::string> names = {"quick", "standard", "procurement", "convergence"};
  return names;
}

Request suite_request(const std::string& name) {
  if (name == "quick") return quick();
  if (name == "standard") return standard();
  if (name == "procurement") return procurement();
  if (name == "convergence") return convergence();
  throw_unknown("suite", name, suite_names());
}

}  // namespace tw::bench
