#include "results/origin.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "results/convergence.hpp"
#include "results/report_io.hpp"
#include "results/version.hpp"

namespace tw {
namespace {

/// The launch that measured a record, and by which program.
struct Origin {
  const Context* context = nullptr;
  const Program* program = nullptr;
};

Origin origin_of(const Record& record, const Report& report) {
  Origin origin{&report.context, &report.program};
  if (!report.parts) return origin;
  for (const RunPart& part : *report.parts) {
    if (std::find(part.points.begin(), part.points.end(), record.id) == part.points.end()) continue;
    if (part.context) origin.context = &*part.context;
    origin.program = &part.program;
  }
  return origin;
}

/// "/trials/0/energy/1" and its host, for whatever names one.
std::vector<std::pair<std::string, std::string>> named_hosts(const Record& record) {
  std::vector<std::pair<std::string, std::string>> all;
  const auto add = [&](const std::string& place, const auto& rows) {
    for (std::size_t i = 0; i < rows.size(); ++i) all.emplace_back(place + "/" + std::to_string(i), rows[i].host);
  };
  for (const auto& [name, setting] : record.setting) add("/setting/" + name + "/devices", setting.devices);
  for (std::size_t t = 0; t < record.trials.size(); ++t) {
    const std::string place = "/trials/" + std::to_string(t);
    add(place + "/energy", record.trials[t].energy);
    add(place + "/series", record.trials[t].series);
    add(place + "/counters", record.trials[t].counters);
  }
  return all;
}

}  // namespace

std::vector<std::string> origin_faults(const Report& report) {
  std::vector<std::string> faults;
  const Program mine = program_info("");
  for (std::size_t r = 0; r < report.records.size(); ++r) {
    const Record& record = report.records[r];
    const std::string at = "/records/" + std::to_string(r);
    const Origin origin = origin_of(record, report);
    if (origin.context->launch && record.launch != origin.context->launch)
      faults.push_back(at + "/launch: is not that of its part");
    std::set<std::string> hosts;
    for (const HostInfo& host : origin.context->hosts) hosts.insert(host.name);
    for (const MeterEntry& meter : origin.context->meters) hosts.insert(meter.host);
    for (const auto& [place, host] : named_hosts(record))
      if (hosts.count(host) == 0) faults.push_back(at + place + "/host: \"" + host + "\" is none of its part");
    const bool is_mine = origin.program->version == mine.version && origin.program->git_commit == mine.git_commit;
    if (!is_mine || !record.target || record.trials.empty()) continue;
    Record again = record;
    find_reference(*again.target, again.workload, static_cast<int>(again.trials.size()));
    const nlohmann::json own = nlohmann::json::parse(to_json_line(again)).at("target"),
                         its = nlohmann::json::parse(to_json_line(record)).at("target");
    for (const char* key : {"reference", "reference_reason"})
      if (own.at(key) != its.at(key))
        faults.push_back(at + "/target/" + key + ": is not that of this version, which is " + own.at(key).dump());
  }
  return faults;
}

}  // namespace tw
