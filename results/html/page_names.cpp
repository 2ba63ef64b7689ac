// Points, machines and missing energy as the page names them.
#include "results/html/page.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <regex>
#include <set>
#include <string_view>

#include "results/export/export_parts.hpp"
#include "results/record/text.hpp"
#include "results/selection/search.hpp"

namespace tw::results::page {
namespace {

std::vector<std::string> parts_of(const std::string& id) {
  std::vector<std::string> parts;
  for (std::size_t at = 0, end; at <= id.size(); at = end + 1) {
    end = std::min(id.find('/', at), id.size());
    parts.push_back(id.substr(at, end - at));
  }
  return parts;
}

bool is_number(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

/// "accumulate 4" of "acc4", as bench/plan writes the parts of an id.
std::string in_words(const std::string& part) {
  const auto behind = [&](std::string_view prefix) {
    const std::string_view rest = part.starts_with(prefix) ? std::string_view(part).substr(prefix.size()) : "";
    return is_number(rest) ? std::string(rest) : std::string();
  };
  if (const std::string n = behind("mb"); !n.empty()) return "micro-batch " + n;
  if (const std::string n = behind("t"); !n.empty()) return n + " tokens";
  if (const std::string n = behind("acc"); !n.empty()) return "accumulate " + n;
  if (const std::string n = behind("np"); !n.empty()) return n + (n == "1" ? " process" : " processes");
  struct Setting {
    const char *key, *name, *unit;
  };
  static constexpr Setting settings[] = {{"gpu_clock", "GPU clock", "MHz"},
                                         {"gpu_memory_clock", "GPU memory clock", "MHz"},
                                         {"gpu_power_limit", "GPU power limit", "W"},
                                         {"cpu_frequency", "CPU frequency", "MHz"},
                                         {"cpu_power_limit", "CPU power limit", "W"}};
  const std::size_t equals = part.find('=');
  for (const Setting& one : settings)
    if (part.substr(0, equals) == one.key && equals != part.npos &&
        is_number(std::string_view(part).substr(equals + 1)))
      return fmt::format("{} {} {}", one.name, part.substr(equals + 1), one.unit);
  return part;
}

std::string joined(const std::vector<std::string>& parts) {
  std::vector<std::string> said;
  for (const std::string& part : parts)
    if (!part.empty()) said.push_back(in_words(part));
  return text::join(said, ", ");
}

/// "AMD EPYC 7502P" of "AMD EPYC 7502P 32-Core Processor"; Provenance has the whole name.
std::string short_processor(std::string name) {
  static const std::regex noise(R"(\((R|r|TM|tm)\)| +CPU\b| +@ .*$| +\d+-Core\b| +Processor\b|Processor +)");
  name = std::regex_replace(name.substr(0, 200), noise, "");
  static const std::regex spaces(" +");
  return std::regex_replace(name, spaces, " ");
}

/// "4 x NVIDIA H100, 2 x A"; without the number where it is that of the nodes and the same for all.
std::string several(const std::map<std::string, std::size_t>& counted, bool always_number) {
  std::vector<std::string> parts;
  for (const auto& [name, n] : counted)
    parts.push_back(counted.size() > 1 || always_number ? fmt::format("{} x {}", n, name) : name);
  return text::join(parts, ", ");
}

}  // namespace

std::string whose(const std::vector<HtmlSystem>& systems, const HtmlSystem& system) {
  return systems.size() > 1 ? system.name + ": " : "";
}

ShortNames short_names(const std::vector<std::string>& ids, bool keep_network) {
  ShortNames found;
  const std::set<std::string> different(ids.begin(), ids.end());
  std::map<std::string, std::size_t> uses;  // in how many different ids a part is found
  for (const std::string& id : different) {
    const std::vector<std::string> parts = parts_of(id);
    for (const std::string& part : std::set<std::string>(parts.begin(), parts.end())) ++uses[part];
  }
  std::map<std::string, std::string> names;
  std::set<std::string> taken;
  if (different.size() == 1) {
    const std::vector<std::string> parts = parts_of(ids.front());
    const std::size_t from = keep_network ? 0 : 1, end = std::min<std::size_t>(2, parts.size());
    if (from < end && parts.size() > 2) {
      names[ids.front()] =
          joined({parts.begin() + static_cast<std::ptrdiff_t>(from), parts.begin() + static_cast<std::ptrdiff_t>(end)});
      found.shared = joined({parts.begin() + static_cast<std::ptrdiff_t>(end), parts.end()});
    }
  } else {
    std::vector<std::string> shared;
    std::map<std::string, std::string> own_parts;  // the last of each
    for (const std::string& id : different) {
      std::vector<std::string> own;
      shared.clear();
      const std::vector<std::string> parts = parts_of(id);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const bool is_shared = uses[parts[i]] == different.size();
        if (!is_shared || (i == 0 && keep_network)) own.push_back(parts[i]);
        if (is_shared && i > 0) shared.push_back(parts[i]);
      }
      names[id] = joined(own), own_parts[id] = own.empty() ? "" : own.back();
      taken.insert(names[id]);
    }
    // Where the others differ in their set points alone, the plan writes none into the id of what was left as it was.
    const std::string again = std::string(again_suffix).substr(1);
    const auto is_set = [&](const auto& one) {
      return one.second.empty() || one.second == again || one.second.find('=') != one.second.npos;
    };
    if (taken.contains("") && std::ranges::all_of(own_parts, is_set))
      for (auto& [id, name] : names)
        if (name.empty() || name == again) name = name.empty() ? "as found" : "as found, " + again;
    taken.clear();
    for (const auto& [id, name] : names) taken.insert(name);
    found.shared = joined(shared);
    const bool is_clear = taken.size() == different.size() && !taken.contains("");
    if (!is_clear) names.clear(), found.shared.clear();
  }
  for (const std::string& id : ids) {
    const auto name = names.find(id);
    found.names.push_back(name == names.end() || name->second.empty() ? id : name->second);
  }
  return found;
}

std::vector<std::vector<Words>> point_names(const std::vector<HtmlSystem>& systems) {
  std::vector<std::string> all;
  std::set<std::string> networks;
  for (const HtmlSystem& system : systems)
    for (const std::string& id : unique_ids(system.report.records))
      all.push_back(id), networks.insert(id.substr(0, id.find('/')));
  const ShortNames found = short_names(all, networks.size() > 1);
  const bool is_one =
      systems.size() > 1 && std::set<std::string>(all.begin(), all.end()).size() == 1;  // of each system
  std::vector<std::vector<Words>> names;
  std::size_t next = 0;
  for (const HtmlSystem& system : systems) {
    const std::string of = whose(systems, system);
    names.emplace_back();
    for (std::size_t r = 0; r < system.report.records.size(); ++r, ++next)
      names.back().emplace_back(is_one ? system.name : of + found.names[next], Look::plain, of + all[next]);
  }
  return names;
}

std::string machine_words(const Report& report) {
  const Context& context = report.context;
  std::map<std::string, std::size_t> processors, accelerators;
  for (const HostInfo& host : context.hosts)
    if (!host.cpu.empty()) ++processors[short_processor(host.cpu)];
  std::set<std::string> seen;
  for (const DeviceEntry& device : context.devices)
    if (device.known_kind().value_or(DeviceKind::cuda) == DeviceKind::cuda &&
        (device.uuid.empty() || seen.insert(device.uuid).second))
      ++accelerators[device.name.empty() ? device.kind : device.name];
  std::vector<std::string> parts;
  const std::string inside = text::join_said({several(processors, false), several(accelerators, true)}, ", ");
  if (!context.hosts.empty())
    parts.push_back(text::count(context.hosts.size(), "node") + (inside.empty() ? "" : " (" + inside + ")"));
  if (const std::size_t n = context.devices.size(); n > 0)
    parts.push_back(fmt::format("{} process{}", n, n == 1 ? "" : "es"));
  return text::join(parts, ", ");
}

bool lacks_energy(const Report& report) {
  return std::ranges::any_of(report.records, has_run) && std::ranges::none_of(report.records, [](const Record& record) {
           return std::ranges::any_of(record.summary.energy_j, [](const auto& one) { return one.second.has_value(); });
         });
}

bool all_lack_energy(const std::vector<HtmlSystem>& systems) {
  return std::ranges::all_of(systems, [](const HtmlSystem& one) { return lacks_energy(one.report); });
}

std::vector<Words> missing_energy(const std::vector<HtmlSystem>& systems) {
  std::vector<std::pair<std::string, std::vector<std::size_t>>> reasons;  // in the order of the systems
  for (std::size_t s = 0; s < systems.size(); ++s) {
    const Report& report = systems[s].report;
    if (!lacks_energy(report)) continue;
    const std::vector<MeterEntry>& meters = report.context.meters;
    std::string why;
    if (meters.empty() || std::ranges::any_of(meters, &MeterEntry::available))
      why = why_no_joules({systems[s]});
    else if (std::ranges::any_of(meters, [](const MeterEntry& meter) { return meter.why() == Reason::permission; }))
      why = "this user may not read the power meters of the machine";
    else
      why = "this machine offers no power meter";
    const auto found = std::ranges::find(reasons, why, &std::pair<std::string, std::vector<std::size_t>>::first);
    if (found == reasons.end())
      reasons.push_back({why, {s}});
    else
      found->second.push_back(s);
  }
  std::vector<Words> all;
  for (const auto& [why, places] : reasons) {
    std::vector<std::string> names;
    for (const std::size_t s : places) names.push_back(systems[s].name);
    const std::string of = systems.size() > 1 ? " on " + text::join(names, ", ") : "";
    Words words(fmt::format("Energy was not measured{}: {}.", of, why), Look::note);
    for (const std::size_t s : places) {
      const auto add = [&](const std::string& reason) {
        const std::string line = whose(systems, systems[s]) + reason;
        if (!reason.empty() && std::ranges::find(words.more, line) == words.more.end()) words.more.push_back(line);
      };
      for (const MeterEntry& meter : systems[s].report.context.meters)
        if (!meter.reason.empty())
          add(fmt::format("{}: {}{}", meter.domain, meter.reason, meter.detail.empty() ? "" : ": " + meter.detail));
      if (systems[s].report.context.meters.empty()) continue;
      for (const Record& record : systems[s].report.records)
        if (has_run(record)) add(record.summary.energy_reason);
    }
    all.push_back(std::move(words));
  }
  return all;
}

bool has_knob(const Report& report) {
  return std::ranges::any_of(report.records, [](const Record& record) {
    return std::ranges::any_of(record.setting, [](const auto& one) { return one.second.accepted.has_value(); });
  });
}

}  // namespace tw::results::page
