#include "results/terminal/tables.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <regex>
#include <sstream>

#include "results/analysis/verdict.hpp"
#include "results/export/export.hpp"
#include "results/record/report_io.hpp"
#include "results/record/text.hpp"
#include "tests/results/golden.hpp"
#include "tests/results/made_reports.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using namespace text;

using namespace testing;

std::string without_escapes(const std::string& text) {
  return std::regex_replace(text, std::regex("\033\\[[0-9]+m"), "");
}
std::size_t widest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(lines, line);) widest = std::max(widest, columns(line));
  return widest;
}

TEST(Text, Figures) {
  EXPECT_EQ(si(0), "0");
  EXPECT_EQ(si(410.24), "410");
  EXPECT_EQ(si(52512), "52.5 k");
  EXPECT_EQ(si(999.6), "1.00 k");
  EXPECT_EQ(si(75e9, "FLOP/s"), "75.0 GFLOP/s");
  EXPECT_EQ(si(0.21693), "0.217");
  EXPECT_EQ(significant(9.996), "10.0");
  EXPECT_EQ(significant(-0.00981), "-0.00981");
  EXPECT_EQ(significant(1e-9), "1.00e-09");
  EXPECT_EQ(duration(0.01953), "19.5 ms");
  EXPECT_EQ(duration(0.9996), "1.00 s");
  EXPECT_EQ(duration(61), "61.0 s");
  EXPECT_EQ(duration(250), "4 min 10 s");
  EXPECT_EQ(duration(8.5e-4), "850 µs");
  EXPECT_EQ(duration(7260), "2 h 01 min");
  EXPECT_EQ(bytes(412.0 * 1024 * 1024), "412 MiB");
  EXPECT_EQ(bytes(16.0 * 1024 * 1024 * 1024), "16.0 GiB");
}

TEST(Text, DatesAreToBeRead) {
  EXPECT_EQ(text::date("2026-11-23T12:50:31Z"), "23 Nov 2026, 12:50 UTC");
  EXPECT_EQ(text::date("2026-03-01T09:05:00.25Z"), "1 Mar 2026, 09:05 UTC");
  for (const char* other : {"", "yesterday", "2026-13-01T09:05:00Z", "2026-03-01T09:05:00+01:00", "2026-03-01"})
    EXPECT_EQ(text::date(other), other);
}

TEST(Text, WrapAndPad) {
  EXPECT_EQ(wrap("one two three four", 9, 2), "one two\n  three\n  four");
  EXPECT_EQ(pad_left("µs", 4), "  µs");
  EXPECT_EQ(pad_right("longer", 3), "longer");
}

TEST(Text, Sparkline) {
  const std::vector<double> v = {4, 3, 2, 1};
  EXPECT_EQ(sparkline(v, 4, true), "█▆▃▁");
  EXPECT_EQ(sparkline(v, 2, false), "90");
  EXPECT_EQ(sparkline(std::vector<double>{1, 1}, 4, false), "55");
  EXPECT_EQ(sparkline(std::vector<double>{1, NAN, 2}, 4, false), "0x9");
  EXPECT_EQ(bar(0.5, 4, true), "██");
  EXPECT_EQ(bar(0.53, 4, true), "██▏");
}

