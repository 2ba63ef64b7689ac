#include "bench/train/sweep/resume.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <system_error>

#include "bench/plan/abilities.hpp"
#include "bench/train/job/outcome.hpp"
#include "bench/train/sweep/folders.hpp"
#include "results/record/text.hpp"
#include "results/validation/validate.hpp"

namespace tw::bench {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char* lock_file = "run.lock";

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file)
    throw Stop(exit_environment, "cannot-read",
               "cannot read " + path.string() + ": " + std::generic_category().message(errno));
  return text.str();
}

/// Whether a folder holds nothing but what a run makes before it has written anything.
bool is_bare(const fs::path& folder) {
  return std::ranges::all_of(fs::directory_iterator(folder), [](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    return name == lock_file || name.starts_with(std::string(results::run_file) + ".tmp.");
  });
}

/// Collects differences, those of many ranks or nodes in one line.
class Comparison {
 public:
  explicit Comparison(bool is_usage) : is_usage_(is_usage) {}
  void same(const std::string& what, const std::string& before, const std::string& now) {
    if (before == now) return;
    const auto shown = [](const std::string& value) { return value.empty() || value == "null" ? "none" : value; };
    found_.push_back({fmt::format("{} {}, now {}", what, shown(before), shown(now)), is_usage_});
  }
  /// `value` of each row; the two lists are equally long.
  template <class Row>
  void same_each(const std::string& what, const std::string& place, const std::vector<Row>& before,
                 const std::vector<Row>& now, const std::function<std::string(const Row&)>& value) {
    std::size_t first = before.size(), different = 0;
    for (std::size_t i = 0; i < before.size(); ++i)
      if (value(before[i]) != value(now[i]) && different++ == 0) first = i;
    if (different == 0) return;
    same(fmt::format("{} of {} {}", what, place, first), value(before[first]), value(now[first]));
    if (different > 1) found_.back().text += fmt::format(" (and of {} more)", different - 1);
  }
  std::vector<LaunchDifference> found() { return std::move(found_); }

 private:
  bool is_usage_;
  std::vector<LaunchDifference> found_;
};

/// Of a long one, such as a file of layers, what tells it from another one.
std::string shown_value(const Json& value) {
  const std::string text = value.dump();
  return text.size() <= 200 ? text : fmt::format("with the SHA-256 {:.12}…", results::sha256_hex(text));
}

std::vector<LaunchDifference> of_plans(const std::string& before_text, const std::string& now_text) {
  Comparison comparison(true);
  if (before_text == now_text) return {};
  const Json before = Json::parse(before_text), now = Json::parse(now_text);
  const auto same_keys = [&](const Json& was, const Json& is, const std::string& place) {
    std::set<std::string> keys;
    for (const Json* one : {&was, &is})
      for (const auto& [key, value] : one->items()) keys.insert(key);
    keys.erase("points");
    for (const std::string& key : keys)
      comparison.same(place + key, shown_value(was.value(key, Json())), shown_value(is.value(key, Json())));
  };
  same_keys(before, now, "");
  const Json none = Json::array();
  const Json was = before.value("points", none), is = now.value("points", none);
  if (was.size() != is.size()) comparison.same("points", std::to_string(was.size()), std::to_string(is.size()));
  const auto find = [](const Json& points, const Json& id) {
    return std::ranges::find_if(points, [&](const Json& point) { return point.at("id") == id; });
  };
  const auto lacks = [&](const Json& points) {
    return [&](const Json& point) { return find(points, point.at("id")) == points.end(); };
  };
  const auto gone = std::ranges::find_if(was, lacks(is)), added = std::ranges::find_if(is, lacks(was));
  if (gone != was.end() || added != is.end())
    comparison.same("point", gone == was.end() ? "" : gone->at("id").get<std::string>(),
                    added == is.end() ? "" : added->at("id").get<std::string>());
  for (const Json& point : was)
    if (const auto same = find(is, point.at("id")); same != is.end())
      same_keys(point, *same, point.at("id").get<std::string>() + ": ");
  std::vector<LaunchDifference> found = comparison.found();
  if (found.empty()) found.push_back({"the order of the points", true});
  return found;
}

/// Kernels keep some of the memory for themselves, not all the same.
constexpr double memory_slack = 0.01;

