#include "bench/plan/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/plan/config_words.hpp"
#include "bench/plan/grids.hpp"
#include "bench/plan/search.hpp"
#include "bench/plan/set_points.hpp"
#include "models/catalog/floors.hpp"
#include "models/catalog/nearest.hpp"

namespace tw {
namespace {

using Json = nlohmann::json;  // sorted keys: canonical

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  const std::string close = nearest(word, known);
  return close.empty() ? fmt::format("known: {}", fmt::join(known, ", ")) : fmt::format("did you mean '{}'?", close);
}

/// A precision by the name that other programs have for it; else the word as it is.
std::string own_name_of(const std::string& precision) {
  static const std::map<std::string, std::string> names = {
      {"fp32", "float32"}, {"f32", "float32"}, {"single", "float32"}, {"bfloat16", "bf16"}, {"float16", "fp16"}, {"half", "fp16"}};
  const auto known = names.find(precision);
  return known == names.end() ? precision : known->second;
}

/// A batch that these ranks cannot share out so. Beside combinations that can it is left out; `advice` is for who has
/// no other.
class Indivisible : public UsageError {
 public:
  Indivisible(const std::string& what, std::string its_advice) : UsageError(what), advice(std::move(its_advice)) {}
  std::string advice;
};

/// micro × accumulate × ranks = global: two of the three given (or defaulted) determine the last.
void solve_batch(Point& point, std::optional<std::int64_t> micro, std::optional<std::int64_t> accumulate,
                 std::optional<std::int64_t> global) {
  if (!global) {
    point.micro_batch = micro.value_or(point.network.default_micro_batch);
    point.accumulate = accumulate.value_or(1);
    return;
  }
  if (micro && accumulate)
    throw UsageError(
        "--micro-batch, --accumulate and --global-batch are over-determined for a given number of ranks: leave one "
        "out");
  const std::int64_t per_micro = accumulate ? *accumulate : micro.value_or(point.network.default_micro_batch);
  const std::int64_t pass = per_micro * point.ranks;
  if (*global % pass != 0)
    throw Indivisible(fmt::format("--global-batch {} is not divisible by {} {} × {} ranks = {}", *global,
                                  accumulate ? "--accumulate" : "micro-batch", per_micro, point.ranks, pass),
                      fmt::format("choose a multiple of {}", pass));
  const std::int64_t rest = *global / pass;
  point.micro_batch = accumulate ? rest : per_micro;
  point.accumulate = accumulate ? *accumulate : rest;
}

/// The values of an axis, or one "not given".
template <class T>
std::vector<std::optional<T>> values_or_none(const std::vector<T>& values) {
  if (values.empty()) return {std::nullopt};
  return {values.begin(), values.end()};
}

/// The task that a point is trained to, in place of a window: its shape is the default.
TaskDescription task_for(const std::string& model, const std::optional<int>& layers, const TargetRequest& target) {
  std::optional<TaskDescription> task = layers ? std::nullopt : task_of(model);
  if (!task) {
    std::vector<std::string> known;
    for (const TaskDescription& one : tasks()) known.push_back(one.model);
    throw UsageError(fmt::format(
        "--target: {} has no task whose target is known to be reached; {} have one: choose of them, or leave "
        "--target out",
        layers ? model + " with --layers" : model, fmt::join(known, ", ")));
  }
  if (target.value) task->target = *target.value;
  return *task;
}

/// Every rank evaluates its part of the held-out samples, in whole micro-batches.
void check_evaluation(const Point& point) {
  const std::int64_t pass = point.micro_batch * point.ranks;
  if (point.task->held_out_samples % pass != 0)
    throw Indivisible(fmt::format("micro-batch {} × {} ranks do not divide the {} held-out samples of the task {}",
                                  point.micro_batch, point.ranks, point.task->held_out_samples, point.task->name),
                      "choose a micro-batch that does");
}

/// A list of seeds is dealt out in the order in which the axes were written, counted ones by the points' names: no two
/// runs of a report share one.
void deal_seeds(RunPlan& plan, const TargetRequest& target) {
  if (!target.seeds.empty()) {
    const std::size_t points = plan.points.size();
    if (target.seeds.size() % points != 0)
      throw UsageError(fmt::format("--seeds lists {} seeds for {} points: give as many for each, or a count",
                                   target.seeds.size(), points));
    const auto each = static_cast<std::ptrdiff_t>(target.seeds.size() / points);
    for (std::size_t i = 0; i < points; ++i) {
      const auto first = target.seeds.begin() + static_cast<std::ptrdiff_t>(i) * each;
      plan.points[i].seeds.assign(first, first + each);
    }
    return;
  }
  const auto runs = plan.points.size() * static_cast<std::size_t>(target.seed_count);
  if (plan.seed > static_cast<std::uint64_t>(largest_seed) - runs)
    throw UsageError(
        fmt::format("--seed {}: {} runs count on from it, which passes the largest seed", plan.seed, runs));
  std::uint64_t next = plan.seed;
  std::map<std::string, Point*> by_name;
  for (Point& point : plan.points) by_name[point.id] = &point;
  for (const auto& [name, point] : by_name)
    for (int i = 0; i < target.seed_count; ++i) point->seeds.push_back(next++);
}

std::string point_id(const Point& point) {
  std::string id = point.network.name;
  if (point.layers) id += fmt::format("-l{}", *point.layers);
  id += fmt::format("/{}/mb{}", point.precision, point.micro_batch);
  if (point.network.has_sequence()) id += fmt::format("/t{}", point.seq_len);
  id += fmt::format("/acc{}/np{}", point.accumulate, point.ranks);
  for (const SettingAxis& axis : setting_axes())
    if (const auto value = point.setting.find(axis.kind); value != point.setting.end())
      id += fmt::format("/{}={}", axis.key, set_point_text(axis.kind, value->second));
  if (point.task) id += fmt::format("/to{}", point.task->target);
  return id;
}

/// All combinations of the set points of one grid; one without any where it names none.
std::vector<std::map<KnobKind, double>> settings_of(const Axes& axes, bool with_found) {
  std::vector<std::map<KnobKind, double>> all = {{}};
  for (const SettingAxis& axis : setting_axes()) {
    const auto written = axes.setting.find(axis.kind);
    if (written == axes.setting.end() || written->second.empty()) continue;
    std::vector<std::map<KnobKind, double>> longer;
    for (const auto& before : all)
      for (const std::string& text : written->second)
        for (const std::optional<double>& value : parse_set_points(axis.kind, axis.option, text)) {
          longer.push_back(before);
          if (value) longer.back()[axis.kind] = *value;
        }
    all = std::move(longer);
  }
  if (with_found) all.emplace_back();
  return all;
}

/// Settings outermost, the costliest to change first and each kind's values as written, so that none is changed more
/// often than it must; under one setting the points of all grids in an order drawn from the seed, so that a machine
/// that slowly warms up or slows down does not look like an effect of what was varied.
void order_points(std::vector<Point>& points, std::uint64_t seed) {
  const auto value_of = [](const Point& point, KnobKind kind) {
    const auto found = point.setting.find(kind);
    return found == point.setting.end() ? std::nullopt : std::optional(found->second);
  };
  std::map<KnobKind, std::map<std::optional<double>, std::size_t>> written;  // values in the order in which they stand
  for (const KnobKind kind : settings_by_cost)
    for (const Point& point : points) written[kind].emplace(value_of(point, kind), written[kind].size());
  // By name among equals: the order is then one of the plan's contents alone.
  std::vector<std::pair<std::vector<std::size_t>, std::size_t>> places;
  for (std::size_t i = 0; i < points.size(); ++i) {
    auto& [place, index] = places.emplace_back(std::vector<std::size_t>(), i);
    for (const KnobKind kind : settings_by_cost) place.push_back(written[kind].at(value_of(points[i], kind)));
  }
  std::ranges::sort(places, [&](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : points[a.second].id < points[b.second].id;
  });
  std::vector<Point> sorted;
  sorted.reserve(points.size());
  for (const auto& [place, index] : places) sorted.push_back(std::move(points[index]));
  points = std::move(sorted);
  // Drawn by splitmix64 (Steele, Lea and Flood 2014), since std::shuffle differs between libraries.
  std::uint64_t state = seed;
  const auto draw = [&](std::uint64_t below) {
    std::uint64_t bits = state += 0x9e3779b97f4a7c15;
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111eb;
    return (bits ^ (bits >> 31)) % below;
  };
  for (auto begin = points.begin(); begin != points.end();) {
    const auto differs = [&](const Point& point) { return point.setting != begin->setting; };
    const auto end = std::find_if(begin, points.end(), differs);
    for (auto left = end - begin; left > 1; --left)
      std::iter_swap(begin + left - 1, begin + static_cast<std::ptrdiff_t>(draw(static_cast<std::uint64_t>(left))));
    begin = end;
  }
}

NetworkDescription network_of(const std::string& model, std::optional<int> layers) {
  try {
    NetworkDescription network = find_network(model);
    if (!layers) return network;
    try {
      return cut_layers(std::move(network), *layers);
    } catch (const std::invalid_argument& error) {
      throw UsageError(fmt::format("--layers {}: {}", *layers, error.what()));
    }
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
}

void check_positive(std::int64_t value, const char* option) {
  if (value < 1) throw UsageError(fmt::format("{} {}: must be at least 1", option, value));
}

// More than anybody trains with; products of sizes below these do not overflow.
constexpr std::int64_t most_micro_batch = 1 << 24, most_accumulate = 1 << 16, most_global_batch = std::int64_t{1} << 31;

void check_range(std::int64_t value, std::int64_t most, const char* option) {
  check_positive(value, option);
  if (value > most) throw UsageError(fmt::format("{} {}: must be at most {}", option, value, most));
}

void check_search(const Request& request, const Axes& axes) {
  if (request.target) throw UsageError("--search and --target exclude each other: give one");
  bool any = false;
  for (const SettingAxis& axis : setting_axes()) {
    const auto written = axes.setting.find(axis.kind);
    if (written == axes.setting.end() || written->second.empty()) continue;
    any = true;
    if (!names_of(axis.kind).empty())
      throw UsageError(fmt::format("--search goes along numbers, which {} has none of: leave it out", axis.option));
    for (const std::string& text : written->second)
      if (text == "found")
        throw UsageError(
            fmt::format("{} found: --search measures the found settings in any case: leave it out", axis.option));
  }
  if (!any)
    throw UsageError("--search has nothing to choose from: add --gpu-clock 600:1980:60, --cpu-power-limit or the like");
}

/// One value of each axis.
struct Choice {
  const std::map<KnobKind, double>& setting;
  const std::string &model, &precision;
  std::optional<int> layers;
  std::optional<std::int64_t> seq_len, micro_batch, accumulate, global_batch;
  std::optional<int> ranks;
};

Point make_point(const Choice& choice, const std::optional<TargetRequest>& target, int job_ranks) {
  const auto& [setting, model, precision, layers, seq_len, micro, accumulate, global, ranks] = choice;
  if (micro) check_range(*micro, most_micro_batch, "--micro-batch");
  if (accumulate) check_range(*accumulate, most_accumulate, "--accumulate");
  if (global) check_range(*global, most_global_batch, "--global-batch");
  Point point;
  point.network = network_of(model, layers);
  point.layers = layers;
  point.precision = precision;
  point.ranks = ranks.value_or(job_ranks);
  check_positive(point.ranks, "--ranks");
  if (point.ranks > job_ranks)
    throw UsageError(
        fmt::format("--ranks {}: the job has {}: launch it with as many, or choose fewer", point.ranks, job_ranks));
  point.setting = setting;
  if (target) point.task = task_for(model, layers, *target);
  if (point.network.has_sequence()) {
    point.seq_len = seq_len.value_or(point.task ? point.task->seq_len : point.network.default_seq_len);
    check_positive(point.seq_len, "--seq-len");
    const std::int64_t longest = point.network.data().longest_sequence;
    if (point.seq_len > longest)
      throw UsageError(fmt::format("--seq-len {}: {} has {} learned positions: choose at most {}", point.seq_len, model,
                                   longest, longest));
  } else if (seq_len) {
    throw UsageError(fmt::format("--seq-len does not apply to {}, which is trained on {}: leave it out", model,
                                 to_string(point.network.data().kind)));
  }
  if (point.task && !(micro && accumulate) && !global) {
    const std::int64_t batch = point.task->global_batch, each = micro ? *micro : accumulate.value_or(1);
    if (batch % (each * point.ranks) != 0)
      throw Indivisible(
          fmt::format("{}: {} {} × {} ranks does not divide the {} samples of a step of the task {}", model,
                      micro ? "micro-batch" : "accumulate", each, point.ranks, batch, point.task->name),
          "launch as many ranks as do, or choose --global-batch");
    solve_batch(point, micro, micro || accumulate ? accumulate : 1, batch);
  } else {
    solve_batch(point, micro, accumulate, global);
  }
  check_range(point.micro_batch, most_micro_batch, "micro-batch");
  check_range(point.accumulate, most_accumulate, "accumulation");
  check_range(point.global_batch(), most_global_batch, "global batch");
  if (point.task) check_evaluation(point);
  point.id = point_id(point);
  return point;
}

}  // namespace

std::int64_t check_range(const std::string& what, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value < least) throw UsageError(fmt::format("{} {}: must be at least {}", what, value, least));
  if (value > most) throw UsageError(fmt::format("{} {}: must be at most {}", what, value, most));
  return value;
}

