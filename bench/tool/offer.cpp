#include "bench/tool/offer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>

#include "bench/plan/kit.hpp"
#include "bench/tool/report_file.hpp"
#include "bench/tool/signature.hpp"
#include "results/run_rules.hpp"
#include "results/text.hpp"

namespace tw::tool {

void check_signature(const std::string& name, const BundleFiles& files, const std::string& signers, Validation& found) {
  const auto signature = files.find(signature_file);
  const auto sums = files.find(sums_file);
  if (signers.empty()) {
    fmt::print("{}: signature: {}\n", name, signature == files.end() ? "none" : "not checked: give --signers");
    return;
  }
  if (signature == files.end() || sums == files.end()) {
    found.violations.push_back("signature: there is none");
    return;
  }
  const Signed result = verify(sums->second, signature->second, signers);
  if (result.who.empty())
    found.violations.push_back("signature: " + result.text);
  else
    fmt::print("{}: signature: {}\n", name, result.text);
}

void check_rules(const std::string& path, const Report& report, Validation* offer) {
  const std::string name = text::printable(path);
  const auto say = [&](const std::string& line) { fmt::print("{}: {}\n", name, text::printable(line)); };
  std::map<RunRuleState, std::vector<std::string>> rules;
  std::vector<std::string> broken;
  for (const RunRuleCheck& check : check_run_rules(report)) {
    const std::string& id = check.rule->id;
    const std::string found = finding(check);
    if (check.state == RunRuleState::broken)
      broken.push_back(fmt::format("run rule \"{}\" is broken ({}): {}", id, check.rule->asks, found));
    else if (check.state == RunRuleState::not_checkable && offer != nullptr)
      offer->warnings.push_back(fmt::format("run rule \"{}\" is not checkable: {}", id, found));
    else
      rules[check.state].push_back(check.state == RunRuleState::kept ? id : fmt::format("{} ({})", id, found));
  }
  const auto list = [&](const char* what, RunRuleState state) {
    say(fmt::format("{}: {}", what, rules[state].empty() ? "none" : fmt::format("{}", fmt::join(rules[state], ", "))));
  };
  list("run rules kept", RunRuleState::kept);
  if (rules.contains(RunRuleState::not_applicable)) list("run rules that do not apply", RunRuleState::not_applicable);
  if (rules.contains(RunRuleState::not_checkable)) list("run rules not checkable", RunRuleState::not_checkable);
  for (const std::string& line : broken)
    if (offer != nullptr)
      offer->violations.push_back(line);
    else
      say(line);
}

void check_kit(const Report& report, const std::string& kit_path, Validation& found) {
  const Kit kit = open_kit(kit_path, read_config_text(kit_path, "--kit"));
  const auto& its = report.plan.kit;
  const std::string mine = text::printable(kit_path) + " (SHA-256 " + kit.sha256 + ")";
  if (!its || its->sha256 != kit.sha256) {
    found.violations.push_back(
        its ? "/plan/kit: is another kit, with SHA-256 " + its->sha256 + ", not " + mine
            : "/plan/kit: there is none: the plan is not that of " + mine +
                  (report.plan.suite.ends_with(changed_suite) ? ", but of " + report.plan.suite : ""));
    return;
  }
  if (its->title != kit.title) found.violations.push_back("/plan/kit/title: is not that of " + mine);
  if (kit.program.version != report.program.version || kit.program.git_commit != report.program.git_commit)
    found.warnings.push_back(fmt::format("/program: is {} ({}), the kit was frozen with {} ({})",
                                         report.program.version, report.program.git_commit, kit.program.version,
                                         kit.program.git_commit));
  std::vector<std::string> unsupported;
  for (const Record& record : report.records)
    if (record.verdict.status == "unsupported") unsupported.push_back(record.id);
  if (!unsupported.empty())
    found.warnings.push_back(fmt::format(
        "/records: {} of {} points are called unsupported ({}{}): a comparison leaves them out of the mean of "
        "every system",
        unsupported.size(), report.records.size(), unsupported.front(), unsupported.size() > 1 ? ", …" : ""));
  // The hash alone could stand above any points.
  try {
    const auto plan = nlohmann::json::parse(report.plan.canonical_json);
    const Request request = read_config(kit_path, kit.config_json);
    Request of_kit = request;
    of_kit.suite = kit.suite, of_kit.kit = KitInfo{kit.title, kit.sha256};
    const auto ranks = static_cast<int>(report.context.devices.size());
    if (make_plan(of_kit, ranks, plan.at("device").get<std::string>()).canonical_json() != report.plan.canonical_json)
      found.violations.push_back(
          fmt::format("/plan/canonical_json: is not what this version makes of {} for {} ranks", mine, ranks));
  } catch (const std::exception& error) {
    found.violations.push_back(fmt::format("/plan: cannot be held against {}: {}", mine, error.what()));
  }
}

void check_offer(const std::string& path, CheckedReport& checked, const ValidateOptions& options) {
  const std::string name = text::printable(path);
  if (checked.report) {  // check_report has said why not
    const Report report = printable(*checked.report);
    std::vector<std::string> hosts;
    for (const HostInfo& host : report.context.hosts) hosts.push_back(host.name);
    const Program& program = report.program;
    fmt::print("{}: {} {} ({}), {}, {} record{}, on {}, started {}\n", name, program.name, program.version,
               program.git_commit, report.plan.suite, report.records.size(), report.records.size() == 1 ? "" : "s",
               fmt::join(hosts, ", "), report.context.started_at);
    fmt::print("{}: kit: {}\n", name,
               report.plan.kit
                   ? fmt::format("{}SHA-256 {}", report.plan.kit->title.empty() ? "" : report.plan.kit->title + ", ",
                                 report.plan.kit->sha256)
                   : "none");
    check_rules(path, *checked.report, &checked.found);
  }
  check_signature(name, *checked.bundle, options.signers, checked.found);
}

}  // namespace tw::tool
