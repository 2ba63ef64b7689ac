// `trainwatt export --to xlsx`.
// A workbook for a tender: Summary (a line a point, what is absent and why), Points (all of to_csv, figures that do
// not count in grey italics), Trials, Energy (each reading of each meter, counted or left out), Inputs (with unit and
// source), Notes (flags and run rules); with a cost also Cost and Sensitivity, and every price among the inputs.
// Numbers are numbers with a format, the frozen header row has the units, what the report says is text whatever it
// looks like; an absent figure is an empty cell with its reason as a comment or in a column. The same report gives the
// same bytes. Throws where there is no room for a temporary file.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "results/analysis/flag_notes.hpp"
#include "results/analysis/run_rules.hpp"
#include "results/analysis/scopes.hpp"
#include "results/analysis/trials.hpp"
#include "results/analysis/verdict.hpp"
#include "results/cost/cost_words.hpp"
#include "results/export/export.hpp"
#include "results/export/export_parts.hpp"
#include "results/export/point_table.hpp"
#include "results/export/workbook.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"

namespace tw::results {
namespace {

XlsxCell figure(const std::optional<double>& value, const std::string& why = {}) {
  if (value && std::isfinite(*value)) return {Cell(*value)};
  return {Cell(), why};
}
XlsxCell words(const std::string& text) { return text.empty() ? XlsxCell{Cell()} : XlsxCell{Cell(text)}; }
XlsxCell figure(const std::optional<Estimate>& e, const std::string& why = {}) {
  return figure(e ? std::optional(e->value) : std::nullopt, why);
}
XlsxCell whole(std::integral auto value) { return {Cell(static_cast<std::int64_t>(value))}; }
XlsxCell joined(const std::vector<std::string>& lines) { return words(text::join(lines, "; ")); }

void add_estimate(std::vector<XlsxCell>& cells, const std::optional<Estimate>& e, const std::string& why) {
  const std::string few = e ? "fewer than 3 trials: no interval" : why;
  cells.push_back(figure(e, why));
  cells.push_back(figure(e ? e->low : std::nullopt, few));
  cells.push_back(figure(e ? e->high : std::nullopt, few));
}
void add_headings(std::vector<Heading>& headings, const std::string& title, const std::string& unit) {
  headings.push_back({title, unit});
  headings.push_back({title + ", low end of 95 %", unit});
  headings.push_back({title + ", high end of 95 %", unit});
}

void summary_sheet(Workbook& book, const std::vector<Record>& records) {
  const std::vector<Scope> scopes = measured_scopes(records);
  const bool has_target = std::ranges::any_of(records, [](const Record& r) { return r.target.has_value(); });
  std::vector<Heading> headings = {{"Point", "", 36},     {"Verdict", "", 12}, {"Model", "", 16},
                                   {"Precision", "", 11}, {"Device", "", 10},  {"Global batch", "samples"},
                                   {"Ranks", "", 8},      {"Trials", "", 8}};
  add_headings(headings, "Throughput", "samples/s");
  headings.push_back({"Step time", "s"});
  headings.push_back({"Of ceiling", "share"});
  headings.push_back({"MFU", "share"});
  const bool has_gpu = std::ranges::any_of(records, [](const Record& r) { return r.summary.gpu.has_value(); });
  if (has_gpu) {
    headings.push_back({"GPU utilisation", "share"});
    headings.push_back({"SM active", "share"});
    headings.push_back({"GPU memory in use", "bytes"});
    headings.push_back({"GPU memory", "bytes"});
  }
  headings.push_back({"Peak device memory per rank", "bytes"});
  for (Scope scope : scopes) {
    add_headings(headings, "Energy per sample, " + scope, "J/sample");
    headings.push_back({"Efficiency, " + scope, "FLOP/J"});
  }
  if (has_target) {
    add_headings(headings, "Time to target", "s");
    for (Scope scope : scopes) headings.push_back({"Energy to target, " + scope, "J"});
  }
  headings.push_back({"Flags", "", 30});
  headings.push_back({"Why it does not count, or what is absent", "", 60});
  book.begin("Summary", headings);
  for (const Record& r : records) {
    const Summary& s = r.summary;
    const std::string why = why_not_counted(r), no_run = has_run(r) ? "" : why;
    const std::string no_joules = no_run.empty() ? s.energy_reason : no_run;
    std::vector<XlsxCell> cells = {words(r.id),
                                   words(to_string(r.verdict.status)),
                                   words(r.workload.model),
                                   words(r.workload.precision),
                                   words(r.workload.device),
                                   whole(r.workload.global_batch),
                                   whole(r.workload.ranks),
                                   whole(r.trials.size())};
    add_estimate(cells, s.samples_per_s, no_run.empty() ? "not known" : no_run);
    cells.push_back(figure(s.step_time_s, no_run));
    cells.push_back(figure(credible_of_ceiling(s), no_run.empty() ? why_no_of_ceiling(s) : no_run));
    const auto number = [](const auto& value) {
      return value ? std::optional(static_cast<double>(*value)) : std::nullopt;
    };
    cells.push_back(figure(s.mfu, no_run.empty() ? s.mfu_reason : no_run));
    if (has_gpu) {
      const GpuUse gpu = s.gpu.value_or(GpuUse());
      const std::string no_gpu = !no_run.empty() ? no_run : s.gpu ? gpu.reason : "no GPU";
      cells.push_back(figure(gpu.utilisation, no_gpu));
      cells.push_back(figure(gpu.sm_active, no_gpu));
      cells.push_back(figure(number(gpu.memory_used_bytes), no_gpu));
      cells.push_back(figure(number(gpu.memory_bytes), no_gpu));
    }
    cells.push_back(
        figure(number(s.peak_device_memory_bytes_per_rank), no_run.empty() ? "not recorded" : no_run));
    for (Scope scope : scopes) {
      const auto rate = of_scope(s.samples_per_j, scope);
      add_estimate(cells, rate ? std::optional(joules_per_sample(*rate)) : std::nullopt, no_joules);
      cells.push_back(figure(of_scope(s.flops_per_w, scope), no_joules));
    }
    if (has_target) {
      const std::string never = !no_run.empty() ? no_run : s.to_target ? s.to_target->reason : "not a run to a target";
      add_estimate(cells, s.to_target ? s.to_target->time_s : std::nullopt, never);
      for (Scope scope : scopes)
        cells.push_back(figure(s.to_target ? of_scope(s.to_target->energy_j, scope) : std::nullopt,
                               s.to_target && s.to_target->time_s ? no_joules : never));
    }
    std::vector<std::string> absent;
    if (!why.empty()) absent.push_back(why);
    if (has_run(r) && !s.energy_reason.empty()) absent.push_back("energy: " + s.energy_reason);
    if (const std::string no_share = why_no_of_ceiling(s); has_run(r) && !no_share.empty())
      absent.push_back("of ceiling: " + no_share);
    if (has_run(r) && !s.mfu_reason.empty()) absent.push_back("MFU: " + s.mfu_reason);
    if (s.gpu && !s.gpu->reason.empty()) absent.push_back("GPU: " + s.gpu->reason);
    if (s.to_target && !s.to_target->reason.empty()) absent.push_back("to target: " + s.to_target->reason);
    cells.push_back(joined(flag_names(r)));
    cells.push_back(joined(absent));
    book.row(cells, !is_valid(r));
  }
  book.end();
}

void points_sheet(Workbook& book, const std::vector<Record>& records) {
  const std::vector<PointColumn> columns = point_columns(records);
  std::vector<Heading> headings;
  for (const PointColumn& column : columns)
    headings.push_back({text::printable(column.name), column.unit, column.name == "id" ? 36.0 : 14.0});
  book.begin("Points", headings);
  for (const Record& r : records) {
    std::vector<XlsxCell> cells;
    for (const PointColumn& column : columns) cells.push_back({column.cell(r)});
    book.row(cells, !is_valid(r));
  }
  book.end();
}

void trials_sheet(Workbook& book, const std::vector<Record>& records) {
  const std::vector<Scope> scopes = measured_scopes(records);
  std::vector<Heading> headings = {{"Point", "", 36},
                                   {"Trial", "", 8},
                                   {"Counts", "", 8},
                                   {"Seed", "", 10},
                                   {"Steps before", ""},
                                   {"Steps", ""},
                                   {"Window", "s"},
                                   {"Samples", "samples"},
                                   {"Throughput", "samples/s"},
                                   {"Minimum step time", "s"},
                                   {"Mean step time", "s"},
                                   {"Maximum step time", "s"},
                                   {"First loss", ""},
                                   {"Last loss", ""},
                                   {"CPU time taken by the hypervisor", "share"},
                                   {"CPU time of other programs", "share"},
                                   {"Evaluations", ""},
                                   {"Time in evaluations", "s"}};
  for (Scope scope : scopes) headings.push_back({"Energy, " + scope, "J"});
  book.begin("Trials", headings);
  for (const Record& r : records)
    for (std::size_t t = 0; t < r.trials.size(); ++t) {
      const Trial& trial = r.trials[t];
      const auto& steps = trial.step_time_s;
      double sum = 0;
      for (const double step : steps) sum += step;
      const bool has_steps = !steps.empty();
      const bool counts = is_valid(r) && is_valid(trial);
      const auto of_steps = [&](double value) { return figure(has_steps ? std::optional(value) : std::nullopt); };
      const std::uint64_t seed = trial.target_run ? trial.target_run->seed : r.workload.seed;
      std::vector<XlsxCell> cells = {
          words(r.id),
          whole(t + 1),
          words(counts ? "yes" : "no"),
          seed <= INT64_MAX ? whole(seed) : words(std::to_string(seed)),
          whole(trial.first_step),
          whole(steps.size()),
          figure(trial.window_s),
          figure(samples_of(r, trial)),
          figure(throughput_of(r, trial)),
          of_steps(has_steps ? *std::ranges::min_element(steps) : 0),
          of_steps(sum / static_cast<double>(std::max<std::size_t>(steps.size(), 1))),
          of_steps(has_steps ? *std::ranges::max_element(steps) : 0),
          figure(trial.loss.empty() ? std::nullopt : std::optional(trial.loss.front())),
          figure(trial.loss.empty() ? std::nullopt : std::optional(trial.loss.back())),
          figure(trial.steal_share, "unreadable"),
          figure(trial.foreign_share, "unreadable"),
          trial.target_run ? whole(trial.target_run->evaluations.size()) : XlsxCell{Cell()},
          figure(trial.target_run ? std::optional(trial.target_run->evaluation_s) : std::nullopt)};
      for (Scope scope : scopes)
        cells.push_back(
            figure(of_scope(r.summary.energy_j, scope) ? joules_of(trial, scope) : NAN, r.summary.energy_reason));
      book.row(cells, !counts);
    }
  book.end();
}

void energy_sheet(Workbook& book, const std::vector<Record>& records) {
  book.begin("Energy", {{"Point", "", 36},
                        {"Trial", "", 8},
                        {"Host", ""},
                        {"Meter", "", 30},
                        {"Scope", "", 10},
                        {"Method", "", 16},
                        {"In its scope's total", ""},
                        {"Energy", "J"},
                        {"Uncertainty, ± 95 %", "J"},
                        {"Window", "s"},
                        {"Mean power", "W"},
                        {"Update period", "s"},
                        {"Wraps", ""},
                        {"Why excluded or absent", "", 24},
                        {"Detail", "", 40}});
  for (const Record& r : records)
    for (std::size_t t = 0; t < r.trials.size(); ++t)
      for (const EnergyRow& row : r.trials[t].energy) {
        const bool has_power = row.energy_j && row.window_s && *row.window_s > 0;
        book.row({words(r.id), whole(t + 1), words(row.host), words(row.domain), words(to_string(row.scope)),
                  words(to_string(row.method)), words(row.counted ? "yes" : "no"), figure(row.energy_j, row.reason),
                  figure(row.uncertainty_j, row.reason), figure(row.window_s, row.reason),
                  figure(has_power ? std::optional(*row.energy_j / *row.window_s) : std::nullopt, row.reason),
                  figure(row.update_period_s, "not measured"), row.wraps ? whole(*row.wraps) : XlsxCell{Cell()},
                  words(row.reason), words(row.detail.value_or(""))},
                 !row.counted);
      }
  book.end();
}

void cost_sheet(Workbook& book, const CostReport& cost) {
  const std::string& currency = cost.currency;
  book.begin("Cost", {{"Point", "", 36},
                      {"Per", "", 18},
                      {"Cost", currency, 14, true},
                      {"Cost, low end of 95 %", currency, 14, true},
                      {"Cost, high end of 95 %", currency, 14, true},
                      {"For hours", currency, 14, true},
                      {"For electricity", currency, 14, true},
                      {"Energy", "kWh", 14, true},
                      {"CO2e", "kg", 14, true},
                      {"Includes", "", 14},
                      {"Energy and CO2e include", "", 20},
                      {"Nodes", "", 8},
                      {"Mean power of the IT", "W"},
                      {"Energy scope", "", 10},
                      {"Mean power of the facility", "W"},
                      {"Why it is absent or a lower bound", "", 60}});
  for (const RecordCost& record : cost.records) {
    if (!record.reason.empty()) {
      std::vector<XlsxCell> cells(16);
      cells[0] = words(record.id), cells[2].comment = record.reason, cells[15] = words("no cost: " + record.reason);
      book.row(cells, true);
      continue;
    }
    const bool is_complete = record.basis == CostBasis::complete;
    const std::string no_joules = record.scope == Scope::none ? record.basis_note : "";
    for (const CostFigure& one : record.figures) {
      const bool has_parts = one.total.has_value();
      std::vector<std::string> notes = {!has_parts                  ? "absent: " + one.reason
                                        : record.basis_note.empty() ? record.energy_note
                                                                    : record.basis_note};
      if (one.per == CostPer::model) notes.push_back(record.target_note);
      std::erase(notes, "");
      const std::string few = has_parts ? "fewer than 3 trials: no interval" : one.reason;
      book.row({words(record.id), words(words::per(one.per)), figure(one.total, one.reason),
                figure(has_parts ? one.total->low : std::nullopt, few),
                figure(has_parts ? one.total->high : std::nullopt, few),
                figure(has_parts ? std::optional(one.hours_part) : std::nullopt, one.reason),
                figure(has_parts && record.basis != CostBasis::hours_only ? std::optional(one.electricity_part)
                                                                          : std::nullopt,
                       has_parts ? "left out: " + record.basis_note : one.reason),
                figure(one.kwh, no_joules.empty() ? "not known" : no_joules),
                figure(one.co2_kg, one.kwh ? "the prices have no carbon intensity" : no_joules),
                words(is_complete                             ? "everything"
                      : record.basis == CostBasis::hours_only ? "at least: hours only"
                                                              : "at least"),
                words(!one.kwh                 ? ""
                      : record.energy_is_whole ? "everything"
                                               : "at least: " + record.scope + " joules"),
                whole(record.nodes), figure(record.it_power_w, no_joules), words(to_string(record.scope)),
                figure(record.facility_power_w, "needs joules of the node"), joined(notes)});
    }
  }
  book.end();
}

void sensitivity_sheet(Workbook& book, const CostReport& cost) {
  book.begin("Sensitivity", {{"Point", "", 36},
                             {"Cost of", "", 18},
                             {"Input that is varied", "", 28},
                             {"Value as given", "", 14, true},
                             {"From", "", 14, true},
                             {"To", "", 14, true},
                             {"Cost at the low end", cost.currency, 14, true},
                             {"Cost at the high end", cost.currency, 14, true},
                             {"Cost as given", cost.currency, 14, true}});
  for (const RecordCost& record : cost.records)
    for (const Sensitivity& one : record.sensitivity)
      book.row({words(record.id), words(words::per(*record.of)), words(one.input), figure(one.base), figure(one.low),
                figure(one.high), figure(one.cost_low), figure(one.cost_high), figure(one.cost_base)});
  book.end();
}

void inputs_sheet(Workbook& book, const Report& report, const std::optional<CostReport>& cost) {
  book.begin("Inputs", {{"What", "", 28}, {"Which", "", 28}, {"Value", "", 100}, {"Unit", "", 28}, {"Source", "", 48}});
  const auto line = [&](const std::string& what, const std::string& which, const std::string& value) {
    if (!value.empty()) book.row({words(what), words(which), words(value), words(""), words("report")});
  };
  if (cost) {
    for (const CostInput& one : words::inputs_of(*cost))
      book.row({words("price"), words(one.name), one.number ? XlsxCell{Cell(*one.number)} : words(one.text),
                words(one.unit), words(one.source)});
    book.row({words("sensitivity"),
              words("each input is varied by"),
              {Cell(100 * cost->sensitivity_share)},
              words("% down and up"),
              words("--sensitivity")});
  }
  const Context& c = report.context;
  line("program", report.program.name, report.program.version + " (" + report.program.git_commit + ")");
  line("suite", "", report.plan.suite);
  line("plan", "SHA-256", report.plan.canonical_json.empty() ? "" : sha256_hex(report.plan.canonical_json));
  line("started", "", c.started_at), line("finished", "", c.finished_at);
  line("command", "", text::join(c.argv, " "));
  line("launcher", "", c.launcher);
  for (const HostInfo& h : c.hosts) {
    line("host", h.name,
         fmt::format("{}; {}, {}, {}, {} usable; {}", h.cpu, text::count(h.sockets, "socket"),
                     text::count(h.cores, "core"), text::count(h.hardware_threads, "hardware thread"), h.usable_threads,
                     text::bytes(static_cast<double>(h.memory_bytes))));
    line("host", h.name, h.os + ", kernel " + h.kernel);
    if (h.cpu_governor) line("CPU governor", h.name, *h.cpu_governor);
    if (h.hypervisor) line("hypervisor", h.name, *h.hypervisor);
    if (h.container) line("container", h.name, *h.container);
  }
  for (const DeviceEntry& d : c.devices)
    line("device", fmt::format("rank {}", d.rank), fmt::format("{}, {}: {} {}", d.host, d.kind, d.name, d.uuid));
  for (const MeterEntry& m : c.meters)
    line("energy meter", m.domain,
         fmt::format("{}, {}", m.host,
                     m.available ? m.scope + std::string(", ") + m.method +
                                       (m.counted ? ", counted" : ", not counted: " + m.reason)
                                 : "not available: " + m.reason));
  for (const auto& [name, version] : c.versions) line("version", name, version);
  for (const auto& [name, value] : c.environment) line("environment", name, value);
  for (const std::string& warning : c.warnings) line("warning", "", warning);
  const std::string& plan = report.plan.canonical_json;
  for (std::size_t at = 0, part = 1; at < plan.size();
       at += Workbook::longest_text, ++part)  // JSON in ASCII, cut where a cell ends
    line("plan", fmt::format("part {}", part), plan.substr(at, Workbook::longest_text));
  book.end();
}

void notes_sheet(Workbook& book, const Report& report, bool has_cost) {
  book.begin("Notes", {{"Kind", "", 12}, {"Name", "", 34}, {"State", "", 14}, {"Meaning", "", 110}});
  book.row({words("interval"), words("95 %"), words(""),
            words("over trials of this run: Student's t from 3 trials on; none below 3")});
  if (has_cost)
    book.row(
        {words("cost"), words("time"), words(""),
         words(
             "a month is 730 h, a year 8760 h; kWh are the facility's, (node, network and storage) x PUE, if the whole "
             "node was metered; otherwise they are the metered part x PUE, a lower bound")});
  for (const FlagName& flag : flags_of(report.records))
    book.row({words("flag"), words(flag.name), words(""), words(note_of(flag))});
  for (const RunRuleCheck& check : check_run_rules(report))
    book.row({words("run rule"), words(check.rule->id), words(to_string(check.state)),
              words(text::sentence(check.rule->asks) + " " + finding_sentence(check))});
  book.end();
}

/// Its records in the order of the report's.
CostReport in_order(const CostReport& cost, const std::vector<Record>& records) {
  CostReport ordered = cost;
  ordered.records.clear();
  std::vector<RecordCost> left = cost.records;
  for (const Record& record : records)
    if (const auto its = std::ranges::find(left, record.id, &RecordCost::id); its != left.end()) {
      ordered.records.push_back(std::move(*its));
      left.erase(its);
    }
  return ordered;
}

}  // namespace

std::string to_xlsx(const Report& raw, const ExportOptions& options) {
  Report report = printable(raw);
  sort_records(report.records, options.order);
  Workbook book;
  book.properties(report);
  summary_sheet(book, report.records);
  if (options.cost) {
    const CostReport cost = in_order(*options.cost, report.records);
    cost_sheet(book, cost), sensitivity_sheet(book, cost);
  }
  points_sheet(book, report.records);
  trials_sheet(book, report.records);
  energy_sheet(book, report.records);
  inputs_sheet(book, report, options.cost);
  notes_sheet(book, report, options.cost.has_value());
  return book.bytes();
}

}  // namespace tw::results
