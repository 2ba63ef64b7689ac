// The plan says what was to be run before anything was known of the figures: nothing may be added, and nothing may be
// left out of a run that finished.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "results/analysis/completeness.hpp"
#include "results/record/text.hpp"
#include "results/selection/search.hpp"
#include "results/validation/checks.hpp"

namespace tw::results {
namespace {

using Json = nlohmann::json;

SearchGoal goal_of(const Json& search) {
  SearchGoal goal;
  goal.merit = named<SearchMerit>(search.value("merit", "")).value_or(SearchMerit::energy);
  goal.max_slowdown = search.value("max_slowdown", 0.0);
  goal.hour_price = search.value("hour_price", 0.0), goal.kwh_price = search.value("kwh_price", 0.0);
  return goal;
}

bool was_measured(const Record& record) { return is_valid(record) || record.verdict.status == Status::invalid; }

void check_planned_target(const Record& record, const Json& target, const Json& point, const std::string& at,
                          Findings& found) {
  const auto broken = [&](const std::string& where, const std::string& what) {
    found.broken("plan_differs", at + where, what);
  };
  const Json planned = point.value("target", Json());
  if (planned.is_object() != record.target.has_value())
    return broken("/target", record.target ? "is not in the plan" : "is missing: the plan has one");
  if (!record.target) return;
  for (const char* key : {"task", "metric", "value", "floor", "held_out_samples", "evaluation_interval", "most_steps",
                          "schedule", "drawn_tokens"})
    if (const Json its = target.value(key, Json()), wanted = planned.value(key, Json()); its != wanted)
      broken(std::string("/target/") + key, "is " + its.dump() + ", the plan has " + wanted.dump());
  const Json seeds = point.value("seeds", Json());
  for (std::size_t t = 0; t < record.trials.size(); ++t) {
    const auto& run = record.trials[t].target_run;
    if (run && (!seeds.is_array() || t >= seeds.size() || seeds[t] != run->seed))
      broken("/trials/" + std::to_string(t) + "/target_run/seed", "is not the plan's");
  }
}

/// A window ends with the first step behind its planned length at which the ranks look at the clock: each second, or
/// each step. trainwatt-train makes no window that is twice as long and some steps more.
double longest_window(double planned, const Trial& trial) {
  constexpr double looks_s = 10, steps_more = 3, factor = 2;
  const double step = trial.step_time_s.empty() ? 0 : *std::ranges::max_element(trial.step_time_s);
  return factor * planned + looks_s + steps_more * step;
}

void check_windows(const Record& record, std::size_t place, const Json& plan, Findings& found) {
  const std::string at = place_of(place);
  const Json trials = plan.value("trials", Json()), steps = plan.value("steps", Json());
  const Json window = plan.value("window_s", Json()), warm_up = plan.value("warmup_steps", Json());
  if (trials.is_number_integer() && trials != record.trials.size())
    found.broken("plan_differs", at + "/trials",
                 "are " + std::to_string(record.trials.size()) + ", the plan has " + trials.dump());
  if (steps.is_number_integer() && !record.target && !has_flag(record, Flag::steps_given))
    found.left_out_flag(place, Flag::steps_given, "the plan gives");
  if (warm_up.is_number_integer() && !record.target && !record.trials.empty())
    check_planned_warm_up(record, place, warm_up.get<std::int64_t>(),
                          window.is_number() && !steps.is_number_integer() ? window.get<double>() : 0, found);
  for (std::size_t t = 0; t < record.trials.size(); ++t) {
    const Trial& trial = record.trials[t];
    const std::string where = place_of(place, t);
    if (steps.is_number_integer() && steps != trial.step_time_s.size())
      found.broken("plan_differs", where + "/step_time_s",
                   "has " + std::to_string(trial.step_time_s.size()) + " steps, the plan has " + steps.dump());
    if (!steps.is_null() || !window.is_number()) continue;
    if (trial.window_s * time_slack < window.get<double>())
      found.broken("window_short_of_plan", where + "/window_s", "is shorter than the plan's " + window.dump());
    else if (!record.target && trial.window_s > longest_window(window.get<double>(), trial))
      found.broken("window_beyond_plan", where + "/window_s",
                   "is " + text::duration(trial.window_s) + ", the plan has " + window.dump() + " s");
  }
}

/// The arguments of each launch of the run.
using Launches = std::vector<std::vector<std::string>>;
Launches launches_with_words(const Report& report) {
  Launches all = {report.context.argv};
  for (const RunPart& part : report.parts.value_or(std::vector<RunPart>()))
    if (part.context) all.push_back(part.context->argv);
  return all;
}

/// The speed of the chosen size, beside that of the trials (checks.hpp).
void check_search_speed(const Record& record, const std::string& at, Findings& found) {
  const std::vector<MicroBatchTrial>& trials = record.micro_batch_search->trials;
  const auto chosen = std::ranges::find(trials, record.micro_batch_search->chosen, &MicroBatchTrial::micro_batch);
  const std::optional<double>& fastest = record.summary.step_time_min_s;
  if (chosen == trials.end() || !chosen->samples_per_s || !fastest || !(*fastest > 0)) return;
  const double searched = *chosen->samples_per_s,
               measured = static_cast<double>(record.workload.global_batch) / *fastest,
               ratio = std::max(searched / measured, measured / searched);
  bool is_set = false;
  for (const auto& [name, setting] : record.setting) is_set = is_set || setting.requested;
  const std::string place =
                        at + "/micro_batch_search/trials/" + std::to_string(chosen - trials.begin()) + "/samples_per_s",
                    what = "is " + text::si(searched, "samples/s") +
                           " at the chosen size, and the fastest step of the trials gives " +
                           text::si(measured, "samples/s");
  if (!(ratio <= most_search_factor))
    found.broken("search_speed_differs", place, what);
  else if (ratio > noted_search_factor && !is_set)
    found.note("search_speed_far", place, what);
}

/// A size that the plan leaves to the run is the one that its search found, or that was declared.
void check_batch(const Record& record, const std::string& at, const Json& point, const Launches& launches,
                 const auto& same, Findings& found) {
  const bool is_automatic = point.value("micro_batch", Json()) == "auto";
  const std::optional<MicroBatchSearch>& search = record.micro_batch_search;
  for (const char* key : {"micro_batch", "accumulate", "global_batch"})
    if (point.contains(key) && !point[key].is_null() && point[key] != "auto") same(point[key], key);
  if (search && !is_automatic)
    return found.broken("plan_differs", at + "/micro_batch_search", "is given although the plan has a size");
  if (!search) {
    if (is_automatic && has_run(record))
      found.broken("plan_differs", at + "/micro_batch_search", "is missing: the plan leaves the size to the run");
    return;
  }
  if (search->chosen != record.workload.micro_batch)
    found.broken("micro_batch_differs", at + "/micro_batch_search/chosen", "is not the point's micro-batch");
  const std::vector<MicroBatchTrial>& trials = search->trials;
  for (std::size_t i = 0; i < trials.size(); ++i) {
    const std::string place = at + "/micro_batch_search/trials/" + std::to_string(i);
    if (trials[i].micro_batch != (i == 0 ? 1 : 2 * trials[i - 1].micro_batch))
      found.broken("micro_batch_differs", place + "/micro_batch", "is not twice the size before, from 1 on");
    if (trials[i].samples_per_s.has_value() != trials[i].reason.empty())
      found.broken("reason_missing", place + "/reason",
                   trials[i].samples_per_s ? "is given beside a speed" : "is empty although there is no speed");
  }
  if (trials.empty() && !is_declared(*search))
    found.broken("micro_batch_differs", at + "/micro_batch_search/stopped_by",
                 "has no trials, and is not \"" + declared_by_option.text() + "\"");
  else if (trials.empty() && !declares(launches, search->chosen))
    found.broken(
        "micro_batch_differs", at + "/micro_batch_search/stopped_by",
        "states that the size was declared, and no launch was given --micro-batch " + std::to_string(search->chosen));
  if (!trials.empty() && chosen_micro_batch(trials) != search->chosen)
    found.broken("micro_batch_differs", at + "/micro_batch_search/chosen", "is not what the trials of the search give");
  if (trials.empty()) return;
  check_search_speed(record, at, found);
  if (const KnownReason end = end_of_search(trials); !end.known.begins(search->stopped_by, end.values))
    found.broken("micro_batch_differs", at + "/micro_batch_search/stopped_by",
                 "is not how the trials of the search end: \"" + end.text() + "\"");
}

/// `json`: the record without its trials.
void check_point(const Record& record, std::size_t place, const Json& json, const Json& plan, const Json& point,
                 const Launches& launches, Findings& found) {
  const std::string at = place_of(place);
  const Json& workload = json["workload"];
  const auto same = [&](const Json& planned, const char* key) {
    if (planned != workload[key])
      found.broken("plan_differs", at + "/workload/" + key,
                   "is " + workload[key].dump() + ", the plan has " + planned.dump());
  };
  for (const char* key : {"device", "seed"})
    if (plan.contains(key)) same(plan[key], key);
  for (const char* key : {"model", "precision", "layers", "ranks"})
    if (point.contains(key)) same(point[key], key);
  if (const char* key = "table_rows_at_most"; point.value(key, Json()) != workload.value(key, Json()))
    found.broken("plan_differs", at + "/workload/" + key,
                 "is " + workload.value(key, Json()).dump() + ", the plan has " + point.value(key, Json()).dump());
  check_batch(record, at, point, launches, same, found);
  same(point.value("seq_len", Json()), "seq_len");  // images have none
  const Json setting = point.value("setting", Json::object());
  for (const auto& [name, value] : setting.items())
    if (const auto known = record.setting.find(name);
        known == record.setting.end() ||
        known->second.requested !=
            (value.is_string() ? SetPoint(value.get<std::string>()) : SetPoint(value.get<double>())))
      found.broken("plan_differs", at + "/setting/" + name, "was not requested as the plan has it: " + value.dump());
  for (const auto& [name, known] : record.setting)
    if (known.requested && !setting.contains(name))
      found.broken("plan_differs", at + "/setting/" + name, "is not in the plan");
  check_planned_target(record, json.value("target", Json()), point, at, found);
  if (json.value("prices", Json()) != plan.value("prices", Json()))
    found.broken("plan_differs", at + "/prices", "are not the plan's");
  if (was_measured(record)) check_windows(record, place, plan, found);
}

void check_complete(const Report& report, std::size_t points, Findings& found) {
  const std::vector<std::string> missing = missing_points(report);
  if (missing.empty()) return;
  const std::string what = std::to_string(missing.size()) + " of " + std::to_string(points) +
                           " points of the plan have no record (" + missing.front() +
                           (missing.size() > 1 ? ", …)" : ")");
  if (was_interrupted(report.context))
    found.note("points_missing", "/records", what + ": the run was interrupted");
  else if (report.context.finished_at.empty())
    found.note("points_missing", "/records", what + ": the run has not finished");
  else
    found.broken("points_missing", "/records", what + ", though the run finished");
}

}  // namespace

void check_plan(const Report& report, const std::string& plan_sha256, const std::vector<std::string>& lines,
                Findings& found) {
  if (plan_sha256 != sha256_hex(report.plan.canonical_json))
    found.broken("plan_hash", "/plan/sha256", "is not the SHA-256 of canonical_json");
  const Json plan = read_plan(report.plan.canonical_json);
  if (plan.is_null()) {
    const std::string fault = json_fault(report.plan.canonical_json);
    return found.broken("plan_text", "/plan/canonical_json",
                        fault.empty() ? "has no list of points with ids" : "is not JSON text: " + fault);
  }
  // With keys in the order of the text: older programs' texts, too, have neither blanks nor another way to write a
  // value.
  const auto ordered = nlohmann::ordered_json::parse(report.plan.canonical_json);
  if (ordered.dump(-1, ' ', false, Json::error_handler_t::replace) != report.plan.canonical_json)
    found.broken("plan_text", "/plan/canonical_json",
                 "is not canonical: it has blanks, or numbers or text that the "
                 "program writes otherwise, and so another hash");
  if (plan.contains("suite") && plan["suite"] != report.plan.suite)
    found.broken("plan_differs", "/plan/suite", "is not that of canonical_json");
  const auto& kit = report.plan.kit;
  if (plan.value("kit", Json()) != (kit ? Json(kit->sha256) : Json()))
    found.broken("plan_differs", "/plan/kit", "is not that of canonical_json");
  if (std::ranges::any_of(report.records, is_command) &&
      (report.plan.suite != command_suite || report.records.size() != 1 ||
       !report.records[0].id.starts_with("command/")))
    found.broken("plan_differs", "/records", "hold a metered command, which is a report of its own and has no plan");
  const bool is_search = plan.contains("search");
  if (report.search && !is_search) found.broken("plan_differs", "/search", "is not in the plan");
  if (report.search && is_search) found.add(search_faults(report, goal_of(plan["search"])));
  std::map<std::string, const Json*> points;
  for (const Json& point : plan["points"])
    if (!points.emplace(point["id"].get<std::string>(), &point).second)
      found.broken("plan_text", "/plan/canonical_json", "names the point " + point["id"].dump() + " twice");
  const Launches launches = launches_with_words(report);
  for (std::size_t i = 0; i < report.records.size(); ++i) {
    const Record& record = report.records[i];
    std::string id = record.id;
    if (is_search && id.ends_with(again_suffix)) id.resize(id.size() - std::strlen(again_suffix));
    if (const auto point = points.find(id); point == points.end())
      found.broken("point_unplanned", place_of(i) + "/id", "\"" + record.id + "\" is not among the points of the plan");
    else
      check_point(record, i, Json::parse(lines[i]), plan, *point->second, launches, found);
  }
  check_complete(report, plan["points"].size(), found);
}

}  // namespace tw::results
