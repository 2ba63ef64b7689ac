// The built-in suites.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

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

/// Of each table, so that those of `dlrm` fit into the memory of a GPU.
constexpr std::int64_t table_rows_of_a_gpu = 10'000'000;

/// A network of `standard` and `procurement` at the size that fills a device of its class.
struct Size {
  const char *device_class, *model;
  std::optional<int> layers{};
  std::optional<std::int64_t> seq_len{}, table_rows{};
  std::int64_t micro_batch = automatic;  ///< fixed where there is batch norm, which computes over the micro-batch
  std::int64_t global_batch = 0;
  bool has_ranks = false;     ///< trained by 1, half and all ranks
  bool is_bf16_only = false;  ///< on a CPU in the suite standard, which is to end within an hour
  bool has_clocks = true;     ///< in the suite procurement, which is to end within four
};

/// The global batches are powers of two: 1, 2, 4, 8 or 16 ranks can share them, other numbers up to 16 cannot. They are
/// so large that steps fill a device, and so small that standard is estimated to end within an hour on 2 cores and on
/// an A100 (bench/plan/pace.hpp): the search for the micro-batch runs whole steps. On CPUs the ranks are of the network
/// without that search. To add a network, add a line.
const std::vector<Size>& sizes() {
  static const std::vector<Size> list = {
      {.device_class = "cpu", .model = "gpt2-124m", .seq_len = 256, .global_batch = 16},
      {.device_class = "cpu",
       .model = "llama3.2-1b",
       .layers = 2,
       .seq_len = 128,
       .global_batch = 16,
       .is_bf16_only = true},
      {.device_class = "cpu", .model = "resnet-50", .micro_batch = 8, .global_batch = 128, .has_ranks = true},
      {.device_class = "gpu", .model = "gpt2-1558m", .seq_len = 1024, .global_batch = 128},
      {.device_class = "gpu", .model = "llama3.2-1b", .seq_len = 4096, .global_batch = 32, .has_ranks = true},
      {.device_class = "gpu",
       .model = "llama3.1-8b",
       .layers = 4,
       .seq_len = 8192,
       .global_batch = 16,
       .has_clocks = false},
      {.device_class = "gpu", .model = "bert-large", .seq_len = 512, .global_batch = 512, .has_clocks = false},
      {.device_class = "gpu", .model = "resnet-50", .micro_batch = 128, .global_batch = 2048},
      {.device_class = "gpu", .model = "dlrm", .table_rows = table_rows_of_a_gpu, .global_batch = 65536},
  };
  return list;
}