/// What counts joules, for each node with a reader: "2 rapl package, 2 rapl dram". Sensors may be numbered otherwise
/// after a boot.
std::vector<std::string> meters(const results::Context& context) {
  std::vector<std::string> hosts;
  std::vector<std::map<std::string, int>> counts;
  for (const results::MeterEntry& meter : context.meters) {
    auto at = static_cast<std::size_t>(std::ranges::find(hosts, meter.host) - hosts.begin());
    if (at == hosts.size()) hosts.push_back(meter.host), counts.emplace_back();
    if (meter.available && meter.counted)
      ++counts[at][meter.domain.substr(0, meter.domain.find(':')) + " " + meter.scope];
  }
  std::vector<std::string> all;
  for (const auto& of_host : counts) {
    std::string& text = all.emplace_back();
    for (const auto& [kind, count] : of_host) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, kind);
  }
  return all;
}

std::vector<LaunchDifference> of_machines(const results::Context& before, const results::Context& now) {
  Comparison comparison(false);
  std::set<std::string> libraries;
  for (const auto* versions : {&before.versions, &now.versions})
    for (const auto& [name, version] : *versions) libraries.insert(name);
  libraries.erase("kernel");  // each node has one
  const auto version_of = [](const results::Context& context, const std::string& name) {
    const auto found = context.versions.find(name);
    return found == context.versions.end() ? std::string() : found->second;
  };
  for (const std::string& name : libraries) comparison.same(name, version_of(before, name), version_of(now, name));

  if (before.hosts.size() != now.hosts.size()) {
    comparison.same("nodes", std::to_string(before.hosts.size()), std::to_string(now.hosts.size()));
    return comparison.found();
  }
  const auto hosts = [&](const char* what, const std::function<std::string(const results::HostInfo&)>& value) {
    comparison.same_each<results::HostInfo>(what, "node", before.hosts, now.hosts, value);
  };
  hosts("CPU", [](const results::HostInfo& host) { return host.cpu; });
  hosts("processors", [](const results::HostInfo& host) {
    using results::text::count;
    return fmt::format("{}, {}, {} ({} usable), {}", count(host.sockets, "socket"), count(host.cores, "core"),
                       count(host.hardware_threads, "thread"), host.usable_threads,
                       count(host.numa_nodes, "NUMA node"));
  });
  hosts("CPU limit", [](const results::HostInfo& host) { return host.cgroup_cpu_limit.value_or(""); });
  hosts("kernel", [](const results::HostInfo& host) { return host.kernel; });
  for (std::size_t i = 0; i < before.hosts.size(); ++i) {
    const double was = static_cast<double>(before.hosts[i].memory_bytes),
                 is = static_cast<double>(now.hosts[i].memory_bytes);
    if (std::abs(was - is) > memory_slack * was)
      comparison.same(fmt::format("memory of node {}", i), fmt::format("{:.0f} bytes", was),
                      fmt::format("{:.0f} bytes", is));
  }
  const auto devices = [&](const char* what, const std::function<std::string(const results::DeviceEntry&)>& value) {
    comparison.same_each<results::DeviceEntry>(what, "rank", before.devices, now.devices, value);
  };
  devices("device", [](const results::DeviceEntry& device) { return device.kind + " " + device.name; });
  devices("device UUID", [](const results::DeviceEntry& device) { return device.uuid; });
  devices("instruction set", [](const results::DeviceEntry& device) { return device.instruction_set; });
  devices("threads", [](const results::DeviceEntry& device) { return std::to_string(device.threads); });
  devices("libraries",
          [](const results::DeviceEntry& device) { return fmt::format("{}", fmt::join(device.libraries, ", ")); });
  const std::vector<std::string> meters_before = meters(before), meters_now = meters(now);
  if (meters_before.size() == meters_now.size())
    comparison.same_each<std::string>("meters", "node", meters_before, meters_now,
                                      [](const std::string& names) { return names; });
  else
    comparison.same("nodes with meters", std::to_string(meters_before.size()), std::to_string(meters_now.size()));
  // Hosts may have other names, as long as the ranks are spread alike.
  const auto nodes = [](const results::Context& context) {
    std::vector<std::string> all;
    for (const results::DeviceEntry& device : context.devices) {
      const auto at = std::ranges::find(context.hosts, device.host, &results::HostInfo::name);
      all.push_back(std::to_string(at - context.hosts.begin()));
    }
    return all;
  };
  comparison.same_each<std::string>("node", "rank", nodes(before), nodes(now),
                                    [](const std::string& node) { return node; });
  return comparison.found();
}

/// Who holds a lock, as its file has it.
struct Holder {
  long process = 0;
  std::string host;
};

Holder read_holder(int fd) {
  char text[512] = {};
  Holder holder;
  if (::pread(fd, text, sizeof text - 1, 0) > 0) std::istringstream(text) >> holder.process >> holder.host;
  return holder;
}

bool lives_here(const Holder& holder) {
  return holder.process > 0 && holder.process != getpid() && holder.host == host_name() &&
         (::kill(static_cast<pid_t>(holder.process), 0) == 0 || errno == EPERM);
}

