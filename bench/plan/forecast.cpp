#include "bench/plan/forecast.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "bench/plan/batch.hpp"
#include "bench/plan/reference_steps.hpp"
#include "bench/plan/search.hpp"
#include "results/analysis/scopes.hpp"
#include "results/record/names_format.hpp"
#include "results/record/text.hpp"

namespace tw::bench {
namespace {

namespace text = results::text;
using Json = nlohmann::ordered_json;
using text::count;

// Of quick runs on 2 to 16 cores: what is neither window nor warm-up, and the share of a window that a warm-up takes
// where the step time is soon flat (results/analysis/statistics.hpp: half of it is looked at); it may take a whole one.
constexpr double set_up_seconds = 1, warm_up_share = 0.6;

/// "about 475 steps, at most 1800", "at most 1800 steps", "20 steps"
std::string steps_words(const std::optional<double>& likely, double most) {
  const auto steps = [](double number) { return count(std::llround(number), "step"); };
  if (!likely) return "at most " + steps(most);
  return *likely == most ? steps(most) : fmt::format("about {}, at most {:.0f}", steps(*likely), most);
}

/// The steps where the time is not known.
std::string time_of(const PointForecast& point) {
  if (!point.obstacle.empty()) return "-";
  if (!point.seconds) return steps_words(point.likely_steps, point.most_steps.value_or(0));
  const std::string most = (point.is_most ? "<= " : "") + text::duration(*point.seconds);
  return point.likely_seconds ? fmt::format("{} ({})", text::duration(*point.likely_seconds), most) : most;
}

/// Steps of the optimizer with the evaluations between them: these pass forward only, a third of a step a sample.
double with_evaluations(double steps, const Point& point) {
  const models::TaskDescription& task = *point.task;
  return steps * (1 + static_cast<double>(task.held_out_samples) /
                          static_cast<double>(task.evaluation_interval * 3 * point.global_batch()));
}

/// "at least 3.4 GiB"
std::string memory_of(const PointForecast& point) {
  if (!point.memory) return "-";
  return (point.memory->is_least ? ">= " : "") + text::bytes(point.memory->bytes);
}

/// Whether the micro-batch is found at run time.
bool is_open(const Point& point, const RunPlan& plan) { return point.is_automatic && !plan.declared_micro_batch; }

/// How long the search for the micro-batch takes: each size is built anew, and its steps are timed behind a first one;
/// then the chosen size, its half and its double once or twice more. Without a pace steps are taken to be short.
double search_seconds_of(const PointForecast& one, const std::vector<Point>& sizes, const DevicePace* pace) {
  std::vector<double> each;
  double last_step = 0;
  for (const Point& sized : sizes) {
    const double step = pace != nullptr ? pace->step_seconds(sized).value_or(0) : 0;
    const double set_up = pace != nullptr ? pace->set_up_seconds(sized) : set_up_seconds;
    const double timed = step > long_step_seconds ? 0 : std::max(timed_seconds_of_size, steps_to_time(step) * step);
    each.push_back(set_up + 2 * step + timed);
    last_step = step;
  }
  if (each.empty()) each.assign(static_cast<std::size_t>(one.sizes), set_up_seconds + timed_seconds_of_size);
  double all = std::accumulate(each.begin(), each.end(), 0.0);
  if (each.size() < 2) return all;
  std::ranges::sort(each, std::ranges::greater());
  const double around =
      std::accumulate(each.begin(), each.begin() + std::min<std::ptrdiff_t>(3, std::ssize(each)), 0.0);
  return all + around * (last_step > long_step_seconds ? 1 : rounds_around_the_choice);
}

/// An obstacle without the value, where kind and reason are all else that it says: "gpu_clock_mhz: no device has it".
std::string kind_of(const std::string& obstacle) {
  const std::size_t blank = obstacle.find(' '), colon = obstacle.find(": ");
  if (colon == std::string::npos || blank > colon || !power::knob_kind_from_string(obstacle.substr(0, blank)))
    return obstacle;
  return obstacle.substr(0, blank) + obstacle.substr(colon);
}

/// "about 9600 steps, 24000 at most": of the points whose pace is not known.
std::string steps_of_unknown(const Forecast& forecast) {
  double most = 0, likely = 0;
  bool is_likely = true;
  for (const PointForecast& point : forecast.points) {
    if (!point.obstacle.empty() || point.seconds) continue;
    most += point.most_steps.value_or(0);
    likely += point.likely_steps.value_or(0);
    is_likely = is_likely && point.likely_steps;
  }
  return steps_words(is_likely ? std::optional(likely) : std::nullopt, most);
}

/// The points that cannot run, by why, each in the order of the plan.
std::string refusals(const Forecast& forecast, std::size_t width) {
  constexpr std::size_t most_names = 8, names_of_more = 3;
  std::vector<std::pair<std::string, std::vector<const PointForecast*>>> kinds;
  std::map<std::string, std::size_t> places;
  for (const PointForecast& point : forecast.points) {
    if (point.obstacle.empty()) continue;
    const auto [place, is_new] = places.emplace(kind_of(point.obstacle), kinds.size());
    if (is_new) kinds.emplace_back(place->first, std::vector<const PointForecast*>());
    kinds[place->second].second.push_back(&point);
  }
  std::string out;
  for (const auto& [kind, points] : kinds) {
    const std::size_t shown = points.size() > most_names ? names_of_more : points.size();
    for (std::size_t i = 0; i < shown; ++i) out += fmt::format("  {}  -\n", points[i]->id);
    if (shown < points.size()) out += fmt::format("  ... and {} more\n", points.size() - shown);
    const bool is_one = points.size() == 1;
    const std::string why = fmt::format("cannot run{}: {}", is_one ? "" : fmt::format(" ({} points)", points.size()),
                                        text::printable(is_one ? points.front()->obstacle : kind));
    out += std::string(6, ' ') + text::wrap(why, width, 6) + "\n";
  }
  return out;
}

/// The points that can run with their times, then those that cannot.
std::string point_lines(const Forecast& forecast, std::size_t width) {
  std::string out;
  std::size_t id_width = 5, time_width = 4, memory_width = 6;
  const bool has_memory =
      std::ranges::any_of(forecast.points, [](const auto& point) { return point.memory.has_value(); });
  for (const PointForecast& point : forecast.points) {
    if (!point.obstacle.empty()) continue;
    id_width = std::max(id_width, text::columns(point.id));
    time_width = std::max(time_width, text::columns(time_of(point)));
    memory_width = std::max(memory_width, text::columns(memory_of(point)));
  }
  const auto row = [&](const std::string& id, const std::string& time, const std::string& memory) {
    const std::string behind = has_memory ? "  " + text::pad_left(memory, memory_width) : "";
    const std::string figures = text::pad_left(time, time_width) + behind;
    if (2 + id_width + 2 + text::columns(figures) <= width)
      out += fmt::format("  {}  {}\n", text::pad_right(id, id_width), figures);
    else
      out += fmt::format("  {}\n      {}\n{}", id, time, has_memory ? fmt::format("      {}\n", memory) : "");
  };
  row("point", "time", "memory");
  for (const PointForecast& point : forecast.points)
    if (point.obstacle.empty()) row(point.id, time_of(point), memory_of(point));
  return out + refusals(forecast, width) + "\n";
}

/// The largest point that runs, against what the node has.
std::string memory_line(const RunPlan& plan, const Forecast& forecast) {
  const PointForecast* largest = nullptr;
  std::size_t place = 0;
  for (std::size_t i = 0; i < forecast.points.size(); ++i) {
    const PointForecast& point = forecast.points[i];
    if (!point.obstacle.empty() || !point.memory) continue;
    if (largest == nullptr || point.memory->bytes > largest->memory->bytes) largest = &point, place = i;
  }
  if (largest == nullptr) return {};
  // Fewer ranks than the job's are its first, node by node.
  const int all = std::ranges::max(plan.points, {}, &Point::ranks).ranks;
  const int a_node = std::min(plan.points[place].ranks, (all + forecast.nodes - 1) / forecast.nodes);
  const std::string least = largest->memory->is_least ? "at least " : "";
  const std::string which = forecast.runs() > 1 ? fmt::format(" ({})", largest->id) : "";
  std::string line = fmt::format("{}{} per rank{}", least, text::bytes(largest->memory->bytes), which);
  if (forecast.node_memory_bytes)
    line += fmt::format("; {}{} on a node of {}, which has {}", least, text::bytes(largest->memory->bytes * a_node),
                        count(a_node, "rank"), text::bytes(*forecast.node_memory_bytes));
  if (largest->memory->is_least)
    line += "; trainwatt-train --dry-run also counts what this bound leaves out, within the job";
  return line;
}

/// Why the time of some points is not known, and what tells it; empty if all are known.
std::string why_unknown(const RunPlan& plan, const Forecast& forecast) {
  if (forecast.unknown() == 0) return {};
  return std::ranges::any_of(plan.points, [&](const Point& point) { return is_open(point, plan); })
             ? "it depends on the micro-batch, which is found at run time"
             : forecast.time_reason;
}

std::string time_line(const RunPlan& plan, const Forecast& forecast) {
  const double seconds = forecast.seconds();
  const std::optional<double> likely = forecast.likely_seconds();
  const std::string nodes = count(forecast.nodes, "node");
  const auto node_hours = [&](double of) { return text::significant(of / 3600 * forecast.nodes, 2); };
  const std::string bound = forecast.is_most() ? "at most " : forecast.is_least() ? "at least " : "about ";
  std::string time;
  if (forecast.runs() > forecast.unknown())
    time = likely
               ? fmt::format("about {}, {} node-hours on {}; at most {}, {} node-hours, if runs miss their targets",
                             text::duration(*likely), node_hours(*likely), nodes, text::duration(seconds),
                             node_hours(seconds))
               : fmt::format("{}{}, {} node-hours on {}", bound, text::duration(seconds), node_hours(seconds), nodes);
  if (forecast.unknown() > 0)
    time += fmt::format("{}{} of unknown duration ({}): {}", time.empty() ? "" : "; and ",
                        count(forecast.unknown(), "point"), steps_of_unknown(forecast), why_unknown(plan, forecast));
  return time.empty() ? "none: no point can run" : time;
}

/// Of how many seeds the steps in the place of a time are; empty where none are of several.
std::string seeds_line(const RunPlan& plan, const Forecast& forecast) {
  std::set<std::size_t> numbers;
  for (std::size_t i = 0; i < plan.points.size(); ++i)
    if (plan.points[i].task && forecast.points[i].obstacle.empty() && !forecast.points[i].seconds)
      numbers.insert(plan.points[i].seeds.size());
  if (numbers.empty() || *numbers.rbegin() < 2) return {};
  return numbers.size() > 1 ? "sum over the seeds of a point" : fmt::format("sum over {} seeds", *numbers.begin());
}

std::string energy_line(const Forecast& forecast) {
  if (forecast.maximum_power_w.empty()) return "not known: " + forecast.power_reason;
  if (forecast.unknown() > 0) return "not known, because the time is not known";
  const double seconds = forecast.seconds();
  const std::optional<double> likely = forecast.likely_seconds();
  const auto joules_in = [&](double watts, double of) { return text::si(watts * of * forecast.nodes, "J"); };
  std::string energy;
  for (const auto& [scope, watts] : forecast.maximum_power_w) {
    if (!energy.empty()) energy += "; ";
    if (const auto unknown = forecast.power_unknown.find(scope); unknown != forecast.power_unknown.end())
      energy += fmt::format("{}: not known: {} does not report its maximum power", scope, unknown->second);
    else
      energy +=
          fmt::format("{}: at most {} ({} W per node)", scope,
                      likely ? fmt::format("{} in about {}, {} in at most {}", joules_in(watts, *likely),
                                           text::duration(*likely), joules_in(watts, seconds), text::duration(seconds))
                             : joules_in(watts, seconds) + " in that time",
                      text::significant(watts));
  }
  return energy;
}

}  // namespace

int Forecast::runs() const {
  return static_cast<int>(std::ranges::count_if(points, [](const auto& point) { return point.obstacle.empty(); }));
}
int Forecast::unknown() const {
  return static_cast<int>(
      std::ranges::count_if(points, [](const auto& point) { return point.obstacle.empty() && !point.seconds; }));
}
double Forecast::seconds() const {
  double all = 0;
  for (const PointForecast& point : points)
    if (point.obstacle.empty()) all += point.seconds.value_or(0);
  if (!likely_looks || runs() == unknown()) return all;
  const auto known = static_cast<double>(runs() - unknown());
  return all / known * std::min(known + 2, static_cast<double>(*likely_looks));  // two are measured once more
}
bool Forecast::is_most() const {
  return std::ranges::any_of(points, [](const auto& point) { return point.obstacle.empty() && point.is_most; });
}

std::optional<double> Forecast::likely_seconds() const {
  double all = 0;
  for (const PointForecast& point : points) {
    if (!point.obstacle.empty()) continue;
    if (point.is_most && !point.likely_seconds) return std::nullopt;
    all += point.is_most ? *point.likely_seconds : point.seconds.value_or(0);
  }
  return is_most() ? std::optional(all) : std::nullopt;
}

bool Forecast::is_estimated() const {
  return std::ranges::any_of(points, [](const auto& point) { return point.obstacle.empty() && point.is_estimated; });
}

bool Forecast::is_least() const {
  return std::ranges::any_of(points, [](const auto& point) { return point.obstacle.empty() && point.is_least; });
}

std::optional<double> window_seconds_of(const Measurement& measurement, double step_seconds) {
  if (measurement.steps) return std::nullopt;
  // A window ends with the step that passes it, a warm-up not before its least number of steps; one more is profiled.
  const double warm_up = std::max(measurement.window_seconds * warm_up_share, step_seconds * measurement.warmup_steps);
  return std::max(measurement.window_seconds, step_seconds) * measurement.trials + warm_up + step_seconds +
         measurement.ceiling_seconds + set_up_seconds;
}

Forecast forecast(const RunPlan& plan, int nodes, const std::function<std::string(const Point&)>& why_not,
                  const StepSeconds& step_seconds, const MemoryOfRank& memory, const DevicePace* pace) {
  Forecast all;
  all.nodes = nodes;
  if (pace != nullptr) all.pace = pace->words();
  if (plan.search) {
    all.likely_looks = 0;
    for (const SearchSpace& space : search_spaces(plan)) *all.likely_looks += likely_looks(space);
  }
  const Measurement& measurement = plan.measurement;
  std::map<std::string, std::optional<double>> references;  // found settings and all others have the same
  std::set<std::string> searched;                           // sizes are found once for all settings
  std::map<std::string, std::vector<Point>> fitting;        // by the same key
  for (const Point& planned : plan.points) {
    const Point point = at_declared_size(planned, plan);
    PointForecast& one = all.points.emplace_back();
    one.id = point.id;
    if (memory) one.memory = memory(point);
    if (one.memory && is_open(point, plan)) one.memory->is_least = true;  // of micro-batch 1
    one.obstacle = why_not(point);
    if (!one.obstacle.empty()) continue;
    if (point.task) {
      const auto seeds = static_cast<double>(point.seeds.size());
      const std::string of = fmt::format("{} {} {} {} {}", point.network.name, point.micro_batch, point.global_batch(),
                                         point.seq_len, point.task->target);
      auto found = references.find(of);
      if (found == references.end()) found = references.emplace(of, reference_steps(point)).first;
      one.most_steps = static_cast<double>(point.task->most_steps) * seeds;
      if (found->second) one.likely_steps = *found->second * seeds;
    } else if (measurement.steps) {
      one.most_steps = one.likely_steps =
          static_cast<double>(*measurement.steps) * measurement.trials + measurement.warmup_steps;
    }
    const bool open = is_open(point, plan);
    std::vector<Point>& sizes = fitting[open ? size_key(point) : ""];
    if (open && pace != nullptr && sizes.empty()) sizes = fitting_sizes(point, *pace);
    const std::optional<double> known = open ? std::nullopt : step_seconds(point);
    const std::optional<double> estimated = known || pace == nullptr || point.task
                                                ? std::nullopt
                                                : pace->step_seconds(sizes.empty() ? point : sizes.back());
    const double step = known ? *known : estimated.value_or(0);
    if (!point.task) one.seconds = window_seconds_of(measurement, step);
    if (one.seconds && estimated) *one.seconds += pace->set_up_seconds(point) - set_up_seconds;
    if (open && searched.insert(size_key(point)).second) {
      one.sizes = sizes.empty() ? count_sizes(point) : static_cast<int>(sizes.size());
      one.search_seconds = search_seconds_of(one, sizes, pace);
      if (one.seconds) *one.seconds += one.search_seconds;
    }
    one.is_estimated = one.seconds && estimated;
    one.is_least = one.seconds && !known && !estimated;
    if (one.seconds || !known) continue;
    if (point.task) {
      one.seconds = step * with_evaluations(*one.most_steps, point);
      if (one.likely_steps) one.likely_seconds = step * with_evaluations(*one.likely_steps, point);
      one.is_most = true;
    } else {
      one.seconds = step * *one.most_steps + measurement.ceiling_seconds + set_up_seconds;
    }
  }
  return all;
}

std::string search_obstacle(const RunPlan& plan, const Forecast& forecast) {
  if (!plan.search) return {};
  std::set<std::string> settings;
  bool any = false;
  for (std::size_t i = 0; i < plan.points.size(); ++i) {
    for (const auto& [kind, value] : plan.points[i].setting) settings.insert(power::to_string(kind));
    any = any || (!plan.points[i].setting.empty() && forecast.points[i].obstacle.empty());
  }
  if (!any) return "none of its settings can be changed";
  const std::vector<results::Scope> telling = results::telling_scopes(plan.device, {settings.begin(), settings.end()});
  if (std::ranges::none_of(telling,
                           [&](results::Scope scope) { return forecast.maximum_power_w.contains(to_string(scope)); }))
    return fmt::format("it needs {} energy, and no meter measures it", fmt::join(telling, " or "));
  return {};
}

std::string forecast_text(const RunPlan& plan, const Forecast& forecast, std::size_t width) {
  const auto ranks = std::ranges::max(plan.points, {}, &Point::ranks).ranks;
  std::string out = text::wrap(fmt::format("{}: {}, {} on {}, device {}", text::printable(plan.title()),
                                           count(plan.points.size(), "point"), count(ranks, "rank"),
                                           count(forecast.nodes, "node"), plan.device),
                               width, 2) +
                    "\n\n" + point_lines(forecast, width);
  const auto line = [&](const char* label, const std::string& value) {
    out += fmt::format("  {:<8}{}\n", label, text::wrap(value, width, 10));
  };
  if (forecast.runs() < static_cast<int>(forecast.points.size()))
    line("points", fmt::format("{} of {} can run; the others are recorded as unsupported or failed, with the reason",
                               forecast.runs(), forecast.points.size()));
  for (const std::string& why : plan.left_out) line("without", text::printable(why));
  const auto open = std::ranges::count_if(plan.points, &Point::is_automatic);
  double search_seconds = 0;
  int sizes = 0;
  for (const PointForecast& point : forecast.points) search_seconds += point.search_seconds, sizes += point.sizes;
  if (open > 0 && (plan.declared_micro_batch || sizes > 0))
    line("batch",
         plan.declared_micro_batch
             ? fmt::format("micro-batch {} of {}, as declared", *plan.declared_micro_batch, count(open, "point"))
             : fmt::format("micro-batch of {}: found at run time, before the trials, among {}: {}{}{}",
                           count(open, "point"), sizes == 1 ? "1 size" : fmt::format("up to {} sizes", sizes),
                           text::duration(search_seconds), forecast.unknown() == 0 ? " of the time" : "",
                           forecast.pace.empty() ? ", more where a step takes over 0.15 s" : ""));
  if (!forecast.search_obstacle.empty()) line("search", "not possible here: " + forecast.search_obstacle);
  if (forecast.likely_looks)
    line("search",
         fmt::format("is likely to measure {} points, including two that are measured twice", *forecast.likely_looks));
  if (plan.runs() > 1)
    line("runs", fmt::format("the plan asks for {} launches; time and energy are those of one", plan.runs()));
  if (const std::string seeds = seeds_line(plan, forecast); !seeds.empty()) line("steps", seeds);
  if (forecast.is_estimated() || (search_seconds > 0 && !forecast.pace.empty()))
    line("pace", fmt::format("estimated, not measured: {}", text::printable(forecast.pace)));
  line("time", time_line(plan, forecast));
  if (const std::string memory = memory_line(plan, forecast); !memory.empty()) line("memory", memory);
  line("energy", energy_line(forecast));
  return out;
}

std::string forecast_json(const RunPlan& plan, const Forecast& forecast) {
  const auto number = [](const auto& value) { return value ? Json(*value) : Json(); };
  Json json = {{"suite", plan.suite}, {"device", plan.device}, {"nodes", forecast.nodes}, {"runs", plan.runs()}};
  json["points"] = Json::array();
  for (std::size_t i = 0; i < forecast.points.size(); ++i) {
    const PointForecast& point = forecast.points[i];
    json["points"].push_back({{"id", point.id},
                              {"ranks", plan.points[i].ranks},
                              {"runs", point.obstacle.empty()},
                              {"reason", point.obstacle},
                              {"seconds", number(point.seconds)},
                              {"seconds_are_most", point.is_most},
                              {"seconds_likely", number(point.likely_seconds)},
                              {"steps_at_most", number(point.most_steps)},
                              {"steps_likely", number(point.likely_steps)},
                              {"seconds_are_least", point.is_least},
                              {"seconds_are_estimated", point.is_estimated},
                              {"micro_batch_sizes_at_most", point.sizes},
                              {"micro_batch_search_seconds", point.search_seconds},
                              {"memory_bytes_per_rank", point.memory ? Json(point.memory->bytes) : Json()},
                              {"memory_is_least", point.memory ? Json(point.memory->is_least) : Json()}});
  }
  json["left_out"] = plan.left_out;
  const bool searches =
      std::ranges::any_of(forecast.points, [](const PointForecast& point) { return point.search_seconds > 0; });
  json["pace"] = !forecast.pace.empty() && (forecast.is_estimated() || searches) ? Json(forecast.pace) : Json();
  json["node_memory_bytes"] = number(forecast.node_memory_bytes);
  const bool is_known = forecast.unknown() == 0;
  const std::optional<double> all = is_known ? std::optional(forecast.seconds()) : std::nullopt;
  const std::optional<double> likely = is_known ? forecast.likely_seconds() : std::nullopt;
  const auto node_hours = [&](const std::optional<double>& seconds) {
    return seconds ? Json(*seconds / 3600 * forecast.nodes) : Json();
  };
  const auto joules = [&](const std::optional<double>& seconds) {
    Json by_scope = Json::object();
    for (const auto& [scope, watts] : forecast.maximum_power_w)
      if (seconds)
        by_scope[scope] = forecast.power_unknown.contains(scope) ? Json() : Json(watts * *seconds * forecast.nodes);
    return by_scope;
  };
  json["seconds"] = number(all), json["node_hours"] = node_hours(all);
  json["seconds_likely"] = number(likely), json["node_hours_likely"] = node_hours(likely);
  json["points_of_unknown_time"] = forecast.unknown();
  json["time_reason"] = why_unknown(plan, forecast);
  json["likely_looks"] = number(forecast.likely_looks);
  json["search_obstacle"] = forecast.search_obstacle;
  json["energy_likely_at_most_j"] = joules(likely), json["energy_at_most_j"] = joules(all);
  std::string reason = forecast.maximum_power_w.empty() ? forecast.power_reason
                       : is_known                       ? ""
                                                        : "the time is not known";
  for (const auto& [scope, meter] : forecast.power_unknown)
    reason += fmt::format("{}{}: {} does not report its maximum power", reason.empty() ? "" : "; ", scope, meter);
  json["energy_reason"] = reason;
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tw::bench
