// The schema, and what a schema cannot say.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "results/conditions.hpp"
#include "results/convergence.hpp"
#include "results/copies.hpp"
#include "results/later_fields.hpp"
#include "results/origin.hpp"
#include "results/report_io.hpp"
#include "results/schema_check.hpp"
#include "results/search.hpp"
#include "results/to_target.hpp"
#include "results/verdict.hpp"

namespace tw {
namespace {

using Json = nlohmann::json;

/// The plan's text as JSON with a list of points that have ids; null where it is something else.
Json read_plan(const std::string& canonical_json) {
  if (!json_fault(canonical_json).empty()) return {};
  Json plan = Json::parse(canonical_json);
  if (!plan.is_object() || !plan.contains("points") || !plan["points"].is_array()) return {};
  for (const Json& point : plan["points"])
    if (!point.is_object() || !point.contains("id") || !point["id"].is_string()) return {};
  return plan;
}

/// Whether text that has the schema's pattern of a time is one: months, days and hours that exist.
bool is_time(const std::string& text) {
  const auto number = [&](std::size_t at, std::size_t size) { return std::stoi(text.substr(at, size)); };
  const std::chrono::year_month_day day{std::chrono::year(number(0, 4)), std::chrono::month(number(5, 2)),
                                        std::chrono::day(number(8, 2))};
  return day.ok() && number(11, 2) < 24 && number(14, 2) < 60 && number(17, 2) <= 60;  // 60: a leap second
}

/// A profiled step's operators are timed inside the step, with a clock read around each.
constexpr double op_share_slack = 1.05;
/// A meter is read just outside the barriers of its window.
constexpr double edge_seconds = 1, edge_share = 0.05;
/// Of times that are rounded when written and taken by separate clock reads.
constexpr double time_slack = 1.001;

/// Collects the invariants that one report breaks.
class Invariants {
 public:
  /// `is_newer`: of a newer minor version, which may hold more. `later`: fields of a later minor than the document's.
  explicit Invariants(const Json& document, bool is_newer = false, const std::vector<MissingField>& later = {})
      : document_(document), is_newer_(is_newer) {
    for (const MissingField& field : later) later_.insert(field.pointer);
  }

  /// Changes nothing, but needs the samples where they are: they may be large.
  Validation check(Report& report) {
    check_context(report.context, "/context");
    check_plan(report);
    check_records(report.records);
    check_stability(report);
    if (report.parts) check_parts(report);
    for (std::string& fault : origin_faults(report)) found_.violations.push_back(std::move(fault));
    return std::move(found_);
  }
  Validation check_unfinished(std::vector<Record> records) {
    check_records(records);
    return std::move(found_);
  }

 private:
  void broken(const std::string& where, const std::string& what) { found_.violations.push_back(where + ": " + what); }

  void check_context(const Context& context, const std::string& at) {
    const bool started = is_time(context.started_at);
    const bool finished = context.finished_at.empty() || is_time(context.finished_at);
    if (!started) broken(at + "/started_at", "is no time that exists");
    if (!finished) broken(at + "/finished_at", "is no time that exists");
    if (started && finished && !context.finished_at.empty() &&
        context.finished_at.substr(0, 19) < context.started_at.substr(0, 19))
      broken(at + "/finished_at", "lies before started_at");
  }

  /// Each record is of one part, and what differs between two parts of a run that was not forced is not the program.
  void check_parts(const Report& report) {
    const std::vector<RunPart>& parts = *report.parts;
    std::set<std::string> of_parts;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const RunPart& part = parts[i];
      const std::string at = "/parts/" + std::to_string(i);
      for (const std::string& id : part.points)
        if (!of_parts.insert(id).second) broken(at + "/points", "has \"" + id + "\", which was measured before");
      if (i == 0 && !part.forced_over.empty()) broken(at + "/forced_over", "the first part comes after no other");
      const bool last = i + 1 == parts.size();
      if (part.context.has_value() == last)
        broken(at + "/context", last ? "is not null, though the report's is the last part's" : "is null");
      if (part.context) check_context(*part.context, at + "/context");
      const Program& program = part.program;
      if (last && (program.version != report.program.version || program.git_commit != report.program.git_commit))
        broken(at + "/program", "is not the report's");
      const Program& before = i == 0 ? program : parts[i - 1].program;
      if (part.forced_over.empty() && (program.version != before.version || program.git_commit != before.git_commit))
        broken(at + "/program", "is not that of the part before, and nothing was forced");
    }
    for (std::size_t i = 0; i < report.records.size(); ++i)
      if (of_parts.erase(report.records[i].id) == 0)
        broken("/records/" + std::to_string(i) + "/id", "\"" + report.records[i].id + "\" is of no part");
    for (const std::string& id : of_parts) broken("/parts", "\"" + id + "\" has no record");
  }

