#include "bench/node_power/node_power.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "power/meter/domain_kinds.hpp"
#include "power/meter/reader.hpp"
#include "power/telemetry/sampler.hpp"
#include "power/visible_gpus.hpp"

namespace tw::bench {

namespace {

using Clock = std::chrono::steady_clock;

using power::gpu_of;

bool is_cray_accelerator(const power::MeterFinding& finding) { return finding.domain.starts_with("cray:accel"); }

/// Whether all GPUs of the node are the job's, and this process can read them.
bool has_whole_node(const std::vector<power::MeterFinding>& findings, const GpuChoice& gpus) {
  std::set<std::string> here;
  for (const power::MeterFinding& one : findings)
    if (std::string gpu = gpu_of(one.domain); !gpu.empty()) here.insert(std::move(gpu));
  const auto is_ours = [&](const std::string& gpu) { return gpus.visible->count(gpu) > 0; };
  // A GPU that a cgroup keeps away may not be listed at all; Cray's files show it.
  const auto accelerators = static_cast<std::size_t>(std::ranges::count_if(findings, is_cray_accelerator));
  return gpus.unread.empty() && here.size() >= accelerators && std::ranges::all_of(here, is_ours);
}

void leave_out(power::MeterFinding& finding, std::string why) {
  finding.counted = false;
  finding.explain("not_visible", std::move(why));
}

}  // namespace

/// Both rooms name scopes and methods alike.
results::Scope scope_of(std::string_view name) { return results::named<results::Scope>(name).value(); }
results::Method method_of(std::string_view name) { return results::named<results::Method>(name).value(); }

std::vector<power::MeterFinding> choose(std::vector<power::MeterFinding> findings, const GpuChoice& gpus) {
  if (gpus.only)
    std::erase_if(findings, [&](const power::MeterFinding& one) { return gpus.only->count(gpu_of(one.domain)) == 0; });
  const bool whole_node = gpus.visible && has_whole_node(findings, gpus);
  for (power::MeterFinding& one : findings) {
    if (gpus.visible && !whole_node && is_cray_accelerator(one))
      leave_out(one, "cannot be matched to a GPU of the job, and the job may not have all GPUs of the node");
    const std::string gpu = gpu_of(one.domain);
    if (!gpus.visible || gpu.empty() || gpus.visible->count(gpu) > 0) continue;
    // Meters that replace others already say so; the socket of an APU is not its GPU's alone.
    const bool of_device = one.scope.value_or(power::EnergyScope::device) == power::EnergyScope::device;
    if (one.reason == "duplicate" || one.reason == "contained" || !of_device) continue;
    leave_out(one,
              std::string("no rank of this node is known to use the GPU (") +
                  (gpu.starts_with("nvml:") ? "CUDA_VISIBLE_DEVICES" : "ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES") +
                  "): it is not the job's");
  }
  for (const GpuChoice::Unread& gpu : gpus.unread)
    findings.push_back(
        {.domain = gpu.domain, .scope = power::EnergyScope::device, .reason = gpu.reason, .detail = gpu.detail});
  return findings;
}

std::vector<power::TelemetryFinding> choose(std::vector<power::TelemetryFinding> findings, const GpuChoice& gpus) {
  std::erase_if(findings, [&](const power::TelemetryFinding& one) {
    const std::string gpu = gpu_of(one.domain);
    const bool is_foreign = gpus.visible && !gpu.empty() && gpus.visible->count(gpu) == 0;
    return is_foreign || (gpus.only && gpus.only->count(gpu) == 0);
  });
  return findings;
}

power::ChooseMeters choosing(GpuChoice gpus) {
  return [gpus = std::move(gpus)](std::vector<power::MeterFinding>& findings) {
    findings = choose(std::move(findings), gpus);
  };
}

GpuChoice choice_here() {
  const power::Sight sight = power::look();
  GpuChoice gpus;
  gpus.visible.emplace(sight.visible.begin(), sight.visible.end());
  if (!sight.unclear.empty()) gpus.unread.push_back({"gpu", "gpus_unclear", sight.unclear});
  return gpus;
}

results::EnergyRow energy_row(const power::LedgerRow& from, const std::string& host) {
  results::EnergyRow row;
  row.scope = scope_of(from.scope);
  row.domain = from.domain;
  row.host = host;
  row.method = method_of(from.method);
  row.energy_j = from.energy_joules;
  row.uncertainty_j = from.uncertainty_joules;
  if (from.window_seconds > 0) row.window_s = from.window_seconds;
  if (from.update_period_seconds > 0) row.update_period_s = from.update_period_seconds;
  if (from.energy_joules) row.wraps = from.wraps;
  row.counted = from.counted;
  row.reason = from.reason;
  if (!from.detail.empty()) row.detail = from.detail;
  return row;
}

struct NodePower::Impl {
  Impl(std::string the_host, const power::MeterOptions& options, const GpuChoice& gpus)
      : host(std::move(the_host)),
        choice(gpus),
        reader(std::make_shared<power::EnergyReader>(power::find_meters(options, choosing(gpus)))),
        sampler(std::make_shared<power::Sampler>(choose(power::find_telemetry(), gpus), reader.get())) {}
  Impl(std::string the_host, const GpuChoice& gpus, const Impl& whole)
      : host(std::move(the_host)), choice(gpus), is_part(true), reader(whole.reader), sampler(whole.sampler) {}

