#include "bench/tool/inputs/findings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "bench/terminal/error_line.hpp"
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
  std::string words = "consistent";
  if (!asked.empty()) words += "; does not meet the request: " + counted(asked);
  if (found.kind == FileKind::unfinished)
    return words + "; records without their report: run rules cannot be checked without context and plan";
  if (found.rules.empty()) return words;
  const std::vector<std::string> broken = rules_in(found, results::RunRuleState::broken),
                                 open = rules_in(found, results::RunRuleState::not_checkable);
  const std::size_t all = broken.size() + rules_in(found, results::RunRuleState::kept).size();
  // Of a report on its own they are notes. Of a series they are faults of its runs, each of which says so.
  const bool is_offer = found.kind == FileKind::series || std::ranges::any_of(found.faults, is_of_rules);
  if (!broken.empty() && is_offer)
    return fmt::format("rejected: {} of {} rules broken ({}); {}", broken.size(), all, fmt::join(broken, ", "), words);
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

}  // namespace tw::bench::tool