TEST(Tables, Summary100) { expect_golden("summary_100.txt", summary_table(sample_report(), {false, 100})); }
TEST(Tables, Summary80) { expect_golden("summary_80.txt", summary_table(sample_report(), {false, 80})); }
TEST(Tables, Summary100Color) { expect_golden("summary_100_color.txt", summary_table(sample_report(), {true, 100})); }
TEST(Tables, SummaryEnergy120) {
  expect_golden("summary_energy_120.txt", summary_table(sample_energy_report(), {false, 120}));
}
/// The order of the run is shuffled: whoever reads a row of the table finds its details in the same place.
TEST(Tables, DetailsAreInTheOrderOfTheTable) {
  Report report = sample_report();
  report.records = {made_record("c", {100, 101, 99}), made_record("a", {100, 101, 99}),
                    made_record("b", {100, 101, 99})};
  int accumulate[] = {3, 1, 2};
  for (std::size_t r = 0; r < 3; ++r) report.records[r].workload.accumulate = accumulate[r];
  TableStyle style;
  const auto order = [&] {
    const std::string text = show_report(report, style);
    std::map<std::size_t, std::string> found;
    for (const char* id : {"a", "b", "c"}) found[text.find("\n" + std::string(id) + "\n")] = id;
    std::string ids;
    for (const auto& [place, id] : found) ids += place == text.npos ? "?" : id;
    return ids;
  };
  EXPECT_EQ(order(), "cab") << "as they were run";
  style.order.by_axes = true;
  EXPECT_EQ(order(), "abc");
}

TEST(Tables, ShowTarget100) { expect_golden("show_target_100.txt", show_report(sample_target_report(), {false, 100})); }
TEST(Tables, ATaskThatNobodyHadTrainedIsMarked) {
  Report report = sample_target_report();
  EXPECT_EQ(show_report(report, {false, 200}).find("extrapolated"), std::string::npos);
  report.records[0].target->extrapolated_from = "runs of gpt2-tiny", report.records[0].target->drawn_tokens = 64;
  const Report read = report_from_json(to_json(report));
  EXPECT_EQ(read.records[0].target->extrapolated_from, "runs of gpt2-tiny");
  EXPECT_EQ(read.records[0].target->drawn_tokens, 64);
  const std::string shown = show_report(read, {false, 200});
  EXPECT_NE(shown.find("extrapolated from runs of gpt2-tiny, not trained before"), std::string::npos);
  EXPECT_NE(shown.find("nats over a floor of 1.218, 64 different tokens, 256 samples every"), std::string::npos);
  summarise(report.records[0]);  // its flag is in every table
  EXPECT_NE(summary_table(report, {.width = 200}).find("nobody had trained this task"), std::string::npos);
}
TEST(Tables, Show100) { expect_golden("show_100.txt", show_report(sample_report(), {false, 100})); }
TEST(Tables, ShowEnergy80Ascii) {
  expect_golden("show_energy_80_ascii.txt", show_report(sample_energy_report(), {false, 80, false}));
}

/// What a comparison will not make of the run is said once, at its end.
TEST(Tables, DisturbedPointsAreSaidAtTheEnd) {
  Report report = sample_energy_report();
  for (const char* flag : {"busy_host", "steal", "drift"}) {
    Report disturbed = report;
    disturbed.records[0].verdict.flags.emplace_back(flag);
    EXPECT_NE(summary_table(disturbed, {false, 200}).find("in 1 of 1 points "), std::string::npos) << flag;
  }
  EXPECT_EQ(summary_table(report, {false, 200}).find("in 1 of 1 points "), std::string::npos);
  Report invalid = report;
  invalid.records[0].verdict = {Status::invalid, {Flag::busy_host}, {"window: odd"}};
  EXPECT_EQ(summary_table(invalid, {false, 200}).find("in 1 of 1 points "), std::string::npos)
      << "it counts for nothing";
}

TEST(Tables, ColorAddsEscapesOnly) {
  for (const Report& report : {sample_report(), sample_energy_report()}) {
    EXPECT_EQ(without_escapes(summary_table(report, {true, 90})), summary_table(report, {false, 90}));
    EXPECT_NE(summary_table(report, {true, 90}), summary_table(report, {false, 90}));
    EXPECT_EQ(without_escapes(show_report(report, {true, 90})), show_report(report, {false, 90}));
    EXPECT_EQ(show_report(report, {false, 90}).find('\033'), std::string::npos);
  }
}

