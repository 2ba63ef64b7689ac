#include "bench/tool/inputs/options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "bench/plan/options/plan_options.hpp"
#include "bench/terminal/option_checks.hpp"
#include "results/compare/comparison.hpp"
#include "results/export/export.hpp"
#include "results/selection/ranking.hpp"

namespace tw::bench::tool {

void add_look(CLI::App& command, LookOptions& look) {
  command.add_option("--width", look.width, "columns (default: the terminal's; 100 without a terminal)")
      ->check(number_in(40, 400));
  command.add_flag("--ascii", look.ascii, "draw bars, curves and signs in ASCII");
}

void add_sort(CLI::App& command, SortOptions& sort, const char* otherwise) {
  sort.by = otherwise;
  std::string names = fmt::format("{}, {}", plan_order, run_order);
  for (const results::Merit& merit : results::merits()) names += fmt::format(", {}", merit.name);
  command.add_option("--sort", sort.by,
                     fmt::format("order of the rows (default {}): as planned, as run, or by a figure\nof merit, best "
                                 "first. One of {}",
                                 otherwise, names));
  command.add_option("--scope", sort.scope,
                     "energy scope of --sort: device, package, node, dram or facility\n(default: that of most points)");
}

void add_prices(CLI::App& command, PriceOptions& prices, bool is_of_many) {
  const std::string name = is_of_many ? "NAME=" : "", each = is_of_many ? " of NAME" : "";
  const auto list = [&](const char* option, std::vector<std::string>& into, const std::string& what) {
    command.add_option(option, into, what)->allow_extra_args(false)->group("Costs");
  };
  command.add_option("--prices", prices.prices, "JSON file of prices (prices.schema.json describes it)")
      ->group("Costs");
  list("--price-of", prices.price_of, name + "ROW: row of the prices file (default: by name or host)");
  list("--facility-csv", prices.facility_csv,
       fmt::format("{}FILE: CSV file of the facility's power meter, time,watts, from\nwhich the PUE{} is measured",
                   name, each));
  list("--it-csv", prices.it_csv, name + "FILE: CSV file of the power meter of the IT in that facility");
  command.add_option("--sensitivity", prices.sensitivity_percent, "percent by which each input is varied (default 20)")
      ->check(number_in(0.1, 99))
      ->group("Costs");
}

void add_systems(CLI::App& command, SystemsOptions& options) {
  command
      .add_option("SYSTEM", options.systems,
                  "report.json of each system, or its folder of runs (run-1, run-2, ...).\nNAME=FILE,FILE,... names a "
                  "system and joins its runs")
      ->required();
  command.add_option("--reference", options.reference, "system that the others are compared with (default: the first)");
  command.add_option("--scope", options.scope, "energy scope (default: the widest that all points have)");
  command.add_option("--only", options.only, "compare only points whose id contains this text");
  command
      .add_option("--weights", options.weights,
                  "weights of workloads in the overall mean: a list of TEXT=NUMBER, where\nTEXT is part of their ids, "
                  "or a JSON file")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      .add_option("--run-variance", options.run_variance,
                  "earlier runs of a machine, for systems with one run: FILE,FILE,... or a\nfolder of runs. Repeat it "
                  "for several machines")
      ->allow_extra_args(false);
  command.add_option(
      "--kit", options.kit,
      "kit (trainwatt freeze) of the tender: checks the runs as trainwatt validate\n--kit does. Exit code "
      "4: not an award");
  add_prices(command, options.prices, true);
}

void add_out(CLI::App& command, std::string& out) {
  command.add_option("-o,--out", out, "file to write; an existing file is never overwritten")
      ->required()
      ->group("Output");
}

KnownWords known_words() {
  KnownWords words = plan_words();
  words["--device"] = {"auto", "cpu", "cuda", "reference"};  // of any build of trainwatt-train
  words["--sort"] = {plan_order, run_order};
  for (const results::Merit& merit : results::merits()) words["--sort"].emplace_back(merit.name);
  for (const results::Scope scope : results::scopes_in_order) words["--scope"].emplace_back(to_string(scope));
  for (const results::ExportFormat& format : results::export_formats()) words["--to"].emplace_back(format.name);
  for (const results::ComparedFigure& figure : results::compared_figures()) words["--figure"].push_back(figure.name);
  return words;
}

}  // namespace tw::bench::tool
