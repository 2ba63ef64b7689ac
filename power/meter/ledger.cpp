#include "power/meter/ledger.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "power/meter/number_text.hpp"

namespace tw::power {
namespace {

/// Leaves the window without joules.
void refuse(LedgerRow& row, const char* reason, std::string detail) {
  row.energy_joules.reset();
  if (row.reason.empty()) row.reason = reason;
  row.detail = std::move(detail);
}

void fill_window(const MeterFinding& finding, const EnergySample& from, const EnergySample& to,
                 const WindowFinding& found, double clock_skew_seconds, LedgerRow& row) {
  EnergyMeter& meter = *finding.meter;
  const double window = row.window_seconds = seconds_between(from.time, to.time);
  const double period = row.update_period_seconds;
  // A counter shows 0 or a whole period's joules then, whatever was used; a power that is averaged, held or
  // interpolated is that of a longer time than the window.
  if (window < period)
    return refuse(row, "too_short",
                  formatted("the window of %.4g s is shorter than the meter's period of %.4g s: use a longer window",
                            window, period));
  row.energy_joules = meter.joules_between(from, to);
  if (!(*row.energy_joules > 0))
    return refuse(
        row, "not_updated",
        formatted("the meter did not change in %.4g s, although it changed every %.4g s at the start", window, period));
  if (found.reason == "reset" || found.reason == "stalled") return refuse(row, found.reason.c_str(), found.detail);
  row.wraps = to.wraps - from.wraps;
  const double longest_seconds = std::max(meter.longest_period_seconds(from, to), found.longest_gap_seconds);
  row.uncertainty_joules = energy_uncertainty_joules(
      *row.energy_joules, window,
      {longest_seconds, clock_skew_seconds, found.highest_watts, found.doubtful_seconds, found.doubtful_joules});
  row.counted = finding.counted;
  // What the counter showed late at the begin belongs to the window before: a period's worth is allowed on top.
  const double limit_watts = implausible_power_factor * meter.maximum_power_watts();
  if (*row.energy_joules > limit_watts * (window + period)) {
    row.counted = false;
    if (row.reason.empty()) row.reason = "implausible";
    row.detail = formatted("%.6g J in %.4g s is above 1.5 x the %s maximum of %.6g W", *row.energy_joules, window,
                           meter.maximum_power_is_default() ? "assumed" : "sensor's", meter.maximum_power_watts());
  } else if (!found.reason.empty()) {
    row.counted = false;
    if (row.reason.empty()) row.reason = found.reason;
    row.detail = found.detail;
  }
}

}  // namespace

std::vector<LedgerRow> make_ledger(const std::vector<MeterFinding>& findings, const EnergySnapshot& begin,
                                   const EnergySnapshot& end, double clock_skew_seconds) {
  if (begin.readings.size() != findings.size() || end.readings.size() != findings.size())
    throw std::invalid_argument("the snapshots are of another reader than the findings");
  std::vector<LedgerRow> rows;
  for (std::size_t i = 0; i < findings.size(); ++i) {
    const MeterFinding& finding = findings[i];
    const MeterReading& last = end.readings[i];
    LedgerRow row;
    row.domain = finding.domain;
    row.reason = finding.reason;
    if (finding.scope) row.scope = to_string(*finding.scope);
    if (finding.meter) {
      const EnergyMeter& meter = *finding.meter;
      row.scope = to_string(meter.scope());
      row.method = to_string(meter.method());
      row.update_period_seconds = meter.update_period_seconds();
      const MeterReading& first = begin.readings[i];
      if (first.sample && last.sample && first.breaks == last.breaks) {
        try {
          fill_window(finding, *first.sample, *last.sample, last.window.value_or(WindowFinding()), clock_skew_seconds,
                      row);
        } catch (const WindowUnknown& unknown) {
          refuse(row, unknown.reason.c_str(), unknown.what());
        }
      } else {
        refuse(row, last.reason.c_str(), last.detail);
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace tw::power
