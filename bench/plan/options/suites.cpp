// The built-in suites.
#include <algorithm>

#include "bench/plan/options/request.hpp"
#include "models/catalog/tasks.hpp"
#include "results/analysis/run_rules.hpp"

namespace tw::bench {
namespace {

/// One grid, each point in windows that figures are published with, as many as a claim about two machines takes.
Request suite(const std::string& name, std::vector<std::string> models, std::vector<std::string> precisions,
              std::vector<std::int64_t> accumulate) {
  Request request;
  request.suite = name;
  Axes& axes = request.axes.emplace_back();
  axes.model = std::move(models), axes.precision = std::move(precisions), axes.accumulate = std::move(accumulate);
  request.measurement.trials = results::least_replicates;
  return request;
}

/// A transformer and a CNN, both precisions, accumulation 1 and 4: 8 points of about 11 s on 2 cores. For a look: the
/// windows are too short for a published figure.
Request quick() {
  Request request = suite("quick", {"gpt2-tiny", "resnet-tiny"}, {"float32", "bf16"}, {1, 4});
  request.measurement.window_seconds = 1.2;
  request.measurement.ceiling_seconds = 2.0;
  return request;
}

/// Networks of the size that people train on one node: 8 points of about 6 minutes.
Request standard() { return suite("standard", {"gpt2-124m", "resnet-50"}, {"float32", "bf16"}, {1, 4}); }

/// The same in every precision; what a device lacks is recorded as unsupported: at most 24 points of about 6 minutes.
/// And 8 at two lower clocks of what trains, if it reports its range; unsupported where the user may not set them.
Request procurement() {
  Request request = suite("procurement", {"gpt2-124m", "resnet-50"}, precision_names(), {1, 8});
  Axes clocks = request.axes.front();
  clocks.precision = {"float32", "bf16"};
  clocks.accumulate = {8};
  clocks.clock = {"50%", "75%"};
  request.axes.push_back(std::move(clocks));
  return request;
}

/// All tasks to their targets, both precisions, accumulation 1 and 4 at the tasks' global batch.
Request convergence() {
  std::vector<std::string> names;
  for (const models::TaskDescription& task : models::tasks()) names.push_back(task.model);
  Request request = suite("convergence", std::move(names), {"float32", "bf16"}, {1, 4});
  request.measurement.trials = Measurement().trials;
  request.target = TargetRequest{.value = {}, .seed_count = 3, .seeds = {}};
  return request;
}

}  // namespace

bool leaves_micro_batch(const Request& request) {
  return std::ranges::any_of(request.axes, [](const Axes& axes) {
    return std::ranges::find(axes.micro_batch, automatic) != axes.micro_batch.end();
  });
}

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
