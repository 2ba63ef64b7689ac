// `trainwatt probe`: what this node can be measured and set by, and the smallest grant for what is missing.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "bench/node_power/node_power.hpp"
#include "bench/plan/abilities.hpp"
#include "bench/plan/options/input_kind.hpp"
#include "bench/plan/options/meter_options.hpp"
#include "bench/tool/commands.hpp"
#include "bench/tool/inputs/options.hpp"
#include "bench/tool/terminal.hpp"
#include "power/knob/in_force.hpp"
#include "power/knob/knob.hpp"
#include "power/meter/energy_meter.hpp"
#include "power/telemetry/telemetry.hpp"
#include "results/record/text.hpp"

namespace tw::bench::tool {
namespace {

using Json = nlohmann::ordered_json;

struct ProbeOptions {
  std::string site;        ///< a site's own commands for knobs; empty: none
  std::string energy_csv;  ///< this node's power by the site's own meter; empty: none
  bool json = false;
};

constexpr std::size_t name_width = 22, state_width = 13;

std::size_t width() { return terminal_style().width; }

/// What it takes to make something available, with what it is for. Equal grants are listed once.
class Grants {
 public:
  void add(const std::string& grant, const std::string& what) {
    if (grant.empty()) return;
    std::vector<std::string>& names = grants_[grant];
    if (std::find(names.begin(), names.end(), what) == names.end()) names.push_back(what);
  }
  void print() const {
    if (grants_.empty()) return;
    fmt::print("\nHow to make more available\n");
    for (const auto& [grant, names] : grants_) {
      const std::string list = results::text::printable(results::text::join(names, ", "));
      fmt::print("  {}\n", results::text::wrap(results::text::printable(grant), width(), 4));
      fmt::print("      {}\n", results::text::wrap("for " + list, width(), 10));
    }
  }

