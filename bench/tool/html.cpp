// `trainwatt html`: one page of a report or of a comparison.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>

#include "bench/tool/commands.hpp"
#include "bench/tool/inputs/options.hpp"
#include "bench/tool/inputs/report_file.hpp"
#include "bench/tool/inputs/systems.hpp"
#include "results/html/html.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"

namespace tw::bench::tool {
namespace {

namespace fs = std::filesystem;

struct HtmlCommand : SystemsOptions {
  std::string out;
};

/// 0; 4: the page says that nothing could be compared, or that a tender is decided by none of it.
int html(const HtmlCommand& command) {
  const fs::path page = command.out;
  refuse_existing(command.out);
  if (command.systems.size() == 1)
    for (const auto& [name, given] :
         {std::pair{"--reference", !command.reference.empty()}, std::pair{"--scope", !command.scope.empty()},
          std::pair{"--only", !command.only.empty()}, std::pair{"--weights", !command.weights.empty()},
          std::pair{"--run-variance", !command.run_variance.empty()}, std::pair{"--kit", !command.kit.empty()}})
      if (given)
        throw UsageError("options-conflict", std::string(name) + ": only for comparisons; give at least two reports");

  std::vector<results::SystemInput> inputs = read_systems(command.systems);
  if (inputs.size() == 1 && inputs[0].runs.size() > 1)
    throw UsageError("option-needs", command.systems[0] +
                                         ": several runs of one system: give one of them, or another "
                                         "system to compare with");
  for (const results::SystemInput& input : inputs)
    if (!input.faults.empty()) say_faults(input.paths.front(), input.faults);
  std::optional<results::Comparison> comparison;
  std::optional<results::CostReport> cost;
  const std::string files = files_of(inputs);
  if (inputs.size() > 1) {
    results::CompareOptions options;
    compare_as(command, inputs, options);
    comparison = compared(inputs, options);
  } else
    cost = cost_of_one(command.prices, inputs.front().paths.front(), inputs.front().runs.front(), inputs.front().name);
  const int code = comparison ? code_of(*comparison) : 0;
  std::vector<results::HtmlSystem> systems;
  for (results::SystemInput& input : inputs) {
    const std::size_t runs = input.runs.size();
    systems.push_back(
        {input.name, std::move(input.runs.front()), std::move(input.faults), runs, cost, std::move(input.notes)});
  }
  const std::string text =
      with_named_errors(files, [&] { return results::to_html(systems, comparison ? &*comparison : nullptr); });
  write_out(page, text);
  fmt::print("{}\n", results::text::printable(page.string()));
  return code;
}

}  // namespace

Action add_html(CLI::App& command, const Words&) {
  const auto options = std::make_shared<HtmlCommand>();
  add_systems(command, *options);
  add_out(command, options->out);
  return [options] { return html(*options); };
}

}  // namespace tw::bench::tool
