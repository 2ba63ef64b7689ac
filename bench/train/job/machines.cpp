#include "bench/train/job/machines.hpp"

#include <algorithm>
#include <map>
#include <sstream>

#include "power/knob/journal.hpp"

namespace tw::bench {
namespace {

std::string pack(const Sighted& mine) {
  std::string text = mine.machine + "\n" + mine.unclear + "\n" + mine.host + "\n";
  for (const auto& list : {mine.addressable, mine.visible}) {
    for (const std::string& domain : list) text += domain + " ";
    text += "\n";
  }
  return text;
}

Sighted unpack(const std::string& text) {
  Sighted rank;
  std::istringstream lines(text);
  std::getline(lines, rank.machine);
  std::getline(lines, rank.unclear);
  std::getline(lines, rank.host);
  for (auto* list : {&rank.addressable, &rank.visible}) {
    std::string line, domain;
    std::getline(lines, line);
    for (std::istringstream words(line); words >> domain;) list->push_back(domain);
  }
  return rank;
}

std::vector<Sighted> gather(comm::Job& job, const std::string& host, const std::string& gpu) {
  const std::string boot = power::boot_id();
  const power::Sight sight = used_of(power::look(), gpu);
  const std::string machine = boot.empty() ? "node " + std::to_string(job.node()) : boot;
  std::vector<Sighted> ranks;
  for (const std::string& text :
       job.gather(pack({machine, sight.addressable, sight.visible, sight.unclear, host})))
    ranks.push_back(unpack(text));
  return ranks;
}

}  // namespace

power::Sight used_of(power::Sight sight, const std::string& gpu) {
  const std::string domain = "nvml:" + gpu;
  if (gpu.empty() || std::ranges::find(sight.visible, domain) == sight.visible.end()) return sight;
  sight.visible = {domain};
  sight.unclear.clear();
  return sight;
}

Machines::Machines(comm::Job& job, const std::string& gpu) : Machines(job, job.host(), gpu) {}

Machines::Machines(comm::Job& part, const Machines& whole) : Machines(part, whole.host(), whole.gpu()) {}

Machines::Machines(comm::Job& job, const std::string& host_name, const std::string& gpu)
    : Machines(gather(job, host_name, gpu), job.rank()) {
  gpu_ = gpu;
}

Machines::Machines(const std::vector<Sighted>& ranks, int rank) : rank_(rank) {
  const Sighted& mine = ranks.at(static_cast<std::size_t>(rank));
  std::map<std::string, int> readers;                         // by machine
  std::map<std::string, std::map<std::string, int>> hand_of;  // by machine and GPU
  std::vector<std::string> namesakes;                         // machines on which a host is called as this one
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const Sighted& one = ranks[i];
    readers.emplace(one.machine, static_cast<int>(i));
    if (one.host == mine.host && std::ranges::find(namesakes, one.machine) == namesakes.end())
      namesakes.push_back(one.machine);
    for (const std::string& domain : one.addressable) hand_of[one.machine].emplace(domain, static_cast<int>(i));
    visible_anywhere_.insert(one.visible.begin(), one.visible.end());
    if (unclear_anywhere_.empty()) unclear_anywhere_ = one.unclear;
    if (one.machine != mine.machine) continue;
    addressable_.insert(one.addressable.begin(), one.addressable.end());
    visible_.insert(one.visible.begin(), one.visible.end());
    if (unclear_.empty()) unclear_ = one.unclear;
  }
  reader_ = readers.at(mine.machine);
  host_ = mine.host;
  if (namesakes.size() > 1)
    host_ += "#" + std::to_string(std::ranges::find(namesakes, mine.machine) - namesakes.begin());
  for (const auto& [machine, hands] : hand_of)
    for (const auto& [domain, hand] : hands) {
      if (machine == mine.machine && hand != reader_ && hand == rank_) only_here_.insert(domain);
    }
}

double Machines::sum_here(comm::Job& job, double mine) const {
  std::vector<double> sums(static_cast<std::size_t>(job.size()), 0.0);  // by reader
  sums[static_cast<std::size_t>(reader_)] = mine;
  return job.sum(std::move(sums))[static_cast<std::size_t>(reader_)];
}

}  // namespace tw::bench