/// What an earlier launch is known to have finished and there is no record of.
std::string missing_record(const results::Report& report) {
  if (!report.parts) return {};
  const std::vector<results::RunPart>& parts = *report.parts;
  std::set<std::string> known;
  for (const results::Record& record : report.records) known.insert(record.id);
  for (std::size_t i = 0; i < parts.size(); ++i)
    for (const std::string& id : parts[i].points)
      if (!known.contains(id))
        return fmt::format("part {} measured {}, but {} has no such line", i + 1, id, results::records_file);
  return {};
}

/// "line 3: …"
std::string damaged_record(const results::Report& report) {
  if (report.records.empty()) return {};
  const results::Validation found = results::validate_report(results::to_json(report));
  if (found.violations.empty()) return {};
  const std::string prefix = "/records/";
  const auto of_record = std::ranges::find_if(
      found.violations, [&](const results::Fault& fault) { return fault.where.starts_with(prefix); });
  if (of_record == found.violations.end()) return results::fault_line(found.violations.front());
  std::size_t digits = 0;
  const int index = std::stoi(of_record->where.substr(prefix.size()), &digits);
  return fmt::format("line {}: {}: {}", index + 1, of_record->where.substr(prefix.size() + digits), of_record->text);
}

/// "--host n1:2,n2:2 " for the ranks of several nodes. Empty in a job of Slurm's, whose mpirun knows the job's nodes:
/// these may be others when it is queued again.
std::string places_of(const results::Context& launch) {
  if (launch.hosts.size() < 2 || launch.environment.contains("SLURM_JOB_ID")) return {};
  std::vector<std::pair<std::string, int>> nodes;  // in the order of their ranks
  bool takes_turns = false;
  for (const results::DeviceEntry& device : launch.devices) {
    const auto node = std::ranges::find(nodes, device.host, &std::pair<std::string, int>::first);
    takes_turns = takes_turns || (node != nodes.end() && node + 1 != nodes.end());
    if (node == nodes.end())
      nodes.emplace_back(device.host, 1);
    else
      ++node->second;
  }
  std::string list;
  for (const auto& [host, count] : nodes) list += fmt::format("{}{}:{}", list.empty() ? "" : ",", host, count);
  const auto mpi = launch.versions.find("mpi");
  const bool is_open_mpi = mpi == launch.versions.end() || mpi->second.starts_with("Open MPI");
  if (!is_open_mpi) return fmt::format("-hosts {} ", shell_word(list));
  return fmt::format("--host {} {}", shell_word(list), takes_turns ? "--map-by node " : "");
}

}  // namespace

bool holds_run(const fs::path& folder) {
  if (!fs::is_directory(folder))
    throw UsageError("bad-folder", fmt::format("--resume {}: not a folder", folder.string()));
  if (fs::exists(folder / results::run_file)) return true;
  if (is_bare(folder)) return false;
  throw UsageError("no-run",
                   fmt::format("--resume {}: no {} in this folder, so no run can be resumed: choose another folder",
                               folder.string(), results::run_file));
}

Earlier read_earlier(const fs::path& folder) {
  const fs::path start = folder / results::run_file, records = folder / results::records_file;
  fs::path reading = start;
  try {
    Earlier earlier{results::run_start_from_json(read_text(start)), {}};
    reading = records;
    if (fs::exists(records)) earlier.records = results::record_lines(read_text(records)).records;
    return earlier;
  } catch (const Stop&) {  // names the file
    throw;
  } catch (const std::runtime_error& error) {
    throw Stop(exit_environment, "bad-run",
               fmt::format("{}: {}: damaged: restore the file, or start a new run in another folder", reading.string(),
                           error.what()));
  }
}

std::string resume_command(const results::Context& launch, const fs::path& folder) {
  const std::size_t ranks = launch.devices.size(), nodes = launch.hosts.size();
  std::string launcher;
  if (launch.launcher == "srun")
    launcher = fmt::format("srun {}-n {} ", nodes > 1 ? fmt::format("-N {} ", nodes) : "", ranks);
  else if (ranks > 1 || launch.launcher == "mpirun")
    launcher = fmt::format("mpirun -np {} {}", ranks, places_of(launch));
  return fmt::format("{}trainwatt-train --resume {}", launcher, shell_word(folder));
}

std::vector<results::RunPart> parts_of(const Earlier& earlier) {
  std::vector<results::RunPart> parts = earlier.start.parts;
  std::set<std::string> known;
  for (const results::RunPart& part : parts) known.insert(part.points.begin(), part.points.end());
  results::RunPart last{earlier.start.program, {}, earlier.start.forced_over, earlier.start.context};
  for (const results::Record& record : earlier.records)
    if (known.count(record.id) == 0) last.points.push_back(record.id);
  parts.push_back(std::move(last));
  return parts;
}

