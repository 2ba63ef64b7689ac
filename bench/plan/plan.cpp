#include "bench/plan/plan.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "bench/plan/batch.hpp"
#include "bench/plan/chosen_network.hpp"
#include "bench/plan/options/axes.hpp"
#include "bench/plan/options/layers_file.hpp"
#include "bench/plan/search.hpp"
#include "bench/plan/seeds.hpp"
#include "models/catalog/described.hpp"
#include "results/record/text.hpp"

namespace tw::bench {
namespace {

/// The values of an axis, or one "not given".
template <class T>
std::vector<std::optional<T>> values_or_none(const std::vector<T>& values) {
  if (values.empty()) return {std::nullopt};
  return {values.begin(), values.end()};
}

/// The task that a point is trained to, in place of a window: its shape is the default.
models::TaskDescription task_for(const models::NetworkDescription& network, const std::optional<int>& layers,
                                 const TargetRequest& target) {
  std::optional<models::TaskDescription> task = layers ? std::nullopt : models::task_of(network);
  if (!task && is_name_of_layers(network.name))
    throw UsageError("no-task", "target",
                     fmt::format("{0}: the file of {1} describes no task to train to a target: add the object \"task\" "
                                 "(models/README.md, \"A task of your own\"), or leave out {0}",
                                 key_ref("target"), network.name));
  if (!task) {
    const auto known = results::text::texts_of(models::tasks(), &models::TaskDescription::model);
    throw UsageError(
        "no-task", "target",
        fmt::format("{0}: {1} has no task to train to a target: choose one of {2}, or leave out {0}", key_ref("target"),
                    layers ? network.name + " with " + key_ref("layers") : network.name, fmt::join(known, ", ")));
  }
  if (target.value) task->target = *target.value;
  return *task;
}

/// Throws UsageError for a target that a guess reaches, and for an error that not even the best classifier has.
void check_target(const Point& point) {
  if (const std::string why = models::why_no_target(*point.task, point.network, point.seq_len); !why.empty())
    throw bad_value("target", fmt::format("{}", point.task->target), why);
}

std::string point_id(const Point& point) {
  std::string id = point.network.name;
  if (point.layers) id += fmt::format("-l{}", *point.layers);
  if (point.table_rows_at_most) id += fmt::format("-r{}", *point.table_rows_at_most);
  id += fmt::format("/{}/mb{}", point.precision, point.is_automatic ? "auto" : std::to_string(point.micro_batch));
  if (point.network.has_sequence()) id += fmt::format("/t{}", point.seq_len);
  id += point.fixed_global ? fmt::format("/gb{}", *point.fixed_global) : fmt::format("/acc{}", point.accumulate);
  id += fmt::format("/np{}", point.ranks);
  for (const SettingAxis& axis : setting_axes())
    if (const auto value = point.setting.find(axis.kind); value != point.setting.end())
      id += fmt::format("/{}={}", axis.key, power::set_point_text(axis.kind, value->second));
  if (point.task) id += fmt::format("/to{}", point.task->target);
  return id;
}

/// All combinations of the set points of one grid; one without any where it names none.
std::vector<std::map<power::KnobKind, double>> settings_of(const Axes& axes, bool with_found) {
  std::vector<std::map<power::KnobKind, double>> all = {{}};
  for (const SettingAxis& axis : setting_axes()) {
    const auto written = axes.setting.find(axis.kind);
    if (written == axes.setting.end() || written->second.empty()) continue;
    std::vector<std::map<power::KnobKind, double>> longer;
    for (const auto& before : all)
      for (const std::string& text : written->second)
        for (const std::optional<double>& value : parse_set_points(axis.kind, axis.key, text)) {
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
  const auto value_of = [](const Point& point, power::KnobKind kind) {
    const auto found = point.setting.find(kind);
    return found == point.setting.end() ? std::nullopt : std::optional(found->second);
  };
  std::map<power::KnobKind, std::map<std::optional<double>, std::size_t>> written;  // values in the order given
  for (const power::KnobKind kind : settings_by_cost)
    for (const Point& point : points) written[kind].emplace(value_of(point, kind), written[kind].size());
  // By name among equals: the order is then one of the plan's contents alone.
  std::vector<std::pair<std::vector<std::size_t>, std::size_t>> places;
  for (std::size_t i = 0; i < points.size(); ++i) {
    auto& [place, index] = places.emplace_back(std::vector<std::size_t>(), i);
    for (const power::KnobKind kind : settings_by_cost) place.push_back(written[kind].at(value_of(points[i], kind)));
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

/// Of what was derived; axes were looked at before.
void check_derived(std::int64_t value, const char* key, const char* what) {
  const std::int64_t most = find_axis(key)->type.most;
  if (value > most)
    throw UsageError("bad-value", key, fmt::format("{} {}: value too large (maximum {})", what, value, most));
}

void check_search(const Request& request, const Axes& axes) {
  const std::string search = key_ref("search");
  if (request.target)
    throw UsageError("options-conflict", "search",
                     fmt::format("{} and {} exclude each other: leave one out", search, key_ref("target")));
  bool any = false;
  for (const SettingAxis& axis : setting_axes()) {
    const auto written = axes.setting.find(axis.kind);
    if (written == axes.setting.end() || written->second.empty()) continue;
    any = true;
    if (!power::names_of(axis.kind).empty())
      throw UsageError("options-conflict", axis.key,
                       fmt::format("{} varies only numeric settings: leave out {}", search, key_ref(axis.key)));
    if (std::ranges::find(written->second, "found") != written->second.end())
      throw UsageError(
          "options-conflict", axis.key,
          fmt::format("{} found: {} always measures the found settings: leave it out", key_ref(axis.key), search));
  }
  if (!any)
    throw UsageError("option-needs", "search",
                     fmt::format("{} needs a setting to vary: add {} 600:1980:60, {} 100:300:50 or another one", search,
                                 key_ref("gpu_clock"), key_ref("cpu_power_limit")));
}

/// How many combinations a grid has, however many these are.
double combinations_of(const Axes& axes, bool with_found) {
  double settings = 1, others = 1;
  for (const Axis& axis : axes_list()) {
    const auto* kind = std::get_if<power::KnobKind>(&axis.values);
    if (kind == nullptr) others *= static_cast<double>(std::max<std::size_t>(1, count_values(axis, axes)));
    if (kind == nullptr || count_values(axis, axes) == 0) continue;
    double values = 0;
    for (const std::string& text : axes.setting.at(*kind))
      values += static_cast<double>(parse_set_points(*kind, axis.key, text).size());
    settings *= values;
  }
  return (settings + (with_found ? 1 : 0)) * others;
}

/// Throws UsageError if all grids together have over 100,000 combinations: these may not even fit into memory.
void check_grids(const Request& request) {
  constexpr double most_points = 100'000;
  double all = 0;
  for (const Axes& axes : request.axes)
    if (axes.clock.empty()) all += combinations_of(axes, request.search.has_value());
  if (all > most_points)
    throw UsageError(
        "too-many-points", "",
        fmt::format("too many points: the axes make {} (maximum 100,000): use larger steps or shorter lists",
                    all < 1e9 ? fmt::format("{:.0f}", all) : fmt::format("about 10^{:.0f}", std::log10(all))));
}

/// "accumulate lists 1 twice", by key_ref(): the axis that makes a point a second time; empty if none does.
std::string listed_twice(const Axes& axes) {
  std::string found;
  const auto look = [&](const char* key, auto values) {
    std::ranges::sort(values);
    const auto twice = std::ranges::adjacent_find(values);
    if (!found.empty() || twice == values.end()) return;
    if constexpr (std::is_integral_v<std::decay_t<decltype(*twice)>>)
      found = fmt::format("{} lists {} twice", key_ref(key), written(find_axis(key)->type, *twice));
    else
      found = fmt::format("{} lists {} twice", key_ref(key), *twice);
  };
  for (const Axis& axis : axes_list()) {
    const auto* kind = std::get_if<power::KnobKind>(&axis.values);
    if (kind == nullptr) {
      with_values(axis, axes, [&](const auto& values) { look(axis.key, values); });
      continue;
    }
    std::vector<std::string> values;
    if (const auto written = axes.setting.find(*kind); written != axes.setting.end())
      for (const std::string& text : written->second)
        for (const auto& value : parse_set_points(*kind, axis.key, text))
          values.push_back(value ? power::set_point_text(*kind, *value) : "found");
    look(axis.key, values);
  }
  return found;
}

/// One value of each axis.
struct Choice {
  const std::map<power::KnobKind, double>& setting;
  const std::string &model, &precision;
  std::optional<int> layers;
  std::optional<std::int64_t> table_rows, seq_len, micro_batch, accumulate, global_batch;
  std::optional<int> ranks;
};

/// A task gives the batch that is not given.
void set_batch(Point& point, const Choice& choice) {
  const auto &accumulate = choice.accumulate, &global = choice.global_batch;
  auto micro = choice.micro_batch;
  // A file names the micro-batch over which its batch norm computes; with a named network the user chooses.
  if (point.network.task && point.task && !point.task->micro_batches.empty() && !micro && !accumulate && !global)
    micro = point.task->micro_batches.front();
  if (micro == automatic) {
    leave_batch_open(point, accumulate, global);
  } else if (!point.task || (micro && accumulate) || global) {
    solve_batch(point, micro, accumulate, global);
  } else {
    share_out_task(point, micro, accumulate);
  }
  check_micro_batch(point, micro.has_value());
  check_derived(point.micro_batch, "micro_batch", "micro-batch");
  check_derived(point.accumulate, "accumulate", "accumulation");
  check_derived(point.global_batch(), "global_batch", "global batch");
}

Point make_point(const Choice& choice, const RunSettings& settings, int job_ranks) {
  const std::optional<TargetRequest>& target = settings.target;
  Point point;
  point.network = chosen_network(choice.model, settings.layers, choice.layers, choice.table_rows);
  point.layers = choice.layers;
  point.table_rows_at_most = choice.table_rows;
  point.precision = choice.precision;
  point.ranks = choice.ranks.value_or(job_ranks);
  if (point.ranks > job_ranks)
    throw bad_value("ranks", std::to_string(point.ranks),
                    "value too large: the job has " + results::text::count(job_ranks, "rank"));
  point.setting = choice.setting;
  if (target) {
    point.task = task_for(point.network, choice.layers, *target);
    point.network.drawn_tokens = point.task->drawn_tokens;
  }
  point.seq_len =
      chosen_seq_len(point.network, choice.seq_len, point.task ? point.task->seq_len : point.network.default_seq_len);
  set_batch(point, choice);
  if (point.task) check_target(point), check_evaluation(point);
  point.id = point_id(point);
  return point;
}

/// A plan while it is made of a request's grids.
class PlanMaker {
 public:
  PlanMaker(const Request& asked, int ranks, const std::string& device) : request_(asked), ranks_(ranks) {
    choose_class(request_, device);
    const Request& request = request_;
    static_cast<RunSettings&>(plan_) = request;
    plan_.suite = request.suite, plan_.device = device, plan_.kit = request.kit;
    plan_.has_own_sizes = !request.kit && !is_suite();
    plan_.declared_micro_batch = request.declared_micro_batch;
    if (!request.adds_deterministic || is_deterministic_by_default(device)) return;
    const bool has_others = plan_.suite.find(changed_suite) != std::string::npos;
    if (has_others) plan_.suite.pop_back();  // the bracket
    plan_.suite += fmt::format("{}deterministic)", has_others ? ", " : changed_suite);
  }

  RunPlan made() {
    try {
      check_grids(request_);
      check_layers_file();
      for (const Axes& axes : request_.axes) {
        at_ = &axes;
        add_grid(axes);
      }
      at_ = plan_.points.empty() ? first_left_out_ : nullptr;
      if (at_ != nullptr) throw *nothing_left_;
      if (plan_.points.empty())
        throw UsageError("no-model", "model", "nothing to run: give --model, --suite or --config");
      if (request_.target) {
        deal_seeds(plan_, *request_.target, asked_);
        plan_.measurement.trials = static_cast<int>(plan_.points.front().seeds.size());
      }
      order_points(plan_.points, plan_.seed);
      if (plan_.search) search_spaces(plan_);  // throws where there is no grid
    } catch (const UsageError& error) {
      throw error.seen_in(request_, at_);
    }
    return std::move(plan_);
  }

 private:
  bool is_suite() const { return request_.config.empty() && request_.suite != Request().suite; }

  void leave_out(const Indivisible& error) {
    const auto [why, advised] = error.words(is_suite(), request_.kit.has_value());
    leave_out(why, UsageError(error.code(), error.key(), advised));
  }

  /// `error` is thrown where nothing else is left.
  void leave_out(const std::string& why, const UsageError& error) {
    if (first_left_out_ == nullptr) first_left_out_ = at_, nothing_left_ = error;
    if (left_out_.insert(why).second) plan_.left_out.push_back(seen_in(request_, at_, why));
  }

  void check_layers_file() const {
    const auto takes_it = [](const Axes& axes) { return std::ranges::any_of(axes.model, models::is_described); };
    if (!request_.layers.empty() && std::ranges::none_of(request_.axes, takes_it))
      throw UsageError("option-does-not-apply", "layers_file",
                       fmt::format("{}: no network of this plan is described by a file: add {} {}, or leave it out",
                                   key_ref("layers_file"), key_ref("model"), models::described_models().front()));
  }

  void add_grid(const Axes& axes) {
    check_axes(axes);
    if (request_.search) check_search(request_, axes);
    if (!axes.clock.empty()) {
      const std::string why =
          fmt::format("points at {} of the {} clock range: this node does not report the range (see trainwatt probe)",
                      fmt::join(axes.clock, " and "), plan_.device == "cuda" ? "GPU" : "CPU");
      leave_out(why, UsageError("range-unknown", "clock",
                                fmt::format("{}: give values of {} or {} instead of {}", why, key_ref("gpu_clock"),
                                            key_ref("cpu_frequency"), key_ref("clock"))));
      return;
    }
    if (axes.model.empty())
      throw UsageError("no-model", "model",
                       "no network given: add --model (trainwatt models lists the networks) or --suite");
    const std::vector<std::string> precisions =
        axes.precision.empty() ? std::vector<std::string>{"float32"} : axes.precision;
    for (const auto& setting : settings_of(axes, request_.search.has_value()))
      for (const std::string& model : axes.model)
        for (const auto layers : values_or_none(axes.layers))
          for (const auto table_rows : values_or_none(axes.table_rows_at_most))
            for (const auto seq_len : values_or_none(axes.seq_len))
              for (const std::string& precision : precisions)
                for (const auto micro : values_or_none(axes.micro_batch))
                  for (const auto accumulate : values_or_none(axes.accumulate))
                    for (const auto global : values_or_none(axes.global_batch))
                      for (const auto some : values_or_none(counts_of(axes.ranks)))
                        add_point(axes, {.setting = setting,
                                         .model = model,
                                         .precision = precision,
                                         .layers = layers,
                                         .table_rows = table_rows,
                                         .seq_len = seq_len,
                                         .micro_batch = micro,
                                         .accumulate = accumulate,
                                         .global_batch = global,
                                         .ranks = some});
  }

  /// Of the ranks: "scaling" is 1, half and all of them, each once.
  std::vector<int> counts_of(const std::vector<int>& ranks) const {
    std::vector<int> counts;
    for (const int some : ranks) {
      const std::vector<int> each =
          some == one_half_all ? std::vector<int>{1, std::max(1, ranks_ / 2), ranks_} : std::vector<int>{some};
      for (const int count : each)
        if (some != one_half_all || std::ranges::find(counts, count) == counts.end()) counts.push_back(count);
    }
    return counts;
  }

  void add_point(const Axes& axes, const Choice& choice) {
    Point point;
    try {
      point = make_point(choice, request_, ranks_);
    } catch (const Indivisible& error) {
      return leave_out(error);
    }
    if (point.is_automatic && request_.declared_micro_batch)
      if (std::string why; !with_micro_batch(point, *request_.declared_micro_batch, why))
        throw bad_value("micro_batch", std::to_string(*request_.declared_micro_batch), why);
    point.recomputed_layers = recomputed_layers(request_.recompute, point.network);
    if (!ids_.insert(point.id).second) {
      const std::string twice = listed_twice(axes);
      throw UsageError("duplicate-value", "",
                       fmt::format("{}the plan has {} twice: remove one", twice.empty() ? "" : twice + ": ", point.id));
    }
    asked_.emplace(point.id, AskedTraining{choice.model, choice.layers, choice.table_rows, point.seq_len,
                                           choice.precision, choice.accumulate, choice.global_batch});
    plan_.points.push_back(std::move(point));
  }

  Request request_;
  int ranks_;
  RunPlan plan_;
  const Axes* at_ = nullptr;  ///< the grid that is looked at
  std::set<std::string> ids_, left_out_;
  std::map<std::string, AskedTraining> asked_;  ///< by the points' ids
  const Axes* first_left_out_ = nullptr;
  std::optional<UsageError> nothing_left_;
};

}  // namespace

RunPlan make_plan(const Request& request, int ranks, const std::string& device) {
  return PlanMaker(request, ranks, device).made();
}

std::string size_key(const Point& point) {
  Point found = point;
  found.setting.clear();
  return point_id(found) + fmt::format("/re{}", point.recomputed_layers);
}

std::vector<std::size_t> run_order(const RunPlan& plan, int run) {
  std::vector<std::size_t> order(plan.points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  if (plan.search) return order;
  const auto shift = static_cast<std::size_t>(run - 1);
  for (std::size_t first = 0; first < order.size();) {
    const auto differs = [&](const Point& point) { return point.setting != plan.points[first].setting; };
    const auto begin = plan.points.begin() + static_cast<std::ptrdiff_t>(first);
    const auto n = static_cast<std::size_t>(std::find_if(begin, plan.points.end(), differs) - begin);
    // The square's first row is 0, 1, n-1, 2, n-2, …; row r adds r, modulo n. The plan's order is the first row.
    std::vector<std::size_t> row(n), place(n);
    for (std::size_t i = 0; i < n; ++i) row[i] = i % 2 == 1 ? (i + 1) / 2 : (n - i / 2) % n;
    for (std::size_t i = 0; i < n; ++i) place[row[i]] = i;
    for (std::size_t i = 0; i < n; ++i) order[first + i] = first + place[(row[i] + shift) % n];
    first += n;
  }
  return order;
}

}  // namespace tw::bench
