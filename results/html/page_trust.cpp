// What a report rests on: the energy ledger, verdicts, run rules, where it comes from.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "results/analysis/flag_notes.hpp"
#include "results/analysis/run_rules.hpp"
#include "results/html/page.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"

namespace tw::results::page {

using text::si;
using text::significant;

namespace {

/// A sensor over the trials of a point.
struct LedgerLine {
  double joules = 0, seconds = 0, uncertainty = 0;
  std::size_t read = 0, trials = 0;
};

Table ledger(const HtmlSystem& system, const std::vector<Words>& ids, const std::string& caption) {
  Table table(caption, {"Point", "Host", "Meter", "Scope", "Method", "In the total", "J per trial", "± 95 %",
                        "Mean power", "Why excluded or absent"});
  for (std::size_t r = 0; r < ids.size(); ++r) {
    using Key = std::tuple<std::string, std::string, Scope, Method, bool, std::string>;
    std::map<Key, LedgerLine> lines;
    for (const Trial& trial : system.report.records[r].trials)
      for (const EnergyRow& row : trial.energy) {
        const std::string why = row.reason + (row.detail && !row.detail->empty() ? ": " + *row.detail : "");
        LedgerLine& line = lines[{row.host, row.domain, row.scope, row.method, row.counted, why}];
        ++line.trials;
        if (!row.energy_j) continue;
        ++line.read, line.joules += *row.energy_j, line.uncertainty += row.uncertainty_j.value_or(0);
        line.seconds += row.window_s.value_or(0);
      }
    for (const auto& [key, line] : lines) {
      const auto& [host, domain, scope, method, counted, why] = key;
      const double n = static_cast<double>(std::max<std::size_t>(line.read, 1));
      const bool added = counted && line.read > 0;
      table.rows.push_back({ids[r], host, domain, to_string(scope), to_string(method),
                            added ? Words{"yes", Look::good} : Words{line.read > 0 ? "no" : "absent", Look::quiet},
                            line.read > 0 ? number(si(line.joules / n, "J")) : Words{"absent", Look::quiet},
                            number(line.read > 0 ? si(line.uncertainty / n, "J") : ""),
                            number(line.seconds > 0 ? si(line.joules / line.seconds, "W") : ""),
                            why.empty() && !added ? "not counted" : why});
    }
  }
  return table;
}

}  // namespace

Section ledger_section(const std::vector<HtmlSystem>& systems) {
  Section section{"ledger", "Energy ledger", "Which sensors' joules were counted, which were excluded, and why."};
  const std::vector<std::vector<Words>> names = point_names(systems);
  section.folded = all_lack_energy(systems);
  for (std::size_t s = 0; s < systems.size(); ++s) {
    const Report& report = systems[s].report;
    Table meters(whose(systems, systems[s]) + "Meters",
                 {"Meter", "Host", "Scope", "Method", "State", "Reason or details"});
    for (const MeterEntry& m : report.context.meters)
      meters.rows.push_back({m.domain, m.host, to_string(m.scope), to_string(m.method),
                             !m.available ? Words{"not available", Look::bad}
                             : m.counted  ? Words{"counted", Look::good}
                                          : Words{"not counted", Look::quiet},
                             m.reason + (m.detail.empty() ? "" : (m.reason.empty() ? "" : ": ") + m.detail)});
    if (meters.rows.empty())
      section.say(whose(systems, systems[s]) + "no meter was searched for, or the report does not list them.",
                  Look::quiet);
    section.add(std::move(meters));
    Table rows = ledger(systems[s], names[s], whose(systems, systems[s]) + "Readings");
    rows.folded = rows.rows.size() > 12;
    section.add(std::move(rows));
    Table idle(whose(systems, systems[s]) + "Idle power", {"When", "Meter", "Host", "Power", "Why absent"}, true);
    for (const IdleRow& row : report.context.idle_power)
      idle.rows.push_back({row.when + " all points", row.domain, row.host,
                           row.power_w ? number(si(*row.power_w, "W")) : Words{"absent", Look::quiet}, row.reason});
    section.add(std::move(idle));
  }
  return section;
}

Section verdicts_section(const std::vector<HtmlSystem>& systems) {
  Section section{"verdicts", "Verdicts", "Rows are flagged, never dropped. Only valid points are in a mean."};
  std::vector<Record> all;
  Table reasons("Points that do not count", {"Point", "Verdict", "Why"});
  std::map<std::string, std::vector<std::string>> points;  // by flag
  const std::vector<std::vector<Words>> names = point_names(systems);
  for (std::size_t s = 0; s < systems.size(); ++s) {
    for (std::size_t r = 0; r < names[s].size(); ++r) {
      const Record& record = systems[s].report.records[r];
      all.push_back(record);
      const Words& name = names[s][r];
      for (const FlagName& flag : record.verdict.flags) points[flag.name].push_back(name.text);
      if (!is_valid(record))
        reasons.rows.push_back({name, status_words(record), text::join(record.verdict.reasons, "; ")});
    }
  }
  Table flags("Flags", {"Flag", "What it means, and what to do", "Points"});
  for (const FlagName& flag : flags_of(all)) {
    const auto& named = points[flag.name];
    const bool is_of_all = named.size() == all.size() && named.size() > 1;
    flags.rows.push_back({flag.name, note_of(flag), is_of_all ? "all" : text::join(named, "; ")});
  }
  section.add(std::move(reasons)), section.add(std::move(flags));
  if (section.blocks.empty())
    section.say(all.empty() ? "No points were run." : "Every point counts, and none has a flag.",
                all.empty() ? Look::quiet : Look::good);
  return section;
}

Section rules_section(const std::vector<HtmlSystem>& systems) {
  Section section{"rules", "Run rules", "The rules for publication, checked against the report."};
  for (std::size_t s = 0; s < systems.size(); ++s) {
    Table table(whose(systems, systems[s]) + "Rules", {"Rule", "State", "Requirement", "Finding"});
    for (const RunRuleCheck& check : check_run_rules(systems[s].report)) {
      const Look look = check.state == RunRuleState::kept            ? Look::good
                        : check.state == RunRuleState::broken        ? Look::bad
                        : check.state == RunRuleState::not_checkable ? Look::note
                                                                     : Look::quiet;
      table.rows.push_back(
          {check.rule->id, {to_string(check.state), look}, text::sentence(check.rule->asks), finding_sentence(check)});
    }
    section.blocks.emplace_back(std::move(table));
  }
  return section;
}

Section provenance_section(const std::vector<HtmlSystem>& systems) {
  Section section{"provenance", "Provenance", ""};
  for (std::size_t s = 0; s < systems.size(); ++s) {
    const Report& report = systems[s].report;
    const Context& c = report.context;
    Table table(whose(systems, systems[s]) + "Where the figures come from", {"What", "Value"});
    const auto line = [&](const std::string& what, const std::string& value) {
      if (!value.empty()) table.rows.push_back({what, value});
    };
    const Program& p = report.program;
    if (p.name.empty())
      section.say(whose(systems, systems[s]) + "an unfinished run: context and plan are not in its records.",
                  Look::note);
    line("program", p.name.empty() ? "" : fmt::format("{} {} ({})", p.name, p.version, p.git_commit));
    line("suite", suite_words(report.plan));
    line("plan", report.plan.canonical_json.empty() ? "" : "SHA-256 " + sha256_hex(report.plan.canonical_json));
    line("started", c.started_at), line("finished", c.finished_at);
    line("command", text::join(c.argv, " "));
    line("launcher", c.launcher);
    for (const HostInfo& h : c.hosts) {
      line("host " + h.name,
           fmt::format("{}; {}, {}, {}; {}, kernel {}{}{}", h.cpu, text::count(h.cores, "core"),
                       text::count(h.usable_threads, "usable thread"), text::bytes(static_cast<double>(h.memory_bytes)),
                       h.os, h.kernel, h.hypervisor ? "; hypervisor " + *h.hypervisor : "",
                       h.container ? "; container " + *h.container : ""));
      line("network of " + h.name, text::join(h.nics, ", "));
    }
    for (const DeviceEntry& d : c.devices)
      line(fmt::format("rank {}", d.rank),
           fmt::format("{}, {}: {}{}", d.host, d.kind, d.name, d.uuid.empty() ? "" : ", " + d.uuid));
    if (report.parts && report.parts->size() > 1) line("resumed", fmt::format("in {} parts", report.parts->size()));
    for (const std::string& warning : c.warnings) line("warning", warning);
    for (const std::string& fault : systems[s].faults) line("fault (trainwatt validate)", fault);
    for (const std::string& note : systems[s].notes) line("note (trainwatt validate)", note);
    Table more(whose(systems, systems[s]) + "Versions and environment", {"What", "Value"}, true);
    for (const auto& [name, version] : c.versions) more.rows.push_back({name, version});
    for (const auto& [name, value] : c.environment) more.rows.push_back({name, value});
    if (!report.plan.canonical_json.empty()) more.rows.push_back({"plan", report.plan.canonical_json});
    section.add(std::move(table)), section.add(std::move(more));
  }
  if (section.blocks.empty()) section.say("The reports do not say where they are from.", Look::note);
  return section;
}

}  // namespace tw::results::page
