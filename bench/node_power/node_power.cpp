#include "bench/node_power/node_power.hpp"

#include <algorithm>
#include <utility>

#include "power/ledger.hpp"
#include "power/reader.hpp"
#include "power/sampler.hpp"

namespace tw {

struct NodePower::Impl {
  Impl(std::string the_host, const MeterOptions& options)
      : host(std::move(the_host)), reader(find_meters(options)), sampler(find_telemetry(), &reader) {}

  std::string host;
  EnergyReader reader;
  Sampler sampler;
  EnergySnapshot first, last;
  Sampled sampled;
};

NodePower::NodePower(std::string host, const MeterOptions& options)
    : impl_(std::make_unique<Impl>(std::move(host), options)) {}
NodePower::~NodePower() = default;

std::vector<MeterEntry> NodePower::entries() const {
  std::vector<MeterEntry> entries;
  for (const MeterFinding& finding : impl_->reader.findings()) {
    MeterEntry entry;
    entry.host = impl_->host;
    entry.domain = finding.domain;
    if (finding.scope) entry.scope = to_string(*finding.scope);
    entry.reason = finding.reason;
    entry.detail = finding.detail;
    entry.available = finding.meter != nullptr;
    entry.counted = finding.counted;
    if (finding.meter) {
      entry.scope = to_string(finding.meter->scope());
      entry.method = to_string(finding.meter->method());
      if (finding.meter->update_period_seconds() > 0) entry.update_period_s = finding.meter->update_period_seconds();
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

bool NodePower::has_meter() const {
  for (const MeterFinding& finding : impl_->reader.findings())
    if (finding.meter && finding.counted) return true;
  return false;
}

// The counters are read last before the window, and first after it: what the sampler does at its edges is not in between.
void NodePower::begin() {
  impl_->sampler.begin();
  impl_->first = impl_->reader.snapshot();
}

void NodePower::end() {
  impl_->last = impl_->reader.snapshot();
  impl_->sampled = impl_->sampler.end();
}

void NodePower::collect(Trial& trial) const {
  for (LedgerRow& from : make_ledger(impl_->reader.findings(), impl_->first, impl_->last)) {
    EnergyRow row;
    row.scope = std::move(from.scope);
    row.domain = std::move(from.domain);
    row.host = impl_->host;
    row.method = std::move(from.method);
    row.energy_j = from.energy_joules;
    row.uncertainty_j = from.uncertainty_joules;
    if (from.window_seconds > 0) row.window_s = from.window_seconds;
    if (from.update_period_seconds > 0) row.update_period_s = from.update_period_seconds;
    row.counted = from.counted;
    row.reason = std::move(from.reason);
    trial.energy.push_back(std::move(row));
  }
  for (const Series& series : impl_->sampled.series) {
    const Channel& channel = series.channel;
    if (series.change) trial.counters.push_back({impl_->host, channel.domain, channel.quantity, *series.change});
    if (channel.cumulative || series.points.empty()) continue;
    SeriesRow row{impl_->host, channel.domain, channel.quantity, {}, {}, {}, {}};
    for (const SeriesPoint& point : series.points) {
      row.time_s.push_back(point.time_seconds);
      row.minimum.push_back(point.minimum);
      row.mean.push_back(point.mean);
      row.maximum.push_back(point.maximum);
    }
    trial.series.push_back(std::move(row));
  }
  if (!impl_->sampled.series.empty() && impl_->sampled.window_seconds > 0)
    trial.sampler_cpu_share =
        std::max(trial.sampler_cpu_share.value_or(0), impl_->sampled.cpu_seconds / impl_->sampled.window_seconds);
}

std::vector<IdleRow> NodePower::idle(const std::string& when) const {
  std::vector<IdleRow> rows;
  for (const LedgerRow& from : make_ledger(impl_->reader.findings(), impl_->first, impl_->last)) {
    if (!from.counted) continue;
    IdleRow row{when, impl_->host, from.domain, from.scope, {}, {}, from.reason};
    if (from.window_seconds > 0) row.window_s = from.window_seconds;
    if (from.energy_joules && row.window_s)
      row.power_w = *from.energy_joules / *row.window_s;
    else if (row.reason.empty())
      row.reason = "not read";
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace tw
