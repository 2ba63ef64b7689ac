#include "power/ledger.hpp"

#include <cstdio>
#include <stdexcept>

#include "power/uncertainty.hpp"

namespace tw {
namespace {

void fill_window(const MeterFinding& finding, const EnergySample& from, const EnergySample& to,
                 double clock_skew_seconds, LedgerRow& row) {
  EnergyMeter& meter = *finding.meter;
  row.window_seconds = std::chrono::duration<double>(to.time - from.time).count();
  row.wraps = to.wraps - from.wraps;
  row.energy_joules = meter.joules_between(from, to);
  if (!(*row.energy_joules > 0)) {  // nothing that is switched on draws 0 W: the counter has not been brought up to date
    row.energy_joules.reset();
    if (row.reason.empty()) row.reason = "not_updated";
    char text[160];
    std::snprintf(text, sizeof text, "the counter did not move in %.3f s (each %.3f s as measured at the start): take a longer window",
                  row.window_seconds, row.update_period_seconds);
    row.detail = text;
    return;
  }
  row.uncertainty_joules = energy_uncertainty_joules(*row.energy_joules, row.window_seconds,
                                                     {row.update_period_seconds, clock_skew_seconds});
  row.counted = finding.counted;
  // What the counter showed late at the begin belongs to the window before: a period's worth is allowed on top.
  const double limit_watts = implausible_power_factor * meter.maximum_power_watts();
  if (*row.energy_joules > limit_watts * (row.window_seconds + row.update_period_seconds)) {
    row.counted = false;
    if (row.reason.empty()) row.reason = "implausible";
    char text[160];
    std::snprintf(text, sizeof text, "%.0f J in %.3f s is above 1.5 x the %s maximum of %.0f W", *row.energy_joules,
                  row.window_seconds, meter.maximum_power_is_default() ? "assumed" : "sensor's",
                  meter.maximum_power_watts());
    row.detail = text;
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
    row.detail = finding.detail;
    if (finding.scope) row.scope = to_string(*finding.scope);
    if (finding.meter) {
      const EnergyMeter& meter = *finding.meter;
      row.scope = to_string(meter.scope());
      row.method = to_string(meter.method());
      row.update_period_seconds = meter.update_period_seconds();
      const MeterReading& first = begin.readings[i];
      if (first.sample && last.sample && first.breaks == last.breaks) {
        try {
          fill_window(finding, *first.sample, *last.sample, clock_skew_seconds, row);
        } catch (const WindowUnknown& unknown) {
          if (row.reason.empty()) row.reason = unknown.reason;
          row.detail = unknown.what();
        }
      } else {
        if (row.reason.empty()) row.reason = last.reason;
        row.detail = last.detail;
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace tw
