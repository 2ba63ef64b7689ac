#include "bench/plan/options/meter_options.hpp"

#include <fmt/format.h>

#include "bench/plan/options/input_kind.hpp"
#include "bench/plan/options/usage_error.hpp"
#include "power/sources/external/source.hpp"

namespace tw::bench {

power::MeterOptions meter_options(const std::string& energy_csv, const std::optional<double>& estimate_watts,
                                  const std::string& host, bool is_one_node) {
  constexpr double most_watts = 1e7;  // as of a site's own meter
  if (estimate_watts && !(*estimate_watts > 0 && *estimate_watts <= most_watts))
    throw UsageError(
        "bad-value", "estimate_watts",
        fmt::format("--estimate-watts {}: must be above 0 W (maximum {:.0f})", *estimate_watts, most_watts));
  power::MeterOptions options;
  options.estimate_watts = estimate_watts;
  if (energy_csv.empty()) return options;
  const std::string mark = "{host}";
  std::string file = energy_csv;
  if (const std::size_t at = file.find(mark); at != std::string::npos)
    file.replace(at, mark.size(), host);
  else if (!is_one_node)
    throw UsageError(
        "bad-value", "energy_csv",
        fmt::format("--energy-csv {}: the job has several nodes: write {{host}} in the file name, one file per node",
                    file));
  options.external_csv = file;
  return options;
}

void check_meters(const power::MeterOptions& options) {
  if (!options.external_csv) return;
  check_kind("--energy-csv", *options.external_csv, {InputKind::power_csv});
  for (const power::MeterFinding& finding : power::external::find_meters_in(*options.external_csv))
    if (!finding.meter)
      throw UsageError("bad-power-file", "energy_csv", fmt::format("--energy-csv: {}", finding.detail));
}

}  // namespace tw::bench
