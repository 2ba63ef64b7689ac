#include "bench/train/energy_window.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <thread>

#include "power/journal.hpp"
#include "results/report_io.hpp"

namespace tw {
namespace {

// Rows travel between ranks in the form in which they stand in reports, inside an otherwise empty record or report.
std::string pack(Trial trial) {
  Record carrier;
  carrier.trials.push_back(std::move(trial));
  return to_json_line(carrier);
}
std::string pack(Context context) {
  Report carrier;
  carrier.context = std::move(context);
  return to_json(carrier);
}

template <class Row>
void append(std::vector<Row>& to, std::vector<Row>&& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

struct EnergyWindow::Impl {
  Impl(Job& the_job, const MeterOptions& options) : job(the_job) {
    const std::vector<std::string> ids = job.gather(job.is_node_leader() ? boot_id() : std::string());
    const auto me = static_cast<std::size_t>(job.rank());
    if (ids[me].empty() && !job.is_node_leader()) return;
    const auto first = static_cast<std::size_t>(std::find(ids.begin(), ids.end(), ids[me]) - ids.begin());
    if (ids[me].empty() || first == me)
      power = std::make_unique<NodePower>(job.host(), options);
    else
      reader_rank = first;
  }

  Job& job;
  std::unique_ptr<NodePower> power;        // of one rank for each machine
  std::optional<std::size_t> reader_rank;  // of a node leader whose machine another rank reads
};

EnergyWindow::EnergyWindow(Job& job, const MeterOptions& options) : impl_(std::make_unique<Impl>(job, options)) {}
EnergyWindow::~EnergyWindow() = default;

std::vector<MeterEntry> EnergyWindow::entries() {
  Context mine;
  if (impl_->power) mine.meters = impl_->power->entries();
  if (impl_->reader_rank) {
    MeterEntry entry;
    entry.host = impl_->job.host();
    entry.domain = "node";
    entry.reason = "duplicate";
    entry.detail = "the same machine as that of rank " + std::to_string(*impl_->reader_rank) + ", which reads its meters";
    mine.meters.push_back(std::move(entry));
  }
  std::vector<MeterEntry> all;
  for (const std::string& text : impl_->job.gather(mine.meters.empty() ? std::string() : pack(std::move(mine))))
    if (!text.empty()) append(all, std::move(report_from_json(text).context.meters));
  return all;
}

void EnergyWindow::begin() {
  if (impl_->power) impl_->power->begin();
}

void EnergyWindow::end() {
  if (impl_->power) impl_->power->end();
}

void EnergyWindow::collect(Trial& trial) {
  Trial mine;
  if (impl_->power) impl_->power->collect(mine);
  for (const std::string& text : impl_->job.gather(impl_->power ? pack(std::move(mine)) : std::string())) {
    if (text.empty()) continue;
    Trial one = std::move(record_from_json(text).trials.front());
    append(trial.energy, std::move(one.energy));
    append(trial.series, std::move(one.series));
    append(trial.counters, std::move(one.counters));
    if (one.sampler_cpu_share)
      trial.sampler_cpu_share = std::max(trial.sampler_cpu_share.value_or(0), *one.sampler_cpu_share);
  }
}

std::vector<IdleRow> EnergyWindow::idle(const std::string& when, double seconds) {
  Job& job = impl_->job;
  if (job.maximum({impl_->power && impl_->power->has_meter() ? 1.0 : 0.0}).front() == 0) return {};
  job.barrier();
  // Every rank sleeps: one that waits in a collective would spin, and its power would count.
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  begin();
  std::this_thread::sleep_until(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(until));
  end();
  Context mine;
  if (impl_->power) mine.idle_power = impl_->power->idle(when);
  std::vector<IdleRow> all;
  for (const std::string& text : job.gather(mine.idle_power.empty() ? std::string() : pack(std::move(mine))))
    if (!text.empty()) append(all, std::move(report_from_json(text).context.idle_power));
  return all;
}

}  // namespace tw
