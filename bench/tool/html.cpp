// `trainwatt html`: one page of a report or of a comparison.
#include <fmt/format.h>

#include <filesystem>
#include <stdexcept>
#include <system_error>

#include "bench/tool/commands.hpp"
#include "bench/tool/report_file.hpp"
#include "bench/tool/systems.hpp"
#include "results/html.hpp"
#include "results/report_io.hpp"
#include "results/text.hpp"

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
  try {
    return compare(systems, options);
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
}

/// The cost of a page's only report; its options may do without the report's name, as those of `trainwatt cost`.
std::optional<CostReport> cost_of_one(const SystemInput& system, const PriceOptions& options) {
  const std::optional<Prices> prices = read_prices(options);
  if (!prices) return std::nullopt;
  const Report& report = system.runs.front();
  if (report.program.name.empty())
    throw UsageError(system.paths.front() +
                     ": is of an unfinished run, which does not say how many nodes it has: give its report.json");
  bool has_values = false, names_it = false;
  for (const auto* values : {&options.price_of, &options.facility_csv, &options.it_csv})
    for (const std::string& value : *values)
      has_values = true, names_it = names_it || value.starts_with(system.name + "=");
  const PriceRow row = price_of(*prices, options, has_values && !names_it ? "" : system.name, report);
  return cost_of(report, prices->currency, row, options.sensitivity_percent / 100);
}

}  // namespace

int html(const HtmlCommand& command) {
  check_scope(command.scope);
  const fs::path page = command.out;
  refuse_existing(command.out);
  if (command.systems.size() == 1)
    for (const auto& [name, given] :
         {std::pair{"--reference", !command.reference.empty()}, std::pair{"--scope", !command.scope.empty()},
          std::pair{"--only", !command.only.empty()}, std::pair{"--weights", !command.weights.empty()}})
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
  if (inputs.size() > 1)
    comparison = comparison_of(inputs, command);
  else
    cost = cost_of_one(inputs.front(), command.prices);
  std::vector<HtmlSystem> systems;
  for (SystemInput& input : inputs) {
    const std::size_t runs = input.runs.size();
    systems.push_back({input.name, std::move(input.runs.front()), std::move(input.faults), runs, cost});
  }
  const std::string text = to_html(systems, comparison ? &*comparison : nullptr);
  const fs::path folder = page.parent_path();
  if (std::error_code code; !folder.empty() && (fs::create_directories(folder, code), code))
    throw std::system_error(code, folder.string());
  write_atomically(page, text);
  fmt::print("{}\n", text::printable(page.string()));
  return 0;
}

}  // namespace tw::tool