TEST(Tables, NoLinePassesTheWidth) {
  for (const Report& report : {sample_report(), sample_energy_report()})
    for (const std::size_t width : {80, 100, 120}) {
      EXPECT_LE(widest_line(summary_table(report, {false, width})), width);
      EXPECT_LE(widest_line(show_report(report, {false, width})), width);
    }
}

TEST(Tables, ANarrowTerminalHasNarrowTables) {
  Report report = sample_energy_report();
  report.records.push_back(sample_target_record());
  summarise(report.records[1]);
  report.records[0].id = "gpt2-tiny/float32/mb32/t128/acc16/np128/gpu_clock=1305/cpu_power_limit=120";
  for (std::size_t width = 40; width <= 200; ++width) {
    const std::string table = summary_table(report, {false, width});
    EXPECT_LE(widest_line(table), width) << table;
    EXPECT_NE(table.find("valid"), std::string::npos) << table;
  }
  // What fits is there: figures at 40 columns, and more of them in every wider terminal.
  const auto figures = [&](std::size_t width) {
    const std::string table = summary_table(report, {false, width, false});
    const std::string head = table.substr(0, table.find("verdict"));
    const std::regex title("[^ \n]+( [^ \n]+)*");
    return std::distance(std::sregex_iterator(head.begin(), head.end(), title), std::sregex_iterator());
  };
  EXPECT_GE(figures(40), 2);
  EXPECT_GT(figures(80), figures(40));
  EXPECT_GT(figures(200), figures(120));
}

TEST(Tables, AsciiIsAscii) {
  const std::string text = show_report(sample_energy_report(), {false, 100, false});
  for (char c : text) ASSERT_GT(c, 0);
}

TEST(Tables, ColumnsTakeTheirPlaceByImportance) {
  const auto head = [](std::size_t width) {
    const std::string table = summary_table(sample_report(), {false, width});
    return table.substr(0, table.find('\n', table.find("verdict")));
  };
  EXPECT_EQ(head(80).find("step time"), std::string::npos);
  EXPECT_NE(head(80).find("±95 %  of ceiling"), std::string::npos);
  EXPECT_NE(head(70).find("±95 %  FLOP/s"), std::string::npos);  // narrower than those that found no room
  EXPECT_NE(head(62).find("±95 %  verdict"), std::string::npos);
  EXPECT_NE(head(10).find("samples/s  verdict"), std::string::npos);
}

/// Whether no byte of a text moves a terminal's cursor or changes its state.
void expect_harmless(const std::string& text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    ASSERT_TRUE((c >= 0x20 && c != 0x7f) || c == '\n') << i << ": " << int(c);
    ASSERT_FALSE(c == 0xc2 && static_cast<unsigned char>(text[i + 1]) < 0xa0) << i;
  }
}

/// A bad report is still read by people, before they validate it.
TEST(Tables, DamagedReportsAreShown) {
  int shown = 0;
  for (const BrokenReport& fault : broken_reports()) {
    SCOPED_TRACE(fault.line);
    try {
      expect_harmless(show_report(report_from_json(fault.text), {false, 80}));
      ++shown;
    } catch (const std::runtime_error&) {  // what the types cannot hold
    }
  }
  EXPECT_GT(shown, 40);
}

/// Each value of a report in turn becomes null: the reader refuses it, or it is shown as absent.
TEST(Tables, NullsAreShown) {
  int shown = 0;
  for (const char* name : {"good.json", "good_energy.json"}) {
    const std::string text = fixture(name);
    const std::regex value("\": (-?[0-9][-+.0-9e]*|\"[^\"]*\"|true|false)");
    for (std::sregex_iterator it(text.begin(), text.end(), value), end; it != end; ++it) {
      std::string damaged = text;
      damaged.replace(static_cast<std::size_t>(it->position(1)), static_cast<std::size_t>(it->length(1)), "null");
      try {
        const Report report = report_from_json(damaged);
        ++shown;
        EXPECT_LT(show_report(report, {false, 80}).size(), 20000u);
        show_report(report, {true, 120, false});
      } catch (const std::runtime_error&) {
      }
    }
  }
  EXPECT_GT(shown, 100);
}

