// `trainwatt html`: one page of a report or of a comparison.
#include <fmt/format.h>

#include <filesystem>

#include "bench/tool/commands.hpp"
#include "bench/tool/inputs/report_file.hpp"
#include "bench/tool/inputs/systems.hpp"
#include "results/html/html.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"

namespace tw::tool {
namespace {

namespace fs = std::filesystem;

Comparison comparison_of(std::vector<SystemInput>& systems, const HtmlCommand& command) {
  CompareOptions options;
  options.scope = command.scope, options.only = command.only;
  if (!command.weights.empty()) options.weights = read_weights(command.weights);
  options.reference = reference_of(systems, command.reference);
  if (const std::optional<Prices> prices = read_prices(command.prices))
    add_prices(systems, options, *prices, command.prices);
  options.run_variance = read_run_variance(command.run_variance, systems, options);
  return compare(systems, options);
}

}  // namespace

int html(const HtmlCommand& command) {
  check_scope(command.scope);
  const fs::path page = command.out;
  refuse_existing(command.out);
  if (command.systems.size() == 1)
    for (const auto& [name, given] :
         {std::pair{"--reference", !command.reference.empty()}, std::pair{"--scope", !command.scope.empty()},
          std::pair{"--only", !command.only.empty()}, std::pair{"--weights", !command.weights.empty()},
          std::pair{"--run-variance", !command.run_variance.empty()}})
      if (given) throw UsageError(std::string(name) + ": is of comparisons; give two reports or more");

  std::vector<SystemInput> inputs = read_systems(command.systems);
  if (inputs.size() == 1 && inputs[0].runs.size() > 1)
    throw UsageError(command.systems[0] +
                     ": several runs of one system have no page; give one of them, or another system to compare with");
  for (const SystemInput& input : inputs)
    if (!input.faults.empty())
      fmt::print(stderr, "trainwatt: {}: warning: {}{}: `trainwatt validate` says all\n",
                 text::printable(input.paths.front()), text::printable(input.faults.front()),
                 input.faults.size() > 1 ? fmt::format(", and {} more", input.faults.size() - 1) : "");
  std::optional<Comparison> comparison;
  std::optional<CostReport> cost;
  const std::string files = files_of(inputs);
  if (inputs.size() > 1)
    comparison = with_named_errors(files, [&] { return comparison_of(inputs, command); });
  else
    cost = cost_of_one(command.prices, inputs.front().paths.front(), inputs.front().runs.front(), inputs.front().name);
  const int code = comparison ? code_of(*comparison, inputs) : 0;
  std::vector<HtmlSystem> systems;
  for (SystemInput& input : inputs) {
    const std::size_t runs = input.runs.size();
    systems.push_back(
        {input.name, std::move(input.runs.front()), std::move(input.faults), runs, cost, std::move(input.notes)});
  }
  const std::string text =
      with_named_errors(files, [&] { return to_html(systems, comparison ? &*comparison : nullptr); });
  write_out(page, text);
  fmt::print("{}\n", text::printable(page.string()));
  return code;
}

}  // namespace tw::tool
