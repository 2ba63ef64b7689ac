// `trainwatt cost`: what the points of a report cost.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "bench/terminal/error_line.hpp"
#include "bench/tool/commands.hpp"
#include "bench/tool/inputs/options.hpp"
#include "bench/tool/inputs/report_file.hpp"
#include "bench/tool/terminal.hpp"
#include "results/cost/cost.hpp"
#include "results/export/export.hpp"
#include "results/record/text.hpp"
#include "results/terminal/tables.hpp"

namespace tw::bench::tool {
namespace {

struct CostOptions {
  std::string path;
  PriceOptions prices;
  bool json = false;
  LookOptions look;
};

/// 0; 4: no point has a cost.
int cost(const CostOptions& command) {
  if (command.prices.prices.empty())
    throw UsageError("option-needs", fmt::format("give a prices file: --prices FILE, such as {} (prices.schema.json "
                                                 "describes it)",
                                                 results::prices_example));
  const LoadedReport loaded = load_report(command.path);
  say_findings(command.path, loaded.validation);
  const results::CostReport report = *cost_of_one(command.prices, command.path, loaded.report);
  const std::vector<std::string> doubts = joule_doubts(loaded.validation);
  if (!doubts.empty()) {
    const std::string text = fmt::format(
        "{}: the electricity (kWh, CO2 and its cost) is based on {} that the power samples do not confirm; the first "
        "is {}: measure again, or use another meter",
        command.path, results::text::count(doubts.size(), "reading"), doubts.front());
    say_warning(results::text::printable(with_code("energy-doubtful", text)));
  }
  fmt::print("{}", command.json ? results::cost_json(report)
                                : results::cost_text(report, terminal_style(command.look.width, command.look.ascii)));
  const bool any = std::ranges::any_of(report.records, [](const results::RecordCost& r) {
    return std::ranges::any_of(r.figures, [](const results::CostFigure& f) { return f.total.has_value(); });
  });
  if (any) return 0;
  say_error(with_code("no-cost", command.path + ": no point has a cost"));
  return 4;
}

}  // namespace

Action add_cost(CLI::App& command, const Words&) {
  const auto options = std::make_shared<CostOptions>();
  command.add_option("FILE", options->path, "report.json")->required();
  add_prices(command, options->prices, false);
  command.add_flag("--json", options->json, "print JSON");
  add_look(command, options->look);
  return [options] { return cost(*options); };
}

}  // namespace tw::bench::tool
