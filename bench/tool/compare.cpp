// `trainwatt compare`: options and files in, a view on results/compare/comparison.hpp out.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "bench/tool/commands.hpp"
#include "bench/tool/inputs/pricing.hpp"
#include "bench/tool/inputs/report_file.hpp"
#include "bench/tool/inputs/systems.hpp"
#include "bench/tool/terminal.hpp"
#include "models/catalog/nearest.hpp"
#include "results/compare/baseline.hpp"
#include "results/compare/comparison.hpp"
#include "results/export/comparison_export.hpp"
#include "results/record/text.hpp"
#include "results/terminal/comparison_text.hpp"

namespace tw::tool {
namespace {

void check_figures(const std::vector<std::string>& figures) {
  std::vector<std::string> known;
  for (const ComparedFigure& figure : compared_figures()) known.push_back(figure.name);
  for (const std::string& name : figures) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string close = nearest(name, known);
    throw UsageError(
        fmt::format("--figure {}: unknown; {}", name,
                    close.empty() ? fmt::format("known: {}", fmt::join(known, ", ")) : "did you mean " + close + "?"));
  }
}

/// What the rules ask for besides.
std::vector<std::string> figures_of(const BaselineRules& rules) {
  std::vector<std::string> names;
  for (const BaselineRule& rule : rules.rules)
    if (const std::string name = compared_figure_of(rule.figure); rule.kind == RuleKind::variance && !name.empty())
      names.push_back(name);
  return names;
}

/// 1: a rule is violated; 4: none is, and one is undecided or could not be checked on some point.
int code_of(const std::vector<RuleCheck>& checks, const Comparison& comparison) {
  bool violated = false, open = false;
  for (const RuleCheck& check : checks) {
    if (check.status == "kept") continue;
    const bool is_violated = check.status == "violated";
    (is_violated ? violated : open) = true;
    fmt::print(stderr, "trainwatt: rule \"{}\" {} {}{}: {}\n", check.rule,
               is_violated                   ? "is violated by"
               : check.status == "undecided" ? "is undecided on"
                                             : "could not be checked on",
               comparison.systems[check.system].name,
               check.point.empty() ? "" : " in " + check.point, check.text);
  }
  return violated ? 1 : open ? 4 : 0;
}

}  // namespace

int compare_reports(const CompareCommand& command) {
  check_figures(command.figures);
  check_scope(command.scope);
  CompareOptions options;
  options.figures = command.figures, options.scope = command.scope, options.only = command.only;
  if (!command.weights.empty()) options.weights = read_weights(command.weights);
  std::optional<BaselineRules> rules;
  if (!command.baseline.empty()) {
    rules = with_text_of(command.baseline, [](const std::string& text) { return baseline_from_json(text); });
    options.also = figures_of(*rules);
  }
  const std::optional<Prices> prices = read_prices(command.prices);
  if (!prices && std::ranges::any_of(command.figures, [](const std::string& name) { return name.starts_with("cost"); }))
    throw UsageError("--figure cost needs --prices FILE");
  std::vector<SystemInput> systems = read_systems(command.systems);
  if (systems.size() < 2) throw UsageError("compare takes two reports or more: trainwatt compare A.json B.json");
  options.reference = reference_of(systems, command.reference);
  if (prices) add_prices(systems, options, *prices, command.prices);
  options.run_variance = read_run_variance(command.run_variance, systems, options);
  const Comparison comparison = with_named_errors(files_of(systems), [&] { return compare(systems, options); });
  const std::vector<RuleCheck> checks = rules ? check_baseline(*rules, systems, comparison) : std::vector<RuleCheck>();
  switch (command.form) {
    case OutputForm::text:
      fmt::print("{}", comparison_text(comparison, checks, terminal_style(command.width, command.ascii)));
      break;
    case OutputForm::json:
      fmt::print("{}", comparison_json(comparison, checks));
      break;
    case OutputForm::markdown:
      fmt::print("{}", comparison_markdown(comparison));
      break;
    case OutputForm::csv:
      fmt::print("{}", comparison_csv(comparison));
      break;
  }
  if (rules) return code_of(checks, comparison);
  return code_of(comparison, systems);
}

}  // namespace tw::tool