  /// What follows from several records together.
  void check_stability(Report& report) {
    std::vector<std::vector<std::string>> said;
    const auto is_unstable = [](const std::vector<std::string>& flags) {
      return std::ranges::count(flags, "unstable") > 0;
    };
    for (const Record& record : report.records) said.push_back(record.verdict.flags);
    flag_unstable(report);
    for (std::size_t i = 0; i < report.records.size(); ++i) {
      std::vector<std::string>& flags = report.records[i].verdict.flags;
      const bool is = is_unstable(flags), was = is_unstable(said[i]);
      if (is && !was)
        add_flag(i, "unstable");
      else if (was && !is)
        broken("/records/" + std::to_string(i) + "/verdict/flags", "the losses say otherwise of \"unstable\"");
      flags = std::move(said[i]);
    }
  }

  void check_records(std::vector<Record>& records) {
    std::set<std::string> ids;
    std::set<std::uint64_t> seeds;
    for (std::size_t i = 0; i < records.size(); ++i) {
      const std::string at = "/records/" + std::to_string(i);
      for (std::size_t t = 0; t < records[i].trials.size(); ++t)
        if (const auto& run = records[i].trials[t].target_run; run && !seeds.insert(run->seed).second)
          broken(at + "/trials/" + std::to_string(t) + "/target_run/seed",
                 std::to_string(run->seed) + " occurs twice in the report");
      if (!ids.insert(records[i].id).second) broken(at + "/id", "\"" + records[i].id + "\" occurs twice");
      check_record(records[i], i, document_["records"][i], at);
    }
  }

  /// The plan says what was to be run before anything was known of the figures: nothing may be added, and nothing may be
  /// left out of a run that finished.
  void check_plan(const Report& report) {
    if (document_["plan"]["sha256"] != sha256_hex(report.plan.canonical_json))
      broken("/plan/sha256", "is not the SHA-256 of canonical_json");
    const Json plan = read_plan(report.plan.canonical_json);
    if (plan.is_null()) {
      const std::string fault = json_fault(report.plan.canonical_json);
      broken("/plan/canonical_json", fault.empty() ? "has no list of points with ids" : "is not JSON text: " + fault);
      return;
    }
    if (plan.contains("suite") && plan["suite"] != report.plan.suite)
      broken("/plan/suite", "is not that of canonical_json");
    const auto& kit = report.plan.kit;
    if (plan.value("kit", Json()) != (kit ? Json(kit->sha256) : Json())) broken("/plan/kit", "is not that of canonical_json");
    const bool is_search = plan.contains("search");
    if (report.search && !is_search) broken("/search", "is not in the plan");
    if (report.search && is_search)
      for (const std::string& fault : search_faults(report, goal_of(plan["search"]))) found_.violations.push_back(fault);
    std::map<std::string, const Json*> points;
    for (const Json& point : plan["points"])
      if (!points.emplace(point["id"].get<std::string>(), &point).second)
        broken("/plan/canonical_json", "names the point " + point["id"].dump() + " twice");
    for (std::size_t i = 0; i < report.records.size(); ++i) {
      const Record& record = report.records[i];
      const std::string at = "/records/" + std::to_string(i);
      std::string id = record.id;
      if (is_search && id.ends_with(again_suffix)) id.resize(id.size() - std::strlen(again_suffix));
      if (const auto point = points.find(id); point == points.end())
        broken(at + "/id", "\"" + record.id + "\" is no point of the plan");
      else
        check_point(i, record, plan, *point->second, at);
    }
    const std::vector<std::string> missing = missing_points(report);
    if (missing.empty()) return;
    const std::string what = std::to_string(missing.size()) + " of " + std::to_string(plan["points"].size()) +
                             " points of the plan have no record (" + missing.front() +
                             (missing.size() > 1 ? ", …)" : ")");
    if (was_interrupted(report.context))
      found_.warnings.push_back("/records: " + what + ": the run was interrupted");
    else if (report.context.finished_at.empty())
      found_.warnings.push_back("/records: " + what + ": the run has not finished");
    else
      broken("/records", what + ", though the run finished");
  }

