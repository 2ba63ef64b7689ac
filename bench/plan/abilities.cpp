#include "bench/plan/abilities.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <type_traits>
#include <utility>

#include "bench/inventory/inventory.hpp"
#include "models/catalog/fp8.hpp"
#include "models/catalog/memory.hpp"
#include "power/visible_gpus.hpp"
#include "results/devices/device_figures.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"

namespace tw::bench {
namespace {

using Json = nlohmann::json;
constexpr double gib = 1024.0 * 1024 * 1024;

template <class T>
std::optional<T> optional_of(const Json& json, const char* key) {
  const Json& value = json.at(key);
  if (std::is_integral_v<T> && value.is_number_float())  // which the library would cast, whatever it is
    throw Json::type_error::create(302, "integer wanted", &value);
  return value.is_null() ? std::nullopt : std::optional(value.get<T>());
}

KnobAbility knob_of(const Json& json) {
  const std::string kind = json.at("kind");
  const std::optional<power::KnobKind> known = power::knob_kind_from_string(kind);
  if (!known) throw std::invalid_argument(fmt::format("unknown setting '{}': this version does not know it", kind));
  KnobAbility knob;
  knob.kind = *known;
  knob.domain = json.at("domain");
  knob.writable = json.at("writable");
  knob.minimum = optional_of<double>(json, "minimum").value_or(0);
  knob.maximum = optional_of<double>(json, "maximum").value_or(0);
  for (const Json& value : json.at("values"))
    if (const auto point =
            value.is_string() ? power::set_point_of_name(*known, value.get<std::string>()) : value.get<double>())
      knob.values.push_back(*point);
  knob.reason = json.at("reason");
  knob.detail = json.at("detail");
  return knob;
}

std::string why_no_setting(power::KnobKind kind, double value, const Abilities& node) {
  const std::string asked = fmt::format("{} {}", power::to_string(kind), power::set_point_text(kind, value));
  bool any = false;
  std::string missing;
  for (const KnobAbility& knob : node.knobs) {
    if (knob.kind != kind) continue;
    if (!knob.writable) {
      if (missing.empty())
        missing = fmt::format("{}: {} is not writable: {}{}", asked, knob.domain, knob.reason,
                              knob.detail.empty() ? "" : ": " + knob.detail);
      continue;
    }
    any = true;
    const bool is_name = !power::names_of(kind).empty();
    if (is_name ? std::ranges::find(knob.values, value) == knob.values.end()
                : value < knob.minimum || value > knob.maximum)
      return is_name ? fmt::format("{}: {} does not have this value", asked, knob.domain)
                     : fmt::format("{}: {} takes {} to {}", asked, knob.domain, knob.minimum, knob.maximum);
    const bool is_clock =
        kind == power::KnobKind::gpu_clock || kind == power::KnobKind::gpu_memory_clock;  // of the driver's list alone
    if (is_clock && !knob.values.empty() && std::ranges::find(knob.values, value) == knob.values.end()) {
      const auto farther = [&](double a, double b) { return std::abs(a - value) < std::abs(b - value); };
      return fmt::format("{}: {} does not have this value; the nearest is {}", asked, knob.domain,
                         *std::ranges::min_element(knob.values, farther));
    }
  }
  if (any) return {};
  return missing.empty() ? fmt::format("{}: no device has this setting", asked) : missing;
}

std::string why_no_precision(const Point& point, const std::string& device, const Abilities& node) {
  const std::string& precision = point.precision;
  const bool is_everywhere = precision == "float32" || precision == "bf16";
  const bool is_of_cpu = precision == "float32_bf16";  // where its library has it, which only a run can show
  if (device != "reference" && !is_everywhere && is_of_cpu != (device == "cpu"))
    return fmt::format("{} has no {}: choose float32 or bf16", device, precision);
  if (precision == "fp8") {
    const results::VendorPeak* gpu =
        device == "cuda" && !node.gpus.empty() ? results::find_vendor_peak(node.gpus.front()) : nullptr;
    if (gpu != nullptr && gpu->fp8 <= 0) return fmt::format("{} has no fp8: choose bf16", gpu->device);
    if (device == "cuda") return models::why_no_fp8_batch(point.network, point.micro_batch, point.seq_len);
    if (const std::string why = models::why_no_fp8(point.network); !why.empty()) return why + ": choose bf16";
  }
  if ((precision == "bf16" || is_of_cpu) && device == "cpu" && node.cpu_bf16 == false)
    return precision + ": the CPU has neither AVX512-BF16 nor AMX";
  return {};
}

double least_bytes(const Point& point) {
  return models::least_memory(point.network, point.precision, point.micro_batch, point.seq_len, point.recomputed_layers,
                              point.ranks)
      .total();
}

constexpr std::int64_t least_table_rows = 2;

Point with_table_rows(Point point, std::int64_t rows) {
  point.network = models::limit_table_rows(std::move(point.network), rows);
  return point;
}
Point with_layers(Point point, int layers) {
  point.network = models::cut_layers(std::move(point.network), layers);
  point.recomputed_layers = std::min(point.recomputed_layers, layers);
  return point;
}

/// The smallest power of two that the network trains on, if one is below the point's own size.
std::int64_t least_micro_batch(const Point& point) {
  std::int64_t size = 1;
  while (size < point.micro_batch && !point.network.shape->why_no_micro_batch(size, point.seq_len).empty()) size *= 2;
  return std::min(size, point.micro_batch);
}

/// The greatest number up to `most` that fits, where `least` does and each below one that fits.
std::int64_t greatest(std::int64_t least, std::int64_t most, const std::function<bool(std::int64_t)>& fits) {
  while (least < most) {
    const std::int64_t middle = least + (most - least + 1) / 2;
    if (fits(middle))
      least = middle;
    else
      most = middle - 1;
  }
  return least;
}

/// Whether the CPU multiplies bf16, by the flags that the kernel lists; nullopt if it lists none.
std::optional<bool> has_bf16() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string row; std::getline(file, row);) {
    if (!row.starts_with("flags") && !row.starts_with("Features")) continue;
    std::istringstream words(row.substr(row.find(':') + 1));
    for (std::string word; words >> word;)
      if (word == "avx512_bf16" || word == "amx_bf16" || word == "bf16") return true;
    return false;
  }
  return std::nullopt;
}

}  // namespace

