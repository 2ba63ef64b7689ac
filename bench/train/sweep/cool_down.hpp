// Points under different settings are to begin at one temperature.
#pragma once

#include <map>
#include <optional>

#include "bench/plan/plan.hpp"
#include "bench/train/node/energy_window.hpp"
#include "bench/train/point/progress.hpp"
#include "comm/job.hpp"
#include "results/analysis/run_rules.hpp"
#include "results/record/record.hpp"

namespace tw::bench {

class CoolDown {
 public:
  /// `reference_c`: of a resumed run, what its first point began at. `most_seconds`: of one wait.
  CoolDown(comm::Job& job, EnergyWindow& energy, Progress& progress, double most_seconds,
           std::optional<double> reference_c = {})
      : job_(job), energy_(energy), progress_(progress), most_seconds_(most_seconds), reference_c_(reference_c) {}

  /// Before a point under another setting than the one before, and before the first one of a resumed launch: all
  /// ranks sleep until the hottest sensor of all nodes is at most `band_c` above what the run's first point began at,
  /// or the time is up. No sensor, no wait. Comes back early where a signal wants the end. Returns what a record's
  /// `start` says (collective).
  std::optional<results::StartTemperature> before(const Point& point);

  static constexpr double band_c = results::start_band_c;

 private:
  comm::Job& job_;
  EnergyWindow& energy_;
  Progress& progress_;
  double most_seconds_;
  std::optional<double> reference_c_;
  std::optional<std::map<power::KnobKind, double>> setting_;  // of the point before
};

}  // namespace tw::bench