  void check_point(std::size_t number, const Record& record, const Json& plan, const Json& point, const std::string& at) {
    const Json& json = document_["records"][number];
    const Json& workload = json["workload"];
    const auto same = [&](const Json& planned, const char* key) {
      if (planned != workload[key])
        broken(at + "/workload/" + key, "is " + workload[key].dump() + ", the plan has " + planned.dump());
    };
    for (const char* key : {"device", "seed"})
      if (plan.contains(key)) same(plan[key], key);
    for (const char* key : {"model", "precision", "layers", "micro_batch", "accumulate", "ranks"})
      if (point.contains(key)) same(point[key], key);
    same(point.value("seq_len", Json()), "seq_len");  // images have none
    const Json setting = point.value("setting", Json::object());
    for (const auto& [name, value] : setting.items())
      if (const auto found = record.setting.find(name);
          found == record.setting.end() ||
          found->second.requested != (value.is_string() ? SetPoint(value.get<std::string>()) : SetPoint(value.get<double>())))
        broken(at + "/setting/" + name, "was not requested as the plan has it: " + value.dump());
    for (const auto& [name, found] : record.setting)
      if (found.requested && !setting.contains(name)) broken(at + "/setting/" + name, "is not in the plan");
    check_planned_target(record, json.value("target", Json()), point, at);
    if (json.value("prices", Json()) != plan.value("prices", Json())) broken(at + "/prices", "are not the plan's");
    if (!has_run(record)) return;

    const Json trials = plan.value("trials", Json()), steps = plan.value("steps", Json());
    const Json window = plan.value("window_s", Json());
    if (trials.is_number_integer() && trials != record.trials.size())
      broken(at + "/trials", "are " + std::to_string(record.trials.size()) + ", the plan has " + trials.dump());
    if (steps.is_number_integer() && !record.target && std::ranges::count(record.verdict.flags, "steps_given") == 0)
      add_flag(number, "steps_given", "the plan gives");
    for (std::size_t t = 0; t < record.trials.size(); ++t) {
      const Trial& trial = record.trials[t];
      const std::string place = at + "/trials/" + std::to_string(t);
      if (steps.is_number_integer() && steps != trial.step_time_s.size())
        broken(place + "/step_time_s", "has " + std::to_string(trial.step_time_s.size()) + " steps, the plan has " +
                                           steps.dump());
      if (steps.is_null() && window.is_number() && trial.window_s * time_slack < window.get<double>())
        broken(place + "/window_s", "is shorter than the plan's " + window.dump());
    }
  }

  void check_planned_target(const Record& record, const Json& target, const Json& point, const std::string& at) {
    const Json planned = point.value("target", Json());
    if (planned.is_object() != record.target.has_value()) {
      broken(at + "/target", record.target ? "is not in the plan" : "is missing: the plan has one");
      return;
    }
    if (!record.target) return;
    for (const char* key :
         {"task", "metric", "value", "floor", "held_out_samples", "evaluation_interval", "most_steps", "schedule"})
      if (planned.value(key, Json()) != target[key])
        broken(at + "/target/" + key,
               "is " + target[key].dump() + ", the plan has " + planned.value(key, Json()).dump());
    const Json seeds = point.value("seeds", Json());
    for (std::size_t t = 0; t < record.trials.size(); ++t) {
      const auto& run = record.trials[t].target_run;
      if (run && (!seeds.is_array() || t >= seeds.size() || seeds[t] != run->seed))
        broken(at + "/trials/" + std::to_string(t) + "/target_run/seed", "is not the plan's");
    }
  }

