#include "tests/compute_cuda/suites/suite_shapes.hpp"

#include <algorithm>
#include <optional>
#include <regex>
#include <set>

#include "bench/plan/plan.hpp"
#include "models/compute/error.hpp"
#include "models/trainer.hpp"
#include "tests/embedded/launches.hpp"

namespace tw::test {

using namespace models;

namespace {

template <class Shape>
void add(std::vector<Shape>& list, const std::vector<Shape>& more) {
  for (const Shape& shape : more)
    if (std::ranges::find(list, shape) == list.end()) list.push_back(shape);
}

bool is_trained(const NetworkDescription& network, Precision precision) {
  return math(precision) != Math::fp8 || why_no_fp8(network).empty();
}

bool fits(const LedgerStep& step, std::size_t memory_bytes) {
  TrainerConfig config;
  config.network = step.network;
  config.precision = step.precision;
  config.micro_batch = step.micro_batch;
  config.seq_len = step.seq_len;
  config.accumulate = step.accumulate;
  config.optimizer = default_optimizer(step.network);
  try {
    const MemoryPlan plan = plan_memory(config, 1);
    return plan.total() - plan.packed_weights - plan.workspace <= memory_bytes;
  } catch (const Error& error) {
    if (error.failure() != Failure::usage) throw;
    return false;  // more than any memory has
  }
}

LedgerStep step_of(const bench::Point& point) {
  return {point.network, *parse_precision(point.precision), point.micro_batch, point.seq_len, point.accumulate};
}

/// The steps of a suite's points on one rank.
std::vector<LedgerStep> steps_of(const std::string& suite, const std::string& device, std::size_t memory_bytes) {
  std::vector<LedgerStep> steps;
  for (const bench::Point& point : bench::make_plan(bench::suite_request(suite), 1, device).points) {
    if (!is_trained(point.network, *parse_precision(point.precision))) continue;
    if (!point.is_automatic) {
      steps.push_back(step_of(point));
      continue;
    }
    for (std::int64_t size = 1;; size *= 2) {
      std::string why;
      const std::optional<bench::Point> sized = bench::with_micro_batch(point, size, why);
      if (!sized || !fits(step_of(*sized), memory_bytes)) break;
      steps.push_back(step_of(*sized));
    }
  }
  return steps;
}

/// Those that scripts/lib/validation/plan.py lists as Goal or Launch.
std::vector<LedgerStep> steps_of_gpu_validate() {
  static const std::regex launch(R"re((?:Goal|Launch)\("([^"]+)", (\[[^\]]*\]|"[^"]*"), ([0-9]+), ([0-9]+|None), )re"),
      name("[a-z0-9_]+");
  const std::string text = embedded::launches;
  std::vector<LedgerStep> steps;
  for (std::sregex_iterator at(text.begin(), text.end(), launch), end; at != end; ++at) {
    const NetworkDescription network = find_network((*at)[1]);
    const std::string precisions = (*at)[2];
    for (std::sregex_iterator one(precisions.begin(), precisions.end(), name); one != end; ++one) {
      const LedgerStep step = {network, *parse_precision(one->str()), std::stoll((*at)[3]),
                               (*at)[4] == "None" ? 0 : std::stoll((*at)[4]), 1};
      if (is_trained(network, step.precision)) steps.push_back(step);
    }
  }
  return steps;
}

std::string precision_of(DType dtype, Math math) {
  return ", " + std::string(to_string(dtype)) + (math == Math::standard ? "" : std::string(" as ") + to_string(math));
}
std::string extents(std::int64_t rows, std::int64_t in, std::int64_t out) {
  return std::to_string(rows) + " x " + std::to_string(in) + " -> " + std::to_string(out);
}

}  // namespace

std::vector<std::string> planning_suites() {
  std::vector<std::string> names = bench::suite_names();
  names.emplace_back("gpu-validate");
  return names;
}

PlannedShapes suite_shapes(const std::string& suite, const std::string& device, std::size_t memory_bytes) {
  PlannedShapes shapes;
  std::set<std::string> done;  // points differ in more than in what they plan
  for (const LedgerStep& step :
       suite == "gpu-validate" ? steps_of_gpu_validate() : steps_of(suite, device, memory_bytes)) {
    const std::string key = step.network.name + " " + std::to_string(layer_count(step.network)) + " " +
                            std::string(to_string(step.precision)) + " " + std::to_string(step.micro_batch) + " " +
                            std::to_string(step.seq_len);
    if (done.insert(key).second) add(shapes, planned_shapes(step));
  }
  return shapes;
}

void add(PlannedShapes& list, const PlannedShapes& more) {
  add(list.linear, more.linear);
  add(list.convolution, more.convolution);
  add(list.attention, more.attention);
  add(list.classifier, more.classifier);
}

std::string text_of(const LinearShape& s) {
  return extents(s.rows, s.in_features, s.out_features) + precision_of(s.dtype, s.math) +
         (s.activation == Activation::gelu ? ", GELU" : "");
}

std::string text_of(const ConvolutionShape& s) {
  return std::to_string(s.batch) + " x " + std::to_string(s.height) + " x " + std::to_string(s.width) + " x " +
         std::to_string(s.in_channels) + " -> " + std::to_string(s.out_channels) + ", kernel " + s.kernel.str() +
         ", stride " + s.stride.str() + ", padding " + s.padding.str() +
         (s.groups > 1 ? ", " + std::to_string(s.groups) + " groups" : "") + precision_of(s.dtype, s.math);
}

std::string text_of(const AttentionShape& s) {
  return std::to_string(s.batch) + " x " + std::to_string(s.seq) + ", " + std::to_string(s.heads) + " heads of " +
         std::to_string(s.head_dim) +
         (s.group() > 1 ? ", " + std::to_string(s.key_heads()) + " of keys and values" : "") +
         (s.causal ? ", causal" : "") + precision_of(s.dtype, s.math);
}

std::string text_of(const ClassifierShape& s) {
  return extents(s.rows, s.in_features, s.classes) +
         (s.reserved_classes > s.classes ? ", " + std::to_string(s.reserved_classes) + " reserved" : "") +
         precision_of(s.dtype, s.math) + (s.label_smoothing > 0 ? ", smoothed" : "") +
         (s.loss_weight != 1 ? ", weighted" : "");
}

}  // namespace tw::test
