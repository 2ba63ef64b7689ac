// What each trial used, and what that costs. Internal to costs.
#pragma once

#include <optional>
#include <vector>

#include "results/cost.hpp"
#include "results/record.hpp"

namespace tw::costs {

inline constexpr double joules_per_kwh = 3.6e6;

/// What one unit takes of all nodes: a sample, a model, a second.
struct Use {
  double seconds = 0;
  std::optional<double> joules;
  double sensor = 0;  ///< half width of the joules, 95 %, as a share
};
enum class Unit { second, sample, model };

/// Of each valid trial. Empty where a trial does not have it.
std::vector<Use> uses_of(const Record& record, Unit unit);
Use mean_of(const std::vector<Use>& uses);
/// Mean of those that an estimate of their costs is of: of all, from 10 on without the cheapest and the dearest (DESIGN
/// §8.2), of runs to a target always of all. Its cost is that estimate, and each part of it belongs to the same trials.
Use counted_mean(const Record& record, std::vector<Use> uses, const PriceRow& price, int nodes);

double kwh_of(const Use& use, const PriceRow& price, int nodes);
double hours_cost(const Use& use, const PriceRow& price, int nodes);
double electricity_cost(const Use& use, const PriceRow& price, int nodes);
double cost(const Use& use, const PriceRow& price, int nodes);

/// Half width, 95 %, as a share, that when its target was reached adds to the cost of a model; 0 of all else.
double passage_share(const Record& record, Unit unit);
/// Share of a cost that is not known better than to this half width: the sensor's by the share of joules in it, and
/// passage_share().
double common_share(const Use& mean, double passage, const PriceRow& price, int nodes);

}  // namespace tw::costs
