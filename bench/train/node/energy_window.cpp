#include "bench/train/node/energy_window.hpp"

#include <algorithm>
#include <iterator>
#include <thread>

#include "results/record/report_io.hpp"

namespace tw::bench {
namespace {

// Rows travel between ranks in the form that reports use, inside an otherwise empty record or report.
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

EnergyWindow::EnergyWindow(comm::Job& job, const Machines& machines, const power::MeterOptions& options,
                           const EnergyWindow* whole)
    : job_(job), machines_(machines) {
  if (!machines_.has_part()) return;
  GpuChoice gpus;
  gpus.visible = machines_.visible();
  if (!machines_.is_reader()) gpus.only = machines_.only_here();
  if (machines_.is_reader() && !machines_.unclear().empty())
    gpus.unread.push_back({"gpu", "gpus_unclear", machines_.unclear()});
  if (whole != nullptr && whole->power_) power_ = whole->power_->share(machines_.host(), gpus);
  if (!power_) power_ = std::make_unique<NodePower>(machines_.host(), options, gpus);
}

std::vector<results::MeterEntry> EnergyWindow::entries() {
  results::Context mine;
  if (power_) mine.meters = power_->entries();
  if (job_.is_node_leader() && !machines_.has_part()) {
    results::MeterEntry entry;
    entry.host = machines_.host();
    entry.domain = "node";
    entry.reason = to_string(results::Reason::duplicate);
    entry.detail = "same machine as rank " + std::to_string(machines_.reader()) + ", which reads its meters";
    mine.meters.push_back(std::move(entry));
  }
  std::vector<results::MeterEntry> all;
  for (const std::string& text : job_.gather(mine.meters.empty() ? std::string() : pack(std::move(mine))))
    if (!text.empty()) append(all, std::move(results::report_from_json(text).context.meters));
  return all;
}

void EnergyWindow::watch(power::KnobWatch* knobs) {
  if (power_) power_->watch(knobs);
}

// No rank works while meters are read: not between the first reading on any node and the last. So each node's joules
// hold all steps of all nodes, whatever their clocks say, and what they hold besides lies between its readings and its
// own steps.
//
// The steps' clock is read between the readings and a stamp of our own. So however long a busy machine stops this
// thread in between, the skew that the stamps show holds the whole distance from the steps' edge to the meters'.
EnergyWindow::Time EnergyWindow::begin(const ReadClock& step_clock) {
  if (power_) power_->begin();
  job_.barrier();
  const Time start = step_clock();
  begin_ = std::chrono::steady_clock::now();
  return start;
}

EnergyWindow::Time EnergyWindow::end(const ReadClock& step_clock) {
  end_ = std::chrono::steady_clock::now();
  const Time end = step_clock();
  job_.barrier();
  if (power_) power_->end();
  job_.barrier();
  return end;
}

EnergyWindow::WarmUp::WarmUp(EnergyWindow& energy) : energy_(energy) {
  if (energy_.power_) energy_.power_->begin_warm_up();
}
EnergyWindow::WarmUp::~WarmUp() {
  if (energy_.power_) energy_.power_->end_warm_up();
}

void EnergyWindow::collect(results::Trial& trial) {
  results::Trial mine;
  if (power_) power_->end_watch();  // here: by now all ranks have read the window's CPU times
  if (power_) power_->collect(mine, begin_, end_);
  for (const std::string& text : job_.gather(power_ ? pack(std::move(mine)) : std::string())) {
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
  const std::optional<double> here = power_ ? power_->hottest_c() : std::nullopt;
  const double hottest = job_.maximum({here.value_or(none)}).front();
  return hottest > none ? std::optional(hottest) : std::nullopt;
}

std::vector<results::IdleRow> EnergyWindow::idle(results::IdleTime when) {
  const bool has_meter = power_ && power_->has_meter();
  const double seconds = job_.maximum({has_meter ? power_->idle_seconds() : 0.0}).front();
  if (seconds == 0) return {};
  job_.barrier();
  // Every rank sleeps: one that waits in a collective would spin, and its power would count. Those that read nothing
  // sleep on while the others do.
  constexpr double reading_seconds = 0.2;
  const auto until =
      std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds + (power_ ? 0 : reading_seconds));
  if (power_) power_->begin();
  std::this_thread::sleep_until(std::chrono::time_point_cast<std::chrono::steady_clock::duration>(until));
  if (power_) power_->end();
  results::Context mine;
  if (power_) mine.idle_power = power_->idle(when);
  std::vector<results::IdleRow> all;
  for (const std::string& text : job_.gather(mine.idle_power.empty() ? std::string() : pack(std::move(mine))))
    if (!text.empty()) append(all, std::move(results::report_from_json(text).context.idle_power));
  return all;
}

}  // namespace tw::bench
