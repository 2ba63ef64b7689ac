#include "bench/tool/inputs/pricing.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "bench/plan/options/option_value.hpp"
#include "bench/tool/inputs/report_file.hpp"
#include "power/sources/external/series.hpp"
#include "results/analysis/trials.hpp"
#include "results/record/text.hpp"

namespace tw::bench::tool {
namespace {

/// What NAME=VALUE says of this name; the value alone where `name` is empty. Nullopt if none does.
std::optional<std::string> value_of(const std::vector<std::string>& options, const std::string& name) {
  for (const std::string& one : options) {
    if (name.empty()) return one;
    if (one.starts_with(name + "=")) return one.substr(name.size() + 1);
  }
  return std::nullopt;
}

double joules_of_file(const char* option, const std::string& path, double from, double to) {
  check_kind(option, path, {InputKind::power_csv});
  power::external::Series series(path);
  series.refresh();
  return series.joules_of_window(from, to);
}

struct Measured {
  double pue = 1;
  std::string source;
};

/// Mean watts of all nodes over the trials of points on all ranks (joules of points on fewer ranks lack idle nodes),
/// and the share of the run that these trials fill; nullopt if no valid point has node joules.
std::optional<std::pair<double, double>> node_power(const results::Report& report, double run_seconds) {
  double joules = 0, seconds = 0;
  int ranks = 0;
  for (const results::Record& record : report.records) ranks = std::max(ranks, record.workload.ranks);
  for (const results::Record& record : report.records) {
    if (record.workload.ranks < ranks) continue;
    const auto node = record.summary.energy_j.find(results::Scope::node);
    if (node == record.summary.energy_j.end() || !node->second) continue;
    for (const results::Trial* trial : results::valid_trials(record))
      joules += results::joules_of(*trial, results::Scope::node), seconds += trial->window_s;
  }
  if (!(seconds > 0)) return std::nullopt;
  return std::pair(joules / seconds, seconds / run_seconds);
}

/// Of the facility's joules along the runs and those of their IT, each added up: by a meter of their own, else the
/// reports' nodes, whose trials then have to fill most of each run.
Measured measured_pue(std::span<const results::Report> runs, const std::string& facility,
                      const std::optional<std::string>& it) {
  double seconds = 0, of_facility = 0, of_it = 0, filled = 1;
  try {
    for (const results::Report& report : runs) {
      const results::Context& context = report.context;
      const auto from = power::external::parse_time(context.started_at),
                 to = power::external::parse_time(context.finished_at);
      if (!from || !to || !(*to > *from))
        throw UsageError("no-pue",
                         "--facility-csv: the report has no start and end time, so the PUE cannot be measured");
      seconds += *to - *from;
      of_facility += joules_of_file("--facility-csv", facility, *from, *to);
      if (it) {
        of_it += joules_of_file("--it-csv", *it, *from, *to);
        continue;
      }
      constexpr double most_of_the_run = 0.5;
      const auto nodes = node_power(report, *to - *from);
      if (!nodes)
        throw UsageError("no-pue",
                         "--facility-csv: the report has no node energy: give the meter of the IT with --it-csv");
      if (nodes->second < most_of_the_run)
        throw UsageError("no-pue",
                         fmt::format("--facility-csv: node energy is known for only {:.0f} % of the run: give the "
                                     "meter of the IT with --it-csv",
                                     100 * nodes->second));
      of_it += nodes->first * (*to - *from);
      filled = std::min(filled, nodes->second);
    }
    const std::string when = runs.size() > 1 ? fmt::format("along {} runs", runs.size())
                                             : fmt::format("from {} to {}", runs.front().context.started_at,
                                                           runs.front().context.finished_at);
    const std::string source =
        it ? fmt::format("measured: {:.4g} W of {} over {:.4g} W of {} {}", of_facility / seconds, facility,
                         of_it / seconds, *it, when)
           : fmt::format(
                 "measured: {:.4g} W of {} {} over {:.4g} W of the nodes in the trials, which fill {:.0f} % of {}",
                 of_facility / seconds, facility, when, of_it / seconds, 100 * filled,
                 runs.size() > 1 ? "each at least" : "it");
    const double pue = of_facility / of_it;
    if (!std::isfinite(pue) || pue < 1)
      throw UsageError("no-pue",
                       fmt::format("{}: the facility used {:.4g} J and its IT {:.4g} J: the PUE would be below 1, so "
                                   "this meter does not measure all power of that IT",
                                   facility, of_facility, of_it));
    return {pue, source};
  } catch (const UsageError&) {
    throw;
  } catch (const std::system_error& error) {  // names the file
    throw UsageError("bad-power-file", power::external::words_of(error));
  } catch (const std::exception& error) {  // likewise
    throw UsageError("bad-power-file", error.what());
  }
}

}  // namespace

std::optional<results::Prices> read_prices(const PriceOptions& options) {
  if (options.prices.empty()) {
    if (!options.price_of.empty() || !options.facility_csv.empty() || !options.it_csv.empty())
      throw UsageError("option-needs", "--price-of, --facility-csv and --it-csv: add --prices FILE");
    return std::nullopt;
  }
  if (options.facility_csv.empty() && !options.it_csv.empty())
    throw UsageError("option-needs", "--it-csv: add --facility-csv; the PUE is the ratio of the two");
  results::Prices prices = with_text_of(
      "--prices", options.prices, InputKind::prices,
      [](const std::string& text) { return results::prices_from_json(text); }, "bad-prices");
  for (results::PriceRow& row : prices.rows) row.file = options.prices;
  return prices;
}

void check_names(const PriceOptions& options, const std::vector<std::string>& names) {
  for (const auto& [option, values] :
       {std::pair("--price-of", &options.price_of), std::pair("--facility-csv", &options.facility_csv),
        std::pair("--it-csv", &options.it_csv)})
    for (const std::string& value : *values)
      if (std::ranges::none_of(names, [&](const std::string& name) { return value.starts_with(name + "="); }))
        throw UsageError("unknown-name", fmt::format("{} {}: must be NAME=..., where NAME is one of {}", option, value,
                                                     fmt::join(names, ", ")));
}

results::PriceRow price_of(const results::Prices& prices, const PriceOptions& options, const std::string& name,
                           std::span<const results::Report> runs) {
  std::vector<std::string> hosts, rows;
  for (const results::HostInfo& host : runs.front().context.hosts) hosts.push_back(host.name);
  for (const results::PriceRow& row : prices.rows) rows.push_back(row.name);
  const auto asked = value_of(options.price_of, name);
  const results::PriceRow* found = results::find_price(prices, asked.value_or(name), hosts);
  if (asked && (found == nullptr || found->name != *asked)) throw_unknown("price_of", *asked, rows);
  if (found == nullptr)
    throw UsageError("no-price",
                     fmt::format("{}: no row for {} (hosts {}): name one with --price-of {}ROW; the rows are {}",
                                 options.prices, name.empty() ? "the report" : name, fmt::join(hosts, ", "),
                                 name.empty() ? "" : name + "=", fmt::join(rows, ", ")));
  results::PriceRow row = *found;
  row.machine_note = results::price_doubt(row, name, runs.front());
  if (const auto facility = value_of(options.facility_csv, name)) {
    const Measured measured = measured_pue(runs, *facility, value_of(options.it_csv, name));
    row.pue = measured.pue, row.pue_source = measured.source;
    row.for_all.erase("pue"), row.not_given.erase("pue");
  }
  return row;
}

std::optional<results::CostReport> cost_of_one(const PriceOptions& options, const std::string& path,
                                               const results::Report& report, const std::string& name) {
  const std::optional<results::Prices> prices = read_prices(options);
  if (!prices) return std::nullopt;
  if (report.program.name.empty())
    throw UsageError("unfinished-run",
                     path + ": the run is unfinished and its number of nodes unknown: give its report.json");
  bool has_values = false, names_it = false;
  for (const auto* values : {&options.price_of, &options.facility_csv, &options.it_csv})
    for (const std::string& value : *values)
      has_values = true, names_it = names_it || (!name.empty() && value.starts_with(name + "="));
  const results::PriceRow row = price_of(*prices, options, has_values && !names_it ? "" : name, std::span(&report, 1));
  return with_named_errors(
      path, [&] { return results::cost_of(report, prices->currency, row, options.sensitivity_percent / 100); });
}

}  // namespace tw::bench::tool
