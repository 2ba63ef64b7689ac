// `trainwatt cost`: what the points of a report cost.
#include <fmt/format.h>

#include <algorithm>

#include "bench/tool/commands.hpp"
#include "bench/tool/inputs/pricing.hpp"
#include "bench/tool/inputs/report_file.hpp"
#include "bench/tool/terminal.hpp"
#include "results/cost/cost.hpp"
#include "results/export/comparison_export.hpp"
#include "results/terminal/cost_text.hpp"

namespace tw::tool {

int cost(const CostCommand& command) {
  if (command.prices.prices.empty())
    throw UsageError("cost needs --prices FILE; results/schema/prices.schema.json explains its fields");
  const LoadedReport loaded = load_report(command.path);
  say_findings(command.path, loaded.validation);
  const CostReport report = *cost_of_one(command.prices, command.path, loaded.report);
  fmt::print("{}", command.json ? cost_json(report) : cost_text(report, terminal_style(command.width, command.ascii)));
  const bool any = std::ranges::any_of(report.records, [](const RecordCost& r) {
    return std::ranges::any_of(r.figures, [](const CostFigure& f) { return f.total.has_value(); });
  });
  return any ? 0 : 4;
}

}  // namespace tw::tool
