// What each launch of a run says of itself: times, parts, hosts, ranks, and when its trials were.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <set>

#include "results/analysis/conditions.hpp"
#include "results/analysis/context_warnings.hpp"
#include "results/analysis/verdict.hpp"
#include "results/record/text.hpp"
#include "results/record/version.hpp"
#include "results/validation/checks.hpp"

namespace tw::results {
namespace {

/// A run with ranks names its compiler, kind of build and MPI, and the libraries of the first rank's device, which each
/// reader takes from `versions`. Earlier programs wrote libraries of one first word ("CUDA runtime", "CUDA driver")
/// under that word, the last one only.
void check_versions(const Context& context, const std::string& at, Findings& found) {
  for (const char* name : {"build_type", "compiler", "mpi"})
    if (const auto version = context.versions.find(name); version == context.versions.end() || version->second.empty())
      found.broken("version_missing", at + "/versions", "has no \"" + std::string(name) + "\"");
  const auto first = std::ranges::find(context.devices, 0, &DeviceEntry::rank);
  if (first == context.devices.end()) return;
  const std::string row = at + "/devices/" + std::to_string(first - context.devices.begin());
  if (first->libraries.empty() && first->known_kind() != DeviceKind::reference)
    found.broken("version_missing", row + "/libraries",
                 "is empty, and a device of the kind " + first->kind + " has some");
  for (const std::string& library : first->libraries) {
    const std::string name = text::library_name(library);
    auto version = context.versions.find(name);
    if (version == context.versions.end()) {
      version = context.versions.find(library.substr(0, library.find(' ')));
      const bool is_known = version != context.versions.end() &&
                            std::ranges::find(first->libraries, version->second) != first->libraries.end();
      if (is_known) continue;
    }
    if (version == context.versions.end())
      found.broken("version_missing", at + "/versions", "has no \"" + name + "\", a library of the device of rank 0");
    else if (version->second != library)
      found.broken("version_differs", at + "/versions/" + name,
                   "is \"" + version->second + "\", and the device of rank 0 has \"" + library + "\"");
  }
}

void check_context(const Context& context, const std::string& at, Findings& found) {
  const std::optional<std::chrono::sys_seconds> started = text::utc_time(context.started_at);
  const std::optional<std::chrono::sys_seconds> finished = text::utc_time(context.finished_at);
  if (!started) found.broken("time_invalid", at + "/started_at", "is not a valid time");
  if (!finished && !context.finished_at.empty())
    found.broken("time_invalid", at + "/finished_at", "is not a valid time");
  if (started && finished && *finished < *started)
    found.broken("time_order", at + "/finished_at", "lies before started_at");
  std::set<std::string> hosts;
  for (const HostInfo& host : context.hosts) hosts.insert(host.name);
  std::set<int> ranks;
  std::set<std::string> with_rank;
  for (std::size_t i = 0; i < context.devices.size(); ++i) {
    const DeviceEntry& device = context.devices[i];
    const std::string place = at + "/devices/" + std::to_string(i);
    if (!ranks.insert(device.rank).second || device.rank < 0 || device.rank >= std::ssize(context.devices))
      found.broken("rank_devices", place + "/rank",
                   "is " + std::to_string(device.rank) + ": the ranks are not 0 to " +
                       std::to_string(context.devices.size() - 1) + ", each once");
    if (!hosts.contains(device.host))
      found.broken("host_unknown", place + "/host", "\"" + device.host + "\" is not among the hosts of the run");
    with_rank.insert(device.host);
  }
  if (!with_rank.empty()) check_versions(context, at, found);
  for (std::size_t i = 0; i < context.hosts.size() && !with_rank.empty(); ++i)  // a metered command has no ranks
    if (!with_rank.contains(context.hosts[i].name))
      found.broken("host_without_rank", at + "/hosts/" + std::to_string(i) + "/name",
                   "\"" + context.hosts[i].name + "\" has no rank, and a run lists the hosts of its ranks");
}

/// Each record is of one part, and what differs between two parts of a run that was not forced is not the program.
void check_parts(const Report& report, Findings& found) {
  const std::vector<RunPart>& parts = *report.parts;
  std::set<std::string> of_parts;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const RunPart& part = parts[i];
    const std::string at = "/parts/" + std::to_string(i);
    for (const std::string& id : part.points)
      if (!of_parts.insert(id).second)
        found.broken("part_points", at + "/points", "has \"" + id + "\", which was measured before");
    if (i == 0 && !part.forced_over.empty())
      found.broken("part_order", at + "/forced_over", "the first part comes after no other");
    const bool last = i + 1 == parts.size();
    if (part.context.has_value() == last)
      found.broken("part_context", at + "/context",
                   last ? "is not null, though the report's is the last part's" : "is null");
    if (part.context) check_context(*part.context, at + "/context", found);
    const Program& program = part.program;
    if (last && (program.version != report.program.version || program.git_commit != report.program.git_commit))
      found.broken("part_program", at + "/program", "is not the report's");
    const Program& before = i == 0 ? program : parts[i - 1].program;
    if (part.forced_over.empty() && (program.version != before.version || program.git_commit != before.git_commit))
      found.broken("part_program", at + "/program", "is not that of the part before, and nothing was forced");
  }
  std::set<std::string> seen;  // an id that occurs twice is a fault of its own
  for (std::size_t i = 0; i < report.records.size(); ++i)
    if (seen.insert(report.records[i].id).second && of_parts.erase(report.records[i].id) == 0)
      found.broken("part_points", place_of(i) + "/id", "\"" + report.records[i].id + "\" is in no part");
  for (const std::string& id : of_parts) found.broken("part_points", "/parts", "\"" + id + "\" has no record");
}

/// Each record is of the launch that its part was, and names no host that this did not run on.
void check_origin(const Report& report, const RecordedLaunch& launch, Findings& found) {
  const Context& context = *launch.context;
  std::set<std::string> hosts;
  for (const HostInfo& host : context.hosts) hosts.insert(host.name);
  for (const MeterEntry& meter : context.meters) hosts.insert(meter.host);
  for (const std::size_t place : launch.records) {
    const Record& record = report.records[place];
    if (context.launch && record.launch != context.launch)
      found.broken("launch_differs", place_of(place) + "/launch", "is not that of its part");
    const auto known = [&](const std::string& at, const auto& rows) {
      for (std::size_t i = 0; i < rows.size(); ++i)
        if (!hosts.contains(rows[i].host))
          found.broken("host_unknown", at + "/" + std::to_string(i) + "/host",
                       "\"" + rows[i].host + "\" is not among the hosts of its part");
    };
    for (const auto& [name, setting] : record.setting)
      known(place_of(place) + "/setting/" + name + "/devices", setting.devices);
    for (std::size_t t = 0; t < record.trials.size(); ++t) {
      known(place_of(place, t) + "/energy", record.trials[t].energy);
      known(place_of(place, t) + "/series", record.trials[t].series);
      known(place_of(place, t) + "/counters", record.trials[t].counters);
      known(place_of(place, t) + "/setting_changes",
            record.trials[t].setting_changes.value_or(std::vector<SettingChange>()));
    }
  }
}

/// Each rank has the row of its device.
void check_ranks(const Report& report, const RecordedLaunch& launch, Findings& found) {
  const std::vector<DeviceEntry>& devices = launch.context->devices;
  for (const std::size_t place : launch.records) {
    const Record& record = report.records[place];
    if (is_command(record) || !has_run(record)) continue;
    const Workload& w = record.workload;
    if (w.ranks > std::ssize(devices))
      found.broken("rank_devices", launch.where + "/devices",
                   "has " + std::to_string(devices.size()) + ", and " + place_of(place) + " ran on " +
                       std::to_string(w.ranks) + " ranks");
    for (std::size_t i = 0; i < devices.size(); ++i)
      if (devices[i].rank < w.ranks && devices[i].kind != w.device)
        found.broken("rank_devices", launch.where + "/devices/" + std::to_string(i) + "/kind",
                     "is \"" + devices[i].kind + "\", and " + place_of(place) + " ran on " + w.device);
    // The record is the first rank's; 0: the row does not say.
    if (const auto first = std::ranges::find(devices, 0, &DeviceEntry::rank);
        first != devices.end() && first->threads > 0 && first->threads != w.threads_per_rank)
      found.broken("threads_differ", place_of(place) + "/workload/threads_per_rank",
                   "is " + std::to_string(w.threads_per_rank) + ", and the device of rank 0 has " +
                       std::to_string(first->threads));
  }
}

/// What the program warned of before its first point. The number of requested threads is not recorded; it is taken as
/// that of the rank with the fewest. What the hypervisor took is in each trial.
void check_context_flags(const Report& report, const RecordedLaunch& launch, Findings& found) {
  for (const std::size_t place : launch.records) {
    const Record& record = report.records[place];
    if (is_command(record) || !has_run(record)) continue;
    std::set<FlagName> given;
    int threads = record.workload.threads_per_rank;
    for (const DeviceEntry& device : launch.context->devices) threads = std::min(threads, std::max(1, device.threads));
    for (const Warning& warning : context_warnings(*launch.context, threads))
      if (warning.flag != Flag::steal && !has_flag(record, warning.flag) && given.insert(warning.flag).second)
        found.left_out_flag(place, warning.flag, "hosts and devices give");
  }
}

std::string shown(const std::optional<SetPoint>& point) { return point ? text::set_point(*point) : "null"; }

/// A setting says of its devices together what their rows say. Where a point takes some of the ranks, the rows of
/// others are left out when all have accepted.
void check_settings(const Report& report, const RecordedLaunch& launch, Findings& found) {
  for (const std::size_t place : launch.records) {
    const Record& record = report.records[place];
    const bool is_part = record.workload.ranks < std::ssize(launch.context->devices);
    for (const auto& [name, setting] : record.setting) {
      const auto same = [&](const char* key, const std::optional<SetPoint>& stated,
                            const std::optional<SetPoint>& of_rows) {
        if (stated != of_rows)
          found.broken("setting_differs", place_of(place) + "/setting/" + name + key,
                       "is " + shown(stated) + ", its devices give " + shown(of_rows));
      };
      if (!is_part || (setting.accepted && !setting.devices.empty()))
        same("/accepted", setting.accepted, accepted_by_all(setting.devices));
      if (has_run(record)) same("/observed", setting.observed, farthest_observed(setting));
    }
  }
}

/// Knobs are read back behind the window, too, one after another, by commands that may take a minute each.
constexpr double read_back_seconds = 60;

void check_changes(const Record& record, const Trial& trial, const std::string& at, Findings& found) {
  if (!trial.setting_changes) return;
  const std::size_t settings = std::max<std::size_t>(1, record.setting.size());
  const double read_back = read_back_seconds * static_cast<double>(settings + 1);
  for (std::size_t i = 0; i < trial.setting_changes->size(); ++i)
    if (const double time = (*trial.setting_changes)[i].time_s;
        time < 0 || time > trial.window_s * time_slack + read_back)
      found.broken("setting_change_time", at + "/setting_changes/" + std::to_string(i) + "/time_s",
                   "is " + text::duration(time) + ", and the window lasted " + text::duration(trial.window_s));
}

/// Counters of events and of seconds only rise.
void check_counters(const Trial& trial, const std::string& at, Findings& found) {
  for (std::size_t i = 0; i < trial.counters.size(); ++i)
    if (const CounterRow& counter = trial.counters[i]; counter.quantity.starts_with("throttle_") && counter.change < 0)
      found.broken("counter_negative", at + "/counters/" + std::to_string(i) + "/change",
                   "is " + text::significant(counter.change) + ", and " + counter.quantity + " only rises");
}

/// The wall clock may be put right along a run, and both its ends are whole seconds.
constexpr double wall_seconds = 2, wall_share = 0.01;
/// Ranks leave a barrier one after another: a window is the slowest rank's, its start the first rank's.
constexpr double barrier_seconds = 0.5, barrier_share = 0.1;

double overlap_slack(int ranks, double start, double end) {
  return ranks > 1 ? barrier_seconds + barrier_share * (end - start) : 1e-6 * end;
}

/// Between two trials of a point meters and set points are read, a site's own command among them; between two runs to a
/// target a network is built.
void note_gap(double gap, double window_s, const std::string& at, const char* before, Findings& found) {
  constexpr double seconds = 10, share = 0.1, least = 2;
  if (gap > std::min(seconds + share * window_s, std::max(least, window_s)))
    found.note("trials_gap", at + "/start_s",
               "is " + text::duration(gap) + " after " + before + " ended, and nothing says what was done then");
}

/// Trials lie one after another between the start and the end of their launch.
void check_times(const Report& report, const RecordedLaunch& launch, Findings& found) {
  const Context& context = *launch.context;
  const std::optional<std::chrono::sys_seconds> started = text::utc_time(context.started_at);
  std::optional<double> lasted;
  if (const std::optional<std::chrono::sys_seconds> finished = text::utc_time(context.finished_at); started && finished)
    lasted = static_cast<double>((*finished - *started).count());
  const double allowed = lasted ? (1 + wall_share) * *lasted + wall_seconds : HUGE_VAL;
  struct Span {
    double start, end;
    std::size_t record;
    std::optional<std::size_t> trial;  // absent: the warm-up
    std::string where() const { return trial ? place_of(record, *trial) : place_of(record) + "/warm_up"; }
  };
  std::vector<Span> spans;
  double together = 0;
  std::size_t without = 0;
  for (const std::size_t place : launch.records) {
    const Record& record = report.records[place];
    if (record.warm_up) {
      const WarmUp& warm_up = *record.warm_up;
      together += warm_up.window_s;
      if (warm_up.start_s) spans.push_back({*warm_up.start_s, *warm_up.start_s + warm_up.window_s, place, {}});
      if (!record.trials.empty() && record.trials[0].start_s.has_value() != warm_up.start_s.has_value())
        found.broken("warm_up", place_of(place) + "/warm_up/start_s",
                     warm_up.start_s ? "is given although the first trial has none"
                                     : "is missing although the first trial has one");
    } else if (has_run(record) && !record.target && !is_command(record) && is_this_program(*launch.program)) {
      found.broken("warm_up", place_of(place) + "/warm_up",
                   "is missing, and the program that the report names always writes it");
    }
    for (std::size_t t = 0; t < record.trials.size(); ++t) {
      const Trial& trial = record.trials[t];
      check_changes(record, trial, place_of(place, t), found);
      check_counters(trial, place_of(place, t), found);
      together += trial.window_s;
      if (!trial.start_s) {
        ++without;
        continue;
      }
      spans.push_back({*trial.start_s, *trial.start_s + trial.window_s, place, t});
      if (spans.back().end > allowed)
        found.broken("trial_outside_run", place_of(place, t) + "/start_s",
                     "the window ends " + text::duration(spans.back().end) + " after the launch began, which lasted " +
                         text::duration(*lasted));
      const double start = *trial.start_s;
      if (t == 0) {
        if (record.warm_up && record.warm_up->start_s)
          note_gap(start - *record.warm_up->start_s - record.warm_up->window_s, trial.window_s, place_of(place, t),
                   "the warm-up", found);
        continue;
      }
      const Trial& before = record.trials[t - 1];
      if (!before.start_s) continue;
      if (*before.start_s >= start)
        found.broken("trials_overlap", place_of(place, t) + "/start_s", "is not after that of the trial before");
      if (!record.target)
        note_gap(start - *before.start_s - before.window_s, before.window_s, place_of(place, t), "the trial before",
                 found);
    }
  }
  if (together > allowed)
    found.broken("trial_outside_run", launch.where + "/finished_at",
                 "the launch lasted " + text::duration(*lasted) + ", and its windows take " + text::duration(together));
  if (without > 0 && !spans.empty())
    found.broken("trial_start_missing", launch.where,
                 std::to_string(without) + " of its trials do not say when they began");
  else if (without > 0 && is_this_program(*launch.program))
    found.broken("trial_start_missing", launch.where,
                 "no trial says when it began, and the program that the report names always writes it");
  else if (without > 0)
    found.note("trial_start_unknown", launch.where,
               "the trials have no start times; overlap was not checked");
  std::ranges::sort(spans, {}, &Span::start);
  for (std::size_t i = 1; i < spans.size(); ++i) {
    const Span &before = spans[i - 1], &one = spans[i];
    if (before.end - one.start > overlap_slack(report.records[before.record].workload.ranks, before.start, before.end))
      found.broken("trials_overlap", one.where() + "/start_s", "lies before the end of " + before.where());
  }
}

/// Without them nobody knows whether other programs disturbed the run. Shorter windows may hold no tick of the kernel's
/// accounts, and commands have none.
void check_shares(const Report& report, const RecordedLaunch& launch, Findings& found) {
  constexpr double least_seconds = 1;
  std::size_t without = 0;
  for (const std::size_t place : launch.records)
    for (const Trial& trial : report.records[place].trials)
      without += trial.window_s >= least_seconds && !is_command(report.records[place]) &&
                 (!trial.steal_share || !trial.foreign_share);
  if (without > 0)
    found.note("cpu_shares_unknown", launch.where,
               std::to_string(without) +
                   " of its trials do not say how much CPU time other programs and virtual machines "
                   "took: whether they disturbed the run is not known");
}

/// A program has one rule for intervals: a summary by the older rule is of another program than it says.
void check_interval_rule(const Report& report, const RecordedLaunch& launch, Findings& found) {
  if (!is_this_program(*launch.program)) return;
  for (const std::size_t place : launch.records)
    if (interval_rule(report.records[place].summary) != IntervalRule::student)
      found.broken("older_interval", place_of(place) + "/summary",
                   "has intervals by the rule of older programs, and the program that the report names has another");
}

}  // namespace

void check_launches(const Report& report, Findings& found) {
  check_context(report.context, "/context", found);
  if (report.parts) check_parts(report, found);
  for (const RecordedLaunch& launch : launches_of(report)) {
    check_origin(report, launch, found);
    check_ranks(report, launch, found);
    check_context_flags(report, launch, found);
    check_settings(report, launch, found);
    check_times(report, launch, found);
    check_shares(report, launch, found);
    check_interval_rule(report, launch, found);
  }
}

}  // namespace tw::results
