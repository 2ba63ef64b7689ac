// `trainwatt cost`: what the points of a report cost.
#include <fmt/format.h>

#include <algorithm>

#include "bench/tool/commands.hpp"
#include "bench/tool/pricing.hpp"
#include "bench/tool/report_file.hpp"
#include "bench/tool/terminal.hpp"
#include "results/cost.hpp"
#include "results/text.hpp"

namespace tw::tool {

int cost(const CostCommand& command) {
  if (command.prices.prices.empty())
    throw UsageError("cost needs --prices FILE; results/schema/prices.schema.json explains its fields");
  const std::optional<Prices> prices = read_prices(command.prices);
  const LoadedReport loaded = load_report(command.path);
  if (loaded.is_unfinished)
    throw UsageError(command.path +
                     ": is of an unfinished run, which does not say how many nodes it has: give its report.json");
  say_findings(command.path, loaded.validation);
  const PriceRow row = price_of(*prices, command.prices, "", loaded.report);
  const CostReport report =
      cost_of(loaded.report, text::printable(prices->currency), row, command.prices.sensitivity_percent / 100);
  fmt::print("{}", command.json ? cost_json(report) : cost_text(report, terminal_style(command.width, command.ascii)));
  const bool any = std::ranges::any_of(report.records, [](const RecordCost& r) {
    return std::ranges::any_of(r.figures, [](const CostFigure& f) { return f.total.has_value(); });
  });
  return any ? 0 : 4;
}

}  // namespace tw::tool
