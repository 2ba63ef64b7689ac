#include "bench/train/node/energy_window.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <optional>
#include <thread>

#include "results/record/report_io.hpp"

namespace tw::bench {
namespace {

// Rows travel between ranks in the form in which they stand in reports, inside an otherwise empty record or report.
std::string pack(results::Trial trial) {
  results::Record carrier;
  carrier.trials.push_back(std::move(trial));
  return results::to_json_line(carrier);
}
std::string pack(results::Context context) {
  results::Report carrier;
  carrier.context = std::move(context);
  return results::to_json(carrier);
}

template <class Row>
void append(std::vector<Row>& to, std::vector<Row>&& from) {
  to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
}

}  // namespace

struct EnergyWindow::Impl {
  Impl(comm::Job& the_job, const Machines& the_machines, const power::MeterOptions& options, const NodePower* whole)
      : job(the_job), machines(the_machines) {
    if (!machines.has_part()) return;
    GpuChoice gpus;
    gpus.visible = machines.visible();
    if (!machines.is_reader()) gpus.only = machines.only_here();
    if (machines.is_reader() && !machines.unclear().empty())
      gpus.unread.push_back({"gpu", "gpus_unclear", machines.unclear()});
    if (whole != nullptr) power = whole->share(machines.host(), gpus);
    if (!power) power = std::make_unique<NodePower>(machines.host(), options, gpus);
  }

  comm::Job& job;
  const Machines& machines;
  std::unique_ptr<NodePower> power;                  // of ranks with a part
  std::chrono::steady_clock::time_point begin, end;  // of this rank's steps
};

EnergyWindow::EnergyWindow(comm::Job& job, const Machines& machines, const power::MeterOptions& options,
                           const EnergyWindow* whole)
    : impl_(std::make_unique<Impl>(job, machines, options, whole != nullptr ? whole->impl_->power.get() : nullptr)) {}
EnergyWindow::~EnergyWindow() = default;

const Machines& EnergyWindow::machines() const { return impl_->machines; }

std::vector<results::MeterEntry> EnergyWindow::entries() {
  results::Context mine;
  if (impl_->power) mine.meters = impl_->power->entries();
  if (impl_->job.is_node_leader() && !impl_->machines.has_part()) {
    results::MeterEntry entry;
    entry.host = impl_->machines.host();
    entry.domain = "node";
    entry.reason = "duplicate";
    entry.detail = "same machine as rank " + std::to_string(impl_->machines.reader()) + ", which reads its meters";
    mine.meters.push_back(std::move(entry));
  }
  std::vector<results::MeterEntry> all;
  for (const std::string& text : impl_->job.gather(mine.meters.empty() ? std::string() : pack(std::move(mine))))
    if (!text.empty()) append(all, std::move(results::report_from_json(text).context.meters));
  return all;
}

void EnergyWindow::watch(power::KnobWatch* knobs) {
  if (impl_->power) impl_->power->watch(knobs);
}

// Nobody works while meters are read: not between the first reading on any node and the last. So each node's joules
// hold all steps of all nodes, whatever their clocks say, and what they hold besides lies between its readings and its
// own steps.
//
// The steps' clock is read between the readings and a stamp of our own. So however long a busy machine stops this
// thread in between, the skew that the stamps show holds the whole distance from the steps' edge to the meters'.
EnergyWindow::Time EnergyWindow::begin(const ReadClock& step_clock) {
  if (impl_->power) impl_->power->begin();
  impl_->job.barrier();
  const Time start = step_clock();
  impl_->begin = std::chrono::steady_clock::now();
  return start;
}

EnergyWindow::Time EnergyWindow::end(const ReadClock& step_clock) {
  impl_->end = std::chrono::steady_clock::now();
  const Time end = step_clock();
  impl_->job.barrier();
  if (impl_->power) impl_->power->end();
  impl_->job.barrier();
  return end;
}

EnergyWindow::WarmUp::WarmUp(EnergyWindow& energy) : energy_(energy) {
  if (energy_.impl_->power) energy_.impl_->power->begin_warm_up();
}
EnergyWindow::WarmUp::~WarmUp() {
  if (energy_.impl_->power) energy_.impl_->power->end_warm_up();
}

void EnergyWindow::collect(results::Trial& trial) {
  results::Trial mine;
  if (impl_->power) impl_->power->end_watch();  // here: by now all ranks have read the window's CPU times
  if (impl_->power) impl_->power->collect(mine, impl_->begin, impl_->end);
  for (const std::string& text : impl_->job.gather(impl_->power ? pack(std::move(mine)) : std::string())) {
    if (text.empty()) continue;
    results::Trial one = std::move(results::record_from_json(text).trials.front());
    append(trial.energy, std::move(one.energy));
    append(trial.series, std::move(one.series));
    append(trial.counters, std::move(one.counters));
    if (one.setting_changes) {
      if (!trial.setting_changes) trial.setting_changes.emplace();
      append(*trial.setting_changes, std::move(*one.setting_changes));
    }
    if (one.clock_skew_s) trial.clock_skew_s = std::max(trial.clock_skew_s.value_or(0), *one.clock_skew_s);
    if (one.sampler_cpu_share)
      trial.sampler_cpu_share = std::max(trial.sampler_cpu_share.value_or(0), *one.sampler_cpu_share);
  }
}

std::optional<double> EnergyWindow::hottest_c() {
  constexpr double none = -1000;  // colder than anything
  const std::optional<double> here = impl_->power ? impl_->power->hottest_c() : std::nullopt;
  const double hottest = impl_->job.maximum({here.value_or(none)}).front();
  return hottest > none ? std::optional(hottest) : std::nullopt;
}

std::vector<results::IdleRow> EnergyWindow::idle(results::IdleTime when) {
  comm::Job& job = impl_->job;
  const bool has_meter = impl_->power && impl_->power->has_meter();
  const double seconds = job.maximum({has_meter ? impl_->power->idle_seconds() : 0.0}).front();
  if (seconds == 0) return {};
  job.barrier();
  // Every rank sleeps: one that waits in a collective would spin, and its power would count. Those that read nothing
  // sleep on while the others do.
  constexpr double reading_seconds = 0.2;
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds + (impl_->power ? 0 : reading_seconds));
  if (impl_->power) impl_->power->begin();
  std::this_thread::sleep_until(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(until));
  if (impl_->power) impl_->power->end();
  results::Context mine;
  if (impl_->power) mine.idle_power = impl_->power->idle(when);
  std::vector<results::IdleRow> all;
  for (const std::string& text : job.gather(mine.idle_power.empty() ? std::string() : pack(std::move(mine))))
    if (!text.empty()) append(all, std::move(results::report_from_json(text).context.idle_power));
  return all;
}

}  // namespace tw::bench
