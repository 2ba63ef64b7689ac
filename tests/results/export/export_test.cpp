// Markdown and CSV.
#include "results/export/export.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "results/analysis/verdict.hpp"
#include "results/record/report_io.hpp"
#include "tests/results/golden.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;
using Json = nlohmann::json;

/// A reader of RFC 4180 that takes nothing else: every line ends with CRLF, quotes stand around whole cells.
std::vector<std::vector<std::string>> read_csv(const std::string& text) {
  std::vector<std::vector<std::string>> rows(1);
  std::string cell;
  for (std::size_t at = 0; at < text.size();) {
    cell.clear();
    if (text[at] == '"') {
      for (++at; at < text.size(); ++at) {
        if (text[at] == '"' && text[++at] != '"') break;
        cell += text[at];
      }
    } else {
      const std::size_t end = text.find_first_of(",\r\n\"", at);
      cell = text.substr(at, end - at);
      at = end;
    }
    rows.back().push_back(cell);
    if (text[at] == ',') {
      ++at;
      if (text.compare(at, 2, "\r\n") == 0) rows.back().emplace_back();  // an empty last cell
      if (text.compare(at, 2, "\r\n") != 0) continue;
    }
    EXPECT_EQ(text.substr(at, 2), "\r\n") << at;
    if (text.substr(at, 2) != "\r\n") return rows;
    if ((at += 2) < text.size()) rows.emplace_back();
  }
  return rows;
}

struct Row {
  std::vector<std::string> header, cells;
  std::string operator[](const std::string& name) const {
    const auto found = std::ranges::find(header, name);
    EXPECT_NE(found, header.end()) << name;
    return found == header.end() ? "no such column" : cells[static_cast<std::size_t>(found - header.begin())];
  }
};
std::vector<Row> rows_of(const Report& report, const Order& order = {}) {
  const auto all = read_csv(to_csv(report, {order}));
  std::vector<Row> rows;
  for (std::size_t i = 1; i < all.size(); ++i) {
    EXPECT_EQ(all[i].size(), all[0].size()) << i;
    rows.push_back({all[0], all[i]});
  }
  return rows;
}

TEST(Markdown, Golden) {
  expect_golden("report.md", to_markdown(sample_report(), {}));
  expect_golden("report_energy.md", to_markdown(sample_energy_report(), {}));
  const Report target = sample_target_report();
  expect_golden("report_target.md", to_markdown(target, {order_by(*find_merit("time-to-target"), {}, target.records)}));
}

TEST(Markdown, NothingInAReportIsMarkup) {
  const std::string evil = "a|b\n# c\r\n`d` *e* _f_ [g](http://h) <script>&amp; \\| ~~i~~ $j$ ![k](l)";
  Report report = sample_target_report();
  report.program = {evil, evil, evil};
  report.plan.suite = evil;
  Context& c = report.context;
  c.started_at = c.finished_at = evil, c.warnings = {evil};
  c.hosts[0].name = c.hosts[0].cpu = evil;
  c.devices[0].kind = c.devices[0].name = evil;
  Record& r = report.records[0];
  r.id = evil;
  r.verdict = {Status::invalid, {FlagName(evil)}, {evil, evil}};
  report.records.push_back(r);
  report.records[2].summary.samples_per_s.reset();
  std::istringstream lines(to_markdown(report, {}));
  std::size_t bars = 0, rows = 0;
  for (std::string line; std::getline(lines, line);) {
    std::size_t found = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
      std::size_t backslashes = 0;
      while (backslashes < i && line[i - 1 - backslashes] == '\\') ++backslashes;
      const bool escaped = backslashes % 2 == 1;
      found += line[i] == '|' && !escaped;
      ASSERT_TRUE(static_cast<unsigned char>(line[i]) >= 0x20) << line;
      ASSERT_FALSE((line[i] == '<' || line[i] == '`' || line[i] == '*' || line[i] == '$' || line[i] == '~') && !escaped)
          << line;
    }
    ASSERT_EQ(line.find("http:"), std::string::npos) << line;
    ASSERT_FALSE(line.starts_with("# c"));
    if (found == 0) continue;
    ++rows;
    if (bars == 0) bars = found;
    EXPECT_TRUE(line.starts_with("| ") && line.ends_with(" |")) << line;
    EXPECT_EQ(found, bars) << "as many cells as the others: " << line;
  }
  EXPECT_EQ(rows, 2 + report.records.size());
}

TEST(Markdown, EachFlagHasAFootnoteOnce) {
  const std::string text = to_markdown(sample_report(), {});
  for (const char* flag : {"no_energy_meter", "steps_given", "narrow_affinity", "short", "few_trials"}) {
    const std::string note = std::string("\n[^") + flag + "]: ";
    const auto at = text.find(note);
    ASSERT_NE(at, std::string::npos) << flag;
    EXPECT_EQ(text.find(note, at + 1), std::string::npos) << flag;
    EXPECT_NE(text.find(std::string(flag) + "[^" + flag + "]"), std::string::npos) << flag;
  }
  EXPECT_EQ(text.find("[^steal]"), std::string::npos);
}

