#include "bench/train/machines.hpp"

#include <map>
#include <sstream>

#include "power/journal.hpp"
#include "power/nvml/library.hpp"

namespace tw {
namespace {

/// What a rank tells the others: a line that names its machine, the GPUs it can ask, and those it may use.
struct Sighted {
  std::string machine;
  std::vector<std::string> addressable, visible;
};

std::string pack(const Sighted& mine) {
  std::string text = mine.machine + "\n";
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
  for (auto* list : {&rank.addressable, &rank.visible}) {
    std::string line, domain;
    std::getline(lines, line);
    for (std::istringstream words(line); words >> domain;) list->push_back(domain);
  }
  return rank;
}

}  // namespace

Machines::Machines(Job& job) : rank_(job.rank()) {
  const std::string boot = boot_id();
  const nvml::Sight sight = nvml::look();
  const Sighted mine{boot.empty() ? "node " + std::to_string(job.node()) : boot, sight.addressable, sight.visible};
  std::map<std::string, int> readers;                          // by machine
  std::map<std::string, std::map<std::string, int>> hand_of;   // by machine and GPU
  const std::vector<std::string> texts = job.gather(pack(mine));
  for (int rank = 0; rank < job.size(); ++rank) {
    const Sighted one = unpack(texts[static_cast<std::size_t>(rank)]);
    readers.emplace(one.machine, rank);
    for (const std::string& domain : one.addressable) hand_of[one.machine].emplace(domain, rank);
    visible_anywhere_.insert(one.visible.begin(), one.visible.end());
    if (one.machine == mine.machine) visible_.insert(one.visible.begin(), one.visible.end());
  }
  reader_ = readers.at(mine.machine);
  std::set<int> parts;
  for (const auto& [machine, reader] : readers) parts.insert(reader);
  for (const auto& [machine, hands] : hand_of)
    for (const auto& [domain, hand] : hands) {
      parts.insert(hand);
      if (machine != mine.machine || hand == reader_) continue;
      if (hand == rank_)
        only_here_.insert(domain);
      else
        others_have_gpus_ = true;
    }
  with_part_.assign(parts.begin(), parts.end());
}

}  // namespace tw