TEST(Tables, WhatSummariseCannotMakeIsShown) {
  for (double odd : {std::nan(""), HUGE_VAL, -HUGE_VAL, 1e308, -1e308, 0.0}) {
    Report report = sample_energy_report();
    Record& r = report.records[0];
    r.summary.step_time_s.reset(), r.summary.step_time_p50_s.reset(), r.summary.step_time_min_s.reset();
    r.summary.ceiling_flops_per_s.reset(), r.summary.tokens_per_s.reset(), r.summary.flops_per_s.reset();
    EXPECT_NE(show_report(report, {false, 80}).find("p50 absent"), std::string::npos);
    r.summary.step_time_s = Estimate{odd, odd, odd, Statistic::mean, 3};
    r.trials[0].step_time_s[3] = r.trials[0].loss[4] = r.trials[0].window_s = odd;
    r.trials[0].phase_s["forward"] = odd;
    r.summary.samples_per_s->value = odd;
    r.summary.op_share["norm"] = odd;
    EXPECT_LT(show_report(report, {false, 80}).size(), 20000u);
    EXPECT_LT(show_report(report, {false, 80, false}).size(), 20000u);
  }
  EXPECT_EQ(bar(std::nan(""), 10, true), "");
}

TEST(Tables, ControlCharactersDoNotReachTheTerminal) {
  EXPECT_EQ(printable("a\nb\tc\r\x1b[8m\x7f\xc2\x9b"
                      "2K\xe2\x80\xae\xff µ→"),
            "a\\nb\\tc\\r\\x1b[8m\\x7f\\u009b2K\\u202e\\xff µ→");
  const std::string evil = "x\033[2K\033[1Averdict valid\r\n\xc2\x9b" "8m\x7f";
  Report report = sample_energy_report();
  report.program = {evil, evil, evil};
  report.plan.suite = evil;
  Context& c = report.context;
  c.started_at = c.finished_at = c.launcher = evil;
  c.argv = {evil}, c.environment = {{evil, evil}}, c.versions = {{evil, evil}}, c.warnings = {evil};
  HostInfo& h = c.hosts[0];
  h.name = h.cpu = h.kernel = h.os = evil;
  h.hypervisor = h.container = h.cpu_governor = h.cgroup_cpu_limit = evil;
  h.nics = {evil};
  for (DeviceEntry& d : c.devices) d.host = d.kind = d.name = d.uuid = d.instruction_set = evil, d.libraries = {evil};
  for (MeterEntry& m : c.meters) m.host = m.domain = m.reason = m.detail = evil;
  Record& r = report.records[0];
  r.id = r.workload.model = r.workload.precision = r.workload.device = r.workload.optimizer = evil;
  r.setting = {{evil, {1, 2, 3, {}}}};
  r.trials[0].phase_s[evil] = 1;
  for (EnergyRow& row : r.trials[0].energy) row.domain = row.reason = evil;
  r.trials[0].energy[3].counted = false;
  Summary& s = r.summary;
  s.flops_rule = s.of_ceiling_reason = s.mfu_reason = s.energy_reason = evil;
  s.op_share[evil] = 0.1;
  r.verdict = {Status::invalid, {FlagName(evil)}, {evil}};
  report.records.push_back(r);
  report.records[1].summary.samples_per_s.reset();
  expect_harmless(show_report(report, {false, 80}));
  expect_harmless(summary_table(report, {false, 80}));
  expect_harmless(show_records(report.records, {false, 80}));
}

TEST(Tables, AReasonIsSaidOnce) {
  const std::string text = show_report(sample_report(), {false, 120});
  EXPECT_NE(text.find("absent: no_energy_meter: rapl: no_driver"), std::string::npos);
  EXPECT_EQ(text.find("left out"), std::string::npos);
}