TEST(Markdown, WhatIsMissingIsSaid) {
  Report report = sample_report();
  report.records.pop_back();
  report.records[1].summary.ceiling_flops_per_s = 75e9;
  report.records[1].workload = report.records[0].workload;
  report.records[0].summary.ceiling_flops_per_s = 85e9;
  const std::string text = to_markdown(report, {});
  EXPECT_NE(text.find("\n1 point of the plan has no record.\n"), std::string::npos) << text;
  EXPECT_NE(text.find("12 % slower than the same products at "), std::string::npos) << text;
  Report unfinished;
  unfinished.records = report.records;
  EXPECT_NE(to_markdown(unfinished, {}).find("Records of a run"), std::string::npos);
  EXPECT_NE(to_markdown(Report{}, {}).find("No points were run."), std::string::npos);
}

TEST(Csv, Golden) {
  expect_golden("report.csv", to_csv(sample_report(), {}));
  expect_golden("report_energy.csv", to_csv(sample_energy_report(), {}));
  expect_golden("report_target.csv", to_csv(sample_target_report(), {}));
}

/// Every number of the summary, as JSON has it, stands in its row to the last bit; and nothing else does.
TEST(Csv, HasAllOfTheSummaryUnrounded) {
  for (const Report& report : {sample_report(), sample_energy_report(), sample_target_report()}) {
    const std::vector<Row> rows = rows_of(report);
    ASSERT_EQ(rows.size(), report.records.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Json record = Json::parse(to_json_line(report.records[i]));
      SCOPED_TRACE(record["id"].dump());
      EXPECT_EQ(Json(rows[i]["id"]), record["id"]);
      EXPECT_EQ(Json(rows[i]["status"]), record["verdict"]["status"]);
      const auto check = [&](const std::string& name, const Json& value) {
        const std::string cell = rows[i][name];
        if (value.is_null() || (value == 0 && cell.empty()))
          EXPECT_EQ(cell, "") << name;
        else if (value.is_string())
          EXPECT_EQ(Json(cell), value) << name;
        else
          EXPECT_EQ(std::stod(cell), value.get<double>()) << name;
      };
      const auto check_estimate = [&](const std::string& name, const Json& estimate) {
        for (const auto& [suffix, key] : {std::pair{"", "value"}, {"_low", "low"}, {"_high", "high"}})
          check(name + suffix, estimate.is_null() ? Json() : estimate[key]);
      };
      const std::set<std::string> by_scope = {"energy_j", "flops_per_w", "samples_per_j"};
      for (const auto& [key, value] : record["summary"].items()) {
        if (by_scope.contains(key)) {
          for (const Scope scope : scopes_in_order)
            check_estimate(to_string(scope) + std::string("_") + key,
                           value.is_null() ? Json() : value.value(to_string(scope), Json()));
        } else if (key == "op_share") {
          for (const auto& [op, share] : value.items()) check("op_share_" + op, share);
        } else if (key == "op_seconds") {
          if (value.is_null()) continue;
          for (const auto& [op, seconds] : value.items()) check("op_seconds_" + op, seconds);
        } else if (key == "gpu") {
          for (const auto& [figure, used] : value.items()) check(figure == "gpus" ? figure : "gpu_" + figure, used);
        } else if (key == "to_target") {
          if (value.is_null()) continue;
          for (const char* figure : {"time_s", "steps", "samples"})
            check_estimate(std::string("to_target_") + figure, value[figure]);
          check("to_target_reason", value["reason"]);
          check_estimate("to_target_cost", value["cost"]);
          check("to_target_cost_scope", value["cost_scope"]);
          check("to_target_cost_reason", value["cost_reason"]);
        } else if (value.is_object() ||
                   std::set<std::string>{"tokens_per_s", "samples_per_s", "flops_per_s", "step_time_s"}.contains(key)) {
          check_estimate(key, value);
        } else {
          check(key, value);
        }
      }
      for (const char* key : {"model", "precision", "micro_batch", "global_batch", "seq_len", "layers", "seed"})
        check(key, record["workload"][key]);
    }
  }
}

