// Which points of two reports are compared with each other.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "results/compare/differences.hpp"
#include "results/record/text.hpp"
#include "results/selection/search.hpp"

namespace tw::results {
namespace {

std::string requested(const Record& record) {
  std::string all;
  for (const auto& [name, setting] : record.setting)
    if (setting.requested) all += name + "=" + text::set_point(*setting.requested) + " ";
  return all;
}
bool is_again(const Record& record) { return record.id.ends_with(again_suffix); }
std::string split(const Record& r) {
  return fmt::format("{}|{}|{}|", r.workload.micro_batch, r.workload.accumulate, r.workload.ranks);
}

/// What has to be the same, the most demanding first. From the fifth on the two do not train the same, and what differs
/// is named.
using Key = std::function<std::string(const Record&)>;
std::vector<Key> keys() {
  const auto same_work = [](const Record& r) {
    return fmt::format("{}|{}|{}|", r.workload.hash, r.workload.precision, r.workload.global_batch);
  };
  const auto piece = [](const Record& r) {
    return fmt::format("{}|{}|", r.workload.micro_batch, r.workload.accumulate);
  };
  return {
      [=](const Record& r) { return same_work(r) + split(r) + requested(r) + (is_again(r) ? "again" : ""); },
      [=](const Record& r) { return same_work(r) + requested(r); },
      [=](const Record& r) { return same_work(r) + split(r); },
      same_work,
      [=](const Record& r) { return r.workload.hash + r.workload.precision + piece(r) + requested(r); },
      [](const Record& r) { return r.workload.hash + r.workload.precision; },
      [=](const Record& r) { return r.workload.hash + piece(r) + requested(r); },
      [](const Record& r) { return r.workload.hash; },
      [=](const Record& r) {
        return r.workload.model + "|" + r.workload.precision + "|" + piece(r) + requested(r) +
               (r.target ? "target" : "");
      },
      [](const Record& r) { return r.workload.model + "|" + r.workload.precision + (r.target ? "|target" : ""); },
      [](const Record& r) { return r.workload.model + (r.target ? "|target" : ""); },
  };
}

constexpr const char* no_such_point = "no point of this workload";

/// What the system's points have instead: the nearest that they have in common with the reference's.
std::string what_differs(const Record& reference, const std::vector<const Record*>& system) {
  const Workload& w = reference.workload;
  const auto others = [&](auto is_near, auto value) {
    std::vector<std::string> all;
    for (const Record* record : system)
      if (is_near(*record)) all.push_back(value(*record));
    std::ranges::sort(all);
    all.erase(std::ranges::unique(all).begin(), all.end());
    return fmt::format("{}", fmt::join(all, ", "));
  };
  const auto same_work = [&](const Record& r) {
    return r.workload.hash == w.hash && r.workload.precision == w.precision;
  };
  const auto batch = [](const Record& r) { return std::to_string(r.workload.global_batch); };
  if (const std::string batches = others(same_work, batch); !batches.empty())
    return fmt::format("{} at the global batch {}: it has {}", no_such_point, w.global_batch, batches);
  if (const std::string precisions = others([&](const Record& r) { return r.workload.hash == w.hash; },
                                            [](const Record& r) { return r.workload.precision; });
      !precisions.empty())
    return fmt::format("{} in {}: it has {}", no_such_point, w.precision, precisions);
  return no_such_point;
}

}  // namespace

std::string reason_at(const std::string& workload, const std::string& system, const std::string& reason) {
  if (!reason.starts_with(no_such_point)) return workload + ": " + reason;
  return fmt::format("{} has no point of {}{}", system, workload, reason.substr(std::string(no_such_point).size()));
}

std::vector<RecordPair> match_records(const std::vector<const Record*>& reference,
                                      const std::vector<const Record*>& system) {
  std::vector<RecordPair> pairs;
  for (const Record* record : reference) pairs.push_back({record, nullptr, what_differs(*record, system)});
  std::set<const Record*> taken;
  for (const Key& key : keys()) {
    std::map<std::string, std::vector<std::size_t>> of_reference;
    std::map<std::string, std::vector<const Record*>> of_system;
    for (std::size_t i = 0; i < pairs.size(); ++i)
      if (pairs[i].system == nullptr) of_reference[key(*pairs[i].reference)].push_back(i);
    for (const Record* record : system)
      if (!taken.contains(record)) of_system[key(*record)].push_back(record);
    for (const auto& [name, places] : of_reference) {
      const auto found = of_system.find(name);
      if (found == of_system.end()) continue;
      if (places.size() == 1 && found->second.size() == 1) {
        pairs[places[0]].system = found->second[0];
        taken.insert(found->second[0]);
      } else {
        for (const std::size_t place : places)
          pairs[place].why_missing = fmt::format(
              "{} of this workload in other splits or settings, and {} in the reference: "
              "ambiguous; select one with --only TEXT",
              text::count(found->second.size(), "point"), places.size());
      }
    }
  }
  return pairs;
}

}  // namespace tw::results
