#include "results/copies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "results/report_io.hpp"

namespace tw {
namespace {

/// Names the trials by how long each of them and of its steps took, in whatever order they stand; empty where nothing
/// ran.
std::string digest_of(const Record& record) {
  std::vector<std::string> trials;
  for (const Trial& trial : record.trials) {
    std::string bytes;
    const auto add = [&](double seconds) { bytes.append(reinterpret_cast<const char*>(&seconds), sizeof seconds); };
    add(trial.window_s);
    std::ranges::for_each(trial.step_time_s, add);
    trials.push_back(sha256_hex(bytes));
  }
  if (trials.empty()) return {};
  std::ranges::sort(trials);
  std::string all;
  for (const std::string& one : trials) all += one;
  return sha256_hex(all);
}

}  // namespace

std::vector<Difference> copies(const MeasuredSystems& systems, std::size_t reference) {
  struct Place {
    std::size_t system, run;
  };
  std::vector<Difference> found;
  const auto block = [&](std::size_t system, const std::string& what) {
    const std::string why = "their trials are the same to the last bit: one measurement counts once";
    found.emplace_back(Difference{"samples", system, "", what, true, why, {}, {}});
  };
  const auto name = [&](const Place& place) {
    const MeasuredSystem& system = systems[place.system];
    return system.runs.size() > 1 ? fmt::format("run {} of {}", place.run + 1, system.name) : system.name;
  };
  std::map<std::string, Place> seen;
  for (std::size_t s = 0; s < systems.size(); ++s)
    for (std::size_t run = 0; run < systems[s].runs.size(); ++run) {
      const Record* record = systems[s].runs[run];
      const std::string digest = record == nullptr ? "" : digest_of(*record);
      if (digest.empty()) continue;
      const auto [place, is_new] = seen.try_emplace(digest, Place{s, run});
      if (is_new) continue;
      const Place& first = place->second;
      if (first.system == s) {
        block(s, fmt::format("runs {} and {} are the same", first.run + 1, run + 1));
        continue;
      }
      const std::string both = fmt::format("{} and {} are the same", name(first), name({s, run}));
      for (const std::size_t system : {first.system, s})  // of two others nobody knows whose it is
        if (system != reference) block(system, both);
    }
  return found;
}

}  // namespace tw