  static SearchGoal goal_of(const Json& search) {
    SearchGoal goal;
    goal.merit = merit_from_string(search.value("merit", "")).value_or(SearchMerit::energy);
    goal.max_slowdown = search.value("max_slowdown", 0.0);
    goal.hour_price = search.value("hour_price", 0.0), goal.kwh_price = search.value("kwh_price", 0.0);
    return goal;
  }

  static bool has_run(const Record& record) {
    return record.verdict.status == "valid" || record.verdict.status == "invalid";
  }

  void check_record(Record& record, std::size_t place, const Json& json, const std::string& at) {
    const Workload& w = record.workload;
    std::int64_t batch = 0;
    if (__builtin_mul_overflow(w.micro_batch, w.accumulate, &batch) || __builtin_mul_overflow(batch, w.ranks, &batch) ||
        w.global_batch != batch)
      broken(at + "/workload/global_batch", "is not micro_batch x accumulate x ranks");
    if (record.verdict.status == "valid" && record.trials.empty()) broken(at + "/trials", "a valid record has none");
    std::set<std::string> flags;  // not by uniqueItems of the schema, which costs the square of their number
    for (const std::string& flag : record.verdict.flags)
      if (!flags.insert(flag).second) {
        broken(at + "/verdict/flags", "\"" + flag + "\" occurs twice");
        break;
      }
    if (has_run(record) && w.hash.empty()) broken(at + "/workload/hash", "is empty though the point ran");
    if (!w.hash.empty() && w.hash != workload_hash(w, record.target))
      broken(at + "/workload/hash", "is not that of this workload");
    for (std::size_t t = 0; t < record.trials.size(); ++t) {
      check_trial(record.trials[t], w, at + "/trials/" + std::to_string(t));
      check_target_run(record.target, record.trials[t], at + "/trials/" + std::to_string(t) + "/target_run");
    }
    for (const auto& [first, copy] : copied_trials(record))
      broken(at + "/trials/" + std::to_string(copy) + "/step_time_s",
             "is that of trial " + std::to_string(first) + " to the last digit: one measurement counts once");
    check_band(record, at + "/target");

    const Summary& s = record.summary;
    if (s.of_ceiling && s.flops_per_s && s.ceiling_flops_per_s)
      if (!close(*s.of_ceiling, s.flops_per_s->value / *s.ceiling_flops_per_s))
        broken(at + "/summary/of_ceiling", "is not flops_per_s / ceiling_flops_per_s");
    if (!s.of_ceiling && s.of_ceiling_reason.empty())
      broken(at + "/summary/of_ceiling", "is null without of_ceiling_reason");
    if (!s.mfu && s.mfu_reason.empty()) broken(at + "/summary/mfu", "is null without mfu_reason");
    bool absent = s.energy_j.empty();
    for (const auto& [scope, energy] : s.energy_j) absent = absent || !energy;
    if (absent && s.energy_reason.empty()) broken(at + "/summary/energy_j", "is null without energy_reason");
    double shares = 0;
    for (const auto& [op, share] : s.op_share) shares += share;
    if (shares > op_share_slack) broken(at + "/summary/op_share", "adds up to more than the step it is of");
    if (s.hardware_flops_per_sample && *s.hardware_flops_per_sample < s.model_flops_per_sample)
      broken(at + "/summary/hardware_flops_per_sample", "is less than the model's");
    if ((s.flops_per_s || s.mfu) && s.flops_rule.empty())
      broken(at + "/summary/flops_rule", "is empty beside a FLOP rate");

    // Everything else that follows from the samples must be what the samples say. The samples may be large: no second
    // copy.
    Record again;
    std::swap(again, record);
    const Summary summary = again.summary;
    const Verdict verdict = again.verdict;
    summarise(again, interval_rule(summary));
    std::vector<Trial> trials;
    std::swap(trials, again.trials);
    Json computed = Json::parse(to_json_line(again));
    record = std::move(again);
    record.trials = std::move(trials), record.summary = summary, record.verdict = verdict;
    find_left_out_flags(place, json["verdict"]["flags"], computed["verdict"]["flags"]);
    compare(json["summary"], computed["summary"], at + "/summary");
    compare(json["verdict"], computed["verdict"], at + "/verdict");
  }