std::optional<double> parse_target(const std::string& name, const std::string& text) {
  if (text == "default") return std::nullopt;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) || !std::isfinite(value))
    throw UsageError(fmt::format("{} {}: must be a number above 0, or 'default' for the task's own", name, text));
  return value;
}

void set_seeds(TargetRequest& target, const std::string& name, const std::vector<std::int64_t>& values, bool is_list) {
  if (!is_list) {
    target.seed_count = static_cast<int>(check_range(name, values.front(), 1, most_trials));
    target.seeds.clear();
    return;
  }
  target.seeds.clear();
  std::set<std::int64_t> seen;
  for (const std::int64_t value : values) {
    check_range(name, value, 0, largest_seed);
    if (!seen.insert(value).second)
      throw UsageError(fmt::format("{}: {} stands there twice, and no seed is used again", name, value));
    target.seeds.push_back(static_cast<std::uint64_t>(value));
  }
  if (target.seeds.empty()) throw UsageError(fmt::format("{}: the list is empty: give seeds, or a count", name));
}

const std::vector<std::string>& precision_names() {
  static const std::vector<std::string> names = {"float32", "tf32", "bf16", "fp16", "fp8"};
  return names;
}

const std::vector<std::string>& communicator_names() {
  static const std::vector<std::string> names = {"self", "nccl", "mpi"};
  return names;
}

