// Two systems of one point, and what is claimed of them: for tests of comparisons.
#pragma once

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "results/compare/comparison.hpp"
#include "tests/results/made_reports.hpp"

namespace tw::testing {

inline const std::vector<double> slow = {100, 101, 99, 100.5, 99.5}, fast = {110, 111, 109, 110.5, 109.5};
inline constexpr const char* id = "gpt2-tiny/bf16/acc4/np2";

inline std::vector<double> times(std::vector<double> values, double factor) {
  for (double& v : values) v *= factor;
  return values;
}
inline const results::FigureComparison& figure(const results::Comparison& c, const std::string& name = "throughput") {
  const auto found =
      std::ranges::find(c.figures, name, [](const results::FigureComparison& f) { return f.figure.name; });
  if (found == c.figures.end()) throw std::runtime_error("no figure " + name);
  return *found;
}
inline const results::Ratio& ratio(const results::Comparison& c, std::size_t system = 1,
                                   const char* name = "throughput", std::size_t row = 0) {
  return figure(c, name).rows.at(row).systems.at(system).ratio;
}
inline const results::Difference* difference(const results::Comparison& c, const std::string& what) {
  const auto found = std::ranges::find(c.differences, what, &results::Difference::what);
  return found == c.differences.end() ? nullptr : &*found;
}
/// The system's one run as several: each of a launch and, by a ten-thousandth a run, of times and joules of its own.
inline void repeat(results::SystemInput& system, std::size_t runs) {
  system.runs.assign(runs, system.runs.at(0));
  double factor = 1;
  for (std::size_t run = 0; run < runs; ++run) {
    const std::string launch = system.name + std::to_string(run);
    system.runs[run].context.launch = launch;
    factor += 1e-4;
    for (results::Record& record : system.runs[run].records) {
      record.launch = launch;
      for (results::Trial& trial : record.trials) {
        trial.window_s *= factor;
        for (results::EnergyRow& row : trial.energy)
          if (row.energy_j) *row.energy_j *= factor;
      }
    }
  }
}
/// Runs of one machine at these shares of the speed `slow`, each of a launch of its own; one point.
inline results::SystemInput runs_at(const std::string& name, const std::vector<double>& speeds,
                                    std::optional<double> watts = {}) {
  results::SystemInput system = made_system(name, {});
  system.runs.clear();
  for (std::size_t run = 0; run < speeds.size(); ++run) {
    results::Report report = made_report({made_record(id, times(slow, speeds[run]), watts)});
    report.context.launch = name + std::to_string(run);
    report.records[0].launch = report.context.launch;
    system.runs.push_back(std::move(report));
  }
  return system;
}
/// How five runs differ: by some 2 %.
inline const std::vector<double> spread = {0.97, 1, 1.03, 0.99, 1.01};

/// Of five runs that hardly differ: a difference of their trials is one of the systems.
inline results::SystemInput several(const std::string& name, std::vector<results::Record> records) {
  results::SystemInput system = made_system(name, std::move(records));
  repeat(system, 5);
  return system;
}
inline results::Comparison of(results::Record a, results::Record b, const results::CompareOptions& options = {}) {
  return results::compare({several("A", {std::move(a)}), several("B", {std::move(b)})}, options);
}
/// One run of each.
inline results::Comparison of_single(results::Record a, results::Record b,
                                     const results::CompareOptions& options = {}) {
  return results::compare({made_system("A", {std::move(a)}), made_system("B", {std::move(b)})}, options);
}

}  // namespace tw::testing
