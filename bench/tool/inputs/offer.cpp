#include "bench/tool/inputs/offer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "bench/plan/options/input_kind.hpp"
#include "bench/plan/options/kit.hpp"
#include "bench/plan/plan.hpp"
#include "bench/tool/inputs/report_file.hpp"
#include "bench/tool/inputs/series.hpp"
#include "bench/tool/inputs/signature.hpp"
#include "results/analysis/run_rules.hpp"
#include "results/record/text.hpp"

namespace tw::bench::tool {

void check_signature(const results::BundleFiles& files, const std::string& signers, FileFindings& found) {
  const auto signature = files.find(results::signature_file);
  const auto sums = files.find(results::sums_file);
  if (signers.empty()) {
    found.facts.push_back(signature == files.end() ? "signature: none" : "signature: not checked (give --signers)");
    return;
  }
  if (signature == files.end() || sums == files.end()) {
    found.faults.push_back({"signature_missing", "", "signature: missing"});
    return;
  }
  const Signed result = verify(sums->second, signature->second, signers);
  if (result.who.empty())
    found.faults.push_back({"signature_bad", "", "signature: " + result.text});
  else
    found.facts.push_back("signature: " + result.text);
}

void check_rules(const results::Report& report, bool is_offer, FileFindings& found) {
  for (const results::RunRuleCheck& check : results::check_run_rules(report)) {
    const RuleFinding& rule =
        found.rules.emplace_back(RuleFinding{check.rule->id, check.rule->asks, results::finding(check), check.state});
    if (!is_offer) continue;
    if (check.state == results::RunRuleState::broken)
      found.faults.push_back(
          {"rule_broken", "", fmt::format("run rule \"{}\" is broken ({}): {}", rule.id, rule.asks, rule.why)});
    else if (check.state == results::RunRuleState::not_checkable)
      found.notes.push_back(
          {"rule_not_checkable", "", fmt::format("run rule \"{}\" is not checkable: {}", rule.id, rule.why)});
  }
}

void check_kit(const results::Report& report, const std::string& kit_path, results::Validation& found) {
  const Kit kit = open_kit(kit_path, read_input("--kit", kit_path, {InputKind::kit}));
  const auto& its = report.plan.kit;
  const std::string mine = results::text::printable(kit_path) + " (SHA-256 " + kit.sha256 + ")";
  if (!its || its->sha256 != kit.sha256) {
    found.violations.push_back(
        {"kit_differs", "/plan/kit",
         its ? "is another kit, with SHA-256 " + its->sha256 + ", not " + mine
             : "is missing: the plan is not that of " + mine +
                   (report.plan.suite.ends_with(changed_suite) ? ", but of " + report.plan.suite : "")});
    return;
  }
  if (its->title != kit.title) found.violations.push_back({"kit_differs", "/plan/kit/title", "is not that of " + mine});
  if (kit.program.version != report.program.version || kit.program.git_commit != report.program.git_commit)
    found.warnings.push_back({"program_differs", "/program",
                              fmt::format("is {} ({}), the kit was frozen with {} ({})", report.program.version,
                                          report.program.git_commit, kit.program.version, kit.program.git_commit)});
  std::vector<std::string> unsupported;
  for (const results::Record& record : report.records)
    if (record.verdict.status == results::Status::unsupported) unsupported.push_back(record.id);
  if (!unsupported.empty())
    found.warnings.push_back(
        {"points_unsupported", "/records",
         fmt::format("{} of {} points are unsupported ({}{}): a comparison excludes them for all systems",
                     unsupported.size(), report.records.size(), unsupported.front(),
                     unsupported.size() > 1 ? ", …" : "")});
  // The hash alone could belong to any points.
  try {
    const auto plan = nlohmann::json::parse(report.plan.canonical_json);
    const Request request = read_config(kit_path, kit.config_json);
    Request of_kit = request;
    of_kit.suite = kit.suite, of_kit.kit = results::KitInfo{kit.title, kit.sha256};
    const auto ranks = static_cast<int>(report.context.devices.size());
    if (make_plan(of_kit, ranks, plan.at("device").get<std::string>()).canonical_json() != report.plan.canonical_json)
      found.violations.push_back(
          {"kit_differs", "/plan/canonical_json",
           fmt::format("is not what this version makes of {} for {}", mine, results::text::count(ranks, "rank"))});
  } catch (const std::exception& error) {
    found.violations.push_back(
        {"kit_differs", "/plan", fmt::format("cannot be compared with {}: {}", mine, error.what())});
  }
}

std::vector<results::Fault> offer_faults(const std::vector<results::Report>& runs,
                                         const std::vector<std::string>& paths, const std::string& kit_path) {
  std::vector<std::pair<results::Fault, std::vector<std::string>>> found;  // each once, with the runs that have it
  std::vector<std::pair<std::string, const results::Report*>> named;
  for (std::size_t run = 0; run < runs.size(); ++run) {
    named.emplace_back(paths[run], &runs[run]);
    results::Validation its;
    check_kit(runs[run], kit_path, its);
    for (const results::Fault& fault : its.violations) {
      auto same = std::ranges::find_if(found, [&](const auto& one) {
        return one.first.code == fault.code && one.first.where == fault.where && one.first.text == fault.text;
      });
      if (same == found.end()) same = found.insert(found.end(), {fault, {}});
      same->second.push_back(paths[run]);
    }
  }
  std::vector<results::Fault> faults;
  for (auto& [fault, of] : found)
    faults.push_back(of.size() == runs.size() ? std::move(fault)
                                              : results::in_file(fmt::format("{}", fmt::join(of, ", ")), fault));
  if (named.size() > 1) std::ranges::move(series_faults(named), std::back_inserter(faults));
  if (std::optional<results::Fault> fewer = fewer_runs(kit_path, runs.size())) faults.push_back(std::move(*fewer));
  return faults;
}

void check_offer(const CheckedReport& checked, FileFindings& found) {
  if (checked.report) {  // check_report has said why not
    const results::Report report = results::printable(*checked.report);
    std::vector<std::string> hosts;
    for (const results::HostInfo& host : report.context.hosts) hosts.push_back(host.name);
    const results::Program& program = report.program;
    found.facts.push_back(fmt::format("program: {} {} ({}), {}, {} record{}, on {}, started {}", program.name,
                                      program.version, program.git_commit, report.plan.suite, report.records.size(),
                                      report.records.size() == 1 ? "" : "s", fmt::join(hosts, ", "),
                                      report.context.started_at));
    found.facts.push_back(fmt::format(
        "kit: {}", report.plan.kit ? fmt::format("{}SHA-256 {}",
                                                 report.plan.kit->title.empty() ? "" : report.plan.kit->title + ", ",
                                                 report.plan.kit->sha256)
                                   : "none"));
    check_rules(*checked.report, true, found);
  }
}

}  // namespace tw::bench::tool
