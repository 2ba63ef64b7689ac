// What --energy-csv and --estimate-watts come to on a node.
#pragma once

#include <optional>
#include <string>

#include "power/meter/energy_meter.hpp"

namespace tw::bench {

/// As given; no file is looked at. `host` takes the place of {host} in the file's name. Throws UsageError if the
/// power is none, and where several nodes would read one file, since each would count it.
power::MeterOptions meter_options(const std::string& energy_csv, const std::optional<double>& estimate_watts,
                                  const std::string& host, bool is_one_node);

/// Throws UsageError if the file that was asked for shows no power yet. Call on one process of each node.
void check_meters(const power::MeterOptions& options);

}  // namespace tw::bench