std::string host_name() {
  char name[HOST_NAME_MAX + 1] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "";
}

Abilities abilities_here(const std::vector<power::MeterFinding>& meters, const std::vector<power::KnobFinding>& knobs) {
  Abilities node;
  node.host = host_name();
  const long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
  if (pages > 0 && page_bytes > 0)
    node.memory_bytes = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
  node.cpu_bf16 = has_bf16();
  node.cores = usable_cores(affinity_threads());
  node.gpus = power::names_of_gpus();
  for (const power::KnobFinding& finding : knobs) {
    KnobAbility& knob = node.knobs.emplace_back();
    knob.kind = finding.kind, knob.domain = finding.domain;
    knob.reason = finding.reason, knob.detail = finding.detail;
    knob.writable = finding.knob && finding.reason.empty();
    if (!finding.knob) continue;
    const power::KnobRange range = finding.knob->range();
    knob.minimum = range.minimum, knob.maximum = range.maximum, knob.values = range.values;
  }
  for (const power::MeterFinding& finding : meters)
    if (finding.counted)
      node.maximum_power_w[power::to_string(finding.meter->scope())] += finding.meter->maximum_power_watts();
  return node;
}

Abilities abilities_from_json(const std::string& path, const std::string& text) {
  try {
    if (!results::json_fault(text).empty()) throw Json::other_error::create(501, "no JSON of ours", nullptr);
    const Json json = Json::parse(text);
    Abilities node;
    node.host = json.at("host");
    node.memory_bytes = optional_of<std::uint64_t>(json.at("memory"), "total_bytes");
    node.cpu_bf16 = optional_of<bool>(json.at("cpu"), "bf16");
    if (json.at("cpu").contains("cores")) node.cores = optional_of<int>(json.at("cpu"), "cores").value_or(0);
    if (json.contains("gpus")) node.gpus = json.at("gpus").get<std::vector<std::string>>();
    for (const Json& knob : json.at("knobs")) node.knobs.push_back(knob_of(knob));
    for (const Json& meter : json.at("meters"))
      if (meter.at("counted").get<bool>()) {
        const std::string scope = meter.at("scope");
        const std::optional<double> watts = optional_of<double>(meter, "maximum_power_w");
        node.maximum_power_w[scope] += watts.value_or(0);
        if (!watts) node.power_unknown.emplace(scope, meter.at("domain"));
      }
    return node;
  } catch (const std::invalid_argument& error) {
    throw UsageError("bad-probe-file", fmt::format("{}: {}", path, error.what()));
  } catch (const Json::exception&) {
    throw UsageError("bad-probe-file",
                     path +
                         ": not the output of trainwatt probe --json of this version: run it again on "
                         "that node");
  }
}

std::string setting_obstacle(const Point& point, const Abilities& node) {
  for (const auto& [kind, value] : point.setting)
    if (std::string why = why_no_setting(kind, value, node); !why.empty()) return why;
  return {};
}

