// What each trial used, and what that costs. Internal to costs.
#pragma once

#include <optional>
#include <vector>

#include "results/cost/cost.hpp"
#include "results/record/record.hpp"

namespace tw::results::costs {

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

}  // namespace tw::results::costs
