// Two or more reports in, a decision out, with what it rests on (results/README.md). `compare` is a pure function;
// text, JSON, Markdown, CSV and HTML are views on what it returns.
#pragma once

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "results/cost/cost.hpp"
#include "results/record/fault.hpp"
#include "results/record/later_fields.hpp"
#include "results/record/record.hpp"
#include "results/record/report_io.hpp"
#include "results/selection/ranking.hpp"

namespace tw::results {

/// One thing that is compared: a machine, an offer, a setting.
struct SystemInput {
  std::string name;                ///< unique
  std::vector<std::string> paths;  ///< of its reports, for people
  /// Its runs, one at least. Several: the run is then what varies, no longer the trial (`Replicates`).
  std::vector<Report> runs;
  std::vector<std::string> faults;  ///< what `trainwatt validate` says of any of them; any makes it not comparable
  std::optional<PriceRow> price;
  std::vector<std::string> notes{};            ///< what it says besides, of good reports too
  std::vector<MissingField> missing_fields{};  ///< of reports of an older version: without them some figures say little
  std::vector<std::string> joule_doubts{};     ///< of `notes`, those for which no figure of energy is compared
  std::vector<Fault> offer_faults{};           ///< what its runs lack as an offer of the kit they are compared with
};
struct CompareOptions {
  std::size_t reference = 0;         ///< the system that the others are compared with
  std::vector<std::string> figures;  ///< names of compared_figures(); empty: those that the reports have
  std::vector<std::string> also;     ///< figures besides: of rules
  Scope scope = Scope::none;         ///< of figures of joules; empty: the widest that is valid for all records
  std::string only;                  ///< records whose id has this text; empty: all
  /// Of the weighted geometric mean, by a text that a workload's id holds (the longest that fits counts); others weigh
  /// 0 where any is given, all weigh the same where none is.
  std::map<std::string, double> weights;
  std::string currency;  ///< of all prices
  double sensitivity_share = 0.2;
  bool is_tender = false;  ///< a kit was given; so are runs that were made from one
  /// Groups of earlier runs, each of one machine: how a system that was run once would differ from run to run. A group
  /// counts for the systems of its machine (results/compare/run_variance.hpp); ask fault_of() there first.
  std::vector<SystemInput> run_variance;
};

/// A figure by which systems are compared: those of results/selection/ranking.hpp that are of
/// samples and joules, and costs.
enum class FigureKind {
  throughput,
  samples_per_joule,
  efficiency,
  time_to_target,
  energy_to_target,
  steps_to_target,
  cost,
  cost_to_target
};
template <>
inline constexpr std::array name_list<FigureKind> = {"throughput",     "samples-per-joule", "efficiency",
                                                     "time-to-target", "energy-to-target",  "steps-to-target",
                                                     "cost",           "cost-to-target"};
struct ComparedFigure {
  FigureKind kind;
  std::string name, unit;  ///< "samples-per-joule", "samples/J"
  bool more_is_better = true;
  bool by_scope = false;
  bool is_cost() const { return kind == FigureKind::cost || kind == FigureKind::cost_to_target; }
};
const std::vector<ComparedFigure>& compared_figures();

/// What is not the same in a system and in the reference.
struct Difference {
  std::string what;        ///< "global batch", "nvidia_driver", "flag throttled", "scope of energy"
  std::size_t system = 0;  ///< compared with the reference; the reference itself: a fault of its own
  std::string reference_value, system_value;
  bool blocking = false;               ///< no ratio is claimed of what it concerns; false: noted
  std::string why;                     ///< why it blocks, or what to keep in mind
  std::vector<std::size_t> workloads;  ///< that it concerns; empty: all
  std::vector<std::string> figures;    ///< likewise, by name; empty: all
};

/// What varies: the unit of replication.
enum class Replicates {
  trials,  ///< one run of each system: no verdict. The intervals are over its trials (Welch 1947, on logarithms; from
           ///< 10 trials on without the best and the worst, Yuen 1974), and do not hold what changes from run to run
  runs,    ///< the means of whole runs, independent (of_runs() of results/compare/ratio.hpp)
  paired_runs,  ///< runs of the systems took turns: their differences block by block, which a drift of the machine
                ///< leaves
};
template <>
inline constexpr std::array name_list<Replicates> = {"trials", "runs", "paired_runs"};

/// What is said of a system against the reference.
enum class Claim {
  none,  ///< nothing yet
  better,
  worse,
  no_difference,
  single_run,  ///< one of the two was run once, and how its runs differ is not known
  no_claim,    ///< Ratio::code says why
  not_comparable,
  absent,
  reference,  ///< it is the reference
};
template <>
inline constexpr std::array name_list<Claim> = {
    "", "better", "worse", "no difference shown", "single_run", "no claim", "not comparable", "absent", "reference"};

/// A system ÷ the reference, of one figure.
struct Ratio {
  std::optional<double> value{};  ///< of geometric means; absent if there is none to have
  /// 95 % interval: over runs, or of "single_run" over trials alone; else the range from worst to best case.
  std::optional<double> low{}, high{};
  bool is_range = false;  ///< then low and high are no interval and nothing is claimed
  int replicates = 0;     ///< of the system that has fewer
  /// The smallest true difference, as a share, that as many replicates of this spread show in 8 of 10 comparisons.
  std::optional<double> detectable{};
  /// How many replicates each system needs for the difference seen to show in 8 of 10; absent if no number would, or
  /// where nothing is left to decide. `most_replicates` means as many or more.
  std::optional<int> needed{};
  Claim verdict = Claim::none;
  std::string code{};    ///< of "single_run" and "no claim": "single_run", "lower_bound", "busy_host", "steal", "drift"
  std::string reason{};  ///< of "single_run", "not comparable", "absent", "no claim"; why `needed` is absent
  /// Something is said of the systems, not of these runs alone.
  bool is_decided() const { return names_one() || verdict == Claim::no_difference; }
  bool names_one() const { return verdict == Claim::better || verdict == Claim::worse; }
};
inline constexpr int most_replicates = 1000;

/// One system in one row.
struct ComparedCell {
  std::optional<Estimate> figure;     ///< as its report has it; of several runs the mean of theirs
  Ratio ratio;                        ///< to the reference; of the reference itself 1 and verdict "reference"
  std::string record;                 ///< its record's id; empty: it has none
  std::optional<double> geometric{};  ///< its geometric mean over runs (of one run: over trials), as ratios use it
};
struct ComparedRow {
  std::size_t workload = 0;           ///< place in Comparison::workloads
  double weight = 0;                  ///< of the overall mean; 0: not in it
  std::vector<ComparedCell> systems;  ///< as Comparison::systems
};
/// Place in a ranking. Systems that no interval tells apart share one: the rank is 1 + how many are shown to be better.
struct RankedSystem {
  std::size_t system = 0;
  int rank = 1;
  bool tied = false;            ///< shares its rank
  std::size_t beats = 0;        ///< than how many others it is shown to be better
  std::optional<double> ratio;  ///< overall, to the reference
};
/// A workload that a device cannot do: in no overall mean, whichever system lacks it.
struct LeftOutWorkload {
  std::size_t workload = 0;
  std::vector<std::size_t> systems;  ///< that call it unsupported
};
struct FigureComparison {
  ComparedFigure figure;
  Scope scope = Scope::none;          ///< of the joules; empty if the figure has none
  std::string note;                   ///< what holds for all of it: that costs are lower bounds; empty otherwise
  std::vector<ComparedRow> rows;      ///< one for each workload that the reference has the figure of
  std::vector<Ratio> overall;         ///< weighted geometric mean over rows, as Comparison::systems
  std::string overall_reason;         ///< why there is none for any system; empty otherwise
  std::vector<RankedSystem> ranking;  ///< best first; those without an overall ratio are left out
  std::vector<LeftOutWorkload> left_out{};
};
struct ComparedWorkload {
  std::string id;  ///< of the reference's record
  std::string model, precision;
  std::int64_t global_batch = 0;
  bool to_target = false;
  std::vector<std::string> records;  ///< id of each system's record, as Comparison::systems; empty: it has none
  std::vector<std::vector<std::string>> run_records{};  ///< the same of each of its runs
};
struct ComparedSystem {
  std::string name;
  std::vector<std::string> paths;
  std::string hosts, devices;  ///< "2 x node (Intel …)", for people
  std::string program;         ///< "trainwatt-train 0.1.0 (commit)"
  std::string suite, plan_sha256;
  std::vector<std::string> started_at;  ///< of each run
  int records = 0, valid = 0;
  int busy_runs = 0;  ///< in which other programs, or other guests of the hypervisor, took CPU time
  std::vector<std::string>
      broken_rules;  ///< names of the run rules that any of its runs breaks (results/analysis/run_rules.hpp)
  std::optional<CostReport> cost;  ///< of the first run; where prices are given
};
/// Of one workload: whose million samples, or whose trained model, is cheaper, and where that changes.
struct WorkloadBreakEven {
  std::size_t workload = 0, system = 0;  ///< system against the reference
  std::vector<BreakEven> inputs;
  std::string reason;  ///< why there are none
};
/// Earlier runs that the spread between runs of some systems is learned from.
struct LearnedSpread {
  std::vector<std::string> paths;
  std::vector<std::size_t> systems;
};
/// Why runs of a kit decide no tender: each would be rejected as an offer.
struct AwardObstacle {
  std::size_t system = 0;
  std::string code, text;  ///< of `trainwatt validate --kit`: "rule_broken", "kit_differs"
};
inline constexpr std::size_t most_named_obstacles = 3;  ///< different texts that the answer names
/// What to do after an answer.
struct NextStep {
  /// "see_verdicts", "validate_report", "resolve_differences", "run_one_plan", "mend_offer", "measure_node_energy",
  /// "repeat_runs", "repeat_quiet", "more_runs", "treat_as_equal", "keep_run_rules", "add_prices", "keep_evidence"; of
  /// one report also "compare"
  std::string code;
  std::string text;  ///< "Next: …", one sentence or two
};
struct Comparison {
  std::vector<ComparedSystem> systems;
  std::size_t reference = 0;
  Replicates replicates = Replicates::trials;
  std::string replicates_note;              ///< what was found out about runs and turns, in words
  std::vector<LearnedSpread> learned;       ///< by group; those that no system uses are left out
  std::vector<ComparedWorkload> workloads;  ///< of the reference, in the order of its run
  std::vector<Difference> differences;      ///< blocking ones first
  std::vector<FigureComparison> figures;
  std::vector<WorkloadBreakEven> break_even;  ///< where prices are given
  std::string currency;
  /// The first answer, a sentence for each system, or why nothing is decided.
  std::vector<std::string> answer;
  std::size_t first_of_systems = 0;     ///< from this sentence of several systems' answer on each is of one system
  std::vector<std::string> rests_on{};  ///< below it, a line each: runs, prices, busy machines, what it leaves open
  std::size_t first_detail = 0;         ///< from this line of rests_on on they are of single workloads and earlier runs
  bool is_tender = false;               ///< runs of a kit, or compared with one
  std::vector<AwardObstacle> not_an_award{};  ///< of a tender; `answer` begins with them where something is compared
  bool compared = false;                      ///< some ratio was had
  bool decided() const;    ///< some ratio has a verdict over runs: better, worse, or no difference shown
  bool names_one() const;  ///< some is better or worse
  NextStep next_step{};    ///< behind the answer
};

/// What is wrong with the options that a user has given, with the code of the error.
class OptionError : public std::invalid_argument {
 public:
  OptionError(std::string code, const std::string& what) : std::invalid_argument(what), code_(std::move(code)) {}
  const std::string& code() const { return code_; }

 private:
  std::string code_;
};
/// Throws OptionError, and std::invalid_argument for what no command line can lead to.
Comparison compare(const std::vector<SystemInput>& systems, const CompareOptions& options);

/// A JSON object (comments allowed) of weights as CompareOptions has them. Throws std::runtime_error with the place.
std::map<std::string, double> weights_from_json(const std::string& text);

enum class RuleState { violated, undecided, not_checked, kept };
template <>
inline constexpr std::array name_list<RuleState> = {"violated", "undecided", "not checked", "kept"};
/// What a rule of a baseline says of one system (results/compare/baseline.hpp).
struct RuleCheck {
  std::string rule;
  std::size_t system = 0;
  std::string point;  ///< of the baseline; empty: of a failure rule, which is about all of them
  RuleState status = RuleState::not_checked;
  std::string
      text;  ///< "-7.1 % (allowed: at most 5.0 % below); the interval (-9.0 to -5.2) lies outside; 3.1 % would show"
};

}  // namespace tw::results
