#include "bench/tool/inputs/other_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "bench/plan/options/kit.hpp"
#include "results/record/report_io.hpp"

namespace tw::bench::tool {
namespace {

/// An object with all of these keys is it; the first that fits.
struct Kind {
  std::vector<const char*> keys;
  const char *what, *use;
};
const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {{kit_key},
       "a kit (trainwatt freeze)",
       "trainwatt-train --config runs it, and trainwatt validate REPORT --kit checks a report against it"},
      {{"schema_version", "command", "config"},
       "a run's run.json",
       "give the report.json beside it; without one, finish the run with trainwatt-train --resume"},
      {{"comparison_version"}, "what trainwatt compare --json wrote", "give compare the reports themselves"},
      {{"currency", "sensitivity_share"}, "what trainwatt cost --json wrote", "give cost the report itself"},
      {{"currency", "systems"}, "a file of prices", "give it with --prices to cost, compare, html or export"},
      {{"rules"}, "a file of rules", "give it with --baseline to trainwatt compare"},
      {{"host", "meters", "knobs"}, "what trainwatt probe --json wrote", "trainwatt plan --on reads it"},
      {{"suite", "points", "left_out"},
       "what trainwatt plan --json wrote",
       "run trainwatt-train with the same options to get a report"},
      {{"context", "benchmarks"}, "Google Benchmark's JSON", "use its own tools, such as compare.py"},
      {{"canonical_json", "sha256"}, "a run's plan", "give the report.json beside it"},
      {{"bundle_version"}, "a bundle's bundle.json", "give the whole bundle"},
      {{"program", "context"}, "a bundle's environment.json", "give the whole bundle"},
      {{"model"},
       "a config or a network's description",
       "trainwatt-train --config and trainwatt plan --config read configs"},
      {{"grids"}, "a config", "trainwatt-train --config and trainwatt plan --config read it"}};
  return all;
}

}  // namespace

std::string other_file(const std::string& text) {
  if (!results::json_fault(text, true).empty()) return {};
  const auto json = nlohmann::json::parse(text, nullptr, true, true);
  if (!json.is_object() || (json.contains("schema_version") && json.contains("records"))) return {};
  const auto fits = [&](const Kind& kind) {
    return std::ranges::all_of(kind.keys, [&](const char* key) { return json.contains(key); });
  };
  const auto found = std::ranges::find_if(kinds(), fits);
  return found == kinds().end() ? "" : fmt::format("{}, not a report: {}", found->what, found->use);
}

}  // namespace tw::bench::tool
