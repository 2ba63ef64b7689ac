#include "results/origin.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace tw {
namespace {

/// Of the launch that measured a record.
const Context& origin_of(const Record& record, const Report& report) {
  const Context* origin = &report.context;
  if (!report.parts) return *origin;
  for (const RunPart& part : *report.parts)
    if (part.context && std::find(part.points.begin(), part.points.end(), record.id) != part.points.end())
      origin = &*part.context;
  return *origin;
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

std::vector<Fault> origin_faults(const Report& report) {
  std::vector<Fault> faults;
  for (std::size_t r = 0; r < report.records.size(); ++r) {
    const Record& record = report.records[r];
    const std::string at = "/records/" + std::to_string(r);
    const Context& origin = origin_of(record, report);
    if (origin.launch && record.launch != origin.launch) faults.push_back({"launch_differs", at + "/launch", "is not that of its part"});
    std::set<std::string> hosts;
    for (const HostInfo& host : origin.hosts) hosts.insert(host.name);
    for (const MeterEntry& meter : origin.meters) hosts.insert(meter.host);
    for (const auto& [place, host] : named_hosts(record))
      if (hosts.count(host) == 0) faults.push_back({"host_unknown", at + place + "/host", "\"" + host + "\" is none of its part"});
  }
  return faults;
}

}  // namespace tw