  void check_trial(const Trial& trial, const Workload& workload, const std::string& at) {
    const int ranks = workload.ranks;
    const std::size_t steps = trial.step_time_s.size();
    for (std::size_t e = 0; e < trial.energy.size(); ++e) {
      const std::optional<double>& window = trial.energy[e].window_s;
      if (trial.energy[e].energy_j && window && std::abs(*window - trial.window_s) > edge_seconds + edge_share * trial.window_s)
        broken(at + "/energy/" + std::to_string(e) + "/window_s", "is not that of its trial");
    }
    if (trial.samples_s && (!trial.samples || *trial.samples_s > trial.window_s * time_slack))
      broken(at + "/samples_s", trial.samples ? "is longer than the window" : "stands without samples");
    const bool shown = workload.device != "command";  // a metered command shows neither
    if (shown && trial.loss.size() != steps) broken(at + "/loss", length("step_time_s", trial.loss.size(), steps));
    if (shown && trial.gradient_norm.size() != steps)
      broken(at + "/gradient_norm", length("step_time_s", trial.gradient_norm.size(), steps));
    double sum = 0;
    bool inside = true;
    for (double t : trial.step_time_s) {
      if (std::isfinite(t)) sum += t;
      inside = inside && !(t > trial.window_s * time_slack);
    }
    if (!inside) broken(at + "/window_s", "is shorter than a step inside it");
    // No rank's own steps pass the window, and the slowest rank's time is at most the sum over the ranks.
    if (sum > trial.window_s * ranks * time_slack)
      broken(at + "/step_time_s", "add up to more than the window" + std::string(ranks > 1 ? " times the ranks" : ""));
    std::set<std::pair<std::string, std::string>> sensors;
    for (std::size_t e = 0; e < trial.energy.size(); ++e) {
      const EnergyRow& row = trial.energy[e];
      const std::string place = at + "/energy/" + std::to_string(e);
      if (row.energy_j && row.counted && !row.reason.empty())
        broken(place + "/reason", "a counted row with joules has one");
      if (row.energy_j && !row.counted && row.reason.empty())
        broken(place + "/reason", "is empty though its joules are left out");
      if (row.counted && row.method == "estimate")
        broken(place + "/counted", "is true of an estimate, which enters no total");
      if (row.energy_j && !(row.window_s.value_or(0) > 0)) broken(place + "/window_s", "is absent beside joules");
      if (row.energy_j && !row.update_period_s) broken(place + "/update_period_s", "is absent beside joules");
      if (row.energy_j && !sensors.insert({row.host, row.domain}).second)
        broken(place + "/domain", "occurs twice on this host");
    }
  }

  void check_band(const Record& record, const std::string& at) {
    const std::optional<Target>& target = record.target;
    if (!target) return;
    const ReferenceFinding found = check_reference(record);
    if (!found.fault.empty()) broken(at + "/reference", found.fault);
    if (!found.note.empty()) found_.warnings.push_back(at + "/reference: " + found.note);
    if (target->reference.has_value() == !target->reference_reason.empty())
      broken(at + "/reference", target->reference ? "stands beside a reason for its absence" : "is null without reference_reason");
    if (!target->reference) return;
    const ConvergenceReference& r = *target->reference;
    if (!(r.steps_low <= r.steps_mean && r.steps_mean <= r.steps_high))
      broken(at + "/reference", "has a band that does not hold its mean");
  }