 private:
  std::map<std::string, std::vector<std::string>> grants_;
};

void line(const std::string& name, const std::string& state, const std::string& rest) {
  // A name or a text that does not fit beside the others goes on below.
  const std::size_t indent = 2 + name_width + 1 + state_width + 1;
  const std::string shown = results::text::printable(name);
  fmt::print("  {}", results::text::pad_right(shown, name_width));
  if (results::text::columns(shown) > name_width) fmt::print("\n{}", std::string(2 + name_width, ' '));
  fmt::print(" {} ", results::text::pad_right(state, state_width));
  std::string below = results::text::wrap(results::text::printable(rest), width() - indent, 0);
  for (std::size_t at = below.find('\n'); at != std::string::npos; at = below.find('\n', at + 1))
    below.insert(at + 1, indent, ' ');
  fmt::print("{}\n", below);
}

std::string why(const std::string& reason, const std::string& detail) {
  return detail.empty() ? reason : reason + ": " + detail;
}

/// A name, or a number in the unit of its kind.
Json set_point(power::KnobKind kind, double value) {
  return power::names_of(kind).empty() ? Json(value) : Json(power::set_point_text(kind, value));
}
std::string figure(power::KnobKind kind, double value) {
  return power::names_of(kind).empty() ? results::text::significant(value, 4) : power::set_point_text(kind, value);
}

std::string now_of(power::Knob& knob) {
  try {
    const std::optional<double> value = knob.get();
    return value ? ", now " + figure(knob.kind(), *value) : "";
  } catch (const std::exception&) {
    return "";
  }
}

struct Findings {
  std::vector<power::MeterFinding> meters;
  std::vector<power::TelemetryFinding> telemetry;
  std::vector<power::KnobFinding> knobs;
  std::vector<power::SettingsInForce> in_force;
};

Findings look(const ProbeOptions& options) {
  if (!options.site.empty()) check_kind("--site", options.site, {InputKind::site});
  if (!options.energy_csv.empty()) check_kind("--energy-csv", options.energy_csv, {InputKind::power_csv});
  const GpuChoice gpus = choice_here();
  const power::MeterOptions meters = meter_options(options.energy_csv, {}, host_name(), true);
  return {power::find_meters(meters, choosing(gpus)), choose(power::find_telemetry(), gpus),
          power::find_knobs({options.site}), power::settings_in_force()};
}

std::vector<std::string> quantities_of(const power::TelemetryFinding& finding) {
  std::vector<std::string> quantities;
  if (finding.telemetry)
    for (const power::Channel& channel : finding.telemetry->channels()) quantities.push_back(channel.quantity);
  return quantities;
}

std::string json_of(const Findings& findings) {
  const auto& [meters, telemetry, knobs, in_force] = findings;
  const Abilities node = abilities_here(meters, knobs);
  Json json = {{"host", node.host}};
  json["cpu"]["bf16"] = node.cpu_bf16 ? Json(*node.cpu_bf16) : Json();
  json["cpu"]["cores"] = node.cores;
  json["gpus"] = node.gpus;
  json["memory"]["total_bytes"] = node.memory_bytes ? Json(*node.memory_bytes) : Json();
  json["meters"] = json["telemetry"] = json["knobs"] = Json::array();
  for (const power::MeterFinding& m : meters) {
    json["meters"].push_back({{"domain", m.domain},
                              {"scope", m.scope ? Json(power::to_string(*m.scope)) : Json()},
                              {"available", m.meter != nullptr},
                              {"counted", m.counted},
                              {"method", m.meter ? Json(power::to_string(m.meter->method())) : Json()},
                              {"update_period_s", m.meter ? Json(m.meter->update_period_seconds()) : Json()},
                              {"maximum_power_w", m.meter ? Json(m.meter->maximum_power_watts()) : Json()},
                              {"reason", m.reason},
                              {"detail", m.detail},
                              {"grant", m.grant}});
  }
  for (const power::TelemetryFinding& t : telemetry)
    json["telemetry"].push_back(
        {{"domain", t.domain}, {"channels", quantities_of(t)}, {"reason", t.reason}, {"detail", t.detail}});
  for (const power::KnobFinding& k : knobs) {
    Json one = {{"kind", power::to_string(k.kind)}, {"domain", k.domain}, {"writable", k.knob && k.reason.empty()}};
    const bool numbers = k.knob && power::names_of(k.kind).empty();
    one["minimum"] = numbers ? Json(k.knob->range().minimum) : Json();
    one["maximum"] = numbers ? Json(k.knob->range().maximum) : Json();
    one["values"] = Json::array();
    if (k.knob)
      for (const double value : k.knob->range().values) one["values"].push_back(set_point(k.kind, value));
    one["reason"] = k.reason, one["detail"] = k.detail, one["grant"] = k.grant;
    json["knobs"].push_back(std::move(one));
  }
  json["settings_in_force"] = Json::array();
  for (const power::SettingsInForce& one : in_force) {
    const bool known = one.unreadable.empty();
    json["settings_in_force"].push_back(
        {{"folder", one.folder.string()},
         {"values", known ? Json(power::values_of(one.journal)) : Json()},
         {"pid", known ? Json(one.journal.owner.pid) : Json()},
         {"user", known ? Json(one.journal.owner.uid) : Json()},
         {"running", known && one.life != power::Life::unknown ? Json(one.life == power::Life::living) : Json()},
         {"earlier_boot", one.earlier_boot},
         {"unreadable", known ? Json() : Json("journal unreadable: " + one.unreadable)}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

/// Whether reports will have energy.
bool print_meters(const std::vector<power::MeterFinding>& meters, Grants& grants) {
  bool any = false;
  for (const power::MeterFinding& m : meters) {
    grants.add(m.grant, m.domain);
    if (!m.meter) {
      line(m.domain, "absent", why(m.reason, m.detail));
      continue;
    }
    const bool whole = std::none_of(meters.begin(), meters.end(), [&](const power::MeterFinding& other) {
      return !other.meter && other.scope == m.meter->scope() && other.reason != "not_visible";
    });
    any = any || (m.counted && whole);
    std::string text = fmt::format("{} by {}", power::to_string(m.meter->scope()), power::to_string(m.meter->method()));
    std::replace(text.begin(), text.end(), '_', ' ');
    if (m.meter->update_period_seconds() > 0)
      text += ", each " + results::text::duration(m.meter->update_period_seconds());
    line(m.domain, m.counted ? "counted" : "cross-check", text + (m.counted ? "" : "; " + why(m.reason, m.detail)));
  }
  return any;
}

void print_knob(const power::KnobFinding& k) {
  std::string text = k.domain;
  if (k.knob) {
    const power::KnobRange range = k.knob->range();
    if (power::names_of(k.kind).empty()) {
      text += fmt::format(", {} to {}", results::text::significant(range.minimum, 4),
                          results::text::significant(range.maximum, 4));
      if (!range.values.empty()) text += " in " + results::text::count(range.values.size(), "value");
    } else {
      for (const double value : range.values) text += ", " + power::set_point_text(k.kind, value);
    }
    text += now_of(*k.knob);
  }
  if (!k.reason.empty()) text += "; " + why(k.reason, k.detail);
  line(power::to_string(k.kind), k.knob && k.reason.empty() ? "writable" : k.knob ? "readable" : "absent", text);
}

int probe(const ProbeOptions& options) {
  const Findings findings = look(options);
  if (options.json) {
    fmt::print("{}\n", json_of(findings));
    return 0;
  }
  const auto& [meters, telemetry, knobs, in_force] = findings;
  Grants grants;
  fmt::print("Energy meters of {}\n", abilities_here(meters, knobs).host);
  const bool any = print_meters(meters, grants);
  fmt::print("\nTelemetry\n");
  for (const power::TelemetryFinding& t : telemetry) {
    const std::string rest = t.telemetry ? results::text::join(quantities_of(t), ", ") : why(t.reason, t.detail);
    line(t.domain, t.telemetry ? "readable" : "absent", rest);
  }
  fmt::print("\nSettings (all of this node, including GPUs that this job may not use)\n");
  for (const power::KnobFinding& k : knobs) {
    grants.add(k.grant, std::string(power::to_string(k.kind)) + " of " + k.domain);
    print_knob(k);
  }
  grants.print();
  if (!in_force.empty()) fmt::print("\nSettings changed by a run\n");
  for (const power::SettingsInForce& one : in_force)
    fmt::print("  {}\n",
               results::text::wrap(results::text::printable(power::describe(one) + power::remedy(one)), width(), 4));
  fmt::print("\n{}\n", results::text::wrap(
                           any ? "Reports from this node contain energy."
                               : "No energy meter is readable here: in reports, energy is null with these reasons.",
                           width(), 0));
  return 0;
}

}  // namespace

Action add_probe(CLI::App& command, const Words&) {
  const auto options = std::make_shared<ProbeOptions>();
  command.add_flag("--json", options->json, "print JSON");
  command.add_option("--site", options->site, site_help);
  command.add_option("--energy-csv", options->energy_csv, energy_csv_help);
  return [options] { return probe(*options); };
}

}  // namespace tw::bench::tool
