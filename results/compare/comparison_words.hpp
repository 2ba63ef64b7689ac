// The wording of a comparison, shared by its views. Plain text; whatever is from a report is printable already.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "results/compare/comparison.hpp"

namespace tw::results::words {

/// "+12.3 %", "-4.0 %"; from twice and below half on "2.31 x"
std::string change(double ratio);
/// The one notation of a change: "+12.3 % (+10.1 to +14.5)", "2.31 x (2.10 to 2.53)"; of a range "(+10.1 to +14.5,
/// worst to best)"; empty if there is none
std::string change(const Ratio& ratio);
/// The part in brackets: "(+10.1 to +14.5)"; empty if there is none
std::string interval(const Ratio& ratio);
/// The verdict for people: "better", "not decided" (of single runs, where nothing is claimed, and where no difference
/// is shown: why_open() says which)
std::string verdict(const Ratio& ratio);
/// Why it is neither better nor worse: "the interval includes 0" (of a change in per cent; of times, 1), else the
/// ratio's own reason. Empty if there is none.
std::string why_open(const Ratio& ratio);
/// "samples/s", "package samples/J"
std::string unit(const FigureComparison& figure);
/// What a verdict leaves open, for people: "the interval includes 0; a difference of 5 % would have shown; about 43
/// runs of each would decide". Empty if nothing.
std::string open_points(const Ratio& ratio, Replicates replicates);
/// "trials", "runs"
const char* noun(Replicates replicates);
/// What takes a claim away whatever the spread is.
struct Trials {
  /// Flags of single runs, "busy_host", "steal" and "drift": what they mean lasts for longer than a run, so that its
  /// trials do not show it; and "above_ceiling" beyond ceiling_tolerance. Of several runs "drift" and "above_ceiling",
  /// where most of them have it. "steps_disagree" of any run.
  std::set<FlagName> disturbed;
  std::string bounds;  ///< what is compared are lower bounds only ("lower bounds, without all electricity"); else empty
  bool has_single_run = false;  ///< of a system: more runs tell more
  /// The runs of one system.
  void add(const std::vector<const Record*>& runs);
};
/// Why nothing is claimed: a stable code, and words; both empty if there may be a claim.
struct Open {
  std::string code, text;
};
/// `of_single_run`: how else a system that was run once can be compared.
Open no_claim(const Trials& trials, const std::string& of_single_run = ", or make several runs");
/// How to make several runs of a plan: "trainwatt-repeat 5 -- COMMAND"
std::string repeat_command(int runs = 5);
/// What a system that was run once lacks: "one run: repeat with trainwatt-repeat 5 -- COMMAND, or …"
std::string single_run();
/// What a comparison will not make of one report's points; empty if none of them was disturbed, and of one of
/// several runs, which are compared together.
std::string no_verdict(const Report& report);
/// "workloads 1, 3" by their ids, where few; "in 3 of 8 workloads"
std::string place(const Difference& difference, const Comparison& comparison);
/// How many differences there are: "2 forbid a comparison, 5 noted"; "none"
std::string comparability(const Comparison& comparison);
/// What the answer rests on, a line each: numbers of runs, what an hour costs and in which currency, and whether other
/// programs were using a machine.
std::vector<std::string> grounds(const Comparison& comparison);
/// The id of the reference's point, and of those systems whose own has another (another split of one batch):
/// "gpt2-tiny/bf16/acc4/np2 (B: gpt2-tiny/bf16/acc2/np4)"
std::string workload(const ComparedWorkload& workload, const Comparison& comparison);
/// "workloads: gpt2-tiny/bf16/np1, resnet-tiny/bf16/np1"; of many the first and how many more
std::string workloads(const Comparison& comparison);
/// When each system was measured: "A started 22 Nov 2026, 12:07 UTC; B …"
std::string dates(const Comparison& comparison);
/// Behind the start of the first of so many runs: " and 1 more time", " and 3 more times"; empty of one
std::string more_times(std::size_t runs);
/// The names of the run rules that any of these breaks (results/analysis/run_rules.hpp).
std::vector<std::string> rules_broken_in(std::span<const Report> runs);
/// "Run rules broken: windows are short, …; Good for a look, not for publication"
std::string broken_rules(const std::vector<std::string>& broken);
/// The same of a system, or that none is shown to be broken
struct KeptRules {
  std::string text;  ///< "A, B: Run rules broken: … Good for a look, not for publication"
  bool kept = true;
};
std::vector<KeptRules> run_rules(const Comparison& comparison);
/// Whether it is a tender, which runs of a kit are too, and why no offer may win it, by system: broken run rules, runs
/// of other kits, and what a kit that was given finds besides.
void add_award_obstacles(const std::vector<SystemInput>& systems, bool has_kit, Comparison& comparison);
/// "Not an award: A, B: run rule "window" is broken (windows are short, …) (and 2 more). …", three at most; empty if
/// nothing prevents one
std::string not_an_award(const Comparison& comparison);
/// "a, b and 2 more": the first `most` texts of a list, and behind them how many more there are ("{}" in `more`).
std::string first_of(std::vector<std::string> texts, std::size_t most, const char* separator, const char* more);
/// "A, B, C"
std::string names(const Comparison& comparison, const std::vector<std::size_t>& systems);
/// In how many workloads a system has which verdict: "better in 1, worse in 1 of 2 workloads"; empty of one workload.
std::string split(const FigureComparison& figure, std::size_t system);
/// "over 1 of 2 workloads; gpt2-tiny/float32 is left out of all means, since C calls it unsupported"; empty if none
/// is.
std::string left_out(const FigureComparison& figure, const Comparison& comparison);
/// What a ranking of so many systems does not correct for; empty of two.
std::string ranking_note(const FigureComparison& figure);
/// "A, B and C"
std::string listed(const std::vector<std::string>& parts, const char* last = "and");
/// A system's figure over all workloads: the weighted geometric mean, whose ratio the overall ratio is. Nullopt if it
/// lacks one.
std::optional<double> geometric_mean(const FigureComparison& figure, std::size_t system);
/// "1. C (+12.0 %); 2. not decided between A and B (-0.50 %, -2.00 to +1.00)"
std::string ranking(const FigureComparison& figure, const Comparison& comparison);
/// Where the figures that are shown, means of trials, lie more than 1 % off the ratio, which is of geometric means:
/// which they are, and why. Empty if none does.
std::string means(const FigureComparison& figure, const Comparison& comparison);
/// What to do after this answer. Comparison::answer is there already.
NextStep next_step(const Comparison& comparison);
/// What to do after looking at one report.
NextStep next_step(const Report& report);
/// What it is, in words for people, and its cost where it has a price.
ComparedSystem described(const SystemInput& system, const CompareOptions& options);

}  // namespace tw::results::words

namespace tw::results {

/// The answer first: one sentence for each system, with what it costs or gives before how much that is in per cent, or
/// why nothing is decided; of more than two systems before that which is better than all others, and in what; before
/// all of it why a tender cannot be awarded. Then, in short lines, what it rests on.
void add_answer(Comparison& comparison);

}  // namespace tw::results