TEST(Csv, AbsentIsEmptyWithAReason) {
  const std::vector<Row> rows = rows_of(sample_report());
  EXPECT_EQ(rows[0]["package_energy_j"], "");
  EXPECT_EQ(rows[0]["energy_reason"], "no_energy_meter: rapl: no_driver");
  EXPECT_EQ(rows[1]["of_ceiling"], "");
  EXPECT_EQ(rows[1]["of_ceiling_reason"], "ceiling not measured");
  EXPECT_EQ(rows[1]["samples_per_s_low"], "");
  EXPECT_EQ(rows[1]["trials_joined"], "1");
  EXPECT_EQ(rows[2]["samples_per_s"], "");
  EXPECT_EQ(rows[2]["peak_resident_bytes_per_rank"], "") << "nothing ran";
  EXPECT_EQ(rows[2]["reasons"], "fp8: this CPU has no 8-bit floating point");
  const std::vector<Row> targets = rows_of(sample_target_report());
  EXPECT_EQ(targets[1]["to_target_time_s"], "");
  EXPECT_EQ(targets[1]["to_target_cost"], "");
  EXPECT_EQ(targets[1]["to_target_cost_reason"].substr(0, 10), "seed 5 did");
  EXPECT_EQ(std::ranges::count(targets[0]["to_target_cost_of_runs"], ';'), 2) << "of each seed";
  EXPECT_EQ(targets[1]["to_target_reason"].substr(0, 10), "seed 5 did");
  EXPECT_EQ(targets[1]["flags"], "short; no_reference; target_missed");
}

TEST(Csv, QuotesAndFormulas) {
  Report report = sample_energy_report();
  Record& r = report.records[0];
  const auto id_as = [&](const std::string& id) {
    r.id = id;
    return rows_of(report)[0]["id"];
  };
  EXPECT_EQ(id_as("a,b \"c\" d"), "a,b \"c\" d");
  EXPECT_EQ(id_as("line\r\nline"), "line\\r\\nline") << "one line a record";
  for (const char* formula : {"=HYPERLINK(\"http://x\")", "+1", "-1+cmd|' /C calc'!A0", "@SUM(A1)"})
    EXPECT_EQ(id_as(formula), std::string("'") + formula);
  EXPECT_EQ(id_as("\t=1"), "\\t=1");
  EXPECT_EQ(id_as(""), "");
  r.summary.loss_slope_per_step = -0.25;
  EXPECT_EQ(rows_of(report)[0]["loss_slope_per_step"], "-0.25") << "a number is none";
  r.setting["=cmd"] = {2400, 2400, std::nullopt, {}};
  r.summary.op_share["-x"] = 0.5;
  r.summary.op_seconds = {{"norm", 0.125}};
  r.setting["cpu_governor"].observed = SetPoint(std::string("=performance"));
  r.verdict.reasons = {"=1", "@2"};
  EXPECT_EQ(rows_of(report)[0]["'=cmd_requested"], "2400");
  EXPECT_EQ(rows_of(report)[0]["op_share_-x"], "0.5");
  EXPECT_EQ(rows_of(report)[0]["op_seconds_norm"], "0.125");
  EXPECT_EQ(rows_of(report)[0]["cpu_governor_observed"], "'=performance");
  EXPECT_EQ(rows_of(report)[0]["reasons"], "'=1; @2");
  r.summary.step_time_p50_s = std::nan(""), r.summary.of_ceiling = HUGE_VAL;
  EXPECT_EQ(rows_of(report)[0]["step_time_p50_s"], "");
  EXPECT_EQ(rows_of(report)[0]["of_ceiling"], "");
}

TEST(Csv, TablesOfTwoMachinesHaveTheSameFigures) {
  // What a report lacks is an empty column, so that tables can be put under each other.
  const auto figures = [](const Report& report) {
    std::set<std::string> names;
    const std::vector<Row> rows = rows_of(report);
    for (const std::string& name : rows[0].header)
      if (!name.starts_with("op_share_") && name.find("_mhz_") == std::string::npos) names.insert(name);
    return names;
  };
  EXPECT_EQ(figures(sample_report()), figures(sample_energy_report()));
  EXPECT_EQ(figures(sample_report()), figures(sample_target_report()));
}

TEST(Csv, RowsAreSorted) {
  const Report report = sample_report();
  const std::vector<Row> rows = rows_of(report, order_by(*find_merit("throughput"), {}, report.records));
  // Samples of different networks are not held against each other: networks stand in the order of the run.
  EXPECT_EQ(rows[0]["id"], "gpt2-tiny/bf16/acc4/np2");
  EXPECT_EQ(rows[1]["id"], "resnet-tiny/float32/acc1/np2");
  EXPECT_EQ(rows[2]["status"], "unsupported");
}

TEST(Export, EveryFormatOfTheListWrites) {
  std::set<std::string_view> names, files;
  for (const ExportFormat& format : export_formats()) {
    EXPECT_FALSE(format.write(sample_report(), {}).empty()) << format.name;
    EXPECT_EQ(find_export_format(std::string(format.name)), &format);
    EXPECT_TRUE(names.insert(format.name).second && files.insert(format.file).second);
  }
  EXPECT_EQ(find_export_format("pdf"), nullptr);
}

}  // namespace
}  // namespace tw