void check_communicator(const std::string& name, const std::string& text) {
  std::vector<std::string> known = communicator_names();
  known.insert(known.begin(), "auto");
  if (std::ranges::find(known, text) == known.end())
    throw UsageError(fmt::format("unknown {} '{}': {}", name, text, did_you_mean(text, known)));
}

bool is_deterministic_by_default(const std::string& device) { return device != "cpu"; }

/// `at`: the grid that was looked at where it throws.
static RunPlan made_plan(const Request& request, int ranks, const std::string& device, const Axes*& at) {
  RunPlan plan;
  plan.suite = request.suite;
  plan.measurement = request.measurement;
  plan.seed = request.seed;
  plan.recompute = request.recompute;
  plan.eager = request.eager;
  plan.comm = request.comm;
  plan.deterministic = request.deterministic;
  plan.device = device;
  if (request.adds_deterministic && !is_deterministic_by_default(device)) {
    const bool has_others = plan.suite.find(changed_suite) != std::string::npos;
    if (has_others) plan.suite.pop_back();  // the bracket
    plan.suite += fmt::format("{}deterministic)", has_others ? ", " : changed_suite);
  }
  plan.search = request.search;
  plan.prices = request.prices;
  plan.kit = request.kit, plan.repeat = request.repeat.value_or(1);
  check_range("trials", plan.measurement.trials, 1, most_trials);
  check_range("warmup", plan.measurement.warmup_steps, 0, most_steps);
  if (plan.measurement.steps) check_range("steps", *plan.measurement.steps, 1, most_steps);
  if (!(plan.measurement.window_seconds > 0 && plan.measurement.window_seconds <= longest_window_seconds))
    throw UsageError(fmt::format("window of {} s: must be above 0 and at most {} s (a week)",
                                 plan.measurement.window_seconds, longest_window_seconds));
  check_grids(request);
  std::set<std::string> ids, left_out;
  std::string nothing_left;  // said where it is so
  const Axes* first_left_out = nullptr;
  const auto leave_out = [&](const std::string& why, const std::string& advice) {
    if (first_left_out == nullptr) first_left_out = at, nothing_left = why + ": " + advice;
    if (left_out.insert(why).second) plan.left_out.push_back(in_words_of(request, at, why));
  };
  for (const Axes& axes : request.axes) {
    at = &axes;
    if (request.search) check_search(request, axes);
    if (!axes.clock.empty()) {
      leave_out(
          fmt::format("points at {} of the range of the {} clock: no device here tells it (`trainwatt probe` says why)",
                      fmt::join(axes.clock, " and "), device == "cuda" ? "GPU" : "CPU"),
          "give values of --gpu-clock or --cpu-frequency instead of --clock");
      continue;
    }
    if (axes.model.empty())
      throw UsageError("no --model given: choose one (`trainwatt models` lists them) or a --suite");
    for (const std::string& precision : axes.precision)
      if (std::ranges::find(precision_names(), precision) == precision_names().end())
        throw UsageError(fmt::format("unknown --precision '{}': {}", cut_word(precision),
                                     did_you_mean(own_name_of(precision), precision_names())));
    const std::vector<std::string> precisions =
        axes.precision.empty() ? std::vector<std::string>{"float32"} : axes.precision;
    const auto add = [&](const Choice& choice) {
      Point point;
      try {
        point = make_point(choice, request.target, ranks);
      } catch (const Indivisible& error) {
        leave_out(error.what(), error.advice);
        return;
      }
      point.recomputed_layers = recomputed_layers(request.recompute, point.network);
      if (!ids.insert(point.id).second) {
        const std::string twice = listed_twice(axes);
        throw UsageError(twice.empty()
                             ? fmt::format("the plan holds {} twice: remove one of them", point.id)
                             : fmt::format("{}, so that the plan holds {} twice: remove one of them", twice, point.id));
      }
      plan.points.push_back(std::move(point));
    };
    for (const auto& setting : settings_of(axes, request.search.has_value()))
      for (const std::string& model : axes.model)
        for (const auto layers : values_or_none(axes.layers))
          for (const auto seq_len : values_or_none(axes.seq_len))
            for (const std::string& precision : precisions)
              for (const auto micro : values_or_none(axes.micro_batch))
                for (const auto accumulate : values_or_none(axes.accumulate))
                  for (const auto global : values_or_none(axes.global_batch))
                    for (const auto some : values_or_none(axes.ranks))
                      add({setting, model, precision, layers, seq_len, micro, accumulate, global, some});
  }
  at = plan.points.empty() ? first_left_out : nullptr;
  if (at != nullptr) throw UsageError(nothing_left);
  if (plan.points.empty()) throw UsageError("nothing to run: give --model, --suite or --config");
  if (request.target) {
    deal_seeds(plan, *request.target);
    plan.measurement.trials = static_cast<int>(plan.points.front().seeds.size());
  }
  order_points(plan.points, plan.seed);
  if (plan.search) search_spaces(plan);  // throws where there is no grid
  return plan;
}

RunPlan make_plan(const Request& request, int ranks, const std::string& device) {
  const Axes* at = nullptr;
  try {
    return made_plan(request, ranks, device, at);
  } catch (const UsageError& error) {
    throw UsageError(in_words_of(request, at, error.what()));
  }
}

bool RunPlan::is_deterministic() const { return deterministic.value_or(is_deterministic_by_default(device)); }

}  // namespace tw
