// `trainwatt export --to xlsx`.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <stdlib.h>
#include <xlsxwriter.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <variant>

#include "results/export.hpp"
#include "results/export_parts.hpp"
#include "results/flag_notes.hpp"
#include "results/point_table.hpp"
#include "results/report_io.hpp"
#include "results/run_rules.hpp"
#include "results/text.hpp"
#include "results/trials.hpp"

namespace tw {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t longest_text = 32'767;  // characters of a cell, by the format
constexpr std::size_t most_property = 255;    // the library refuses longer ones
constexpr std::size_t most_rows = 1'048'576;
constexpr double exact_integers = 9'007'199'254'740'992;  // a cell's number is a double

/// The library writes to a path only.
class Folder {
 public:
  Folder() {
    std::string pattern = (fs::temp_directory_path() / "trainwatt-xlsx-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::system_error(errno, std::generic_category(), pattern);
    path_ = pattern;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  fs::path file() const { return path_ / "report.xlsx"; }

 private:
  fs::path path_;
};

/// Two code points that no XML may hold (XML 1.0, 2.2) become the one for what cannot be shown.
std::string for_xml(std::string text) {
  for (std::size_t at = 0; (at = text.find("\xef\xbf", at)) != std::string::npos; ++at)
    if (at + 2 < text.size() && (text[at + 2] == '\xbe' || text[at + 2] == '\xbf')) text[at + 2] = '\xbd';
  return text;
}

const char* number_format(const std::string& unit) {
  if (unit == "share") return "0.0%";
  if (unit == "FLOP/s" || unit == "FLOP/J" || unit == "FLOP/sample") return "0.000E+00";
  if (unit == "s" || unit == "1/step" || unit == "J/sample") return "[<0.001]0.000E+00;[<1]0.000000;#,##0.000";
  if (unit == "°C") return "0.0";
  if (unit == "bytes" || unit == "MHz" || unit == "samples" || unit == "tokens") return "#,##0";
  return unit.empty() ? "General" : "#,##0.00";
}

/// How a column is headed and shown.
struct Heading {
  std::string title, unit;
  double width = 14;
};
struct XlsxCell {
  Cell value;
  std::string comment = {};  ///< why it is empty
};

class Workbook {
 public:
  Workbook() {
    // Not in memory row by row: a report of many trials has many rows, and the order of ours is by row anyway.
    book_ = workbook_new(folder_.file().c_str());
    if (book_ == nullptr) throw std::runtime_error("xlsx: no memory for a workbook");
    head_ = workbook_add_format(book_);
    format_set_bold(head_);
    format_set_text_wrap(head_);
    format_set_align(head_, LXW_ALIGN_VERTICAL_TOP);
    format_set_bottom(head_, LXW_BORDER_THIN);
    format_set_bg_color(head_, 0xE8EEF4);
  }
  Workbook(const Workbook&) = delete;
  Workbook& operator=(const Workbook&) = delete;
  ~Workbook() {
    if (book_ != nullptr)
      workbook_close(book_);  // an exception is under way; frees it, and its file goes with the folder
  }

  void properties(const Report& report) {
    std::string title = for_xml("trainwatt: " + report.plan.suite).substr(0, most_property);
    std::string comment =
        for_xml("report of " + report.program.name + " " + report.program.version).substr(0, most_property);
    lxw_doc_properties properties{};
    properties.title = title.data(), properties.comments = comment.data();
    // The report's own time, so that the same report gives the same file.
    properties.created = static_cast<time_t>(unix_seconds(report.context.started_at).value_or(0));
    workbook_set_properties(book_, &properties);
  }

  void begin(const char* name, const std::vector<Heading>& headings) {
    sheet_ = workbook_add_worksheet(book_, name);
    if (sheet_ == nullptr) throw std::runtime_error(std::string("xlsx: no sheet ") + name);
    headings_ = headings;
    row_ = 0;
    for (std::size_t i = 0; i < headings.size(); ++i) {
      const Heading& heading = headings[i];
      text(i, heading.title + (heading.unit.empty() ? "" : "\n[" + heading.unit + "]"), head_);
      worksheet_set_column(sheet_, column(i), column(i), heading.width, nullptr);
    }
    worksheet_set_row(sheet_, 0, 48, nullptr);
    worksheet_freeze_panes(sheet_, 1, 1);
    row_ = 1;
  }
  /// `muted`: figures that do not count.
  void row(const std::vector<XlsxCell>& cells, bool muted = false) {
    if (row_ + 1 >= most_rows) {
      if (row_ + 1 == most_rows) text(0, "more rows than a sheet can have: see report.json", format("", true)), ++row_;
      return;
    }
    for (std::size_t i = 0; i < cells.size() && i < headings_.size(); ++i) {
      const XlsxCell& cell = cells[i];
      lxw_format* shown = format(headings_[i].unit, muted);
      if (const auto* number = std::get_if<double>(&cell.value))
        worksheet_write_number(sheet_, row_, column(i), *number, shown);
      else if (const auto* whole = std::get_if<std::int64_t>(&cell.value))
        whole_number(i, *whole, shown);
      else if (const auto* words = std::get_if<std::string>(&cell.value))
        text(i, text::printable(*words), shown);
      else if (!cell.comment.empty())
        worksheet_write_comment(sheet_, row_, column(i), for_xml(text::printable(cell.comment)).c_str());
    }
    ++row_;
  }
  void end() {
    if (row_ > 1) worksheet_autofilter(sheet_, 0, 0, row_ - 1, static_cast<lxw_col_t>(headings_.size() - 1));
  }

  std::string bytes() {
    lxw_workbook* book = std::exchange(book_, nullptr);
    if (const lxw_error error = workbook_close(book); error != LXW_NO_ERROR)
      throw std::runtime_error(std::string("xlsx: ") + lxw_strerror(error));
    std::ifstream file(folder_.file(), std::ios::binary);
    std::ostringstream all;
    all << file.rdbuf();
    if (!file || all.str().empty()) throw std::runtime_error("xlsx: cannot read back " + folder_.file().string());
    return all.str();
  }

 private:
  static lxw_col_t column(std::size_t i) { return static_cast<lxw_col_t>(i); }
  /// Always as a string: what looks like a formula or an address stays text.
  void text(std::size_t i, const std::string& raw, lxw_format* shown) {
    const std::string words = for_xml(raw);
    std::string part = words.substr(0, longest_text);
    while (!part.empty() && part.size() < words.size() && (words[part.size()] & 0xc0) == 0x80) part.pop_back();
    const lxw_error error = worksheet_write_string(sheet_, row_, column(i), part.c_str(), shown);
    if (error != LXW_NO_ERROR) throw std::runtime_error(std::string("xlsx: ") + lxw_strerror(error));
  }
  void whole_number(std::size_t i, std::int64_t value, lxw_format* shown) {
    if (std::abs(static_cast<double>(value)) > exact_integers)
      text(i, std::to_string(value), shown);
    else
      worksheet_write_number(sheet_, row_, column(i), static_cast<double>(value), shown);
  }
  lxw_format* format(const std::string& unit, bool muted) {
    lxw_format*& found = formats_[{number_format(unit), muted}];
    if (found == nullptr) {
      found = workbook_add_format(book_);
      format_set_num_format(found, number_format(unit));
      format_set_align(found, LXW_ALIGN_VERTICAL_TOP);
      if (muted) format_set_italic(found), format_set_font_color(found, 0x6B6B6B);
    }
    return found;
  }

  Folder folder_;
  lxw_workbook* book_ = nullptr;
  lxw_worksheet* sheet_ = nullptr;
  lxw_format* head_ = nullptr;
  std::map<std::pair<std::string, bool>, lxw_format*> formats_;
  std::vector<Heading> headings_;
  lxw_row_t row_ = 0;
};

XlsxCell figure(const std::optional<double>& value, const std::string& why = {}) {
  if (value && std::isfinite(*value)) return {Cell(*value)};
  return {Cell(), why};
}
XlsxCell words(const std::string& text) { return text.empty() ? XlsxCell{Cell()} : XlsxCell{Cell(text)}; }
XlsxCell whole(std::int64_t value) { return {Cell(value)}; }

void add_estimate(std::vector<XlsxCell>& cells, const std::optional<Estimate>& e, const std::string& why) {
  const std::string few = e ? "fewer than 3 trials: no interval" : why;
  cells.push_back(figure(e ? std::optional(e->value) : std::nullopt, why));
  cells.push_back(figure(e ? e->low : std::nullopt, few));
  cells.push_back(figure(e ? e->high : std::nullopt, few));
}
void add_headings(std::vector<Heading>& headings, const std::string& title, const std::string& unit) {
  headings.push_back({title, unit});
  headings.push_back({title + ", low end of 95 %", unit});
  headings.push_back({title + ", high end of 95 %", unit});
}

/// Of which some record has joules.
std::vector<std::string> measured_scopes(const std::vector<Record>& records) {
  std::vector<std::string> scopes = scopes_of(records);
  std::erase_if(scopes, [&](const std::string& scope) {
    return std::ranges::none_of(records, [&](const Record& r) { return r.summary.energy_j.contains(scope); });
  });
  return scopes;
}

std::optional<Estimate> of_scope(const std::map<std::string, std::optional<Estimate>>& all, const std::string& scope) {
  const auto found = all.find(scope);
  return found == all.end() ? std::nullopt : found->second;
}

void summary_sheet(Workbook& book, const std::vector<Record>& records) {
  const std::vector<std::string> scopes = measured_scopes(records);
  const bool has_target = std::ranges::any_of(records, [](const Record& r) { return r.target.has_value(); });
  std::vector<Heading> headings = {{"Point", "", 36},     {"Verdict", "", 12}, {"Model", "", 16},
                                   {"Precision", "", 11}, {"Device", "", 10},  {"Global batch", "samples"},
                                   {"Ranks", "", 8},      {"Trials", "", 8}};
  add_headings(headings, "Throughput", "samples/s");
  headings.push_back({"Step time", "s"});
  headings.push_back({"Of ceiling", "share"});
  for (const std::string& scope : scopes) {
    add_headings(headings, "Energy a sample, " + scope, "J/sample");
    headings.push_back({"Efficiency, " + scope, "FLOP/J"});
  }
  if (has_target) {
    add_headings(headings, "Time to target", "s");
    for (const std::string& scope : scopes) headings.push_back({"Energy to target, " + scope, "J"});
  }
  headings.push_back({"Flags", "", 30});
  headings.push_back({"Why it does not count, or what is absent", "", 60});
  book.begin("Summary", headings);
  for (const Record& r : records) {
    const Summary& s = r.summary;
    const std::string why = why_not_counted(r), no_run = has_run(r) ? "" : why;
    const std::string no_joules = no_run.empty() ? s.energy_reason : no_run;
    std::vector<XlsxCell> cells = {words(r.id),
                                   words(r.verdict.status),
                                   words(r.workload.model),
                                   words(r.workload.precision),
                                   words(r.workload.device),
                                   whole(r.workload.global_batch),
                                   whole(r.workload.ranks),
                                   whole(static_cast<std::int64_t>(r.trials.size()))};
    add_estimate(cells, s.samples_per_s, no_run.empty() ? "not known" : no_run);
    cells.push_back(figure(s.step_time_s ? std::optional(s.step_time_s->value) : std::nullopt, no_run));
    cells.push_back(figure(s.of_ceiling, no_run.empty() ? s.of_ceiling_reason : no_run));
    for (const std::string& scope : scopes) {
      const auto rate = of_scope(s.samples_per_j, scope), efficiency = of_scope(s.flops_per_w, scope);
      add_estimate(cells, rate ? std::optional(joules_per_sample(*rate)) : std::nullopt, no_joules);
      cells.push_back(figure(efficiency ? std::optional(efficiency->value) : std::nullopt, no_joules));
    }
    if (has_target) {
      const std::string never = !no_run.empty() ? no_run : s.to_target ? s.to_target->reason : "not a run to a target";
      add_estimate(cells, s.to_target ? s.to_target->time_s : std::nullopt, never);
      for (const std::string& scope : scopes) {
        const auto joules = s.to_target ? of_scope(s.to_target->energy_j, scope) : std::nullopt;
        cells.push_back(figure(joules ? std::optional(joules->value) : std::nullopt,
                               s.to_target && s.to_target->time_s ? no_joules : never));
      }
    }
    std::vector<std::string> absent;
    if (!why.empty()) absent.push_back(why);
    if (has_run(r) && !s.energy_reason.empty()) absent.push_back("energy: " + s.energy_reason);
    if (has_run(r) && !s.of_ceiling && !s.of_ceiling_reason.empty())
      absent.push_back("of ceiling: " + s.of_ceiling_reason);
    if (s.to_target && !s.to_target->reason.empty()) absent.push_back("to target: " + s.to_target->reason);
    cells.push_back(words(fmt::format("{}", fmt::join(r.verdict.flags, "; "))));
    cells.push_back(words(fmt::format("{}", fmt::join(absent, "; "))));
    book.row(cells, r.verdict.status != "valid");
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
    book.row(cells, r.verdict.status != "valid");
  }
  book.end();
}

void trials_sheet(Workbook& book, const std::vector<Record>& records) {
  const std::vector<std::string> scopes = measured_scopes(records);
  std::vector<Heading> headings = {{"Point", "", 36},
                                   {"Trial", "", 8},
                                   {"Counts", "", 8},
                                   {"Seed", "", 10},
                                   {"Steps before", ""},
                                   {"Steps", ""},
                                   {"Window", "s"},
                                   {"Samples", "samples"},
                                   {"Throughput", "samples/s"},
                                   {"Least step time", "s"},
                                   {"Mean step time", "s"},
                                   {"Greatest step time", "s"},
                                   {"First loss", ""},
                                   {"Last loss", ""},
                                   {"CPU time taken by the hypervisor", "share"},
                                   {"CPU time of other programs", "share"},
                                   {"Evaluations", ""},
                                   {"Time in evaluations", "s"}};
  for (const std::string& scope : scopes) headings.push_back({"Energy, " + scope, "J"});
  book.begin("Trials", headings);
  for (const Record& r : records)
    for (std::size_t t = 0; t < r.trials.size(); ++t) {
      const Trial& trial = r.trials[t];
      const auto& steps = trial.step_time_s;
      double sum = 0;
      for (const double step : steps) sum += step;
      const bool has_steps = !steps.empty();
      const bool counts = r.verdict.status == "valid" && is_valid(trial);
      const auto of_steps = [&](double value) { return figure(has_steps ? std::optional(value) : std::nullopt); };
      const std::uint64_t seed = trial.target_run ? trial.target_run->seed : r.workload.seed;
      std::vector<XlsxCell> cells = {
          words(r.id),
          whole(static_cast<std::int64_t>(t + 1)),
          words(counts ? "yes" : "no"),
          seed <= INT64_MAX ? whole(static_cast<std::int64_t>(seed)) : words(std::to_string(seed)),
          whole(trial.first_step),
          whole(static_cast<std::int64_t>(steps.size())),
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
          trial.target_run ? whole(static_cast<std::int64_t>(trial.target_run->evaluations.size())) : XlsxCell{Cell()},
          figure(trial.target_run ? std::optional(trial.target_run->evaluation_s) : std::nullopt)};
      for (const std::string& scope : scopes)
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
                        {"Uncertainty, half of 95 %", "J"},
                        {"Window", "s"},
                        {"Mean power", "W"},
                        {"Update period", "s"},
                        {"Wraps", ""},
                        {"Why left out or absent", "", 24},
                        {"Detail", "", 40}});
  for (const Record& r : records)
    for (std::size_t t = 0; t < r.trials.size(); ++t)
      for (const EnergyRow& row : r.trials[t].energy) {
        const bool has_power = row.energy_j && row.window_s && *row.window_s > 0;
        book.row(
            {words(r.id), whole(static_cast<std::int64_t>(t + 1)), words(row.host), words(row.domain), words(row.scope),
             words(row.method), words(row.counted ? "yes" : "no"), figure(row.energy_j, row.reason),
             figure(row.uncertainty_j, row.reason), figure(row.window_s, row.reason),
             figure(has_power ? std::optional(*row.energy_j / *row.window_s) : std::nullopt, row.reason),
             figure(row.update_period_s, "not measured"), row.wraps ? whole(*row.wraps) : XlsxCell{Cell()},
             words(row.reason), words(row.detail.value_or(""))},
            !row.counted);
      }
  book.end();
}

void inputs_sheet(Workbook& book, const Report& report) {
  book.begin("Inputs", {{"What", "", 28}, {"Which", "", 28}, {"Value", "", 100}});
  const auto line = [&](const std::string& what, const std::string& which, const std::string& value) {
    if (!value.empty()) book.row({words(what), words(which), words(value)});
  };
  const Context& c = report.context;
  line("program", report.program.name, report.program.version + " (" + report.program.git_commit + ")");
  line("suite", "", report.plan.suite);
  line("plan", "SHA-256", report.plan.canonical_json.empty() ? "" : sha256_hex(report.plan.canonical_json));
  line("started", "", c.started_at), line("finished", "", c.finished_at);
  line("command", "", fmt::format("{}", fmt::join(c.argv, " ")));
  line("launcher", "", c.launcher);
  for (const HostInfo& h : c.hosts) {
    line("host", h.name,
         fmt::format("{}; {} sockets, {} cores, {} hardware threads, {} usable; {}", h.cpu, h.sockets, h.cores,
                     h.hardware_threads, h.usable_threads, text::bytes(static_cast<double>(h.memory_bytes))));
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
                     m.available ? m.scope + ", " + m.method + (m.counted ? ", counted" : ", not counted: " + m.reason)
                                 : "not available: " + m.reason));
  for (const auto& [name, version] : c.versions) line("version", name, version);
  for (const auto& [name, value] : c.environment) line("environment", name, value);
  for (const std::string& warning : c.warnings) line("warning", "", warning);
  const std::string& plan = report.plan.canonical_json;
  for (std::size_t at = 0, part = 1; at < plan.size();
       at += longest_text, ++part)  // JSON in ASCII, cut where a cell ends
    line("plan", fmt::format("part {}", part), plan.substr(at, longest_text));
  book.end();
}

void notes_sheet(Workbook& book, const Report& report) {
  book.begin("Notes", {{"Kind", "", 12}, {"Name", "", 34}, {"State", "", 14}, {"Meaning", "", 110}});
  book.row({words("interval"), words("95 %"), words(""),
            words("over trials: Student's t for 3 to 9, a bootstrap around the olympic mean from 10; none below 3")});
  for (const std::string& flag : flags_of(report.records))
    book.row({words("flag"), words(flag), words(""), words(std::string(note_of(flag)))});
  for (const RunRuleCheck& check : check_run_rules(report))
    book.row({words("run rule"), words(check.rule->id), words(to_string(check.state)),
              words(text::sentence(check.rule->asks) + " " + finding_sentence(check))});
  book.end();
}

}  // namespace

std::string to_xlsx(const Report& raw, const ExportOptions& options) {
  Report report = printable(raw);
  sort_records(report.records, options.order);
  Workbook book;
  book.properties(report);
  summary_sheet(book, report.records);
  points_sheet(book, report.records);
  trials_sheet(book, report.records);
  energy_sheet(book, report.records);
  inputs_sheet(book, report);
  notes_sheet(book, report);
  return book.bytes();
}

}  // namespace tw