std::vector<LaunchDifference> differences(const results::RunStart& before, const results::Report& now) {
  std::vector<LaunchDifference> found;
  const auto add = [&](std::vector<LaunchDifference> more) { std::ranges::move(more, std::back_inserter(found)); };
  const std::size_t was = before.context.devices.size(), is = now.context.devices.size();
  Comparison program(false);
  program.same("version", before.program.version, now.program.version);
  program.same("commit", before.program.git_commit, now.program.git_commit);
  if (was != is) {  // the plan and the devices then differ in each point and rank
    found.push_back({fmt::format("ranks {}, now {}", was, is), true});
    add(program.found());
    return found;
  }
  add(of_plans(before.plan.canonical_json, now.plan.canonical_json));
  add(program.found());
  add(of_machines(before.context, now.context));
  return found;
}

std::vector<LaunchDifference> differences(const Options& before, const Options& now) {
  Comparison comparison(true);
  for (const LaunchOption& option : launch_options())
    if (option.is_resumed) comparison.same(option.name, text_of(option, before), text_of(option, now));
  return comparison.found();
}

std::string unfit_records(const results::Report& report, bool is_forced) {
  const char* const damaged = "damaged: restore the file, or start a new run in another folder";
  if (const std::string missing = missing_record(report); !missing.empty()) return missing + ": " + damaged;
  const std::string damage = damaged_record(report);
  if (damage.empty()) return {};
  return fmt::format(
      "{}: {}", damage,
      is_forced
          ? "it was measured differently and does not fit the points of this run: start a new run in another folder"
          : damaged);
}

std::string other_hosts(const results::RunStart& before, const results::Context& now) {
  const auto names = [](const results::Context& context) {
    std::set<std::string> all;
    for (const results::HostInfo& host : context.hosts) all.insert(host.name);
    return all;
  };
  const std::set<std::string> mine = names(now);
  std::vector<const results::Context*> launches = {&before.context};
  for (const results::RunPart& part : before.parts)
    if (part.context) launches.push_back(&*part.context);
  for (const results::Context* launch : launches)
    if (const std::set<std::string> its = names(*launch); its != mine)
      return fmt::format("other nodes than before ({}, before {})", fmt::join(mine, ", "), fmt::join(its, ", "));
  return {};
}

RunLock::RunLock(const fs::path& folder, Lock lock) : path_(folder / lock_file) {
  bool made = false;
  while (true) {
    file_ = power::Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    made = file_.get() >= 0;
    if (!made && errno == EEXIST) file_ = power::Descriptor(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    if (file_.get() < 0)
      throw Stop(exit_environment, "not-written",
                 "cannot open " + path_.string() + ": " + std::generic_category().message(errno));
    const int error = lock(file_.get(), LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    is_known_ = error == 0 || error == EWOULDBLOCK;
    const Holder holder = read_holder(file_.get());
    std::string why;
    if (error == EWOULDBLOCK || (!is_known_ && lives_here(holder)))
      why = fmt::format("{} is writing to this folder: wait until it ends, or choose another folder",
                        holder.process > 0 ? fmt::format("process {} on {}", holder.process, holder.host)
                                           : "another process");
    else if (!is_known_ && !made && holder.host != host_name())
      why = fmt::format(
          "the file system has no locks, and {} may be writing to this folder: remove {} if it has ended",
          holder.process > 0 ? fmt::format("process {} on {}", holder.process, holder.host) : "another process",
          path_.string());
    if (!why.empty()) throw Stop(exit_environment, "run-locked", fmt::format("{}: {}", folder.string(), why));
    // Whoever had it before may have removed it meanwhile: then it locks nothing.
    struct stat mine {
    }, there{};
    if (::fstat(file_.get(), &mine) == 0 && ::stat(path_.c_str(), &there) == 0 && mine.st_ino == there.st_ino) break;
    file_.close();
  }
  const std::string text = fmt::format("{} {}\n", getpid(), host_name());
  if (::ftruncate(file_.get(), 0) != 0 ||
      ::pwrite(file_.get(), text.data(), text.size(), 0) != static_cast<ssize_t>(text.size())) {
    const int error = errno;
    ::unlink(path_.c_str());  // an empty one would keep the folder, and so the next run, from being made
    throw Stop(exit_environment, "not-written",
               fmt::format("cannot write {}: {}: {}", path_.string(), std::generic_category().message(error),
                           is_full_disk(error) ? "free space there, or choose another folder"
                                               : "choose a folder that you can write to"));
  }
}

RunLock::~RunLock() { ::unlink(path_.c_str()); }

}  // namespace tw::bench
