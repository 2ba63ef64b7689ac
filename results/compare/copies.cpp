#include "results/compare/copies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "results/analysis/fingerprint.hpp"
#include "results/record/repeat_program.hpp"
#include "results/record/text.hpp"

namespace tw::results {

std::vector<Difference> copies(const MeasuredSystems& systems, std::size_t reference) {
  struct Place {
    std::size_t system, run;
  };
  std::vector<Difference> found;
  const auto block = [&](std::size_t system, const std::string& what, const std::string& why) {
    found.emplace_back(Difference{"samples", system, "", what, true, why, {}, {}});
  };
  const auto name = [&](const Place& place) {
    const MeasuredSystem& system = systems[place.system];
    return system.runs.size() > 1 ? fmt::format("run {} of {}", place.run + 1, system.name) : system.name;
  };
  struct Sign {
    std::string text, why;
  };
  const auto signs_of = [](const Record* record) -> std::vector<Sign> {
    if (record == nullptr || record->trials.empty()) return {};
    std::vector<Sign> signs = {
        {"samples " + digest_of(*record), "they are copies of one run, since all samples are equal: it counts once"}};
    if (record->launch)
      signs.push_back({"launch " + *record->launch + " " + record->id,
                       "they are one point of one launch: one measurement counts once"});
    return signs;
  };
  constexpr std::size_t most_prints = 64;  // the comparison of all pairs of more would take too long
  std::map<std::string, Place> seen;
  std::vector<std::pair<Place, Fingerprint>> prints;
  for (std::size_t s = 0; s < systems.size(); ++s)
    for (std::size_t run = 0; run < systems[s].runs.size(); ++run) {
      std::optional<std::pair<Place, std::string>> copied;
      for (const Sign& sign : signs_of(systems[s].runs[run])) {
        const auto [place, is_new] = seen.try_emplace(sign.text, Place{s, run});
        if (!is_new && !copied) copied.emplace(place->second, sign.why);
      }
      if (const Record* record = systems[s].runs[run]; record != nullptr && has_run(*record)) {
        const Fingerprint& print = prints.emplace_back(Place{s, run}, Fingerprint(*record)).second;
        for (std::size_t i = 0; i + 1 < prints.size() && !copied; ++i)
          if (const std::string what = print.same_as(prints[i].second); !what.empty())
            copied.emplace(prints[i].first,
                           what + ", which never happens in two separate runs: one measurement counts once");
        if (prints.size() > most_prints) prints.erase(prints.begin());
      }
      if (!copied) continue;
      const auto& [first, why] = *copied;
      if (first.system == s) {
        block(s, fmt::format("runs {} and {} are the same", first.run + 1, run + 1), why);
        continue;
      }
      const std::string both = fmt::format("{} and {} are the same", name(first), name({s, run}));
      for (const std::size_t system : {first.system, s})  // with two others the owner is not known
        if (system != reference) block(system, both, why);
    }
  return found;
}

std::vector<Difference> copies(const std::vector<const Report*>& runs) {
  std::vector<Difference> found;
  for (const Record& record : runs.front()->records) {
    MeasuredSystem measured;
    for (const Report* run : runs) {
      const auto same = std::ranges::find(run->records, record.id, &Record::id);
      measured.runs.push_back(same == run->records.end() ? nullptr : &*same);
    }
    std::ranges::move(copies({measured}, 1), std::back_inserter(found));
  }
  return found;
}

std::string missing_of(const std::set<int>& numbers) {
  std::vector<std::string> missing;
  int next = 1;
  for (const int number : numbers) {
    if (number - next == 1) missing.push_back(std::to_string(next));
    if (number - next > 1) missing.push_back(fmt::format("{} to {}", next, number - 1));
    next = number + 1;
  }
  return text::join(missing, ", ");
}

std::string missing_runs(const std::vector<Report>& runs) {
  std::set<int> numbers;
  bool is_series = false;
  for (const Report& run : runs) {
    is_series = is_series || run.context.run_index;
    numbers.insert(run.context.run_index.value_or(1));  // whose order of points it has
  }
  return is_series ? missing_of(numbers) : "";
}

std::vector<Difference> index_differences(const std::vector<Report>& runs, bool one_is_enough) {
  if (runs.empty()) return {};
  const std::optional<int>& index = runs.front().context.run_index;
  const auto has_it = [&](const Report& run) { return run.context.run_index == index; };
  const auto found = [&](const std::string& value, bool blocking, const std::string& why) {
    Difference difference;
    difference.what = "run index", difference.system_value = value;
    difference.blocking = blocking, difference.why = why;
    return std::vector<Difference>{difference};
  };
  if (runs.size() > 1 && index && std::ranges::all_of(runs, has_it))  // several series have some in common
    return found(fmt::format("{} in all {} runs", *index, runs.size()), true,
                 std::string(repeat_program) +
                     " gives each run of a series an index and an order of points of its own: give whole series");
  if (const std::string missing = missing_runs(runs); !missing.empty())
    return found(
        "no run " + missing, runs.size() > 1 || one_is_enough,
        fmt::format("a choice of the runs of a series may be the best ones: give the whole series; the same {} "
                    "command makes the runs that are missing",
                    repeat_program));
  return {};
}

std::vector<Difference> overlap_differences(const std::vector<Report>& runs) {
  constexpr std::chrono::seconds clock_adjustment{2};
  struct Launch {
    std::size_t run;
    std::chrono::sys_seconds started, finished;
  };
  std::map<std::string, std::vector<Launch>> launches;  // by host
  const auto add = [&](std::size_t run, const Context& context) {
    const auto started = text::utc_time(context.started_at), finished = text::utc_time(context.finished_at);
    if (!started || !finished) return;  // killed
    for (const HostInfo& host : context.hosts) launches[host.name].push_back({run, *started, *finished});
  };
  for (std::size_t run = 0; run < runs.size(); ++run) {
    add(run, runs[run].context);
    for (const RunPart& part : runs[run].parts.value_or(std::vector<RunPart>()))
      if (part.context) add(run, *part.context);
  }
  for (auto& [host, all] : launches) {
    std::ranges::sort(all, {}, &Launch::started);
    for (std::size_t i = 1; i < all.size(); ++i) {
      const Launch &before = all[i - 1], &one = all[i];
      if (before.run == one.run || one.started + clock_adjustment >= before.finished) continue;
      return {{"time of the runs",
               0,
               "",
               fmt::format("runs {} and {} were made at the same time on hosts named {}", before.run + 1, one.run + 1,
                           text::printable(host)),
               false,
               "if that is one machine, each slowed the other down: start runs one after another",
               {},
               {}}};
    }
  }
  return {};
}

}  // namespace tw::results