std::string obstacle(const Point& point, const std::string& device, const Abilities& node, int ranks_per_node) {
  if (std::string why = why_no_precision(point, device, node); !why.empty()) return why;
  if (std::string why = setting_obstacle(point, node); !why.empty()) return why;
  if (!node.memory_bytes || device == "cuda") return {};
  const models::LeastMemory each = models::least_memory(point.network, point.precision, point.micro_batch,
                                                        point.seq_len, point.recomputed_layers, point.ranks);
  const double needed = ranks_per_node * each.total();
  if (needed <= static_cast<double>(*node.memory_bytes)) return {};
  return fmt::format(
      "needs at least {:.1f} GiB on a node ({} with {:.1f} GiB of weights, gradients and optimizer and {:.1f} GiB of "
      "activations each), {} has {:.1f} GiB: {}",
      needed / gib, results::text::count(ranks_per_node, "rank"), (each.parameters + each.optimizer) / gib,
      each.activations / gib, node.host, static_cast<double>(*node.memory_bytes) / gib,
      advice_on_memory(point, false, MemoryLimit{static_cast<double>(*node.memory_bytes), ranks_per_node}));
}

std::string advice_on_memory(const Point& point, bool is_found, std::optional<MemoryLimit> limit,
                             bool takes_recompute) {
  constexpr double no_change = 0.99;  // a hundredth less is none
  const auto bytes = [&](const Point& one) {
    return limit && limit->rank_bytes ? limit->rank_bytes(one) : least_bytes(one);
  };
  const double now = bytes(point);
  const auto helps = [&](const Point& changed) {
    const double then = bytes(changed);
    return limit ? then * limit->ranks_per_node <= limit->node_bytes : then < no_change * now;
  };
  std::vector<std::string> ways;
  if (const models::Tables tables = point.network.shape->tables(); !tables.rows.empty()) {
    const std::int64_t longest = *std::ranges::max_element(tables.rows);
    const auto fits = [&](std::int64_t rows) { return helps(with_table_rows(point, rows)); };
    if (longest > least_table_rows && fits(least_table_rows))
      ways.push_back(fmt::format("--table-rows-at-most N with N {} (the tables take {:.1f} GiB: {} rows of {})",
                                 limit ? fmt::format("up to {}", greatest(least_table_rows, longest - 1, fits))
                                       : fmt::format("below {}", longest),
                                 static_cast<double>(tables.elements()) * sizeof(float) / gib, tables.all_rows(),
                                 results::text::bytes(static_cast<double>(tables.width) * sizeof(float))));
  }
  Point small = point, recomputed = point;
  small.micro_batch = is_found ? point.micro_batch : least_micro_batch(point);
  recomputed.recomputed_layers = takes_recompute ? models::layer_count(point.network) : point.recomputed_layers;
  const bool is_smaller = small.micro_batch < point.micro_batch && helps(small);
  const auto smaller = [&](int recomputed_layers) -> std::string {
    if (!limit) return "a smaller --micro-batch";
    const auto fits = [&](std::int64_t size) {
      Point one = point;
      one.micro_batch = size, one.recomputed_layers = recomputed_layers;
      return helps(one);
    };
    const std::int64_t most = greatest(small.micro_batch, point.micro_batch - 1, fits);
    if (!point.task && !point.fixed_global && point.accumulate == 1)
      return fmt::format("--micro-batch N with N up to {}", most);
    // The samples of a step are fixed: a size that does not divide them is refused.
    const std::int64_t of_rank = point.fixed_global.value_or(point.global_batch()) / point.ranks;
    const auto divides = [&](std::int64_t size) {
      return of_rank % size == 0 && (!point.task || point.task->held_out_samples % (size * point.ranks) == 0);
    };
    std::int64_t size = most;
    while (size > small.micro_batch && !divides(size)) --size;
    return fmt::format("--micro-batch {}", size);
  };
  const bool is_recomputed = recomputed.recomputed_layers > point.recomputed_layers && helps(recomputed);
  if (is_smaller) ways.push_back(smaller(point.recomputed_layers));
  if (is_recomputed) ways.emplace_back("--recompute");
  if (Point both = small; !is_smaller && !is_recomputed && small.micro_batch < point.micro_batch) {
    both.recomputed_layers = recomputed.recomputed_layers;
    if (both.recomputed_layers > point.recomputed_layers && helps(both))
      ways.push_back(smaller(both.recomputed_layers) + " with --recompute");
  }
  if (limit ? limit->ranks_per_node > 1 && now <= limit->node_bytes : point.ranks > 1)
    ways.emplace_back("fewer ranks per node");
  const models::LayerCount layers = point.network.shape->layers();
  const auto fits = [&](std::int64_t count) { return helps(with_layers(point, static_cast<int>(count))); };
  if (!point.task && layers.least < layers.count && fits(layers.least))  // a task is of all layers
    ways.push_back(limit ? fmt::format("--layers N with N up to {}", greatest(layers.least, layers.count - 1, fits))
                         : fmt::format("--layers N with N below {}", layers.count));
  ways.emplace_back("a smaller network");
  return fmt::format("use {}", fmt::join(ways, " or "));
}

}  // namespace tw::bench