  /// A run goes on from evaluation to evaluation until the first at or under the target, until its loss is no number any
  /// more, or to the last step, and ends there.
  void check_target_run(const std::optional<Target>& target, const Trial& trial, const std::string& at) {
    if (target.has_value() != trial.target_run.has_value()) {
      broken(at, target ? "is missing though the record has a target" : "stands in a record without a target");
      return;
    }
    if (!target) return;
    const TargetRun& run = *trial.target_run;
    if (trial.first_step != 0) broken(at, "does not begin with the first step");
    if (run.evaluation_s > trial.window_s * time_slack) broken(at + "/evaluation_s", "is longer than the window");
    double before = 0;
    for (std::size_t e = 0; e < run.evaluations.size(); ++e) {
      const Evaluation& evaluation = run.evaluations[e];
      const std::string place = at + "/evaluations/" + std::to_string(e);
      const bool last = e + 1 == run.evaluations.size();
      std::int64_t due = 0;
      if (__builtin_mul_overflow(static_cast<std::int64_t>(e + 1), target->evaluation_interval, &due) || due > target->most_steps)
        due = target->most_steps;
      if (evaluation.step != due)
        broken(place + "/step", "is " + std::to_string(evaluation.step) + ", the interval makes it " + std::to_string(due));
      if (!(evaluation.time_s > before)) broken(place + "/time_s", "is not after the one before");
      before = evaluation.time_s;
      if (evaluation.error.has_value() != (target->metric == "error"))
        broken(place + "/error", evaluation.error ? "stands beside a target that is none" : "is null though the target is one");
      const bool ends = !std::isfinite(metric_of(*target, evaluation)) || reaches(*target, evaluation) ||
                        evaluation.step == target->most_steps;
      if (ends != last) broken(place, last ? "ends the run before its end" : "should have ended the run");
    }
    if (before > trial.window_s * time_slack) broken(at + "/evaluations", "the last lies behind the window");
    const auto steps = static_cast<std::int64_t>(trial.step_time_s.size());
    if (run.evaluations.empty() || run.evaluations.back().step != steps)
      broken(at + "/evaluations", "the last is not that of the last step");
  }

  /// A program that did not know a rule yet has written no falsehood without its flag, and whoever took the flag out
  /// gains nothing: every reader has it back.
  void add_flag(std::size_t record, const std::string& flag, const std::string& whence = "the samples give") {
    found_.left_out_flags.push_back({record, flag});
    found_.warnings.push_back("/records/" + std::to_string(record) + "/verdict/flags: " + whence + " \"" + flag +
                              "\", which the report leaves out: it counts as if it stood there");
  }

  /// Takes those that `found` has not out of `computed`.
  void find_left_out_flags(std::size_t record, const Json& found, Json& computed) {
    Json left = Json::array();
    for (const Json& flag : computed)
      if (std::ranges::find(found, flag) == found.end())
        add_flag(record, flag);
      else
        left.push_back(flag);
    computed = std::move(left);
  }

  static std::string length(const char* other, std::size_t found, std::size_t expected) {
    return "has " + std::to_string(found) + " values, " + other + " has " + std::to_string(expected);
  }
  /// Summation order and text rounding, nothing more.
  static bool close(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(std::abs(a), std::abs(b)); }

  void compare(const Json& found, const Json& computed, const std::string& at) {
    if (found.is_number() && computed.is_number()) {
      // An older program left Student's t below 0, where none of these figures can be: the same interval.
      const bool is_same_end = at.ends_with("/low") && computed == 0 && found.get<double>() < 0;
      if (!is_same_end && !close(found.get<double>(), computed.get<double>()))
        broken(at, "is " + found.dump() + ", the samples give " + computed.dump());
    } else if (found.is_object() && computed.is_object()) {
      for (const auto& [key, value] : computed.items()) {
        if (later_.contains(at + "/" + key)) continue;  // noted by name
        compare(found.contains(key) ? found[key] : Json(), value, at + "/" + key);
      }
      for (const auto& [key, value] : found.items())
        if (!computed.contains(key) && !is_newer_) compare(value, Json(), at + "/" + key);
    } else if (found != computed) {
      broken(at, "is " + found.dump() + ", the samples give " + computed.dump());
    }
  }

