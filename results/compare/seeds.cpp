#include "results/compare/seeds.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "results/record/text.hpp"

namespace tw::results {
namespace {

using Seeds = std::set<std::uint64_t>;
using Sets = std::map<Seeds, std::size_t>;  // of a run's seeds, and how many runs have them

Sets sets_of(const std::vector<const Record*>& runs) {
  Sets all;
  for (const Record* run : runs) {
    Seeds seeds;
    for (const Trial& trial : run->trials)
      if (trial.target_run) seeds.insert(trial.target_run->seed);
    if (!seeds.empty()) ++all[seeds];
  }
  return all;
}

/// "1 to 5", "17, 203, 388", "4, 7 to 9"
std::string said(const Seeds& seeds) {
  constexpr std::size_t most = 8;
  std::vector<std::string> parts;
  for (auto at = seeds.begin(); at != seeds.end();) {
    const std::uint64_t first = *at;
    std::uint64_t last = first;
    while (++at != seeds.end() && *at == last + 1) last = *at;
    if (last == first + 1)
      parts.push_back(std::to_string(first)), parts.push_back(std::to_string(last));
    else
      parts.push_back(last == first ? std::to_string(first) : fmt::format("{} to {}", first, last));
  }
  const std::size_t more = parts.size() > most ? parts.size() - most : 0;
  parts.resize(parts.size() - more);
  return text::join(parts, ", ") + (more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string said(const Sets& sets) {
  std::vector<std::string> parts;
  for (const auto& [seeds, runs] : sets)
    parts.push_back(said(seeds) + (sets.size() > 1 ? " in " + text::count(runs, "run") : ""));
  return text::join(parts, "; ");
}

}  // namespace

std::vector<Difference> seed_differences(const std::vector<const Record*>& reference,
                                         const std::vector<const Record*>& system) {
  const Sets a = sets_of(reference), b = sets_of(system);
  const bool is_one_set = a.size() == 1 && b.size() == 1 && a.begin()->first == b.begin()->first;
  if (a.empty() || b.empty() || is_one_set || a == b) return {};
  Difference found;
  found.what = "seeds_differ";
  found.reference_value = said(a), found.system_value = said(b);
  found.blocking = true;
  found.why =
      "how many steps a target takes depends on the seeds, and theirs differ: give both the same --seeds N, or one kit";
  for (const FigureKind figure : {FigureKind::time_to_target, FigureKind::energy_to_target, FigureKind::steps_to_target,
                                  FigureKind::cost_to_target})
    found.figures.emplace_back(to_string(figure));
  return {found};
}

}  // namespace tw::results