TEST(Tables, MissingPointsAreSaid) {
  Report report = sample_report();
  EXPECT_EQ(show_report(report, {}).find("of the plan"), std::string::npos);
  report.records.pop_back();
  EXPECT_NE(show_report(report, {}).find("! 1 point of the plan has no record"), std::string::npos);
}

TEST(Tables, WhatIsUnstableIsSaid) {
  Report report = sample_energy_report();
  Record& r = report.records[0];
  r.trials.resize(6, r.trials[0]);
  for (double& t : r.trials[4].step_time_s) t *= 1.5;
  r.trials[4].window_s *= 1.5;
  summarise(r);
  const std::string text = show_report(report, {false, 120});
  EXPECT_NE(text.find("\n  stability    outlier: trial 5: 28.0 samples/s, 33 % below the others"), std::string::npos)
      << text;
  EXPECT_NE(text.find("outlier       "), std::string::npos) << "a note explains the flag";
  EXPECT_EQ(text.find("!"), std::string::npos);

  report.records.push_back(sample_energy_report().records[0]);
  report.records[1].id = "later";
  report.records[1].summary.ceiling_flops_per_s = 60e9;
  EXPECT_NE(summary_table(report, {false, 80}).find("\n  ! the matrix products of later, timed alone, ran "),
            std::string::npos);
  EXPECT_LE(widest_line(summary_table(report, {false, 80})), 80u);
}

/// An interval without its figure would stand beside another's.
TEST(Tables, AnIntervalStandsBesideItsFigure) {
  Report report = sample_energy_report();
  report.records.push_back(sample_target_record());
  summarise(report.records[1]);
  for (std::size_t width = 60; width <= 200; ++width) {
    const std::string table = summary_table(report, {false, width, false});
    std::istringstream head(std::regex_replace(table.substr(0, table.find('\n')), std::regex("  +"), "\n"));
    std::string before;
    for (std::string title; std::getline(head, title); before = title)
      EXPECT_TRUE(title != "+-95 %" || before == "to target" || before == "cost" || before == "samples/s" || before.ends_with("/J") ||
                  before.ends_with(" J"))
          << width << ": " << before;
  }
}

/// As `trainwatt meter -- sleep 4` makes it.
Report command_report() {
  Report report = sample_energy_report();
  report.records.resize(1);
  Record& r = report.records[0];
  Trial trial = r.trials[0];
  trial.window_s = 61, trial.step_time_s = {trial.window_s};
  trial.loss.clear(), trial.gradient_norm.clear(), trial.phase_s.clear();
  r = {};
  r.id = "command/sleep";
  r.workload.model = "sleep", r.workload.device = "command", r.workload.precision = r.workload.optimizer = "unknown";
  r.summary.of_ceiling_reason = r.summary.mfu_reason = "not defined for a command";
  r.trials = {trial};
  summarise(r);
  return report;
}

TEST(Tables, ACommandThatNamesNoSamplesHasTimeAndJoulesAllTheSame) {
  Report report = command_report();
  ASSERT_FALSE(report.records[0].summary.samples_per_s);
  const std::string table = summary_table(report, {false, 100}), text = show_report(report, {false, 100});
  EXPECT_NE(table.find("  time  package J  dram J  verdict\n"), std::string::npos) << table;
  EXPECT_NE(table.find("command/sleep  61.0 s     11.8 k     900  valid"), std::string::npos) << table;
  EXPECT_NE(text.find("\n  time         61.0 s from start to end\n"), std::string::npos) << text;
  EXPECT_NE(text.find("package: 11.8 kJ per trial (± 4.00 J from the meters)"), std::string::npos) << text;
  for (const char* none : {"workload", "micro-batch", "of ceiling", "MFU", "memory", "p50"})
    EXPECT_EQ(text.substr(text.find("\ncommand/sleep")).find(none), std::string::npos) << none;
  report.records[0].trials[0].samples = 6400, report.records[0].trials[0].samples_s = 50;
  summarise(report.records[0]);
  const std::string trained = show_report(report, {false, 100});
  EXPECT_NE(trained.find("\n  samples      6.40 k, as the command printed, in 50.0 s\n  throughput   128 samples/s\n"),
            std::string::npos)
      << trained;
}

