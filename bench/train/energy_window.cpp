#include "bench/train/energy_window.hpp"

#include "power/ledger.hpp"
#include "power/reader.hpp"
#include "results/report_io.hpp"

namespace tw {
namespace {

/// Rows travel between ranks in the form in which they stand in reports, inside an otherwise empty record.
std::string pack_rows(std::vector<EnergyRow> rows) {
  Record carrier;
  carrier.trials.emplace_back().energy = std::move(rows);
  return to_json_line(carrier);
}
std::vector<EnergyRow> unpack_rows(const std::string& text) { return record_from_json(text).trials.front().energy; }

/// Meter entries likewise, inside an otherwise empty report.
std::string pack_entries(std::vector<MeterEntry> entries) {
  Report carrier;
  carrier.context.meters = std::move(entries);
  return to_json(carrier);
}

}  // namespace

struct EnergyWindow::Impl {
  explicit Impl(Job& the_job) : job(the_job) {
    if (job.is_node_leader()) reader = std::make_unique<EnergyReader>(find_meters());
  }

  /// This node's rows of the last window.
  std::vector<EnergyRow> rows() const {
    std::vector<EnergyRow> rows;
    for (LedgerRow& from : make_ledger(reader->findings(), first, last)) {
      EnergyRow row;
      row.scope = std::move(from.scope);
      row.domain = std::move(from.domain);
      row.host = job.host();
      row.method = std::move(from.method);
      row.energy_j = from.energy_joules;
      row.uncertainty_j = from.uncertainty_joules;
      if (from.window_seconds > 0) row.window_s = from.window_seconds;
      if (from.update_period_seconds > 0) row.update_period_s = from.update_period_seconds;
      row.counted = from.counted;
      row.reason = std::move(from.reason);
      rows.push_back(std::move(row));
    }
    return rows;
  }

  Job& job;
  std::unique_ptr<EnergyReader> reader;  // node leader only
  EnergySnapshot first, last;
};

EnergyWindow::EnergyWindow(Job& job) : impl_(std::make_unique<Impl>(job)) {}
EnergyWindow::~EnergyWindow() = default;

std::vector<MeterEntry> EnergyWindow::entries() {
  std::vector<MeterEntry> mine;
  if (impl_->reader)
    for (const MeterFinding& finding : impl_->reader->findings()) {
      MeterEntry entry;
      entry.host = impl_->job.host();
      entry.domain = finding.domain;
      if (finding.scope) entry.scope = to_string(*finding.scope);
      entry.reason = finding.reason;
      entry.detail = finding.detail;
      entry.available = finding.meter != nullptr;
      entry.counted = finding.counted;
      if (finding.meter) {
        entry.scope = to_string(finding.meter->scope());
        entry.method = to_string(finding.meter->method());
        entry.update_period_s = finding.meter->update_period_seconds();
      }
      mine.push_back(std::move(entry));
    }
  std::vector<MeterEntry> all;
  for (const std::string& text : impl_->job.gather(impl_->reader ? pack_entries(std::move(mine)) : std::string()))
    if (!text.empty())
      for (MeterEntry& entry : report_from_json(text).context.meters) all.push_back(std::move(entry));
  return all;
}

void EnergyWindow::begin() {
  if (impl_->reader) impl_->first = impl_->reader->snapshot();
}

void EnergyWindow::end() {
  if (impl_->reader) impl_->last = impl_->reader->snapshot();
}

std::vector<EnergyRow> EnergyWindow::rows() {
  std::vector<EnergyRow> mine;
  if (impl_->reader) mine = impl_->rows();
  std::vector<EnergyRow> all;
  for (const std::string& text : impl_->job.gather(impl_->reader ? pack_rows(std::move(mine)) : std::string()))
    if (!text.empty())
      for (EnergyRow& row : unpack_rows(text)) all.push_back(std::move(row));
  return all;
}

}  // namespace tw
