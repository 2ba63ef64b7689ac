// One input for every reader of files that somebody else may have written. The first byte says which; the rest is the
// file. A reader may refuse by a std::runtime_error, and must do nothing else: not crash, not hang, not throw anything
// else. What it takes is shown and written in every format, on which a terminal's escapes and markup have no effect.
#include "tests/fuzz/target.hpp"

#include <archive.h>
#include <archive_entry.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "bench/plan/abilities.hpp"
#include "bench/plan/options/input_kind.hpp"
#include "bench/plan/options/kit.hpp"
#include "bench/tool/inputs/archive.hpp"
#include "results/analysis/run_rules.hpp"
#include "results/analysis/verdict.hpp"
#include "results/compare/baseline.hpp"
#include "results/compare/comparison.hpp"
#include "results/cost/cost.hpp"
#include "results/export/bundle.hpp"
#include "results/export/export.hpp"
#include "results/html/html.hpp"
#include "results/record/report_io.hpp"
#include "results/terminal/tables.hpp"
#include "results/validation/validate.hpp"

namespace tw::fuzz {

using namespace bench;
using namespace results;

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "broken: %s\n", what);
  std::abort();
}

/// Nothing that a terminal would act on.
void require_printable(const std::string& text) {
  for (const unsigned char c : text)
    require(c >= 0x20 ? c != 0x7f : c == '\n' || c == '\r', "a control character is printed");
}

PriceRow rented() {
  PriceRow row;
  row.name = "rented", row.rent_per_month = 730, row.electricity_per_kwh = 0.3, row.carbon_g_per_kwh = 300;
  return row;
}
PriceRow bought() {
  PriceRow row;
  row.name = "bought", row.capex = 1e5, row.life_years = 5, row.utilisation = 0.8, row.electricity_per_kwh = 0.2;
  row.pue = 1.3, row.network_storage_power_w = 50;
  return row;
}
/// Each kind, of figures that reports may have.
BaselineRules some_rules() {
  return baseline_from_json(R"({"rules": [
    {"name": "a", "kind": "variance", "figure": "time-to-target", "most_above": 0.05},
    {"name": "b", "kind": "variance", "figure": "step-time-p99", "most_above": 0.05},
    {"name": "c", "kind": "value", "figure": "efficiency", "scope": "package", "at_least": 1},
    {"name": "d", "kind": "failure", "flags": ["throttled"]}]})");
}

/// Against the same measured once more, a little slower, and against several such runs.
void compare_all(const Report& report, const TableStyle& style) {
  if (report.records.empty()) return;  // which the comparison says
  Report slower = report;
  double factor = 1.1;
  for (Record& record : slower.records)
    for (Trial& trial : record.trials) trial.window_s *= factor += 1e-3;
  std::vector<SystemInput> systems = {{"A", {"a.json"}, {report}, {}, rented()},
                                      {"B", {"b.json"}, {slower}, {}, bought()}};
  CompareOptions options;
  options.currency = "EUR", options.also = {"time-to-target"};
  const Comparison once = compare(systems, options);
  const std::vector<RuleCheck> checks = check_baseline(some_rules(), systems, once);
  require_printable(comparison_text(once, checks, style));
  require_printable(comparison_markdown(once));
  require_printable(comparison_csv(once));
  require_printable(comparison_json(once, checks));
  to_html({{"A", report}, {"B", slower}}, &once);
  systems[1].runs.push_back(report);
  check_baseline(some_rules(), systems, compare(systems, options));
}

void price_all(const Report& report, const TableStyle& style) {
  const CostReport costs = cost_of(report, "EUR", bought());
  require_printable(cost_text(costs, style));
  require_printable(cost_json(costs));
  HtmlSystem system{"A", report};
  system.cost = costs;
  to_html({system});
}

void use(const Report& report) {
  TableStyle style;
  style.width = 100;
  Report summarised = report;  // as `trainwatt` takes one in which something is wrong
  summarise(summarised);
  for (const Report* one : {&report, static_cast<const Report*>(&summarised)})
    compare_all(*one, style), price_all(*one, style);
  require_printable(show_report(report, style));
  require_printable(summary_table(report, style));
  for (const ExportFormat& format : export_formats()) {
    const std::string text = format.write(report, {});
    if (!text.starts_with("PK\3\4")) require_printable(text);  // a ZIP archive, as workbooks are, has other bytes
  }
  for (const RunRuleCheck& check : check_run_rules(report)) finding(check);
  exit_code(report);
  const std::string text = to_json(report);
  require(to_json(report_from_json(text)) == text, "a report that was written does not read back");
}

void use(const Prices& prices) {
  find_price(prices, "A", {"node1"});
  TableStyle style;
  style.width = 80;
  for (const PriceRow& row : prices.rows) require_printable(cost_text(cost_of({}, prices.currency, row), style));
}

void read_report(const std::string& text) { use(report_from_json(text)); }

void read_lines(const std::string& text) {
  holds_record_lines(text);
  validate_record_lines(text);
  TableStyle style;
  style.width = 80, style.unicode = false;
  require_printable(show_records(record_lines(text).records, style));
}

void read_plan(const std::string& text) {
  const Request request = read_config("plan.json", text);
  constexpr int ranks = 4;
  make_plan(request, ranks, "cpu").canonical_json();
}

void read_files(const BundleFiles& files) {
  validate_bundle(files);
  checksum_faults(files);
}

la_ssize_t append(archive*, void* out, const void* bytes, std::size_t size) {
  static_cast<std::string*>(out)->append(static_cast<const char*>(bytes), size);
  return static_cast<la_ssize_t>(size);
}

/// Any bytes, as a whole zstd stream: mutations would otherwise hardly pass its checksums.
std::string compressed(const std::string& bytes) {
  std::string out;
  archive* a = archive_write_new();
  archive_write_set_format_raw(a), archive_write_add_filter_zstd(a);
  archive_write_open(a, &out, nullptr, append, nullptr);
  archive_entry* entry = archive_entry_new();
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_write_header(a, entry);
  archive_write_data(a, bytes.data(), bytes.size());
  archive_entry_free(entry);
  archive_write_free(a);
  return out;
}

}  // namespace

void read_one(char kind, const std::string& text) {
  try {
    other_kind(text, {});  // of any file that is given for another
    switch (kind) {
      case report:
        return read_report(text);
      case validated:
        return void(validate_report(text));
      case lines:
        return read_lines(text);
      case start:
        return void(to_json(run_start_from_json(text)));
      case plan:
        return read_plan(text);
      case prices:
        return use(prices_from_json(text));
      case rules:
        return void(baseline_from_json(text));
      case weights:
        return void(weights_from_json(text));
      case node:
        return void(abilities_from_json("probe.json", text));
      case bundled:
        return read_files(make_bundle({{report_file, text}, {records_file, text}, {run_file, text}}, {}));
      case packed:
        return read_files(tool::unpack(text));
      case tar:
        return read_files(tool::unpack(compressed(text)));
      default:
        return;
    }
  } catch (const std::runtime_error&) {
  }
}

}  // namespace tw::fuzz

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, std::size_t size) {
  if (size > 0)
    tw::fuzz::read_one(static_cast<char>(data[0]), std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}
