#include "bench/plan/forecast.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/plan/search.hpp"
#include "results/scopes.hpp"
#include "results/text.hpp"

namespace tw {
namespace {

// Of quick runs on 2 to 16 cores: what is neither window nor warm-up, and the share of a window that a warm-up takes where
// the step time is soon flat (results/statistics.hpp); it may take a whole one.
constexpr double set_up_seconds = 1, warm_up_share = 0.15;

std::string time_of(const PointForecast& point) {
  if (!point.obstacle.empty()) return "-";
  if (!point.seconds) return "?";
  return (point.is_most ? "<= " : "") + text::duration(*point.seconds);
}

std::string count(std::size_t n, const std::string& one) { return fmt::format("{} {}{}", n, one, n == 1 ? "" : "s"); }

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
                  const StepSeconds& step_seconds) {
  Forecast all;
  all.nodes = nodes;
  if (plan.search) {
    all.likely_looks = 0;
    for (const SearchSpace& space : search_spaces(plan)) *all.likely_looks += likely_looks(space);
  }
  const Measurement& measurement = plan.measurement;
  for (const Point& point : plan.points) {
    PointForecast& one = all.points.emplace_back(PointForecast{point.id, why_not(point), {}, false});
    if (!one.obstacle.empty()) continue;
    const std::optional<double> step = step_seconds(point);
    if (!point.task) one.seconds = window_seconds_of(measurement, step.value_or(0));
    one.is_least = one.seconds && !step;
    if (one.seconds || !step) continue;
    if (point.task) {
      // An evaluation passes forward only: a third of a step for as many samples.
      const TaskDescription& task = *point.task;
      const double evaluations = static_cast<double>(task.most_steps) / static_cast<double>(task.evaluation_interval);
      const double steps = static_cast<double>(task.most_steps) + evaluations * static_cast<double>(task.held_out_samples) /
                                                                      static_cast<double>(3 * point.global_batch());
      one.seconds = *step * steps * static_cast<double>(point.seeds.size());
      one.is_most = true;
    } else {
      const auto steps = static_cast<double>(*measurement.steps) * measurement.trials + measurement.warmup_steps;
      one.seconds = *step * steps + measurement.ceiling_seconds + set_up_seconds;
    }
  }
  return all;
}

std::string search_obstacle(const RunPlan& plan, const Forecast& forecast) {
  if (!plan.search) return {};
  std::set<std::string> settings;
  bool any = false;
  for (std::size_t i = 0; i < plan.points.size(); ++i) {
    for (const auto& [kind, value] : plan.points[i].setting) settings.insert(to_string(kind));
    any = any || (!plan.points[i].setting.empty() && forecast.points[i].obstacle.empty());
  }
  if (!any) return "none of its settings can be set";
  const std::vector<std::string> telling = telling_scopes(plan.device, {settings.begin(), settings.end()});
  if (std::ranges::none_of(telling, [&](const std::string& scope) { return forecast.maximum_power_w.contains(scope); }))
    return fmt::format("it needs {} joules, and no meter of these answers", fmt::join(telling, " or "));
  return {};
}

std::string forecast_text(const RunPlan& plan, const Forecast& forecast, std::size_t width) {
  const auto ranks = std::ranges::max(plan.points, {}, &Point::ranks).ranks;
  std::string out = fmt::format("{}: {}, {} on {}, device {}\n\n", text::printable(plan.suite), count(plan.points.size(), "point"),
                                count(static_cast<std::size_t>(ranks), "rank"),
                                count(static_cast<std::size_t>(forecast.nodes), "node"), plan.device);
  std::size_t id_width = 0, time_width = 4;
  for (const PointForecast& point : forecast.points) {
    id_width = std::max(id_width, text::columns(point.id));
    time_width = std::max(time_width, text::columns(time_of(point)));
  }
  out += fmt::format("  {}  {}\n", text::pad_right("point", id_width), text::pad_left("time", time_width));
  for (const PointForecast& point : forecast.points) {
    out += fmt::format("  {}  {}", text::pad_right(point.id, id_width), text::pad_left(time_of(point), time_width));
    if (!point.obstacle.empty())
      out += "\n" + std::string(6, ' ') + text::wrap("not here: " + text::printable(point.obstacle), width, 6);
    out += "\n";
  }
  out += "\n";
  const auto line = [&](const char* label, const std::string& value) {
    out += fmt::format("  {:<8}{}\n", label, text::wrap(value, width, 10));
  };
  const int not_here = static_cast<int>(forecast.points.size()) - forecast.runs();
  if (not_here > 0)
    line("points", fmt::format("{} of {} can run; the others are recorded as unsupported or failed, with the reason",
                               forecast.runs(), forecast.points.size()));
  for (const std::string& why : plan.left_out) line("without", text::printable(why));
  if (!forecast.search_obstacle.empty()) line("search", "not here: " + forecast.search_obstacle);
  if (forecast.likely_looks)
    line("search", fmt::format("is likely to measure {} of them, two once more included", *forecast.likely_looks));
  const double seconds = forecast.seconds();
  const std::string bound = forecast.is_most() ? "at most " : forecast.is_least() ? "at least about " : "about ";
  std::string time;
  if (forecast.runs() > forecast.unknown())
    time = fmt::format("{}{}, {} node-hours on {}", bound, text::duration(seconds),
                       text::significant(seconds / 3600 * forecast.nodes, 2), count(static_cast<std::size_t>(forecast.nodes), "node"));
  if (forecast.unknown() > 0)
    time += fmt::format("{}{} until a step or a target, at a pace that only the machine itself tells: trainwatt-train --dry-run "
                        "measures it", time.empty() ? "" : "; and ", count(static_cast<std::size_t>(forecast.unknown()), "point"));
  line("time", time.empty() ? "none: no point can run" : time);
  std::string energy;
  for (const auto& [scope, watts] : forecast.maximum_power_w)
    energy += fmt::format("{}{}: at most {} in that time ({} W a node)", energy.empty() ? "" : "; ", scope,
                          text::si(watts * seconds * forecast.nodes, "J"), text::significant(watts));
  if (forecast.maximum_power_w.empty())
    line("energy", "not known: " + forecast.power_reason);
  else if (forecast.unknown() > 0)
    line("energy", "not known, as the time is not");
  else
    line("energy", energy);
  return out;
}

std::string forecast_json(const RunPlan& plan, const Forecast& forecast) {
  nlohmann::ordered_json json = {{"suite", plan.suite}, {"device", plan.device}, {"nodes", forecast.nodes}};
  json["points"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < forecast.points.size(); ++i) {
    const PointForecast& point = forecast.points[i];
    nlohmann::ordered_json one = {{"id", point.id}, {"ranks", plan.points[i].ranks}, {"runs", point.obstacle.empty()},
                                  {"reason", point.obstacle}};
    one["seconds"] = point.seconds ? nlohmann::ordered_json(*point.seconds) : nlohmann::ordered_json();
    one["seconds_are_most"] = point.is_most;
    one["seconds_are_least"] = point.is_least;
    json["points"].push_back(std::move(one));
  }
  json["left_out"] = plan.left_out;
  const bool is_known = forecast.unknown() == 0;
  json["seconds"] = is_known ? nlohmann::ordered_json(forecast.seconds()) : nlohmann::ordered_json();
  json["node_hours"] =
      is_known ? nlohmann::ordered_json(forecast.seconds() / 3600 * forecast.nodes) : nlohmann::ordered_json();
  json["points_of_unknown_time"] = forecast.unknown();
  json["likely_looks"] = forecast.likely_looks ? nlohmann::ordered_json(*forecast.likely_looks) : nlohmann::ordered_json();
  json["search_obstacle"] = forecast.search_obstacle;
  json["energy_at_most_j"] = nlohmann::ordered_json::object();
  if (is_known)
    for (const auto& [scope, watts] : forecast.maximum_power_w)
      json["energy_at_most_j"][scope] = watts * forecast.seconds() * forecast.nodes;
  json["energy_reason"] = forecast.maximum_power_w.empty() ? forecast.power_reason
                          : is_known                       ? ""
                                                           : "the time is not known";
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace tw
