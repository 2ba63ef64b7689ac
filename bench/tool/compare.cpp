// `trainwatt compare`: options and files in, a view on results/compare/comparison.hpp out.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "bench/plan/options/option_value.hpp"
#include "bench/tool/commands.hpp"
#include "bench/tool/inputs/options.hpp"
#include "bench/tool/inputs/report_file.hpp"
#include "bench/tool/inputs/systems.hpp"
#include "bench/tool/terminal.hpp"
#include "results/compare/baseline.hpp"
#include "results/compare/comparison.hpp"
#include "results/export/export.hpp"
#include "results/record/text.hpp"
#include "results/terminal/tables.hpp"

namespace tw::bench::tool {
namespace {

struct CompareCommand : SystemsOptions {
  std::vector<std::string> figures;
  std::string baseline;
  bool as_json = false, as_markdown = false, as_csv = false;
  LookOptions look;
};

void check_figures(const std::vector<std::string>& figures) {
  const auto known = results::text::texts_of(results::compared_figures(), &results::ComparedFigure::name);
  for (const std::string& name : figures)
    if (std::ranges::find(known, name) == known.end()) throw_unknown("figure", name, known);
}

/// What the rules ask for besides.
std::vector<std::string> figures_of(const results::BaselineRules& rules) {
  std::vector<std::string> names;
  for (const results::BaselineRule& rule : rules.rules)
    if (const std::string name = results::compared_figure_of(rule.figure);
        rule.kind == results::RuleKind::variance && !name.empty())
      names.push_back(name);
  return names;
}

/// 1: a rule is violated; 4: none is, and one is undecided or could not be checked on some point.
int code_of_rules(const std::vector<results::RuleCheck>& checks, const results::Comparison& comparison) {
  bool violated = false, open = false;
  for (const results::RuleCheck& check : checks) {
    if (check.status == results::RuleState::kept) continue;
    const bool is_violated = check.status == results::RuleState::violated,
               is_undecided = check.status == results::RuleState::undecided;
    (is_violated ? violated : open) = true;
    const std::string text =
        fmt::format("rule \"{}\" {} {}{}: {}", check.rule,
                    is_violated    ? "is violated by"
                    : is_undecided ? "is undecided for"
                                   : "could not be checked for",
                    comparison.systems[check.system].name, check.point.empty() ? "" : " in " + check.point, check.text);
    say_error(is_violated    ? with_code("rule-violated", text)
              : is_undecided ? with_code("rule-undecided", text)
                             : with_code("rule-not-checked", text));
  }
  return violated ? 1 : open ? 4 : 0;
}

/// 0; 1: a rule of the baseline is violated; 4: a tender has no verdict or is no award, or a rule is undecided or not
/// checked on some point, or without rules nothing could be compared.
int compare_reports(const CompareCommand& command) {
  check_figures(command.figures);
  results::CompareOptions options;
  options.figures = command.figures;
  std::optional<results::BaselineRules> rules;
  if (!command.baseline.empty()) {
    rules = with_text_of(
        "--baseline", command.baseline, InputKind::rules,
        [](const std::string& text) { return results::baseline_from_json(text); }, "bad-baseline");
    options.also = figures_of(*rules);
  }
  if (command.prices.prices.empty() &&
      std::ranges::any_of(results::compared_figures(), [&](const results::ComparedFigure& figure) {
        return figure.is_cost() && std::ranges::count(command.figures, figure.name) > 0;
      }))
    throw UsageError("option-needs", "--figure cost: add --prices FILE");
  std::vector<results::SystemInput> systems = read_systems(command.systems);
  if (systems.size() < 2)
    throw UsageError("option-needs", "give at least two reports: trainwatt compare A.json B.json");
  compare_as(command, systems, options);
  const results::Comparison comparison = compared(systems, options);
  const std::vector<results::RuleCheck> checks =
      rules ? results::check_baseline(*rules, systems, comparison) : std::vector<results::RuleCheck>();
  const results::TableStyle style = terminal_style(command.look.width, command.look.ascii);
  fmt::print("{}", command.as_json       ? results::comparison_json(comparison, checks)
                   : command.as_markdown ? results::comparison_markdown(comparison)
                   : command.as_csv      ? results::comparison_csv(comparison)
                                         : results::comparison_text(comparison, checks, style));
  if (!rules) return code_of(comparison);
  const int of_rules = code_of_rules(checks, comparison), of_tender = comparison.is_tender ? code_of(comparison) : 0;
  return of_rules == 0 ? of_tender : of_rules;  // 1 of a violated rule is worse than the 4 of either
}

}  // namespace

Action add_compare(CLI::App& command, const Words&) {
  const auto options = std::make_shared<CompareCommand>();
  add_systems(command, *options);
  const auto names = results::text::texts_of(results::compared_figures(), &results::ComparedFigure::name);
  command
      .add_option("--figure", options->figures, fmt::format("figures to compare, a list of {}", fmt::join(names, ", ")))
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--baseline", options->baseline,
                     "JSON file of rules (baseline.schema.json describes it). Exit code 1: a rule\nis violated (takes "
                     "precedence); 4: a rule is undecided, or the tender is not an award");
  CLI::Option* json = command.add_flag("--json", options->as_json, "print JSON");
  CLI::Option* markdown = command.add_flag("--markdown", options->as_markdown, "print Markdown")->excludes(json);
  command.add_flag("--csv", options->as_csv, "print CSV")->excludes(json)->excludes(markdown);
  add_look(command, options->look);
  return [options] { return compare_reports(*options); };
}

}  // namespace tw::bench::tool