TEST(Tables, AnEstimateIsShownAsOneAndInNoOtherFigure) {
  Report report = sample_energy_report();
  for (Trial& trial : report.records[0].trials) {
    EnergyRow& row = trial.energy.emplace_back();
    row.scope = Scope::package, row.domain = "estimate:cpu", row.host = "node1", row.method = Method::estimate;
    row.energy_j = 100 * trial.window_s, row.uncertainty_j = 1, row.window_s = trial.window_s,
    row.update_period_s = 0.01;
    row.counted = false, row.reason = "duplicate";
  }
  const std::string before = summary_table(report, {false, 120});
  summarise(report.records[0]);
  EXPECT_EQ(summary_table(report, {false, 120}), before);
  const std::string text = show_report(report, {false, 120});
  EXPECT_NE(
      text.find("\n  estimate     package by estimate:cpu: 6.11 kJ per trial, 100 W mean: modelled, not measured"),
      std::string::npos)
      << text;
  EXPECT_EQ(text.find("estimate:cpu left out"), std::string::npos) << "that it is none of the joules has been said";
}

TEST(Tables, WhatWasWrongWithAWindowIsSaidWithItsTrial) {
  Report report = sample_energy_report();
  EnergyRow& row = report.records[0].trials[1].energy[2];
  row.energy_j.reset(), row.uncertainty_j.reset(), row.wraps.reset();
  row.counted = false, row.reason = "lost", row.detail = "power.csv:17: \"oops\" is no power in watts";
  summarise(report.records[0]);
  const std::string text = show_report(report, {false, 120});
  EXPECT_NE(text.find("rapl:dram-0 left out in trial 2: lost: power.csv:17: \"oops\" is no power in watts"),
            std::string::npos)
      << text;
}

TEST(Tables, ACommandIsNotToldOfOptionsThatItHasNot) {
  Report report = command_report();
  report.records[0].trials[0].window_s = 3;
  report.records[0].verdict.flags.clear();
  summarise(report.records[0]);
  const std::string table = summary_table(report, {false, 400}), markdown = to_markdown(report, {});
  for (const std::string& text : {table, markdown}) {
    EXPECT_NE(text.find("the command ran for less than 60 s"), std::string::npos) << text;
    EXPECT_NE(text.find("one run of a command is one trial"), std::string::npos) << text;
    EXPECT_EQ(text.find("Give"), std::string::npos) << text;
  }
}

TEST(Tables, AMeterThatWasThereIsNotDenied) {
  Report report = sample_energy_report();
  for (Trial& trial : report.records[0].trials)
    for (EnergyRow& row : trial.energy) {
      row.energy_j.reset(), row.uncertainty_j.reset(), row.wraps.reset();
      if (row.counted) row.counted = false, row.reason = "too_short";
    }
  summarise(report.records[0]);
  const std::string table = summary_table(report, {false, 400});
  EXPECT_NE(table.find("an energy meter answered but had no joules for a window (too_short: rapl:package-0"),
            std::string::npos)
      << table;
  EXPECT_EQ(table.find("no energy meter answered"), std::string::npos) << table;
  EXPECT_NE(summary_table(sample_report(), {false, 400}).find("no energy meter answered: all joules are absent"), std::string::npos);
}

TEST(Tables, NoRecords) { EXPECT_EQ(summary_table(Report{}, {}), "No points were run.\n"); }

}  // namespace
}  // namespace tw