/// Of `procurement` alone, on CPUs in float32 and bf16 at the clock as found, so that the suite ends within 4 hours.
const std::vector<Size>& more_sizes() {
  static const std::vector<Size> list = {
      {.device_class = "cpu", .model = "bert-large", .layers = 2, .seq_len = 512, .global_batch = 16},
      {.device_class = "cpu", .model = "dlrm", .table_rows = 100'000, .global_batch = 8192},
  };
  return list;
}

Axes grid_of(const Size& size, std::vector<std::string> precisions) {
  Axes axes;
  axes.device_class = size.device_class;
  axes.model = {size.model}, axes.precision = std::move(precisions);
  if (size.layers) axes.layers = {*size.layers};
  if (size.seq_len) axes.seq_len = {*size.seq_len};
  if (size.table_rows) axes.table_rows_at_most = {*size.table_rows};
  axes.micro_batch = {size.micro_batch}, axes.global_batch = {size.global_batch};
  return axes;
}

/// All networks of a class in these precisions; one of them, in the first precision, also by fewer ranks.
void add_sizes(Request& request, const char* device_class, const std::vector<std::string>& precisions, bool is_short) {
  for (const Size& size : sizes()) {
    if (size.device_class != std::string_view(device_class)) continue;
    if (is_short && size.is_bf16_only) {
      request.axes.push_back(grid_of(size, {"bf16"}));
      continue;
    }
    if (!size.has_ranks) {
      request.axes.push_back(grid_of(size, precisions));
      continue;
    }
    request.axes.push_back(grid_of(size, {precisions.front()}));
    request.axes.back().ranks = {one_half_all};
    if (precisions.size() > 1) request.axes.push_back(grid_of(size, {precisions.begin() + 1, precisions.end()}));
  }
}

Request sized_suite(const std::string& name) {
  Request request = suite(name, {}, {}, {});
  request.axes.clear();
  return request;
}

/// Networks at the sizes of one node: 7 points (CPU) or 8 (GPU) of about 6 minutes, and the searches for micro-batches.
Request standard() {
  Request request = sized_suite("standard");
  add_sizes(request, "cpu", {"float32", "bf16"}, true);
  add_sizes(request, "gpu", {"bf16"}, true);
  return request;
}

/// The same in more precisions; what a device lacks is recorded as unsupported. float32 is left out on GPUs, where a
/// step of the large networks takes longer than a window. And at two lower clocks of what trains, if it reports its
/// range; unsupported where the user may not set them; not of all networks of a GPU. At most 34 points of about 6
/// minutes, and the searches for micro-batches.
Request procurement() {
  Request request = sized_suite("procurement");
  add_sizes(request, "cpu", precision_names(), false);
  add_sizes(request, "gpu", {"bf16", "tf32", "fp16", "fp8"}, false);
  for (const Size& size : more_sizes()) request.axes.push_back(grid_of(size, {"float32", "bf16"}));
  for (const Size& size : sizes()) {
    if (!size.has_clocks) continue;
    const bool is_cpu = size.device_class == std::string_view("cpu");
    request.axes.push_back(
        grid_of(size, is_cpu ? std::vector<std::string>{"float32", "bf16"} : std::vector<std::string>{"bf16"}));
    request.axes.back().clock = {"50%", "75%"};
  }
  return request;
}

/// Tasks to their targets, at the tasks' global batch. On both classes of device the small ones in both precisions,
/// whose steps are compared with reference curves; on a CPU also with accumulation 4. On a GPU also those of the size
/// of a GPU, in bf16, with tables that fit. Where there is batch norm, a micro-batch of the task instead of an
/// accumulation: on a CPU each that the task has, on a GPU the first.
Request convergence() {
  Request request = sized_suite("convergence");
  for (const char* device_class : {"cpu", "gpu"}) {
    const bool is_cpu = device_class == std::string_view("cpu");
    for (const models::TaskDescription& task : models::tasks()) {
      const bool is_large = !task.extrapolated_from.empty();
      if (is_large && is_cpu) continue;
      Axes& axes = request.axes.emplace_back();
      axes.device_class = device_class, axes.model = {task.model};
      axes.precision = is_large ? std::vector<std::string>{"bf16"} : std::vector<std::string>{"float32", "bf16"};
      if (task.micro_batches.empty())
        axes.accumulate = is_cpu ? std::vector<std::int64_t>{1, 4} : std::vector<std::int64_t>{1};
      else
        axes.micro_batch = is_cpu ? task.micro_batches : std::vector{task.micro_batches.front()};
      if (!models::find_network(task.model).shape->tables().rows.empty() && is_large)
        axes.table_rows_at_most = {table_rows_of_a_gpu};
    }
  }
  request.measurement.trials = Measurement().trials;
  request.target = TargetRequest{.value = {}, .seed_count = 3, .seeds = {}};
  return request;
}

}  // namespace

std::string class_of(const std::string& device) { return device == "cuda" ? "gpu" : "cpu"; }

bool has_sizes_by_class(const Request& request) {
  return std::ranges::any_of(request.axes, [](const Axes& axes) { return !axes.device_class.empty(); });
}

void choose_class(Request& request, const std::string& device) {
  if (!has_sizes_by_class(request)) return;
  if (request.device_class.empty()) request.device_class = class_of(device);
  std::erase_if(request.axes, [&](const Axes& axes) { return axes.device_class != request.device_class; });
  for (Axes& axes : request.axes) axes.device_class.clear();
}

void check_class(const Request& request, const std::string& device) {
  if (request.device_class.empty() || request.device_class == class_of(device)) return;
  throw UsageError("device-class-differs",
                   fmt::format("the plan is for device class {}, and device {} is of class {}: {}",
                               request.device_class, device, class_of(device),
                               request.kit ? "ask the author for a kit of this class"
                                           : "choose another --device, or a plan of this class"));
}

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
