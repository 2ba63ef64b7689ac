// `trainwatt export --to markdown`.
// For GitHub and others that render its Markdown: context, the table with intervals, a footnote for each flag, what is
// missing. Figures are rounded as in a terminal. What the report says is text there, never markup.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cctype>
#include <set>
#include <vector>

#include "results/analysis/completeness.hpp"
#include "results/analysis/conditions.hpp"
#include "results/analysis/flag_notes.hpp"
#include "results/export/cells.hpp"
#include "results/export/export.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"
#include "results/terminal/columns.hpp"

namespace tw::results {
namespace {

using cells::line_of, text::count;

std::string plain(const std::string& text) { return cells::markdown(text); }

/// "valid: short[^short], steal[^steal]", and the reasons of what does not count.
std::string verdict_cell(const Verdict& verdict) {
  const auto flags =
      text::texts_of(verdict.flags, [](const FlagName& flag) { return plain(flag.name) + "[^" + flag.name + "]"; });
  return text::join_said({to_string(verdict.status), text::join(flags, ", "), plain(text::join(verdict.reasons, "; "))},
                         ": ");
}

/// A flag is the name of its footnote, too.
void name_flags(Report& report) {
  for (Record& record : report.records)
    for (FlagName& flag : record.verdict.flags)
      for (char& c : flag.name)
        if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_') c = '_';
}

/// Where the figures are from.
std::string context_lines(const Report& report) {
  const Context& c = report.context;
  if (report.program.name.empty())
    return "Records of a run, without its report: context and plan are not in this file.\n";
  std::string text = fmt::format("- suite {}, plan {}\n", plain(suite_words(report.plan)),
                                 sha256_hex(report.plan.canonical_json).substr(0, 12));
  text += fmt::format("- started {}{}\n", plain(c.started_at),
                      c.finished_at.empty() ? ", not finished" : ", finished " + plain(c.finished_at));
  if (report.parts) text += fmt::format("- in {}, resumed in between\n", count(report.parts->size(), "part"));
  std::vector<std::string> hosts;
  for (const HostInfo& host : c.hosts) hosts.push_back(plain(host.name + " (" + host.cpu + ")"));
  text += fmt::format("- on {}: {}\n", count(hosts.size(), "host"), fmt::join(hosts, ", "));
  std::set<std::string> devices;
  for (const DeviceEntry& device : c.devices) devices.insert(plain(device.kind + ": " + device.name));
  if (!devices.empty()) text += fmt::format("- {}, {}\n", count(c.devices.size(), "rank"), fmt::join(devices, ", "));
  for (const std::string& warning : c.warnings) text += "- warning: " + plain(warning) + "\n";
  return text;
}

}  // namespace

std::string to_markdown(const Report& raw, const ExportOptions& options) {
  Report report = printable(raw);
  const std::string drifted = run_drift(report.records);
  sort_records(report.records, options.order);
  name_flags(report);
  std::string out = report.program.name.empty()
                        ? "# trainwatt\n\n"
                        : fmt::format("# {} {} ({})\n\n", plain(report.program.name), plain(report.program.version),
                                      plain(report.program.git_commit));
  out += context_lines(report) + "\n";
  if (report.records.empty()) return out + "No points were run.\n";
  if (options.order.merit != nullptr) out += "Order: " + plain(explain(options.order, report.records)) + ". ";
  out += "In brackets: 95 % intervals over trials; below 3 trials there are none.\n\n";

  const std::vector<Column> numbers = number_columns(report.records, Intervals::in_cell, options.order);
  std::vector<std::string> titles = {"point"}, rules = {"---"};
  for (const Column& column : numbers) titles.push_back(plain(column.title)), rules.emplace_back("---:");
  titles.emplace_back("verdict"), rules.emplace_back("---");
  out += line_of(titles) + line_of(rules);
  for (std::size_t i = 0; i < report.records.size(); ++i) {
    const Record& record = report.records[i];
    std::vector<std::string> cells = {plain(record.id)};
    for (const Column& column : numbers) cells.push_back(column.cells[i]);  // figures, none of the report's text
    cells.push_back(verdict_cell(record.verdict));
    out += line_of(cells);
  }
  if (const std::size_t missing = missing_points(report).size(); missing > 0)
    out += fmt::format("\n{} of the plan {} no record.\n", count(missing, "point"), missing == 1 ? "has" : "have");
  if (!drifted.empty()) out += "\nNote: " + plain(drifted) + ".\n";
  const std::vector<FlagName> flags = flags_of(report.records);
  if (!flags.empty()) out += "\n";
  for (const FlagName& flag : flags)
    out += fmt::format("[^{}]: {}: {}\n", flag.name, plain(flag.name), plain(note_of(flag, report.records)));
  return out;
}

}  // namespace tw::results
