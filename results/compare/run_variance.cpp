#include "results/compare/run_variance.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>

#include "results/compare/copies.hpp"
#include "results/record/text.hpp"

namespace tw::results {
namespace {

std::string name_of(const SystemInput& group) { return fmt::format("{}", fmt::join(group.paths, ", ")); }

std::vector<const Record*> records_of(const Report& report, const std::string& only) {
  std::vector<const Record*> records;
  for (const Record& record : report.records)
    if (record.id.find(only) != std::string::npos) records.push_back(&record);
  return records;
}

/// Whether both train the same, in the same precision and batch, on as many ranks.
bool is_same_workload(const RecordPair& pair) {
  if (pair.system == nullptr) return false;
  const Workload &a = pair.reference->workload, &b = pair.system->workload;
  return a.hash == b.hash && a.precision == b.precision && a.global_batch == b.global_batch && a.ranks == b.ranks;
}

/// A run that occurs twice has no spread.
bool holds_copies(const SystemInput& group) {
  std::vector<const Report*> runs;
  for (const Report& run : group.runs) runs.push_back(&run);
  return !copies(runs).empty();
}

/// The first workload that a run of the group lacks; empty: none.
std::string lacking(const SystemInput& group, const SystemInput& system, const std::string& only) {
  const std::vector<const Record*> wanted = records_of(system.runs[0], only);
  for (const Report& run : group.runs)
    for (const RecordPair& pair : match_records(wanted, records_of(run, "")))
      if (is_valid(*pair.reference) &&
          (!is_same_workload(pair) || !is_valid(*pair.system)))
        return pair.reference->id;
  return {};
}

/// Each of machine_of()'s fields over all hosts, or all devices, of a report.
std::vector<std::pair<std::string, std::string>> fields_of(const Report& report) {
  const auto counted = [](const auto& all, auto of) {
    std::map<std::string, int> counts;
    for (const auto& one : all) ++counts[of(one)];
    std::vector<std::string> parts;
    for (const auto& [value, n] : counts)
      parts.push_back((n > 1 ? fmt::format("{} x ", n) : "") + text::printable(value));
    return parts.empty() ? std::string("none") : fmt::format("{}", fmt::join(parts, ", "));
  };
  const Context& c = report.context;
  const auto number = [](int HostInfo::*of) { return [of](const HostInfo& h) { return std::to_string(h.*of); }; };
  return {{"nodes", std::to_string(c.hosts.size())},
          {"processor", counted(c.hosts, [](const HostInfo& h) { return h.cpu; })},
          {"sockets", counted(c.hosts, number(&HostInfo::sockets))},
          {"cores", counted(c.hosts, number(&HostInfo::cores))},
          {"usable threads", counted(c.hosts, number(&HostInfo::usable_threads))},
          {"hypervisor", counted(c.hosts, [](const HostInfo& h) { return h.hypervisor.value_or("none"); })},
          {"ranks", std::to_string(c.devices.size())},
          {"kind of device", counted(c.devices, [](const DeviceEntry& d) { return d.kind; })},
          {"device", counted(c.devices, [](const DeviceEntry& d) { return d.name; })}};
}

/// "usable threads 4 in early.json, 2 in late.json": in what two reports of different machines differ.
std::string machines_differ(const Report& a, const std::string& name_of_a, const Report& b,
                            const std::string& name_of_b) {
  const auto of_a = fields_of(a), of_b = fields_of(b);
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < of_a.size(); ++i)
    if (of_a[i].second != of_b[i].second)
      parts.push_back(
          fmt::format("{} {} in {}, {} in {}", of_a[i].first, of_a[i].second, name_of_a, of_b[i].second, name_of_b));
  if (parts.empty()) return "the nodes have the same parts in another arrangement";
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string path_of(const SystemInput& group, std::size_t run) {
  return run < group.paths.size() ? text::printable(group.paths[run]) : fmt::format("run {}", run + 1);
}

}  // namespace

std::string machine_of(const Report& report) {
  std::vector<std::string> parts;
  for (const HostInfo& host : report.context.hosts)
    parts.push_back(fmt::format("host {} {} {} {} {}", host.cpu, host.sockets, host.cores, host.usable_threads,
                                host.hypervisor.value_or("")));
  for (const DeviceEntry& device : report.context.devices)
    parts.push_back(fmt::format("device {} {}", device.kind, device.name));
  std::ranges::sort(parts);
  return fmt::format("{}", fmt::join(parts, "; "));
}

EarlierRuns::EarlierRuns(const std::vector<SystemInput>& groups, const std::vector<SystemInput>& systems,
                         const std::vector<const Record*>& wanted) {
  for (const SystemInput& runs : groups) {
    Group group{&runs, {}, {}};
    for (std::size_t s = 0; s < systems.size(); ++s)
      if (systems[s].runs.size() == 1 && machine_of(systems[s].runs[0]) == machine_of(runs.runs[0]))
        group.systems.push_back(s);
    if (group.systems.empty()) continue;
    for (const Report& run : runs.runs) group.pairs.push_back(match_records(wanted, records_of(run, "")));
    learned_.push_back({text::texts_of(runs.paths, text::printable), group.systems});
    groups_.push_back(std::move(group));
  }
}

std::vector<std::vector<CostRun>> EarlierRuns::groups_of(std::size_t system, std::size_t workload) const {
  std::vector<std::vector<CostRun>> found;
  for (const Group& group : groups_) {
    if (std::ranges::find(group.systems, system) == group.systems.end()) continue;
    std::vector<CostRun> records;
    for (std::size_t run = 0; run < group.pairs.size(); ++run) {
      const RecordPair& pair = group.pairs[run][workload];
      if (is_same_workload(pair)) records.push_back({pair.system, nodes_of(group.runs->runs[run], *pair.system)});
    }
    if (records.size() < group.pairs.size()) records.clear();
    found.push_back(std::move(records));
  }
  return found;
}

std::optional<RunVarianceFault> fault_of(const std::vector<SystemInput>& earlier,
                                         const std::vector<SystemInput>& systems, const CompareOptions& options) {
  for (const SystemInput& group : earlier) {
    if (!group.faults.empty()) return RunVarianceFault{"run-variance-report", group.faults.front()};
    if (group.runs.size() < 2)
      return RunVarianceFault{"run-variance-one-run",
                              name_of(group) +
                                  ": only one run, which has no spread: give two or more runs of "
                                  "the machine, FILE,FILE,... or a folder of runs"};
    if (const std::string missing = missing_runs(group.runs); !missing.empty())
      return RunVarianceFault{"run-variance-gap",
                              fmt::format("{}: no run {} of the series: give all its runs, since a choice of them may "
                                          "differ less",
                                          name_of(group), missing)};
    for (std::size_t run = 1; run < group.runs.size(); ++run)
      if (machine_of(group.runs[run]) != machine_of(group.runs[0]))
        return RunVarianceFault{
            "run-variance-machine",
            fmt::format("{}: are runs of different machines ({}): give the runs of each as a group of its own",
                        name_of(group),
                        machines_differ(group.runs[0], path_of(group, 0), group.runs[run], path_of(group, run)))};
    if (holds_copies(group))
      return RunVarianceFault{"run-variance-copy",
                              name_of(group) + ": contains one run twice: give each run once"};
  }
  for (const SystemInput& system : systems) {
    if (earlier.empty() || system.runs.size() > 1) continue;
    std::string lacks;
    bool found = false, has_machine = false;
    for (const SystemInput& group : earlier) {
      if (machine_of(group.runs[0]) != machine_of(system.runs[0])) continue;
      has_machine = true;
      const std::string workload = lacking(group, system, options.only);
      found = found || workload.empty();
      if (!workload.empty()) lacks = workload;
    }
    if (!has_machine)
      return RunVarianceFault{
          "run-variance-machine",
          fmt::format("no earlier report is from the machine of {0} ({1}): give runs of that machine, or "
                      "several runs of {0}",
                      system.name,
                      machines_differ(earlier[0].runs[0], path_of(earlier[0], 0), system.runs[0], system.name))};
    if (!found)
      return RunVarianceFault{
          "run-variance-workload",
          fmt::format("the earlier reports of the machine of {} have no valid point like {}: give runs of "
                      "the same workloads, or choose some with --only",
                      system.name, lacks)};
  }
  return std::nullopt;
}

}  // namespace tw::results