  const Json& document_;
  const bool is_newer_;
  std::set<std::string> later_;
  Validation found_;
};

/// Asks `check` where the schema is kept; what the types cannot hold, such as an integer out of range, is a violation too.
template <class Check>
Validation validate(const std::string& document, const std::string& schema, Check check) {
  Validation found;
  found.violations = schema_faults(document, schema);
  if (!found.violations.empty()) return found;
  try {
    return check();
  } catch (const std::runtime_error& error) {
    return {.violations = {error.what()}};
  } catch (const Json::exception&) {  // the schema knows nothing of what is inside this text
    return {.violations = {"/plan/canonical_json: a value has the wrong type or size"}};
  }
}

}  // namespace

std::vector<std::string> missing_points(const Report& report) {
  std::set<std::string> ids;
  for (const Record& record : report.records) ids.insert(record.id);
  std::vector<std::string> missing;
  if (report.search) return missing;  // it chose what to measure
  if (const Json plan = read_plan(report.plan.canonical_json); !plan.is_null())
    for (const Json& point : plan["points"])
      if (const std::string id = point["id"]; !ids.contains(id)) missing.push_back(id);
  return missing;
}

bool was_interrupted(const Context& context) {
  return std::any_of(context.warnings.begin(), context.warnings.end(),
                     [](const std::string& warning) { return warning.starts_with("interrupted"); });
}

Validation validate_report(const std::string& text) {
  std::optional<Report> report;
  return validate_report(text, report);
}

Validation validate_report(const std::string& text, std::optional<Report>& report) {
  report.reset();
  if (const std::string fault = json_fault(text); !fault.empty()) return {.violations = {"not JSON: " + fault}};
  const Json document = Json::parse(text);
  SchemaOfAge schema{report_schema_json, {}};
  bool is_newer = false;
  if (!document.is_object() || document.value("schema_version", Json()) != schema_version) {
    try {
      report = report_from_json(text);  // says best what is wrong with the text as a whole
    } catch (const std::runtime_error& error) {
      return {.violations = {error.what()}};
    }
    const auto version = document["schema_version"].get<std::string>();
    is_newer = is_newer_minor(version, schema_version);
    schema = schema_of_age(text, report_schema_json, version, schema_version);
  }
  Validation found = validate(text, schema.text, [&] {
    if (!report) report = report_from_json(text);
    try {
      return Invariants(document, is_newer, schema.missing_fields).check(*report);
    } catch (...) {
      report.reset();  // in whatever state it is
      throw;
    }
  });
  if (is_newer)
    found.warnings.push_back("/schema_version: " + document["schema_version"].dump() + " is newer than " + schema_version +
                             ", which this program knows: what it does not know was not looked at");
  for (const MissingField& field : schema.missing_fields)
    found.warnings.push_back(field.pointer + ": absent: schema version " + field.since +
                             " brought it, the report is of " + document["schema_version"].get<std::string>());
  found.missing_fields = std::move(schema.missing_fields);
  return found;
}

void add_left_out_flags(std::vector<Record>& records, const Validation& found) {
  for (const auto& [place, flag] : found.left_out_flags)
    if (place < records.size()) records[place].verdict.flags.push_back(flag);
}

Validation validate_record_lines(const std::string& text) {
  Json document = {{"records", Json::array()}}, schema = Json::parse(report_schema_json);
  schema["required"] = {"records"};
  schema["properties"]["records"].erase("minItems");
  RecordLines lines;
  try {
    lines = record_lines(text);
  } catch (const std::runtime_error& error) {
    return {.violations = {error.what()}};
  }
  std::size_t begin = 0;
  for (std::size_t i = 0; i < lines.records.size(); ++i) {
    const std::size_t end = text.find('\n', begin);
    document["records"].push_back(Json::parse(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  Validation found =
      validate(document.dump(), schema.dump(), [&] { return Invariants(document).check_unfinished(lines.records); });
  if (lines.torn) found.warnings.push_back("/records: the last line was cut off and is left out");
  return found;
}

}  // namespace tw
