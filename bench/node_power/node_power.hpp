// One node's joules, time series and counters along a window, as the rows that stand in a record. Knows nothing of ranks:
// one process of a node holds it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "power/energy_meter.hpp"
#include "results/record.hpp"

namespace tw {

class NodePower {
 public:
  /// Looks for meters and telemetry; takes up to half a second a source. `host` goes into each row.
  explicit NodePower(std::string host, const MeterOptions& options = {});
  ~NodePower();

  /// What was found, with reasons for what was not.
  std::vector<MeterEntry> entries() const;
  /// Whether any meter is counted.
  bool has_meter() const;

  void begin();
  void end();
  /// Fills energy, series, counters and sampler_cpu_share of the last window; appends to what is there.
  void collect(Trial& trial) const;
  /// Mean power of each counted meter between begin() and end(), with nothing of ours running.
  std::vector<IdleRow> idle(const std::string& when) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tw
