#include "bench/tool/inputs/findings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/plan/options/input_kind.hpp"
#include "bench/plan/options/kit.hpp"
#include "bench/plan/plan.hpp"
#include "bench/terminal/error_line.hpp"
#include "bench/tool/inputs/series.hpp"
#include "bench/tool/inputs/signature.hpp"
#include "results/compare/comparison_words.hpp"
#include "results/record/text.hpp"

namespace tw::bench::tool {
namespace {

constexpr std::size_t columns = 80;

/// What an offer is asked for besides that it agrees with itself.
bool is_asked_for(const results::Fault& fault) {
  static const std::set<std::string> codes = {"kit_differs", "fewer_runs", "signature_missing", "signature_bad"};
  return codes.contains(fault.code);
}
bool is_of_rules(const results::Fault& fault) {
  return fault.code == "rule_broken" || fault.code == "rule_not_checkable";
}

/// The ids of the rules in a state.
std::vector<std::string> rules_in(const FileFindings& found, results::RunRuleState state) {
  std::vector<std::string> ids;
  for (const RuleFinding& rule : found.rules)
    if (rule.state == state) ids.push_back(rule.id);
  return ids;
}

/// "2 faults (energy_mean, meter_row_missing)"
std::string counted(const std::vector<const results::Fault*>& faults) {
  std::vector<std::string> codes;
  for (const results::Fault* fault : faults)
    if (std::ranges::find(codes, fault->code) == codes.end()) codes.push_back(fault->code);
  return fmt::format("{} ({})", results::text::count(faults.size(), "fault"),
                     results::words::first_of(std::move(codes), 6, ", ", ", and {} more kinds"));
}

std::string verdict(const FileFindings& found) {
  std::vector<const results::Fault*> own, asked;
  for (const results::Fault& fault : found.faults)
    if (is_asked_for(fault))
      asked.push_back(&fault);
    else if (!is_of_rules(fault))
      own.push_back(&fault);
  if (!own.empty()) {
    std::ranges::copy(asked, std::back_inserter(own));
    return "inconsistent: " + counted(own);
  }
  const std::string unmet = asked.empty() ? "" : "; does not meet the request: " + counted(asked);
  std::string words = "consistent" + unmet;
  if (found.kind == FileKind::unfinished)
    return words + "; records without their report: run rules cannot be checked without context and plan";
  if (found.rules.empty()) return words;
  const std::vector<std::string> broken = rules_in(found, results::RunRuleState::broken),
                                 open = rules_in(found, results::RunRuleState::not_checkable);
  const std::size_t all = broken.size() + rules_in(found, results::RunRuleState::kept).size();
  // Of a report on its own they are notes. Of a series they are faults of its runs, each of which says so.
  const bool is_offer = found.kind == FileKind::series || std::ranges::any_of(found.faults, is_of_rules);
  if (!broken.empty() && is_offer)
    return fmt::format("rejected: {} of {} rules broken ({}); the figures agree with the samples{}", broken.size(), all,
                       fmt::join(broken, ", "), unmet);
  if (!broken.empty())
    return fmt::format("{}; not fit for publication: {} of {} rules broken ({})", words, broken.size(), all,
                       fmt::join(broken, ", "));
  words += fmt::format("; fit for publication: {} of {} rules kept", all, all);
  if (!open.empty()) words += fmt::format(", {} not checkable ({})", open.size(), fmt::join(open, ", "));
  return words;
}

constexpr const char* kind_names[] = {"report", "unfinished", "bundle", "series", "unreadable"};  // as FileKind

}  // namespace

bool is_consistent(const FileFindings& found) {
  return found.kind != FileKind::unreadable && std::ranges::all_of(found.faults, [](const results::Fault& fault) {
           return is_of_rules(fault) || is_asked_for(fault);
         });
}

std::string findings_text(const FileFindings& found, bool verbose, bool named) {
  const std::string indent = named ? "  " : "";
  std::string out = named ? results::text::printable(found.path) + "\n" : "";
  const auto say = [&](const std::string& line, std::size_t hanging = 2) {
    out += indent +
           results::text::wrap(results::text::printable(line), columns - indent.size(), hanging + indent.size()) + "\n";
  };
  for (const std::string& fact : found.facts) say(fact);
  for (const results::Fault& fault : found.faults)
    say(fmt::format("fault[{}]: {}", fault.code, results::fault_line(fault)));
  // The last line counts the rules that are no faults here; what was found of each is for `verbose`.
  for (const results::Fault& note : found.notes)
    if (verbose || !is_of_rules(note)) say(fmt::format("note[{}]: {}", note.code, results::fault_line(note)));
  if (verbose)
    for (const RuleFinding& rule : found.rules)
      say(fmt::format("rule[{}] {}: {}{}", rule.id, results::to_string(rule.state), rule.asks,
                      rule.why.empty() ? "" : "; found: " + rule.why));
  say(verdict(found));
  return out;
}

std::string findings_json(const std::vector<FileFindings>& files, int exit_code) {
  using Json = nlohmann::ordered_json;
  const auto list = [](const std::vector<results::Fault>& faults) {
    Json all = Json::array();
    for (const results::Fault& one : faults)
      all.push_back({{"code", one.code}, {"where", one.where}, {"text", one.text}, {"file", one.file}});
    return all;
  };
  Json all = Json::array();
  for (const FileFindings& found : files) {
    Json rules = Json::array();
    for (const RuleFinding& rule : found.rules) {
      const bool is_decided = rule.state == results::RunRuleState::kept || rule.state == results::RunRuleState::broken;
      rules.push_back({{"id", rule.id},
                       {"kept", is_decided ? Json(rule.state == results::RunRuleState::kept) : Json()},
                       {"state", results::to_string(rule.state)},
                       {"asks", rule.asks},
                       {"why", rule.why}});
    }
    const bool is_fit = is_consistent(found) && rules_in(found, results::RunRuleState::broken).empty();
    all.push_back({{"path", found.path},
                   {"kind", kind_names[static_cast<std::size_t>(found.kind)]},
                   {"consistent", found.kind == FileKind::unreadable ? Json() : Json(is_consistent(found))},
                   {"fit_for_publication", found.rules.empty() ? Json() : Json(is_fit)},
                   {"faults", list(found.faults)},
                   {"notes", list(found.notes)},
                   {"rules", rules},
                   {"facts", found.facts},
                   {"error", found.why_unreadable.empty() ? Json() : Json(without_code(found.why_unreadable))},
                   {"error_code", code_of(found.why_unreadable).empty() ? Json() : Json(code_of(found.why_unreadable))},
                   {"exit_code", found.exit_code}});
  }
  return Json({{"files", all}, {"exit_code", exit_code}}).dump(2, ' ', true, Json::error_handler_t::replace) + "\n";
}

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
    const auto hosts = results::text::texts_of(report.context.hosts, &results::HostInfo::name);
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
