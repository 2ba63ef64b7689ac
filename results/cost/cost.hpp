// What training costs: prices of a machine × what a report measured (results/README.md). Every input is echoed, what is
// not known is absent with a reason, and a cost that rests on part of the joules says that it is a lower bound.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "results/cost/prices.hpp"
#include "results/record/record.hpp"

namespace tw::results {

/// Whether a cost in money holds everything. Its kWh and CO2 have a basis of their own (RecordCost::energy_is_whole):
/// electricity that the rent includes makes the money complete, and no meter.
enum class CostBasis {
  complete,     ///< joules of the node (× PUE), or electricity that the rent includes
  lower_bound,  ///< joules of a part of the node: device or package; the whole draws more
  hours_only,   ///< no joules: what the hours cost, without electricity; a lower bound, too
};
template <>
inline constexpr std::array name_list<CostBasis> = {"complete", "lower_bound", "hours_only"};

/// What a cost is of.
enum class CostPer { hour, eflop, million_samples, model };
template <>
inline constexpr std::array name_list<CostPer> = {"hour", "eflop", "million_samples", "model"};

/// One kind of cost: of an hour, an EFLOP (10^18 model FLOPs), a million samples, a model trained to its target. For
/// samples and FLOPs it is the cost of a second ÷ throughput plus the cost of a joule ÷ samples/J (estimate_of_paid());
/// otherwise the mean over trials.
struct CostFigure {
  CostPer per = CostPer::hour;
  std::optional<Estimate> total;                ///< in the currency, with its interval; absent with a reason
  double hours_part = 0, electricity_part = 0;  ///< add up to the total's value
  std::optional<double> kwh;     ///< facility's where energy_is_whole, else of the scope × PUE; absent without joules
  std::optional<double> co2_kg;  ///< kwh × carbon intensity; absent if that or the joules are not given
  std::string reason;            ///< why total is absent; empty otherwise
};
/// What one input does, alone, to the cost named in `RecordCost::of`.
struct Sensitivity {
  std::string input;                   ///< "electricity_per_kwh", "throughput", …
  double base = 0, low = 0, high = 0;  ///< of the input; low and high as far as it may go (a PUE is no less than 1)
  double cost_low = 0, cost_high = 0;  ///< the cost at them
  double cost_base = 0;                ///< the cost as given
  /// The greater of both changes of the cost as given; without its sign.
  double effect() const;
};
struct RecordCost {
  std::string id;  ///< of the record
  int nodes = 1;
  CostBasis basis = CostBasis::hours_only;
  Scope scope = Scope::none;               ///< of the joules; empty: none
  std::string basis_note;                  ///< why it is not complete; empty if it is
  bool energy_is_whole = false;            ///< kWh and CO2 are of the node's joules; else lower bounds, where any
  std::string energy_note;                 ///< why they are lower bounds; empty if they are not, or are absent
  std::optional<Estimate> it_power_w;      ///< mean, of that scope, of all nodes, without network and storage
  std::optional<double> facility_power_w;  ///< (it_power_w + network and storage) × PUE; of the scope node alone
  std::vector<CostFigure> figures;         ///< those that the record can have, in the order above
  std::optional<CostPer> of{};  ///< what sensitivity is about: a model or a million samples; absent if there is none
  std::vector<Sensitivity> sensitivity;  ///< most effect first
  std::string reason;                    ///< why there are no figures: the record does not count; empty otherwise
  std::string target_note;               ///< extrapolation_words() of the record; empty of most
};
struct CostReport {
  std::string currency;
  PriceRow price;  ///< every input, echoed
  double sensitivity_share = 0.2;
  std::vector<RecordCost> records;  ///< one for each of the report
};

/// The nodes of the ranks that trained the record; 1 if the report does not say.
int nodes_of(const Report& report, const Record& record);
/// Of all nodes, an hour of work: what is paid whether or not anything is computed, ÷ utilisation.
double hour_price(const PriceRow& price, int nodes);

CostReport cost_of(const Report& report, const std::string& currency, const PriceRow& price,
                   double sensitivity_share = 0.2);

/// Which joules a cost of this record takes: "node" where it has them, else a part's that includes the training, else
/// "".
Scope cost_scope(const Record& record);
CostBasis cost_basis(const Record& record, const PriceRow& price);
/// What the costs of a system rest on: one answer over the records of all its runs, of one workload.
struct CostGround {
  CostBasis basis = CostBasis::hours_only;  ///< of the first, where they disagree
  bool is_mixed = false;                    ///< they do not rest on the same: no mean over them is a cost of anything
  std::string text;  ///< "complete", "lower bound, package joules"; "run 1: complete, run 2: hours only, no joules"
};
CostGround cost_ground(const std::vector<const Record*>& runs, const PriceRow& price);

/// Currency for a million samples of each valid trial, or for the model of each run to a target.
struct TrialCosts {
  std::vector<double> values;  ///< empty with a reason
  double common = 0;           ///< half width, 95 %, that all trials have in common, as a share
  std::optional<Estimate> estimate{};  ///< as cost_of() has it: of samples no mean of `values`; absent with them
  std::string reason;
};
TrialCosts trial_costs(const Record& record, const PriceRow& price, int nodes);

/// Who is shown to be cheaper along a stretch of one input.
struct CheaperRange {
  std::string cheaper;  ///< empty: no difference is shown, at 95 %
  double from = 0, to = 0;
};
/// Where the cheaper of two changes along one input, all else as it is (results/compare/break_even.hpp).
struct BreakEven {
  std::string input;                   ///< "electricity_per_kwh", "utilisation", "rent_per_month", "capex"
  std::string whose;                   ///< the system whose price it is; empty: one value for both
  std::optional<double> at{};          ///< where their means meet; absent: nowhere within the ranges, or more than once
  std::vector<CheaperRange> ranges{};  ///< one after the other, from the least value that was looked at to the most
  std::string
      text{};  ///< "B is cheaper below 0.190 EUR/kWh, A above 0.230, up to 3.00; no difference is shown between"
};

// What each trial used, and what that costs; internal to costs.
namespace costs {

inline constexpr double joules_per_kwh = 3.6e6;

/// What one unit takes of all nodes: a sample, a model, a second.
struct Use {
  double seconds = 0;
  std::optional<double> joules;
  double sensor = 0;  ///< half width of the joules, 95 %, as a share
};
enum class Unit { second, sample, model };

/// Of each valid trial. Empty if a trial does not have it.
std::vector<Use> uses_of(const Record& record, Unit unit);
/// What an estimate of their costs is of. Of a sample: 1 ÷ the throughput and 1 ÷ the samples/J that the summary shows.
/// Of an hour and a model: the mean of all uses, so that each part belongs to the same trials.
Use counted_mean(const std::vector<Use>& uses, Unit unit);
/// The cost of counted_mean(), with its interval; `scale` of that unit.
Estimate estimated_cost(const Record& record, const std::vector<Use>& uses, Unit unit, double scale,
                        const PriceRow& price, int nodes);
/// Their mean with its interval. `common`: a share that all have in common.
Estimate estimated(const std::vector<double>& values, double common);

/// Whether measured joules are part of a cost at this price.
bool pays_for_joules(const std::optional<PriceRow>& price);

double kwh_of(const Use& use, const PriceRow& price, int nodes);
double hours_cost(const Use& use, const PriceRow& price, int nodes);
double electricity_cost(const Use& use, const PriceRow& price, int nodes);
double cost(const Use& use, const PriceRow& price, int nodes);

/// Half width, 95 %, as a share, that when its target was reached adds to the cost of a model; 0 of all else.
double passage_share(const Record& record, Unit unit);
/// Share of a cost that is not known better than to this half width: the sensor's by the share of joules in it, and
/// passage_share().
double common_share(const Use& mean, double passage, const PriceRow& price, int nodes);

}  // namespace costs
}  // namespace tw::results