  /// Whether the sensor is that of a GPU which the whole counts, but not this part of it.
  bool leaves_out(const std::string& domain) const {
    const std::string gpu = is_part && choice.visible ? gpu_of(domain) : "";
    return !gpu.empty() && choice.visible->count(gpu) == 0;
  }

  std::string host;
  GpuChoice choice;
  bool is_part = false;
  std::shared_ptr<power::EnergyReader> reader;
  std::shared_ptr<power::Sampler> sampler;
  power::EnergySnapshot first, last;
  Clock::time_point begin, end;  // of the readings: before the first of the one, after the last of the other
  power::Sampled sampled;
  power::KnobWatch* knobs = nullptr;
  std::vector<power::KnobChange> changes;
};

NodePower::NodePower(std::string host, const power::MeterOptions& options, const GpuChoice& gpus)
    : impl_(std::make_unique<Impl>(std::move(host), options, gpus)) {}
NodePower::NodePower(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
NodePower::~NodePower() = default;

std::unique_ptr<NodePower> NodePower::share(std::string host, const GpuChoice& gpus) const {
  const GpuChoice& mine = impl_->choice;
  const bool has_cray = std::ranges::any_of(impl_->reader->findings(), is_cray_accelerator);
  if (has_cray && mine.visible != gpus.visible) return nullptr;
  if (mine.only != gpus.only || mine.unread.size() != gpus.unread.size() || !gpus.visible != !mine.visible)
    return nullptr;
  return std::unique_ptr<NodePower>(new NodePower(std::make_unique<Impl>(std::move(host), gpus, *impl_)));
}

std::vector<results::MeterEntry> NodePower::entries() const {
  std::vector<results::MeterEntry> entries;
  for (const power::MeterFinding& finding : impl_->reader->findings()) {
    results::MeterEntry entry;
    entry.host = impl_->host;
    entry.domain = finding.domain;
    if (finding.scope) entry.scope = scope_of(power::to_string(*finding.scope));
    entry.reason = finding.reason;
    entry.detail = finding.detail;
    entry.available = finding.meter != nullptr;
    entry.counted = finding.counted;
    if (finding.counted && finding.shared) entry.reason = to_string(results::Reason::shared);
    if (finding.meter) {
      entry.scope = scope_of(power::to_string(finding.meter->scope()));
      entry.method = method_of(power::to_string(finding.meter->method()));
      if (finding.meter->update_period_seconds() > 0) entry.update_period_s = finding.meter->update_period_seconds();
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::vector<std::string> shared_devices(const std::vector<results::MeterEntry>& meters) {
  std::vector<std::string> lines;
  for (const results::MeterEntry& meter : meters)
    if (meter.counted && meter.why() == results::Reason::shared)
      lines.push_back(meter.host + ": " + meter.domain + ": the joules may include other programs: " + meter.detail);
  return lines;
}

bool NodePower::has_meter() const {
  for (const power::MeterFinding& finding : impl_->reader->findings())
    if (finding.meter && finding.counted && !impl_->leaves_out(finding.domain)) return true;
  return false;
}

double NodePower::idle_seconds() const {
  constexpr double least_seconds = 1, most_seconds = 10, periods = 2;
  double seconds = least_seconds;
  for (const power::MeterFinding& finding : impl_->reader->findings())
    if (finding.meter && finding.counted) seconds = std::max(seconds, periods * finding.meter->update_period_seconds());
  return std::min(seconds, most_seconds);
}

void NodePower::watch(power::KnobWatch* knobs) { impl_->knobs = knobs != nullptr && !knobs->empty() ? knobs : nullptr; }

// The counters are read last before the window, and first after it: what the sampler does at its edges is not in
// between.
void NodePower::begin() {
  impl_->changes.clear();
  if (impl_->knobs != nullptr) impl_->knobs->begin();
  impl_->sampler->beside(impl_->knobs != nullptr ? [knobs = impl_->knobs] { knobs->look(); } : std::function<void()>());
  impl_->sampler->begin();
  impl_->begin = Clock::now();
  impl_->first = impl_->reader->begin_window();
}

void NodePower::end() {
  impl_->last = impl_->reader->end_window();
  impl_->end = Clock::now();
  impl_->sampled = impl_->sampler->end();
  impl_->sampler->beside({});
}

void NodePower::end_watch() {
  if (impl_->knobs != nullptr) impl_->changes = impl_->knobs->end();
}

void NodePower::begin_warm_up() { impl_->sampler->begin(); }
void NodePower::end_warm_up() { impl_->sampler->end(); }

void NodePower::collect(results::Trial& trial, Clock::time_point first_step, Clock::time_point last_step) const {
  // A nanosecond on top keeps the bound also where others subtract the seconds as floating-point numbers.
  const Clock::duration skew = (first_step - impl_->begin) + (impl_->end - last_step) + std::chrono::nanoseconds(1);
  const double skew_seconds = std::chrono::duration<double>(skew).count();
  if (has_meter()) trial.clock_skew_s = std::max(trial.clock_skew_s.value_or(0), skew_seconds);
  for (const power::LedgerRow& from :
       power::make_ledger(impl_->reader->findings(), impl_->first, impl_->last, skew_seconds)) {
    results::EnergyRow& row = trial.energy.emplace_back(energy_row(from, impl_->host));
    if (!row.counted || !impl_->leaves_out(row.domain)) continue;
    row.counted = false;
    row.reason = to_string(results::Reason::not_visible);
    row.detail = "no working rank uses the GPU";
  }
  const bool looked = impl_->knobs != nullptr || !impl_->changes.empty();
  if (looked && !trial.setting_changes) trial.setting_changes.emplace();
  for (const power::KnobChange& one : impl_->changes)
    trial.setting_changes->push_back(
        {power::to_string(one.kind), impl_->host, one.domain, one.is_set, one.time_seconds, one.expected, one.found});
  for (const power::Series& series : impl_->sampled.series) {
    const power::Channel& channel = series.channel;
    if (impl_->leaves_out(channel.domain)) continue;
    if (series.change) trial.counters.push_back({impl_->host, channel.domain, channel.quantity, *series.change});
    if (channel.cumulative || series.points.empty()) continue;
    results::SeriesRow row{impl_->host, channel.domain, channel.quantity, {}, {}, {}, {}};
    for (const power::SeriesPoint& point : series.points) {
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

std::optional<double> NodePower::hottest_c() const {
  std::optional<double> hottest;
  for (const power::TelemetryFinding& finding : impl_->sampler->findings()) {
    if (!finding.telemetry) continue;
    const std::vector<power::Channel>& channels = finding.telemetry->channels();
    std::vector<double> values(channels.size());
    finding.telemetry->read(values);
    for (std::size_t i = 0; i < channels.size(); ++i) {
      if (channels[i].quantity == "temperature_c" && std::isfinite(values[i]))
        hottest = std::max(hottest.value_or(values[i]), values[i]);
    }
  }
  return hottest;
}

std::vector<results::IdleRow> NodePower::idle(results::IdleTime when) const {
  std::vector<results::IdleRow> rows;
  const std::vector<power::MeterFinding>& findings = impl_->reader->findings();
  const std::vector<power::LedgerRow> ledger = power::make_ledger(findings, impl_->first, impl_->last);
  for (std::size_t i = 0; i < ledger.size(); ++i) {
    if (!findings[i].counted) continue;
    const power::LedgerRow& from = ledger[i];
    results::IdleRow row{when, impl_->host, from.domain, scope_of(from.scope), {}, {}, {}, from.reason};
    if (from.window_seconds > 0) row.window_s = from.window_seconds;
    if (from.counted && row.window_s) {
      row.power_w = *from.energy_joules / *row.window_s;
      if (from.uncertainty_joules) row.uncertainty_w = *from.uncertainty_joules / *row.window_s;
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace tw::bench
