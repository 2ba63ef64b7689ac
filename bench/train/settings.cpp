#include "bench/train/settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "bench/train/outcome.hpp"
#include "power/nvml/library.hpp"
#include "power/settings.hpp"
#include "results/report_io.hpp"

namespace tw {
namespace {

/// Each text of all ranks, with its host before it.
std::vector<std::string> gather_lines(Job& job, const std::vector<std::string>& mine) {
  Report carrier;
  for (const std::string& line : mine) carrier.context.warnings.push_back(job.host() + ": " + line);
  std::vector<std::string> all;
  for (const std::string& text : job.gather(mine.empty() ? std::string() : to_json(carrier)))
    if (!text.empty())
      for (std::string& line : report_from_json(text).context.warnings) all.push_back(std::move(line));
  return all;
}

/// The mean over all trials of one quantity of one device, each stretch of samples weighted alike.
std::optional<double> mean_of(const std::vector<Trial>& trials, const SettingRow& device, const std::string& quantity) {
  double sum = 0;
  std::size_t count = 0;
  for (const Trial& trial : trials)
    for (const SeriesRow& row : trial.series)
      if (row.host == device.host && row.domain == device.domain && row.quantity == quantity)
        for (const double value : row.mean) sum += value, ++count;
  return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
}

/// Mean power by the device's own counter.
std::optional<double> power_of(const std::vector<Trial>& trials, const SettingRow& device) {
  double joules = 0, seconds = 0;
  for (const Trial& trial : trials)
    for (const EnergyRow& row : trial.energy)
      if (row.host == device.host && row.domain == device.domain && row.energy_j && row.window_s)
        joules += *row.energy_j, seconds += *row.window_s;
  return seconds > 0 ? std::optional(joules / seconds) : std::nullopt;
}

}  // namespace

struct JobSettings::Impl {
  explicit Impl(Job& the_job) : job(the_job) {}
  Job& job;
  std::optional<Settings> settings;  // on node leaders
};

JobSettings::JobSettings(Job& job, const JobSettingsOptions& options) : impl_(std::make_unique<Impl>(job)) {
  together(job, [&] {
    if (!job.is_node_leader()) return;
    std::vector<KnobFinding> found = find_knobs({options.site});
    if (const auto visible = nvml::visible_domains())
      std::erase_if(found, [&](const KnobFinding& finding) {
        return finding.knob && finding.domain.starts_with("nvml:") && std::ranges::find(*visible, finding.domain) == visible->end();
      });
    SettingsOptions settings;
    settings.site = options.site;
    impl_->settings.emplace(std::move(found), settings);  // what a killed run of ours has left is back before the look at locks
    if (options.force) return;
    for (const KnobFinding& finding : impl_->settings->findings()) {
      if (!finding.knob || options.kinds.count(finding.kind) == 0) continue;
      const std::string lock = finding.knob->lock_evident();
      if (lock.empty()) continue;
      throw Stop(exit_environment, fmt::format("{} of {}: {}; it could only be reset afterwards, not put back: have it reset "
                                               "first, or pass --force",
                                               to_string(finding.kind), finding.domain, lock));
    }
  });
}
JobSettings::~JobSettings() = default;

std::vector<std::string> JobSettings::recovered() {
  std::vector<std::string> lines;
  if (impl_->settings) {
    const RestoreSummary& summary = impl_->settings->recovered();
    for (const RestoreReport& report : summary.reports)
      for (const RestoredSetting& one : report.settings)
        lines.push_back(fmt::format("{} of {}, left by {}: {}{}", to_string(one.kind), one.domain, describe(report.owner),
                                    to_string(one.outcome), one.detail.empty() ? "" : " (" + one.detail + ")"));
    lines.insert(lines.end(), summary.problems.begin(), summary.problems.end());
  }
  return gather_lines(impl_->job, lines);
}

std::map<std::string, Setting> JobSettings::apply(const std::map<KnobKind, double>& wanted) {
  Record mine;
  together(impl_->job, [&] {
    if (!impl_->settings) return;
    for (AppliedSetting& applied : impl_->settings->apply(wanted)) {
      if (wanted.count(applied.kind) == 0)  // of an earlier point: the next would be measured under it
        throw Stop(exit_environment, fmt::format("{} of {} could not be put back: {}", to_string(applied.kind),
                                                 applied.domain, applied.detail));
      mine.setting[to_string(applied.kind)].devices.push_back(
          {impl_->job.host(), applied.domain, applied.accepted, std::nullopt,
           applied.accepted ? "" : applied.reason + (applied.detail.empty() ? "" : ": " + applied.detail)});
    }
  });
  std::map<std::string, Setting> all;
  for (const auto& [kind, value] : wanted) all[to_string(kind)].requested = value;
  for (const std::string& text : impl_->job.gather(mine.setting.empty() ? std::string() : to_json_line(mine))) {
    if (text.empty()) continue;
    for (auto& [name, setting] : record_from_json(text).setting)
      for (SettingRow& row : setting.devices) all[name].devices.push_back(std::move(row));
  }
  for (auto& [name, setting] : all) {
    const auto same = [&](const SettingRow& row) { return row.accepted && row.accepted == setting.devices.front().accepted; };
    if (!setting.devices.empty() && std::ranges::all_of(setting.devices, same))
      setting.accepted = setting.devices.front().accepted;
  }
  return all;
}

std::vector<std::string> JobSettings::restore() {
  std::vector<std::string> lines;
  try {
    if (impl_->settings)
      for (const RestoredSetting& one : impl_->settings->restore_all())
        if (one.outcome == RestoredSetting::Outcome::failed || one.outcome == RestoredSetting::Outcome::left)
          lines.push_back(
              fmt::format("{} of {}: {}: {}", to_string(one.kind), one.domain, to_string(one.outcome), one.detail));
  } catch (const std::exception& error) {  // of this node alone: the others are waiting below
    lines.emplace_back(error.what());
  }
  return gather_lines(impl_->job, lines);
}

void observe_settings(std::map<std::string, Setting>& settings, const std::vector<Trial>& trials) {
  for (auto& [name, setting] : settings) {
    const auto kind = knob_kind_from_string(name);
    if (!kind || !setting.requested) continue;
    setting.observed.reset();
    for (SettingRow& row : setting.devices) {
      switch (*kind) {
        case KnobKind::gpu_clock:
          row.observed = mean_of(trials, row, "sm_clock_mhz");
          break;
        case KnobKind::gpu_memory_clock:
          row.observed = mean_of(trials, row, "memory_clock_mhz");
          break;
        case KnobKind::cpu_frequency:
          row.observed = mean_of(trials, row, "cpu_clock_mhz");
          break;
        case KnobKind::gpu_power_limit:
        case KnobKind::cpu_power_limit:
          row.observed = power_of(trials, row);
          if (!row.observed) row.observed = mean_of(trials, row, "power_w");
          break;
      }
      if (row.accepted && !row.observed) row.reason = "nothing on this node shows it under load";
      const auto off = [&](double value) { return std::abs(value - *setting.requested); };
      if (row.observed && (!setting.observed || off(*row.observed) > off(*setting.observed))) setting.observed = row.observed;
    }
  }
}

}  // namespace tw
