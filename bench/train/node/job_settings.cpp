#include "bench/train/node/job_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "bench/train/job/outcome.hpp"
#include "power/knob/in_force.hpp"
#include "power/knob/journal.hpp"
#include "power/knob/site.hpp"
#include "results/analysis/conditions.hpp"
#include "results/record/report_io.hpp"

namespace tw::bench {
namespace {

/// Each line of all ranks.
std::vector<std::string> gather_lines(comm::Job& job, const std::vector<std::string>& mine) {
  results::Report carrier;
  carrier.context.warnings = mine;
  std::vector<std::string> all;
  for (const std::string& text : job.gather(mine.empty() ? std::string() : results::to_json(carrier)))
    if (!text.empty())
      for (std::string& line : results::report_from_json(text).context.warnings) all.push_back(std::move(line));
  return all;
}

/// The mean over all trials of one quantity of one device, each stretch of samples weighted alike.
std::optional<double> mean_of(const std::vector<results::Trial>& trials, const results::SettingRow& device,
                              const std::string& quantity) {
  double sum = 0;
  std::size_t count = 0;
  for (const results::Trial& trial : trials)
    for (const results::SeriesRow& row : trial.series)
      if (row.host == device.host && row.domain == device.domain && row.quantity == quantity)
        for (const double value : row.mean) sum += value, ++count;
  return count > 0 ? std::optional(sum / static_cast<double>(count)) : std::nullopt;
}

/// Mean power by the device's own counter.
std::optional<double> power_of(const std::vector<results::Trial>& trials, const results::SettingRow& device) {
  double joules = 0, seconds = 0;
  for (const results::Trial& trial : trials)
    for (const results::EnergyRow& row : trial.energy)
      if (row.host == device.host && row.domain == device.domain && row.energy_j && row.window_s)
        joules += *row.energy_j, seconds += *row.window_s;
  return seconds > 0 ? std::optional(joules / seconds) : std::nullopt;
}

/// The knobs that this rank sets: a reader all except GPUs that are not the job's or that belong to another rank, other
/// ranks only their own GPUs. A reader has at least one finding of each kind, except for GPUs of other ranks.
std::vector<power::KnobFinding> choose(std::vector<power::KnobFinding> found, const Machines& machines) {
  const std::set<std::string>&gpus = machines.visible(), &own = machines.only_here();
  const auto is_nvml = [](const std::string& domain) { return domain.starts_with("nvml"); };
  const bool any = std::ranges::any_of(gpus, is_nvml);
  // A site's command for all GPUs has none to turn where there are some and no rank may use any.
  const bool all_hidden = gpus.empty() && !machines.addressable().empty();
  std::erase_if(found, [&](const power::KnobFinding& one) {
    if (one.domain == power::site::whole_node && all_hidden &&
        std::string_view(power::to_string(one.kind)).starts_with("gpu_"))
      return true;
    if (!machines.is_reader()) return own.count(one.domain) == 0 || gpus.count(one.domain) == 0;
    // Why there is none, or why one cannot be asked, matters where no rank may use any.
    return is_nvml(one.domain) && gpus.count(one.domain) == 0 && (one.knob || any);
  });
  if (!machines.is_reader() || any) return found;
  for (const power::KnobKind kind :
       {power::KnobKind::gpu_clock, power::KnobKind::gpu_memory_clock, power::KnobKind::gpu_power_limit})
    if (std::ranges::none_of(found, [&](const power::KnobFinding& one) { return one.kind == kind; })) {
      power::KnobFinding& hidden = found.emplace_back();
      hidden.kind = kind;
      hidden.domain = "nvml";
      hidden.reason = to_string(results::Reason::not_visible);
      hidden.detail = "CUDA_VISIBLE_DEVICES hides all GPUs from all ranks";
    }
  return found;
}

results::SetPoint to_record(power::KnobKind kind, double value) {
  return power::names_of(kind).empty() ? results::SetPoint(value)
                                       : results::SetPoint(power::set_point_text(kind, value));
}

results::SettingRow row_of(const std::string& host, const std::string& domain) {
  results::SettingRow row;
  row.host = host, row.domain = domain;
  return row;
}

/// The settings of all ranks that have some.
std::vector<std::map<std::string, results::Setting>> gather_settings(comm::Job& job, const results::Record& mine) {
  std::vector<std::map<std::string, results::Setting>> all;
  for (const std::string& text : job.gather(mine.setting.empty() ? std::string() : results::to_json_line(mine)))
    if (!text.empty()) all.push_back(results::record_from_json(text).setting);
  return all;
}

/// The series that shows what a kind does under load; none for a power, which the joules show, and for a state.
const char* series_of(power::KnobKind kind) {
  switch (kind) {
    case power::KnobKind::gpu_clock:
      return "sm_clock_mhz";
    case power::KnobKind::gpu_memory_clock:
      return "memory_clock_mhz";
    case power::KnobKind::cpu_frequency:
      return "cpu_clock_mhz";
    case power::KnobKind::gpu_power_limit:
    case power::KnobKind::cpu_power_limit:
    case power::KnobKind::cpu_governor:
      break;
  }
  return nullptr;
}

/// The devices whose series show `quantity`, GPUs only where the job may use them.
std::vector<results::SettingRow> devices_of(const std::vector<results::Trial>& trials, const std::string& quantity,
                                            const std::set<std::string>& gpus) {
  std::vector<results::SettingRow> devices;
  for (const results::Trial& trial : trials)
    for (const results::SeriesRow& row : trial.series) {
      if (row.quantity != quantity || (row.domain.starts_with("nvml:") && gpus.count(row.domain) == 0)) continue;
      const auto same = [&](const results::SettingRow& one) {
        return one.host == row.host && one.domain == row.domain;
      };
      if (std::ranges::none_of(devices, same)) devices.push_back(row_of(row.host, row.domain));
    }
  return devices;
}

/// The devices that show what was set: the row's own; for a site's command without a domain, which means all knobs
/// of its kind, all such devices on its host, GPUs only where the job may use them.
std::vector<results::SettingRow> devices_behind(const results::SettingRow& row, power::KnobKind kind,
                                                const std::vector<results::Trial>& trials,
                                                const std::set<std::string>& gpus) {
  if (row.domain != power::site::whole_node) return {row};
  std::set<std::string> domains;
  for (const results::Trial& trial : trials) {
    for (const results::SeriesRow& series : trial.series)
      if (series.host == row.host) domains.insert(series.domain);
    for (const results::EnergyRow& energy : trial.energy)
      if (energy.host == row.host) domains.insert(energy.domain);
  }
  const bool of_cpu = kind == power::KnobKind::cpu_frequency || kind == power::KnobKind::cpu_governor;
  std::erase_if(domains, [&](const std::string& domain) {
    if (of_cpu) return domain != "cpu";
    if (kind == power::KnobKind::cpu_power_limit) return !domain.starts_with("rapl:package-");
    return !domain.starts_with("nvml:") || gpus.count(domain) == 0;
  });
  std::vector<results::SettingRow> devices;
  for (const std::string& domain : domains) devices.push_back(row_of(row.host, domain));
  return devices;
}

}  // namespace

JobSettings::JobSettings(comm::Job& job, const Machines& machines, const JobSettingsOptions& options)
    : job_(job), host_(machines.host()) {
  together(job, [&] {
    if (!machines.has_part()) return;
    sets_ = options.sets;
    std::vector<power::KnobFinding> found;
    if (sets_) {
      found = choose(options.find({options.site}), machines);
    } else {
      try {  // to be read alone
        found = choose(options.find({}), machines);
      } catch (const std::exception&) {  // what is never set need not be there
      }
    }
    power::SettingsOptions settings;
    settings.site = options.site;
    settings.find = options.find;
    if (!machines.is_reader()) settings.folder = power::journal_folder_of_rank(job.rank());
    settings_.emplace(std::move(found), settings);
  });
  // What a killed run of ours has left is back before the look at locks: on no rank before all have put back what only
  // they can address, which may stand in another rank's journal.
  together(job, [&] {
    if (!settings_) return;
    settings_->check_journal(options.kinds);
    for (const power::KnobFinding& finding : settings_->findings()) {
      if (!finding.knob || options.kinds.count(finding.kind) == 0) continue;
      const std::string lock = finding.knob->lock_evident();
      if (lock.empty()) continue;
      // It may be that of another run of ours.
      if (!settings_->recovered().held.empty())
        throw power::SettingsHeld(settings_->recovered().held.front());
      const std::string whose = fmt::format("{} of {}", power::to_string(finding.kind), lock);
      if (!options.force)
        throw Stop(
            exit_environment, "clock-locked",
            fmt::format("{}: it can be reset but not restored afterwards: have it reset first, or use --force", whose));
      lines_.push_back(fmt::format("forced: {}: {}; it can only be reset and will be lost", host_, whose));
    }
  });
  look_beside();
}

power::KnobWatch* JobSettings::watch() {
  if (!settings_) return nullptr;
  watch_.watch(settings_->to_watch());
  return &watch_;
}

void JobSettings::look_after(power::Guardian& guardian) {
  if (has_lost_guardian_ || guardian.alive()) return;
  has_lost_guardian_ = true;
  lines_.push_back(
      fmt::format("guardian_died: {}: the process that restores settings if this run is killed has ended. This run "
                  "continues and restores them itself; if it is killed, run `trainwatt restore` on that node",
                  host_));
}

void JobSettings::look_beside() {
  if (!settings_) return;
  for (std::string& line : power::warnings_in_force(host_, !sets_))
    if (seen_beside_.insert(line).second) lines_.push_back(std::move(line));
}

std::vector<std::string> JobSettings::news() {
  std::vector<std::string> lines = std::exchange(lines_, {}), absent, held, restored;
  if (settings_) {
    const power::RestoreSummary& summary = settings_->recovered();
    for (; reports_told_ < summary.reports.size(); ++reports_told_) {
      const power::RestoreReport& report = summary.reports[reports_told_];
      restored.push_back(fmt::format("{}: {}: ", host_, report.folder.string()));
      for (const power::RestoredSetting& one : report.settings) {
        const bool is_absent = one.outcome == power::RestoredSetting::Outcome::absent;
        (is_absent ? absent : lines).push_back(power::restored_line(host_, report, one));
      }
    }
    for (; problems_told_ < summary.problems.size(); ++problems_told_) {
      const std::string& problem = summary.problems[problems_told_];
      // Of a run at work look_beside() speaks, where this one does not contend with it.
      const bool is_held = std::ranges::find(summary.held, problem) != summary.held.end();
      if (sets_ || !is_held) held.push_back(fmt::format("{}: {}", host_, problem));
    }
  }
  std::vector<std::string> all;
  const auto add = [&](std::string& line) {
    if (std::ranges::find(all, line) == all.end()) all.push_back(std::move(line));
  };
  for (std::string& line : gather_lines(job_, lines)) add(line);
  // What one rank finds no device for, since a cgroup keeps that from it, another may have put back.
  for (std::string& line : gather_lines(job_, absent)) {
    const std::size_t what = line.find(": ", line.find(": ") + 2) + 2;  // behind the host
    const std::string_view named = std::string_view(line).substr(what, line.rfind(": absent") - what);
    if (std::ranges::none_of(all, [&](const std::string& other) { return other.find(named) != std::string::npos; }))
      add(line);
  }
  // And what one takes for a run at work may be another that puts back.
  restored = gather_lines(job_, restored);
  for (std::string& line : gather_lines(job_, held))
    if (std::ranges::none_of(restored, [&](const std::string& folder) { return line.starts_with(folder); })) {
      line = "not restored: " + line;
      add(line);
    }
  return all;
}

std::map<std::string, results::Setting> JobSettings::apply_here(const std::map<power::KnobKind, double>& wanted) {
  std::map<std::string, results::Setting> mine;
  // Of a kind that this rank has nothing of another rank speaks.
  std::map<power::KnobKind, double> here = wanted;
  std::erase_if(here, [&](const auto& one) {
    return std::ranges::none_of(settings_->findings(),
                                [&](const power::KnobFinding& finding) { return finding.kind == one.first; });
  });
  for (const power::AppliedSetting& applied : settings_->apply(here)) {
    const std::string which = fmt::format("{} of {}", power::to_string(applied.kind), applied.domain);
    if (!wanted.contains(applied.kind)) {  // of an earlier point
      if (applied.reason != "left")        // the next would be measured under it
        throw Stop(exit_environment, fmt::format("{} could not be restored: {}", which, applied.detail));
      lines_.push_back(fmt::format("left: {}: {}: someone else has since set {}, which is now in force", host_, which,
                                  applied.detail));
      continue;
    }
    if (!applied.foreign.empty())
      lines_.push_back(
          fmt::format("found: {}: {}: someone else has set {} since the last point; this value will be restored",
                      host_, which, applied.foreign));
    results::SettingRow row = row_of(host_, applied.domain);
    if (applied.accepted)
      row.accepted = to_record(applied.kind, *applied.accepted);
    else
      row.reason = applied.reason + (applied.detail.empty() ? "" : ": " + applied.detail);
    mine[power::to_string(applied.kind)].devices.push_back(std::move(row));
  }
  return mine;
}

std::map<std::string, results::Setting> JobSettings::apply(const std::map<power::KnobKind, double>& wanted) {
  results::Record mine;
  together(job_, [&] {
    if (settings_) mine.setting = apply_here(wanted);
  });
  std::map<std::string, results::Setting> all;
  for (const auto& [kind, value] : wanted) all[power::to_string(kind)].requested = to_record(kind, value);
  for (auto& part : gather_settings(job_, mine))
    for (auto& [name, setting] : part)
      for (results::SettingRow& row : setting.devices) all[name].devices.push_back(std::move(row));
  for (auto& [name, setting] : all) setting.accepted = results::accepted_by_all(setting.devices);
  return all;
}

void JobSettings::observe(std::map<std::string, results::Setting>& settings) {
  results::Record mine;
  if (settings_)
    for (const power::ObservedSetting& one : settings_->observe())
      if (one.kind == power::KnobKind::cpu_governor && one.value)
        mine.setting[power::to_string(one.kind)].devices.emplace_back(row_of(host_, one.domain)).observed =
            to_record(one.kind, *one.value);
  for (const auto& part : gather_settings(job_, mine))
    for (const auto& [name, seen] : part)
      for (const results::SettingRow& from : seen.devices)
        for (results::SettingRow& row : settings[name].devices)
          if (row.host == from.host && row.domain == from.domain) row.observed = from.observed;
}

bool JobSettings::restore() {
  using Outcome = power::RestoredSetting::Outcome;
  bool failed = false;
  watch_.watch({});
  try {
    if (settings_)
      for (const power::RestoredSetting& one : settings_->restore_all()) {
        const bool kept = one.outcome == Outcome::failed || one.outcome == Outcome::absent;
        failed = failed || kept;
        if (kept)
          lines_.push_back(fmt::format("not restored: {}: {} of {}: {}; `trainwatt restore` tries again",
                                             host_, power::to_string(one.kind), one.domain, one.detail));
        else if (!one.detail.empty())
          lines_.push_back(fmt::format("left: {}: {} of {}: someone else has set {}", host_,
                                             power::to_string(one.kind), one.domain, one.detail));
      }
  } catch (const std::exception& error) {  // of this node alone: the others are waiting below
    failed = true;
    lines_.push_back(fmt::format("not restored: {}: {}", host_, error.what()));
  }
  return job_.maximum({failed ? 1.0 : 0.0}).front() == 0;
}

void note_found(std::map<std::string, results::Setting>& settings,
                const std::map<power::KnobKind, FoundSetting>& found) {
  for (const auto& [kind, from] : found) {
    results::Setting& setting = settings[power::to_string(kind)];
    if (setting.requested) continue;
    setting.found_by = from.by;
    // clang captures no structured binding with OpenMP
    const auto bound = [of = kind](std::optional<double> value) {
      return value ? std::optional(to_record(of, *value)) : std::nullopt;
    };
    setting.found_minimum = bound(from.minimum), setting.found_maximum = bound(from.maximum);
    setting.devices = from.devices;
  }
}

void observe_settings(std::map<std::string, results::Setting>& settings, const std::vector<results::Trial>& trials,
                      const std::set<std::string>& gpus) {
  for (auto& [name, setting] : settings) {
    const auto kind = power::knob_kind_from_string(name);
    if (!kind || (!setting.requested && !setting.found_by)) continue;
    const char* quantity = series_of(*kind);
    if (!setting.requested && quantity) setting.devices = devices_of(trials, quantity, gpus);
    const bool is_power = *kind == power::KnobKind::gpu_power_limit || *kind == power::KnobKind::cpu_power_limit;
    const std::optional<results::SetPoint> asked = setting.requested ? setting.requested : setting.found_maximum;
    const auto off = [&](const results::SetPoint& value) { return results::distance_from(*asked, value); };
    for (results::SettingRow& row : setting.devices) {
      std::optional<double> seen;
      for (const results::SettingRow& device : devices_behind(row, *kind, trials, gpus)) {
        std::optional<double> one;
        if (is_power) one = power_of(trials, device);
        if (is_power && !one) one = mean_of(trials, device, "power_w");
        if (quantity) one = mean_of(trials, device, quantity);
        if (one && (!seen || (is_power ? *one > *seen : off(*one) > off(*seen)))) seen = one;
      }
      if (seen) row.observed = *seen;
      if (row.accepted && !row.observed) row.reason = "nothing on this node shows it under load";
    }
    setting.observed = results::farthest_observed(setting);
  }
}

}  // namespace tw::bench
