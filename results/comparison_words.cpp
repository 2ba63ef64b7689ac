#include "results/comparison_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "results/report_io.hpp"
#include "results/run_rules.hpp"
#include "results/text.hpp"

namespace tw {

using namespace std::string_literals;

namespace words {
namespace {

constexpr double much = 2;  // from here on times say more than per cent

std::string percent(double ratio) {
  const double change = 100 * (ratio - 1);
  return fmt::format("{:+.{}f}", change, std::abs(change) < 9.995 ? 2 : 1);
}
bool is_much(double ratio) { return ratio >= much || ratio <= 1 / much; }

}  // namespace

std::string change(double ratio) { return is_much(ratio) ? text::significant(ratio) + " x" : percent(ratio) + " %"; }

std::string interval(const Ratio& ratio) {
  if (!ratio.low || !ratio.high || !ratio.value) return {};
  const bool is_times = is_much(*ratio.value);
  const std::string low = is_times ? text::significant(*ratio.low) : percent(*ratio.low);
  const std::string high = is_times ? text::significant(*ratio.high) : percent(*ratio.high);
  return fmt::format(fmt::runtime(ratio.is_range ? "{} to {} {}" : "[{}, {}] {}"), low, high, is_times ? "x" : "%");
}

std::string unit(const FigureComparison& figure) {
  return (figure.scope.empty() ? "" : figure.scope + " ") + figure.figure.unit;
}

const char* noun(Replicates replicates) {
  return replicates == Replicates::trials ? "trials" : replicates == Replicates::runs ? "runs" : "blocks";
}

void Trials::add(const Record& record) {
  if (record.workload.device == "command")
    commands = true;
  else if (record.target)
    seeds = true;
  else
    windows = true;
  for (const char* flag : {"busy_host", "steal"})
    if (std::ranges::count(record.verdict.flags, flag) > 0) disturbed.insert(flag);
}

namespace {
/// "3 trials: range only; for a claim run each with --trials 5"
std::string few(int count, Replicates replicates, const Trials& trials, const char* range_only) {
  const bool of_runs = replicates != Replicates::trials;
  const std::string unit = of_runs ? noun(replicates) : trials.seeds && !trials.windows ? "seeds" : "trials";
  const std::string found =
      fmt::format("{} {}: {}; ", count, count == 1 ? unit.substr(0, unit.size() - 1) : unit, range_only);
  if (of_runs) return found + fmt::format("for a claim give {} runs of each system", least_replicates);
  if (trials.commands)
    return found +
           fmt::format("for a claim run each {} times and give all its reports: NAME=FILE,FILE,...", least_replicates);
  return found + fmt::format("for a claim run each with {}{}{}",
                             trials.windows ? fmt::format("--trials {}", least_replicates) : "",
                             trials.windows && trials.seeds ? ", to a target " : "",
                             trials.seeds ? fmt::format("--seeds {}", least_replicates) : "");
}
std::string when_quiet() {
  return fmt::format("; repeat when the machine is quiet, or give {} runs of each system", least_replicates);
}
}  // namespace

std::string range_only(int count, Replicates replicates, const Trials& trials) {
  if (count < least_replicates) {
    const std::string too_few = few(count, replicates, trials, "range only");
    if (replicates != Replicates::trials || trials.disturbed.empty()) return too_few;
    return fmt::format("{}; {} too{}", too_few, fmt::join(trials.disturbed, ", "), when_quiet());
  }
  if (!trials.bounds.empty()) return trials.bounds + ": range only, since what they leave out may turn the order round";
  if (replicates != Replicates::trials || trials.disturbed.empty()) return {};
  return fmt::format("{}: range only{}", fmt::join(trials.disturbed, ", "), when_quiet());
}

std::string range_only(std::span<const Record> records) {
  Trials trials;
  int least = least_replicates, points = 0, disturbed = 0;
  for (const Record& record : records) {
    if (record.verdict.status != "valid") continue;
    trials.add(record);
    Trials alone;
    alone.add(record);
    ++points, disturbed += !alone.disturbed.empty();
    least = std::min(least, static_cast<int>(record.trials.size()));
  }
  constexpr const char* of_compare = "trainwatt compare gives a range only";
  const bool is_few = least < least_replicates && least >= least_trials;  // fewer have a flag that says so
  const std::string too_few = is_few ? few(least, Replicates::trials, trials, of_compare) : "";
  if (disturbed == 0) return too_few;
  const std::string at_work = fmt::format("in {} of {} points something else was at work ({})", disturbed, points,
                                          fmt::join(trials.disturbed, ", "));
  return is_few ? too_few + "; " + at_work + when_quiet() : at_work + ": " + of_compare + " there" + when_quiet();
}

std::string open_points(const Ratio& ratio, Replicates replicates) {
  const auto count = [&](int needed) {
    return fmt::format("{}{} {} each", needed >= most_replicates ? "over " : "", needed, noun(replicates));
  };
  if (ratio.verdict == "no claim")
    return ratio.reason + (ratio.needed && *ratio.needed > least_replicates
                               ? fmt::format("; about {} would show a difference like this", count(*ratio.needed))
                               : "");
  if (ratio.verdict == "no difference shown") {
    std::string text =
        ratio.detectable ? fmt::format("{} % would show", text::significant(100 * *ratio.detectable, 2)) : "";
    if (ratio.needed) text += fmt::format("; about {} would decide", count(*ratio.needed));
    return text + (ratio.reason.empty() ? "" : "; " + ratio.reason);
  }
  return ratio.reason;
}

std::string place(const Difference& difference, const Comparison& comparison) {
  const std::size_t count = difference.workloads.size(), all = comparison.workloads.size();
  if (count == 0) return {};
  if (count == 1) return "in " + comparison.workloads[difference.workloads[0]].id;
  return fmt::format("in {} of {} workloads", count, all);
}

std::string comparability(const Comparison& comparison) {
  const auto blocking = std::ranges::count_if(comparison.differences, &Difference::blocking);
  const auto noted = std::ssize(comparison.differences) - blocking;
  const auto count = [](auto n) { return fmt::format("{} difference{}", n, n == 1 ? "" : "s"); };
  if (blocking == 0) return noted == 0 ? "nothing differs" : "nothing blocks a claim; " + count(noted) + " noted";
  return fmt::format("{} block{} a claim{}", count(blocking), blocking == 1 ? "s" : "",
                     noted == 0 ? "" : fmt::format("; {} noted", noted));
}

std::string workloads(const Comparison& comparison) {
  constexpr std::size_t most_named = 4;
  std::vector<std::string> names;
  for (const ComparedWorkload& one : comparison.workloads) names.push_back(one.id);
  const std::size_t more = names.size() > most_named ? names.size() - most_named : 0;
  names.resize(names.size() - more);
  return fmt::format("workload{}: {}{}", comparison.workloads.size() == 1 ? "" : "s", fmt::join(names, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

std::string dates(const Comparison& comparison) {
  std::vector<std::string> parts;
  for (const ComparedSystem& one : comparison.systems) {
    const std::string first = one.started_at.empty() ? "" : one.started_at.front();
    parts.push_back(
        fmt::format("{} started {}{}", one.name, first.empty() ? "at a time that its report lacks" : first,
                    one.started_at.size() > 1 ? fmt::format(" and {} times more", one.started_at.size() - 1) : ""));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::vector<std::string> rules_broken_in(std::span<const Report> runs) {
  std::vector<std::string> names;
  for (const Report& run : runs)
    for (const RunRuleCheck& check : check_run_rules(run))
      if (check.state == RunRuleState::broken && std::ranges::find(names, check.rule->id) == names.end())
        names.push_back(check.rule->id);
  return names;
}

std::string broken_rules(const std::vector<std::string>& broken) {
  return fmt::format("Run rules broken: {}. Good for a look, not for publication", fmt::join(broken, ", "));
}

std::vector<KeptRules> run_rules(const Comparison& comparison) {
  std::vector<std::pair<std::vector<std::string>, std::vector<std::size_t>>> groups;  // of the systems that break the same
  for (std::size_t s = 0; s < comparison.systems.size(); ++s) {
    const std::vector<std::string>& broken = comparison.systems[s].broken_rules;
    auto same = std::ranges::find(groups, broken, [](const auto& group) { return group.first; });
    if (same == groups.end()) same = groups.insert(groups.end(), {broken, {}});
    same->second.push_back(s);
  }
  std::vector<KeptRules> lines;
  for (const auto& [broken, systems] : groups)
    lines.push_back({names(comparison, systems) + ": " +
                         (broken.empty() ? "No run rule is broken that "s + (systems.size() == 1 ? "its report" : "their reports") + " can show"
                                         : broken_rules(broken)),
                     broken.empty()});
  return lines;
}

std::string names(const Comparison& comparison, const std::vector<std::size_t>& systems) {
  std::vector<std::string> all;
  for (const std::size_t s : systems) all.push_back(comparison.systems[s].name);
  return fmt::format("{}", fmt::join(all, ", "));
}

std::string split(const FigureComparison& figure, std::size_t system) {
  std::size_t all = 0;
  std::vector<std::pair<std::string, std::size_t>> counts;
  for (const char* verdict : {"better", "worse", "no difference shown", "no claim", "not comparable", "absent"})
    counts.emplace_back(verdict, 0);
  for (const ComparedRow& row : figure.rows) {
    if (!(row.weight > 0)) continue;
    ++all;
    for (auto& [verdict, count] : counts) count += row.systems[system].ratio.verdict == verdict;
  }
  if (all < 2) return {};
  std::vector<std::string> parts;
  for (const auto& [verdict, count] : counts)
    if (count > 0) parts.push_back(fmt::format("{} in {}", verdict, count));
  return fmt::format("{} of {} workloads", fmt::join(parts, ", "), all);
}

std::string left_out(const FigureComparison& figure, const Comparison& comparison) {
  if (figure.left_out.empty()) return {};
  std::size_t counted = 0, all = 0;
  for (const ComparedRow& row : figure.rows) ++all, counted += row.weight > 0;
  std::vector<std::string> parts;
  for (const LeftOutWorkload& one : figure.left_out) {
    all += std::ranges::find(figure.rows, one.workload, &ComparedRow::workload) == figure.rows.end();
    std::vector<std::string> names;
    for (const std::size_t s : one.systems) names.push_back(comparison.systems[s].name);
    parts.push_back(fmt::format("{} is left out of all means, since {} call{} it unsupported",
                                comparison.workloads[one.workload].id, fmt::join(names, " and "),
                                names.size() == 1 ? "s" : ""));
  }
  constexpr std::size_t most_named = 3;
  const std::size_t more = parts.size() > most_named ? parts.size() - most_named : 0;
  parts.resize(parts.size() - more);
  return fmt::format("over {} of {} workloads; {}{}", counted, all, fmt::join(parts, "; "),
                     more > 0 ? fmt::format("; and {} more", more) : "");
}

std::string ranking_note(const FigureComparison& figure) {
  const std::size_t count = figure.ranking.size();
  if (count < 3) return {};
  return fmt::format(
      "each of the {} pairs is told apart at 95 % by itself: among so many one may seem better by chance alone",
      count * (count - 1) / 2);
}

std::string ranking(const FigureComparison& figure, const Comparison& comparison) {
  std::vector<std::string> places;
  for (std::size_t i = 0; i < figure.ranking.size(); ++i) {
    const RankedSystem& one = figure.ranking[i];
    const std::string entry = comparison.systems[one.system].name +
                              (one.system == comparison.reference || !one.ratio ? "" : " (" + change(*one.ratio) + ")");
    if (i > 0 && figure.ranking[i - 1].rank == one.rank)
      places.back() += " = " + entry;
    else
      places.push_back(fmt::format("{}. {}", one.rank, entry));
  }
  const bool tied = std::ranges::any_of(figure.ranking, &RankedSystem::tied);
  return fmt::format("{}{}", fmt::join(places, "; "), tied ? "; = shares a rank: no interval tells them apart" : "");
}

std::string means(const FigureComparison& figure, const Comparison& comparison) {
  constexpr double far = 0.01;
  std::vector<std::string> parts;
  for (const ComparedRow& row : figure.rows) {
    const std::optional<Estimate>& base = row.systems[comparison.reference].figure;
    for (std::size_t s = 0; s < row.systems.size(); ++s) {
      const ComparedCell& cell = row.systems[s];
      if (s == comparison.reference || !base || !cell.figure || !cell.ratio.value || !(base->value > 0)) continue;
      const double shown = cell.figure->value / base->value;
      if (std::abs(shown / *cell.ratio.value - 1) > far)
        parts.push_back(fmt::format("{} in {} {} by the means, {} by the ratio", comparison.systems[s].name,
                                    comparison.workloads[row.workload].id, change(shown), change(*cell.ratio.value)));
    }
  }
  constexpr std::size_t most_named = 3;
  const std::size_t more = parts.size() > most_named ? parts.size() - most_named : 0;
  parts.resize(parts.size() - more);
  if (parts.empty()) return {};
  return fmt::format("the figures shown are arithmetic means, ratios are of geometric ones: {}{}",
                     fmt::join(parts, "; "), more > 0 ? fmt::format("; and {} more", more) : "");
}

ComparedSystem described(const SystemInput& system, const CompareOptions& options) {
  ComparedSystem one;
  const Report& first = system.runs[0];
  one.name = text::printable(system.name);
  for (const std::string& path : system.paths) one.paths.push_back(text::printable(path));
  std::map<std::string, int> cpus, devices;
  for (const HostInfo& host : first.context.hosts) ++cpus[text::printable(host.cpu)];
  for (const DeviceEntry& device : first.context.devices) ++devices[text::printable(device.kind + ": " + device.name)];
  const auto counted = [](const std::map<std::string, int>& of) {
    std::vector<std::string> parts;
    for (const auto& [name, count] : of) parts.push_back(fmt::format("{} x {}", count, name));
    return fmt::format("{}", fmt::join(parts, ", "));
  };
  one.hosts = counted(cpus), one.devices = counted(devices), one.broken_rules = rules_broken_in(system.runs);
  one.program =
      text::printable(fmt::format("{} {} ({})", first.program.name, first.program.version, first.program.git_commit));
  one.suite = text::printable(first.plan.suite), one.plan_sha256 = sha256_hex(first.plan.canonical_json);
  for (const Report& run : system.runs) one.started_at.push_back(text::printable(run.context.started_at));
  one.records = static_cast<int>(first.records.size());
  one.valid = static_cast<int>(
      std::ranges::count_if(first.records, [](const Record& r) { return r.verdict.status == "valid"; }));
  if (system.price) one.cost = cost_of(first, options.currency, *system.price, options.sensitivity_share);
  return one;
}

}  // namespace words

std::vector<std::string> answer_of(const Comparison& comparison) {
  std::vector<std::string> lines;
  const std::string& reference = comparison.systems[comparison.reference].name;
  for (const FigureComparison& figure : comparison.figures) {
    const std::string note = figure.note.empty() ? "" : " (" + figure.note + ")";
    if (figure.ranking.size() > 2) {
      const std::string left = words::left_out(figure, comparison);
      lines.push_back(fmt::format("{}{}: {}{}", figure.figure.name, note, words::ranking(figure, comparison),
                                  left.empty() ? "" : "; " + left));
    }
    const auto open_of = [&](std::size_t s) { return words::open_points(figure.overall[s], comparison.replicates); };
    std::vector<std::pair<std::string, std::vector<std::size_t>>> shared;  // what is open of several, each once
    for (std::size_t s = 0; s < comparison.systems.size(); ++s) {
      if (s == comparison.reference || open_of(s).empty()) continue;
      auto same = std::ranges::find(shared, open_of(s), [](const auto& one) { return one.first; });
      if (same == shared.end()) same = shared.insert(shared.end(), {open_of(s), {}});
      same->second.push_back(s);
    }
    std::erase_if(shared, [](const auto& one) { return one.second.size() < 2; });
    for (std::size_t s = 0; s < comparison.systems.size(); ++s) {
      if (s == comparison.reference) continue;
      const Ratio& ratio = figure.overall[s];
      const std::string& name = comparison.systems[s].name;
      const bool is_shared =
          std::ranges::any_of(shared, [&](const auto& one) { return one.first == open_of(s); });
      const std::string open = is_shared ? "" : open_of(s), behind = open.empty() ? "" : " (" + open + ")";
      std::string line = figure.figure.name + note + ": ";
      if (!ratio.value)
        line += fmt::format("{} against {}: {}{}", name, reference, ratio.verdict, behind);
      else if (ratio.verdict == "better" || ratio.verdict == "worse")
        line += fmt::format("{} is {} than {}: {} {} {}", name, ratio.verdict, reference, words::change(*ratio.value),
                            words::unit(figure), words::interval(ratio));
      else if (ratio.verdict == "no claim")
        line += fmt::format("no claim: {} ÷ {} ranges over {}{}", name, reference, words::interval(ratio), behind);
      else
        line += fmt::format("no difference shown between {} and {}: {} {}{}", name, reference,
                            words::change(*ratio.value), words::interval(ratio), behind);
      if (const std::string split = words::split(figure, s); !split.empty()) line += "; " + split;
      if (const std::string left = words::left_out(figure, comparison); !left.empty()) line += "; " + left;
      lines.push_back(std::move(line));
    }
    for (const auto& [open, systems] : shared)
      lines.push_back(fmt::format("{}: {}: {}", figure.figure.name, words::names(comparison, systems), open));
  }
  if (lines.empty()) lines.emplace_back("nothing to compare: the reports have no figure in common");
  return lines;
}

}  // namespace tw
