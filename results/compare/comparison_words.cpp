#include "results/compare/comparison_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "results/analysis/run_rules.hpp"
#include "results/analysis/verdict.hpp"
#include "results/record/repeat_program.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"

namespace tw::results {

using text::count;

namespace words {
namespace {

constexpr double much = 2;  // from here on times say more than per cent

std::string percent(double ratio) {
  const double change = 100 * (ratio - 1);
  return fmt::format("{:+.{}f}", change, std::abs(change) < 9.995 ? 2 : 1);
}
bool is_much(double ratio) { return ratio >= much || ratio <= 1 / much; }

constexpr const char* repeat_words = "repeat when it is quiet";

/// A ceiling within its tolerance takes nothing away.
bool is_disturbed(const Record& run, const FlagName& flag) {
  return has_flag(run, flag) && !(flag == Flag::above_ceiling && credible_of_ceiling(run.summary));
}

/// "0.370 EUR/h (rented, electricity included)", "2 nodes, 1.20 EUR/h (bought, 0.3 EUR/kWh)"; empty without a price.
std::string hour_words(const ComparedSystem& system) {
  if (!system.cost) return {};
  const PriceRow& price = system.cost->price;
  const std::string currency = text::printable(system.cost->currency);
  int nodes = 1;
  for (const RecordCost& record : system.cost->records) nodes = std::max(nodes, record.nodes);
  const std::string electricity =
      price.electricity_included ? "electricity included"
                                 : fmt::format("{} {}/kWh", text::significant(price.electricity_per_kwh), currency);
  return fmt::format("{}{} {}/h ({}, {})", nodes > 1 ? count(static_cast<std::size_t>(nodes), "node") + ", " : "",
                     text::significant(hour_price(price, nodes)), currency, price.rent_per_month ? "rent" : "bought",
                     electricity);
}

}  // namespace

std::string change(double ratio) { return is_much(ratio) ? text::significant(ratio) + " x" : percent(ratio) + " %"; }

std::string interval(const Ratio& ratio) {
  if (!ratio.low || !ratio.high || !ratio.value) return {};
  const bool is_times = is_much(*ratio.value);
  const auto end = [&](double of) { return is_times ? text::significant(of) : percent(of); };
  return fmt::format("({} to {}{})", end(*ratio.low), end(*ratio.high), ratio.is_range ? ", worst to best" : "");
}

std::string change(const Ratio& ratio) {
  if (!ratio.value) return {};
  const std::string ends = interval(ratio);
  return change(*ratio.value) + (ends.empty() ? "" : " " + ends);
}

static const char* name_of(Claim verdict) {
  const bool is_open = verdict == Claim::single_run || verdict == Claim::no_claim || verdict == Claim::no_difference;
  return is_open ? "not decided" : to_string(verdict);
}
std::string verdict(const Ratio& ratio) { return name_of(ratio.verdict); }

std::string why_open(const Ratio& ratio) {
  if (ratio.verdict != Claim::no_difference) return ratio.reason;
  return std::string("the interval includes ") + (is_much(*ratio.value) ? "1" : "0");
}

std::string unit(const FigureComparison& figure) {
  return (figure.scope == Scope::none ? "" : figure.scope + " ") + figure.figure.unit;
}

const char* noun(Replicates replicates) {
  return replicates == Replicates::trials ? "trials" : replicates == Replicates::runs ? "runs" : "blocks";
}

void Trials::add(const std::vector<const Record*>& runs) {
  has_single_run = has_single_run || runs.size() == 1;
  std::set<FlagName> flags;
  for (const Record* run : runs) flags.insert(run->verdict.flags.begin(), run->verdict.flags.end());
  for (const FlagName& flag : flags) {
    if (!flag.is(FlagUse::disturbs)) continue;
    const auto count = std::ranges::count_if(runs, [&](const Record* run) { return is_disturbed(*run, flag); });
    // Several runs show what other programs do to them. What most of them have they do not, nor times that are wrong.
    const bool of_most = (flag == Flag::drift || flag == Flag::above_ceiling) && 2 * count > std::ssize(runs);
    const bool of_several = flag == Flag::steps_disagree || of_most;
    if (count > 0 && (runs.size() == 1 || of_several)) disturbed.emplace(flag);
  }
}

Open no_claim(const Trials& trials, const std::string& of_single_run) {
  if (!trials.bounds.empty())
    return {"lower_bound", "these are " + trials.bounds + ": the missing part may reverse the order"};
  if (trials.disturbed.empty()) return {};
  const auto why =
      text::texts_of(trials.disturbed, [](const FlagName& flag) { return facts_of(*flag.known()).use.why; });
  return {trials.disturbed.begin()->name,
          fmt::format("{}; {}{}", fmt::join(why, " and "), repeat_words, trials.has_single_run ? of_single_run : "")};
}

std::string repeat_command(int runs) { return fmt::format("{} {} -- COMMAND", repeat_program, runs); }

std::string single_run() {
  return fmt::format("one run: repeat with {}, or give earlier runs of the machine with --run-variance",
                     repeat_command());
}

std::string no_verdict(const Report& report) {
  if (report.context.run_index) return {};
  int points = 0, disturbed = 0;
  Trials all;
  all.has_single_run = true;
  for (const Record& record : report.records) {
    if (!is_valid(record)) continue;
    Trials alone;
    alone.add({&record});
    ++points, disturbed += !alone.disturbed.empty();
    all.disturbed.merge(alone.disturbed);
  }
  if (disturbed == 0) return {};
  return fmt::format("in {} of {} points {}: trainwatt compare claims nothing about them", disturbed, points,
                     no_claim(all, ", or with " + repeat_command()).text);
}

std::string open_points(const Ratio& ratio, Replicates replicates) {
  std::string text = why_open(ratio);
  if (ratio.verdict != Claim::no_difference) return text;
  if (ratio.detectable)
    text += fmt::format("; a difference of {} % would have shown", text::significant(100 * *ratio.detectable, 2));
  if (ratio.needed)  // a block holds one run of each
    text += fmt::format("; {} {} {} of each would decide", *ratio.needed >= most_replicates ? "over" : "about",
                        *ratio.needed, replicates == Replicates::trials ? "trials" : "runs");
  return text + (ratio.reason.empty() ? "" : "; " + ratio.reason);
}

std::string place(const Difference& difference, const Comparison& comparison) {
  const std::size_t count = difference.workloads.size(), all = comparison.workloads.size();
  if (count == 0) return {};
  if (count == 1) return "in " + comparison.workloads[difference.workloads[0]].id;
  return fmt::format("in {} of {} workloads", count, all);
}

std::string first_of(std::vector<std::string> texts, std::size_t most, const char* separator, const char* more) {
  const std::size_t left = texts.size() - std::min(texts.size(), most);
  texts.resize(texts.size() - left);
  return text::join(texts, separator) + (left > 0 ? fmt::format(fmt::runtime(more), left) : "");
}

std::string comparability(const Comparison& comparison) {
  const auto blocking = std::ranges::count_if(comparison.differences, &Difference::blocking);
  const auto noted = std::ssize(comparison.differences) - blocking;
  if (blocking + noted == 0) return "none";
  const std::string few = noted == 0 ? "" : fmt::format("{} noted", noted);
  if (blocking == 0) return few + ", none blocks the comparison";
  return fmt::format("{} block{} the comparison{}", blocking, blocking == 1 ? "s" : "", few.empty() ? "" : ", " + few);
}

std::string workload(const ComparedWorkload& workload, const Comparison& comparison) {
  std::vector<std::string> others;
  for (std::size_t s = 0; s < workload.records.size() && s < comparison.systems.size(); ++s)
    if (!workload.records[s].empty() && workload.records[s] != workload.id)
      others.push_back(comparison.systems[s].name + ": " + workload.records[s]);
  return workload.id + (others.empty() ? "" : fmt::format(" ({})", fmt::join(others, "; ")));
}

std::string workloads(const Comparison& comparison) {
  auto names = text::texts_of(comparison.workloads, [&](const auto& one) { return workload(one, comparison); });
  return (comparison.workloads.size() == 1 ? "workload: " : "workloads: ") +
         first_of(std::move(names), 4, ", ", " and {} more");
}

std::string dates(const Comparison& comparison) {
  std::vector<std::string> parts;
  for (const ComparedSystem& one : comparison.systems) {
    const std::string first = one.started_at.empty() ? "" : one.started_at.front();
    parts.push_back(fmt::format("{} started {}{}", one.name,
                                first.empty() ? "at an unknown time" : text::date(first),
                                more_times(one.started_at.size())));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string more_times(std::size_t runs) {
  if (runs < 2) return {};
  return runs == 2 ? " and 1 more time" : fmt::format(" and {} more times", runs - 1);
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
  std::vector<std::string> said;
  for (const RunRule& rule : tw::results::run_rules())
    if (std::ranges::find(broken, rule.id) != broken.end()) said.push_back(rule.broken);
  return fmt::format("Run rules broken: {}. Good for a look, not for publication", fmt::join(said, "; "));
}

std::vector<KeptRules> run_rules(const Comparison& comparison) {
  std::vector<std::pair<std::vector<std::string>, std::vector<std::size_t>>> groups;  // systems that break the same
  for (std::size_t s = 0; s < comparison.systems.size(); ++s) {
    const std::vector<std::string>& broken = comparison.systems[s].broken_rules;
    auto same = std::ranges::find(groups, broken, [](const auto& group) { return group.first; });
    if (same == groups.end()) same = groups.insert(groups.end(), {broken, {}});
    same->second.push_back(s);
  }
  std::vector<KeptRules> lines;
  for (const auto& [broken, systems] : groups)
    lines.push_back(
        {names(comparison, systems) + ": " +
             (!broken.empty()       ? broken_rules(broken)
              : systems.size() == 1 ? "No broken run rule was found in its report"
                                    : "No broken run rule was found in their reports"),
         broken.empty()});
  return lines;
}

void add_award_obstacles(const std::vector<SystemInput>& systems, bool has_kit, Comparison& comparison) {
  const auto kit_of = [](const Report& run) { return run.plan.kit ? run.plan.kit->sha256 : ""; };
  comparison.is_tender =
      has_kit || std::ranges::any_of(systems, [&](const SystemInput& system) {
        return std::ranges::any_of(system.runs, [&](const Report& run) { return !kit_of(run).empty(); });
      });
  if (!comparison.is_tender) return;
  std::vector<AwardObstacle>& all = comparison.not_an_award;
  // Each run is checked against a kit that was given (offer_faults). Otherwise the kit is the first that is found,
  // the reference's before others'.
  std::vector<std::size_t> order = {comparison.reference};
  for (std::size_t s = 0; s < systems.size(); ++s)
    if (s != comparison.reference) order.push_back(s);
  std::string kit;
  std::size_t whose = comparison.reference;
  for (auto s = order.begin(); s != order.end() && kit.empty(); ++s)
    for (auto run = systems[*s].runs.begin(); run != systems[*s].runs.end() && kit.empty(); ++run)
      kit = kit_of(*run), whose = *s;
  for (std::size_t s = 0; s < systems.size(); ++s) {
    const std::vector<std::string>& broken = comparison.systems[s].broken_rules;
    for (const RunRule& rule : tw::results::run_rules())
      if (std::ranges::find(broken, rule.id) != broken.end())
        all.push_back({s, "rule_broken", fmt::format("run rule \"{}\" is broken ({})", rule.id, rule.broken)});
    if (!has_kit && std::ranges::any_of(systems[s].runs, [&](const Report& run) { return kit_of(run) != kit; }))
      all.push_back({s, "kit_differs", "not all runs are of the kit of " + comparison.systems[whose].name});
    for (const Fault& fault : systems[s].offer_faults)
      all.push_back({s, fault.code, text::printable(fault_line(fault))});
  }
}

std::string not_an_award(const Comparison& comparison) {
  struct Group {  // of the systems of which the same is said
    std::string what;
    bool is_first = false;  // of its kind
    std::vector<std::size_t> systems{};
  };
  std::vector<Group> groups;
  std::set<std::string> kinds;
  for (const AwardObstacle& one : comparison.not_an_award) {
    auto same = std::ranges::find(groups, one.text, &Group::what);
    if (same == groups.end()) same = groups.insert(groups.end(), Group{one.text, kinds.insert(one.code).second});
    if (std::ranges::find(same->systems, one.system) == same->systems.end()) same->systems.push_back(one.system);
  }
  if (groups.empty()) return {};
  std::ranges::stable_partition(groups, &Group::is_first);  // one of each kind before more of one
  std::vector<std::string> said;
  for (const Group& group : groups) said.push_back(names(comparison, group.systems) + ": " + group.what);
  const bool is_single =
      comparison.learned.empty() &&
      std::ranges::all_of(comparison.systems, [](const ComparedSystem& one) { return one.started_at.size() == 1; });
  return fmt::format("Not an award: {}{}. The figures are good for a look.",
                     first_of(std::move(said), most_named_obstacles, "; ", " (and {} more)"),
                     is_single ? "; and one run each decides nothing" : "");
}

std::string names(const Comparison& comparison, const std::vector<std::size_t>& systems) {
  return text::join(text::texts_of(systems, [&](std::size_t s) { return comparison.systems[s].name; }), ", ");
}

std::string split(const FigureComparison& figure, std::size_t system) {
  std::size_t all = 0;
  std::map<std::string, std::size_t> counts;
  for (const ComparedRow& row : figure.rows) {
    if (!(row.weight > 0)) continue;
    ++all;
    const Claim verdict = row.systems[system].ratio.verdict;
    if (verdict != Claim::none && verdict != Claim::reference) ++counts[name_of(verdict)];
  }
  if (all < 2) return {};
  std::vector<std::string> parts;
  for (const auto& [verdict, count] : counts) parts.push_back(fmt::format("{} in {}", verdict, count));
  return fmt::format("{} of {} workloads", fmt::join(parts, ", "), all);
}

std::string left_out(const FigureComparison& figure, const Comparison& comparison) {
  if (figure.left_out.empty()) return {};
  std::size_t counted = 0, all = 0;
  for (const ComparedRow& row : figure.rows) ++all, counted += row.weight > 0;
  std::vector<std::string> parts;
  for (const LeftOutWorkload& one : figure.left_out) {
    all += std::ranges::find(figure.rows, one.workload, &ComparedRow::workload) == figure.rows.end();
    const auto names = text::texts_of(one.systems, [&](std::size_t s) { return comparison.systems[s].name; });
    parts.push_back(fmt::format("{} is excluded from all means: {} report{} it as unsupported",
                                comparison.workloads[one.workload].id, fmt::join(names, " and "),
                                names.size() == 1 ? "s" : ""));
  }
  return fmt::format("over {} of {} workloads; {}", counted, all,
                     first_of(std::move(parts), 3, "; ", "; and {} more"));
}

std::string ranking_note(const FigureComparison& figure) {
  const std::size_t count = figure.ranking.size();
  if (count < 3) return {};
  return fmt::format(
      "each of the {} pairs is compared at 95 % on its own, without correction for multiple comparisons: one may "
      "seem better by chance alone",
      count * (count - 1) / 2);
}

std::string ranking(const FigureComparison& figure, const Comparison& comparison) {
  const auto said = [&](const RankedSystem& one) {
    const std::string& name = comparison.systems[one.system].name;
    if (one.system == comparison.reference || !one.ratio) return name;
    const std::string ends = one.tied ? interval(figure.overall[one.system]) : "";
    return fmt::format("{} ({}{})", name, change(*one.ratio),
                       ends.empty() ? "" : ", " + ends.substr(1, ends.size() - 2));
  };
  std::vector<std::string> places;
  for (auto one = figure.ranking.begin(); one != figure.ranking.end();) {
    const int rank = one->rank;
    std::vector<std::string> alike;
    for (; one != figure.ranking.end() && one->rank == rank; ++one) alike.push_back(said(*one));
    places.push_back(fmt::format("{}. {}{}", rank, alike.size() > 1 ? "not decided between " : "", listed(alike)));
  }
  return fmt::format("{}", fmt::join(places, "; "));
}

std::string listed(const std::vector<std::string>& parts, const char* last) {
  if (parts.size() < 2) return parts.empty() ? "" : parts[0];
  return fmt::format("{} {} {}", fmt::join(parts.begin(), parts.end() - 1, ", "), last, parts.back());
}

std::optional<double> geometric_mean(const FigureComparison& figure, std::size_t system) {
  double sum = 0, weights = 0;
  for (const ComparedRow& row : figure.rows) {
    if (!(row.weight > 0)) continue;
    const std::optional<double>& own = row.systems[system].geometric;
    if (!own) return std::nullopt;
    sum += row.weight * std::log(*own), weights += row.weight;
  }
  return weights > 0 ? std::optional(std::exp(sum / weights)) : std::nullopt;
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
  if (parts.empty()) return {};
  return "the figures shown are arithmetic means, ratios are of geometric ones: " +
         first_of(std::move(parts), 3, "; ", "; and {} more");
}

std::vector<std::string> grounds(const Comparison& comparison) {
  std::vector<std::string> lines, runs, prices, busy;
  bool is_same = true;
  for (const ComparedSystem& one : comparison.systems) {
    const std::size_t own = one.started_at.size();
    is_same = is_same && own == comparison.systems[0].started_at.size();
    runs.push_back(fmt::format("{} of {}", count(own, "run"), one.name));
    if (const std::string price = hour_words(one); !price.empty()) prices.push_back(one.name + " at " + price);
    if (one.busy_runs > 0) busy.push_back(fmt::format("{} of {} of {}", one.busy_runs, count(own, "run"), one.name));
  }
  const bool has_figure = std::ranges::any_of(comparison.figures, [](const FigureComparison& figure) {
    return std::ranges::any_of(figure.overall,
                               [](const Ratio& ratio) { return ratio.value && ratio.verdict != Claim::reference; });
  });
  const std::string over = comparison.workloads.size() > 1
                               ? fmt::format(", {} workloads{}", comparison.workloads.size(),
                                             has_figure ? "; figures are their geometric means" : "")
                               : "";
  lines.push_back(fmt::format("Runs: {}{}.",
                              is_same ? fmt::format("{} of each", comparison.systems[0].started_at.size())
                                      : fmt::format("{}", fmt::join(runs, ", ")),
                              over));
  if (!prices.empty()) lines.push_back(fmt::format("Prices: {}.", fmt::join(prices, "; ")));
  for (const ComparedSystem& one : comparison.systems)
    if (one.cost && !one.cost->price.machine_note.empty())
      lines.push_back(fmt::format("Price of {}: {}.", one.name, text::printable(one.cost->price.machine_note)));
  for (const ComparedSystem& one : comparison.systems)
    if (one.cost)
      for (const PriceDoubt& doubt : one.cost->price.doubts)
        lines.push_back(fmt::format("Price of {}: {}: {}.", one.name, doubt.key, doubt.text));
  lines.push_back(busy.empty()
                      ? "Busy: no run is flagged for other programs on its machine."
                      : fmt::format("Busy: other programs were using the machine in {}.", fmt::join(busy, ", ")));
  return lines;
}

ComparedSystem described(const SystemInput& system, const CompareOptions& options) {
  ComparedSystem one;
  const Report& first = system.runs[0];
  one.name = text::printable(system.name);
  one.paths = text::texts_of(system.paths, text::printable);
  std::map<std::string, int> cpus, devices;
  for (const HostInfo& host : first.context.hosts) ++cpus[text::printable(host.cpu)];
  for (const DeviceEntry& device : first.context.devices) ++devices[text::printable(device.kind + ": " + device.name)];
  const auto counted = [](const std::map<std::string, int>& of) {
    return text::join(
        text::texts_of(of, [](const auto& part) { return fmt::format("{} x {}", part.second, part.first); }), ", ");
  };
  one.hosts = counted(cpus), one.devices = counted(devices), one.broken_rules = rules_broken_in(system.runs);
  one.program =
      text::printable(fmt::format("{} {} ({})", first.program.name, first.program.version, first.program.git_commit));
  one.suite = text::printable(first.plan.suite), one.plan_sha256 = sha256_hex(first.plan.canonical_json);
  for (const Report& run : system.runs) one.started_at.push_back(text::printable(run.context.started_at));
  one.records = static_cast<int>(first.records.size());
  one.valid = static_cast<int>(
      std::ranges::count_if(first.records, [](const Record& r) { return is_valid(r); }));
  one.busy_runs = static_cast<int>(std::ranges::count_if(system.runs, [](const Report& run) {
    return std::ranges::any_of(
        run.records, [](const Record& r) { return has_flag(r, Flag::busy_host) || has_flag(r, Flag::steal); });
  }));
  if (system.price) one.cost = cost_of(first, options.currency, *system.price, options.sensitivity_share);
  return one;
}

}  // namespace words

}  // namespace tw::results
