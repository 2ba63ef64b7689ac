// Joules of a window, one reader per node, gathered from all nodes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/job.hpp"
#include "results/record.hpp"

namespace tw {

/// Opens the node's meters on the node leader; every other rank holds an empty one. All functions but the constructor's
/// work are collective where they say so.
class EnergyWindow {
 public:
  explicit EnergyWindow(Job& job);
  ~EnergyWindow();
  /// Meters found on all nodes, with reasons (collective).
  std::vector<MeterEntry> entries();
  void begin();
  void end();
  /// Rows of the last window from all nodes, on every rank (collective). Where a node has no meter: one row without joules.
  std::vector<EnergyRow> rows();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw
