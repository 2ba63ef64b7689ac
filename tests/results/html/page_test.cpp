// The HTML page before a browser sees it: what is drawn, what is said to be absent, and that nothing of a report is
// markup.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <variant>

#include "results/analysis/run_rules.hpp"
#include "results/analysis/trials.hpp"
#include "results/analysis/verdict.hpp"
#include "results/html/html.hpp"
#include "results/html/page.hpp"
#include "results/record/report_io.hpp"
#include "tests/results/samples.hpp"

namespace tw {

using namespace results;

namespace {

using namespace testing;
using nlohmann::json;

const page::Section& section(const page::Page& page, const std::string& id) {
  const auto found = std::ranges::find(page.sections, id, &page::Section::id);
  EXPECT_NE(found, page.sections.end()) << id;
  return *found;
}
std::vector<page::Chart> charts(const page::Section& section) {
  std::vector<page::Chart> all;
  for (const page::Block& block : section.blocks)
    if (const auto* chart = std::get_if<page::Chart>(&block)) all.push_back(*chart);
  return all;
}
std::string words(const page::Section& section) {
  std::string all;
  for (const page::Block& block : section.blocks)
    if (const auto* one = std::get_if<page::Words>(&block)) all += one->text + "\n";
  return all;
}
std::string cells(const page::Section& section) {
  std::string all;
  for (const page::Block& block : section.blocks)
    if (const auto* table = std::get_if<page::Table>(&block))
      for (const auto& row : table->rows)
        for (const page::Words& cell : row) all += cell.text + "\n";
  return all;
}
page::Page built(const Report& report) { return page::build({{"A", report}}, nullptr); }

TEST(Page, ABarAndARowForEachRecord) {
  for (const Report& report : {sample_report(), sample_energy_report(), sample_target_report()}) {
    const page::Page page = built(report);
    EXPECT_EQ(page.records, report.records.size());
    std::size_t bars = 0, rows = 0;
    for (const page::Chart& chart : charts(section(page, "speed"))) {
      ASSERT_EQ(chart.sets.size(), 1u);
      EXPECT_EQ(chart.sets[0].data.size(), chart.categories.size());
      EXPECT_EQ(chart.table.rows.size(), chart.categories.size()) << "the same to read";
      bars += chart.categories.size();
    }
    EXPECT_EQ(bars, report.records.size());
    for (const page::Block& block : section(page, "points").blocks) rows += std::get<page::Table>(block).rows.size();
    EXPECT_EQ(rows, report.records.size());
  }
}

TEST(Page, WhatDidNotRunIsDrawnAsThat) {
  std::vector<std::string> marks;
  for (const page::Chart& chart : charts(section(built(sample_report()), "speed")))
    for (const page::Datum& datum : chart.sets[0].data)
      if (!datum.counts) {
        marks.push_back(datum.mark);
        EXPECT_EQ(datum.x, 0);
      }
  EXPECT_EQ(marks, (std::vector<std::string>{"unsupported", "failed"}));
}

TEST(Page, WhatIsAbsentIsASentenceWithItsReason) {
  const page::Page page = built(sample_report());
  for (const page::Section& one : page.sections) EXPECT_FALSE(one.blocks.empty()) << one.id;
  for (const char* id : {"energy", "pareto", "telemetry", "scaling", "cost"})
    EXPECT_TRUE(section(page, id).absent) << id;
  for (const char* id : {"speed", "points", "rules", "provenance"}) EXPECT_FALSE(section(page, id).absent) << id;
  for (const page::Section& one : page.sections)
    if (one.absent) {
      EXPECT_FALSE(words(one).empty()) << one.id;
    }
  EXPECT_NE(words(section(page, "scaling")).find("and no projection"), std::string::npos);
  const page::Page empty = built(Report{});
  for (const page::Section& one : empty.sections) EXPECT_FALSE(one.blocks.empty()) << one.id;
  EXPECT_EQ(empty.answer.at(0).text, "No points were run.");
}

/// Why there are no joules is said once, each meter's reason behind it.
TEST(Page, MissingEnergyIsSaidOnce) {
  const page::Page page = built(sample_report());
  std::size_t said = 0;
  for (const page::Words& one : page.caveats) {
    if (one.more.empty()) continue;
    ++said;
    EXPECT_TRUE(
        std::ranges::any_of(one.more, [](const std::string& line) { return line.starts_with("rapl: no_driver"); }));
  }
  EXPECT_EQ(said, 1u);
  for (const page::Section& one : page.sections)
    if (one.absent) {
      EXPECT_EQ(words(one).find("no_driver"), std::string::npos) << one.id;
    }
  for (const page::Words& one : built(sample_energy_report()).caveats) EXPECT_TRUE(one.more.empty()) << one.text;
  Report denied = sample_report();
  for (MeterEntry& meter : denied.context.meters) meter.reason = "permission";
  const std::vector<page::Words> of_one = page::missing_energy({{"A", sample_report()}}),
                                 of_other = page::missing_energy({{"A", denied}});
  ASSERT_EQ(of_one.size(), 1u);
  ASSERT_EQ(of_other.size(), 1u);
  EXPECT_NE(of_one[0].text, of_other[0].text);
  EXPECT_EQ(page::missing_energy({{"A", sample_report()}, {"B", sample_report()}}).size(), 1u)
      << "the same of both, once";
  EXPECT_EQ(page::missing_energy({{"A", sample_report()}, {"B", sample_energy_report()}}).size(), 1u);
  EXPECT_EQ(page::missing_energy({{"A", sample_report()}, {"B", denied}}).size(), 2u);
}

TEST(Page, PointsHaveShortNamesThatTellThemApart) {
  const auto names = [](const std::vector<std::string>& ids, bool keep_network = false) {
    return page::short_names(ids, keep_network).names;
  };
  using All = std::vector<std::string>;
  const std::string a = "gpt2-tiny/bf16/mb8/t128/acc1/np2", b = "gpt2-tiny/float32/mb8/t128/acc4/np2";
  EXPECT_EQ(names({a, b}), (All{"bf16, accumulate 1", "float32, accumulate 4"}));
  EXPECT_EQ(page::short_names({a, b}, false).shared, "micro-batch 8, 128 tokens, 2 processes");
  EXPECT_EQ(names({a + "/gpu_clock=810", a}), (All{"GPU clock 810 MHz", "as found"}));
  EXPECT_EQ(names({a, a + "/again", a + "/gpu_clock=810/again"}),
            (All{"as found", "as found, again", "GPU clock 810 MHz, again"}));
  EXPECT_EQ(names({a + "/x", a}), (All{a + "/x", a})) << "one has nothing of its own";
  EXPECT_EQ(names({a + "/gpu_clock=810", a + "/cpu_power_limit=80"}),
            (All{"GPU clock 810 MHz", "CPU power limit 80 W"}));
  EXPECT_EQ(names({a}), All{"bf16"});
  EXPECT_EQ(names({a}, true), All{"gpt2-tiny, bf16"});
  EXPECT_EQ(names({a, a}), (All{"bf16", "bf16"})) << "one point of two systems";
  EXPECT_EQ(names({"x", "y", "a/b"}), (All{"x", "y", "a, b"}));
  EXPECT_EQ(names({"np0x", "acc", "", "/"}), (All{"np0x", "acc", "", "/"}));
  EXPECT_EQ(names({a, "resnet-tiny/bf16/mb8/acc1/np2"}, true).front().find("gpt2-tiny"), 0u);
  // Nothing is lost: the whole id is behind each name.
  const auto all = page::point_names({{"A", sample_report()}, {"B", sample_report()}});
  ASSERT_EQ(all.size(), 2u);
  for (std::size_t r = 0; r < all[1].size(); ++r) EXPECT_EQ(all[1][r].tip, "B: " + sample_report().records[r].id);
}

TEST(Page, MachinesAreInWords) {
  Report report;
  EXPECT_EQ(page::machine_words(report), "");
  HostInfo host;
  host.name = "n1", host.cpu = "AMD EPYC 7502P 32-Core Processor";
  report.context.hosts = {host};
  report.context.devices = {{0, "n1", "cpu", host.cpu, "", "", 1, {}, {}},
                            {1, "n1", "cpu", host.cpu, "", "", 1, {}, {}}};
  EXPECT_EQ(page::machine_words(report), "1 node (AMD EPYC 7502P), 2 processes");
  report.context.hosts[0].cpu = "Intel(R) Xeon(R) Platinum 8480+ CPU @ 2.00GHz";
  EXPECT_EQ(page::machine_words(report), "1 node (Intel Xeon Platinum 8480+), 2 processes");
  report.context.hosts.push_back(host), report.context.hosts[0].cpu = host.cpu;
  for (DeviceEntry& device : report.context.devices)
    device.kind = "cuda", device.name = "NVIDIA H100", device.uuid = "GPU-" + std::to_string(device.rank);
  EXPECT_EQ(page::machine_words(report), "2 nodes (AMD EPYC 7502P, 2 x NVIDIA H100), 2 processes");
  report.context.devices[1].uuid = report.context.devices[0].uuid;
  EXPECT_EQ(page::machine_words(report), "2 nodes (AMD EPYC 7502P, 1 x NVIDIA H100), 2 processes") << "both on one GPU";
}

TEST(Page, BarsAreSortedByValueAndWhatDidNotRunIsLast) {
  Report report = sample_energy_report();
  const Record base = report.records[0];
  report.records.clear();
  for (const double speed : {90.0, 120.0, 0.0, 100.0}) {
    Record record = base;
    record.id += "/" + std::to_string(report.records.size());
    record.summary.samples_per_s->value = speed, record.summary.samples_per_j[Scope::package]->value = 1 / (speed + 1);
    if (speed == 0)
      record.verdict.status = Status::failed, record.summary.samples_per_s.reset(),
      record.summary.samples_per_j.clear();
    report.records.push_back(record);
  }
  const auto lengths = [](const page::Chart& chart) {
    std::vector<double> all;
    for (const page::Datum& datum : chart.sets.at(0).data) all.push_back(datum.x);
    return all;
  };
  EXPECT_EQ(lengths(charts(section(built(report), "speed")).at(0)), (std::vector<double>{120, 100, 90, 0}));
  const std::vector<double> joules = lengths(charts(section(built(report), "energy")).at(0));
  ASSERT_EQ(joules.size(), 4u);
  EXPECT_TRUE(joules[0] < joules[1] && joules[1] < joules[2]) << "the least first";
  EXPECT_NE(section(built(report), "speed").lead.find("whisker"), std::string::npos);
  for (Record& record : report.records)
    if (record.summary.samples_per_s) record.summary.samples_per_s->low = record.summary.samples_per_s->high = {};
  EXPECT_EQ(section(built(report), "speed").lead, "A bar for each point, the fastest first.") << "below 3 trials";
}

TEST(Page, TheAnswerNamesTheFastestAndWhatIsWrong) {
  const page::Page page = built(sample_report());
  EXPECT_NE(page.answer.at(0).text.find("bf16: 41.9\u00a0samples/s [40.8, 43.0]"), std::string::npos)
      << page.answer.at(0).text;
  std::string caveats;
  for (const page::Words& one : page.caveats) caveats += one.text + "\n";
  for (const char* said : {"1 point is failed.", "1 point is unsupported.",
                           "Run rules broken: the run has not finished, or points have no record, failed or are "
                           "invalid; windows"})
    EXPECT_NE(caveats.find(said), std::string::npos) << said << " in\n" << caveats;
  Report none = sample_report();
  for (Record& record : none.records) record.verdict.status = Status::invalid;
  EXPECT_NE(built(none).answer.at(0).text.find("No point of this report counts"), std::string::npos);
  EXPECT_NE(page::build({{"A", sample_report(), {"/records/0: is odd"}}}, nullptr)
                .caveats.at(0)
                .text.find("/records/0: is odd"),
            std::string::npos);
}

TEST(Page, WhatValidateNotesIsOnThePageItself) {
  HtmlSystem a{"A", sample_report()}, b{"B", sample_report()};
  a.notes = {"/schema_version: \"1.9\" is newer", "another"}, a.faults = {"/records/0: is odd"};
  const auto caveats = [](const page::Page& page) {
    std::string all;
    for (const page::Words& one : page.caveats) all += one.text + "\n";
    return all;
  };
  const page::Page one = page::build({a}, nullptr);
  EXPECT_NE(
      caveats(one).find("\ntrainwatt validate notes: /schema_version: \"1.9\" is newer; 1 more under Provenance.\n"),
      std::string::npos)
      << caveats(one);
  for (const char* said : {"/schema_version: \"1.9\" is newer", "another", "/records/0: is odd"})
    EXPECT_NE(cells(section(one, "provenance")).find(said), std::string::npos) << said;
  const Comparison comparison =
      compare({{"A", {}, {a.report}, a.faults, {}, a.notes}, {"B", {}, {b.report}, {}, {}}}, {});
  EXPECT_NE(caveats(page::build({a, b}, &comparison)).find("A: trainwatt validate notes: /schema_version"),
            std::string::npos);
  EXPECT_EQ(caveats(page::build({b}, nullptr)).find("notes:"), std::string::npos);
}

/// Points of one workload at several settings.
Report sweep(const std::vector<std::pair<double, double>>& speeds_and_joules) {
  Report report = sample_energy_report();
  const Record base = report.records[0];
  report.records.clear();
  for (const auto& [speed, joules] : speeds_and_joules) {
    Record record = base;
    record.id += "/" + std::to_string(report.records.size());
    record.summary.samples_per_s->value = speed;
    record.summary.samples_per_j[Scope::package]->value = 1 / joules;
    report.records.push_back(record);
  }
  return report;
}

TEST(Page, TheFrontHasItsKnee) {
  const page::Page page = built(sweep({{100, 10}, {95, 6}, {60, 5}, {50, 9}}));
  const std::vector<page::Chart> all = charts(section(page, "pareto"));
  ASSERT_EQ(all.size(), 1u);
  ASSERT_EQ(all[0].sets.size(), 2u);
  EXPECT_EQ(all[0].sets[0].data.size(), 3u) << "the line leaves the beaten one out";
  ASSERT_EQ(all[0].sets[1].data.size(), 4u);
  EXPECT_EQ(all[0].sets[1].data[1].mark, "knee");
  EXPECT_NEAR(all[0].sets[1].data[1].y, 6, 1e-12);
  EXPECT_EQ(all[0].table.rows.size(), 4u);
}

TEST(Page, JoulesThatCannotBeAreOnNoFront) {
  for (const double spoilt : {0.0, -1.0, 1e-320, HUGE_VAL}) {
    Report report = sweep({{100, 10}, {95, 6}, {60, 5}});
    report.records[2].summary.samples_per_j[Scope::package]->value = spoilt;
    const std::vector<page::Chart> all = charts(section(built(report), "pareto"));
    ASSERT_EQ(all.size(), 1u) << spoilt;
    EXPECT_EQ(all[0].sets[1].data.size(), 2u) << spoilt;
  }
  Report report = sample_target_report();
  report.records[1] = report.records[0];
  for (Record& record : report.records) record.summary.to_target->energy_j[Scope::package]->value = 0;
  EXPECT_TRUE(charts(section(built(report), "pareto")).empty());
}

TEST(Page, OperatorsOfAProfiledStepAreDrawnAndListed) {
  Report report = sample_report();
  report.records[1].workload.hash = report.records[0].workload.hash;
  for (int i = 0; i < 8; ++i) report.records[0].summary.op_share["small" + std::to_string(i)] = 0.001 * (i + 1);
  const std::vector<page::Chart> all = charts(section(built(report), "phases"));
  ASSERT_EQ(all.size(), 2u) << "phases, and operators";
  const page::Chart& chart = all[1];
  EXPECT_EQ(chart.categories.size(), 2u) << "of those that ran";
  std::vector<std::string> labels;
  for (const page::DataSet& set : chart.sets) {
    labels.push_back(set.label);
    EXPECT_EQ(set.data.size(), 2u) << set.label;
  }
  EXPECT_EQ(labels, (std::vector<std::string>{"linear", "attention", "norm", "small7", "small6", "small5",
                                              "5 other operators", "outside operators"}));
  double sum = 0;
  for (const page::DataSet& set : chart.sets) sum += set.data[0].x;
  EXPECT_NEAR(sum, 100, 1e-9);
  EXPECT_NEAR(chart.sets[7].data[1].x, 16, 1e-9) << "1 - 0.61 - 0.17 - 0.06";
  EXPECT_EQ(chart.table.rows.size(), 11u + 1 + 3 + 1) << "none is hidden";
  for (Record& record : report.records) record.summary.op_share.clear();
  EXPECT_NE(words(section(built(report), "phases")).find("no step was profiled"), std::string::npos);
}

TEST(Page, PhasesAreThoseOfTrialsThatCount) {
  Report report = sample_report();
  const auto before = mean_phases(report.records[0]);
  ASSERT_FALSE(before.empty());
  Trial spoilt = report.records[0].trials[0];
  for (auto& [phase, seconds] : spoilt.phase_s) seconds *= 1000;
  spoilt.loss[0] = std::nan("");
  report.records[0].trials.push_back(spoilt);
  const auto after = mean_phases(report.records[0]);
  ASSERT_EQ(after.size(), before.size());
  for (std::size_t i = 0; i < before.size(); ++i) EXPECT_NEAR(after[i].second, before[i].second, 1e-12);
  for (Trial& trial : report.records[0].trials) trial.loss[0] = std::nan("");
  EXPECT_TRUE(mean_phases(report.records[0]).empty());
}

TEST(Page, TelemetryNamesItsPointInEachChart) {
  const Report report = sample_energy_report();
  const page::Section telemetry = section(built(report), "telemetry");
  EXPECT_EQ(std::get<page::Choice>(telemetry.blocks.at(0)).options.at(0).first,
            page::point_names({{"A", report}})[0][0].text);
  for (const auto& [name, all] : std::get<page::Choice>(telemetry.blocks.at(0)).options)
    for (const page::Chart& chart : all) {
      EXPECT_TRUE(chart.title.ends_with(", " + name)) << chart.title;
      EXPECT_EQ(chart.table.caption, chart.title);
    }
}

/// Every channel that power/telemetry has of a GPU is drawn, those of one unit in one chart.
TEST(Page, TelemetryDrawsEveryChannelOfAGpu) {
  Report report = sample_energy_report();
  for (Trial& trial : report.records[0].trials) {
    trial.series.clear();
    for (const auto& [quantity, value] : std::vector<std::pair<std::string, double>>{{"power_w", 600},
                                                                                     {"temperature_c", 60},
                                                                                     {"sm_clock_mhz", 1980},
                                                                                     {"memory_clock_mhz", 2619},
                                                                                     {"utilisation", 0.97},
                                                                                     {"sm_active", 0.81},
                                                                                     {"memory_used_bytes", 1 << 30}})
      trial.series.push_back({"node1", "nvml:GPU-a", quantity, {0, 1}, {value, value}, {value, value}, {value, value}});
  }
  const page::Section telemetry = section(built(report), "telemetry");
  const std::vector<page::Chart> all = std::get<page::Choice>(telemetry.blocks.at(0)).options.at(0).second;
  std::map<std::string, std::vector<double>> drawn;  // the first value of each line, by the chart's unit
  for (const page::Chart& chart : all)
    for (const page::DataSet& set : chart.sets) drawn[chart.y_title].push_back(set.data.at(0).y);
  const std::map<std::string, std::vector<double>> expected = {
      {"W", {600}}, {"°C", {60}}, {"MHz", {2619, 1980}}, {"%", {81, 97}}, {"GiB", {1}}};
  EXPECT_EQ(drawn, expected);
}

TEST(Page, ScalingOnlyBetweenNumbersOfRanks) {
  Report report = sweep({{100, 10}, {180, 10}});
  for (Record& record : report.records) record.setting.clear();
  report.records[1].workload.ranks = 4;
  const std::vector<page::Chart> all = charts(section(built(report), "scaling"));
  ASSERT_EQ(all.size(), 8u) << "strong, since the global batch is the same; and weak, since a rank's is";
  EXPECT_EQ(all[0].sets[0].data.size(), 2u);
  EXPECT_NEAR(all[0].sets[1].data[1].y, 200, 1e-9);
  EXPECT_EQ(all[0].table.rows[1][3].text, "90.0 %");
}

TEST(Page, LongSeriesAreThinnedAndDoNotLeadOverWhatWasNotMeasured) {
  Report report = sample_energy_report();
  for (Trial& trial : report.records[0].trials) {
    trial.series.resize(1);
    SeriesRow& row = trial.series[0];
    row = {row.host, row.domain, row.quantity, {}, {}, {}, {}};
    for (int i = 0; i < 1000; ++i)
      row.time_s.push_back(0.06 * i), row.minimum.push_back(99), row.mean.push_back(i == 501 ? 300 : 100),
          row.maximum.push_back(301);
  }
  const page::Section telemetry = section(built(report), "telemetry");
  const page::Chart chart = std::get<page::Choice>(telemetry.blocks.at(0)).options.at(0).second.at(0);
  ASSERT_EQ(chart.sets.size(), 1u);
  std::size_t gaps = 0, dots = 0;
  for (const page::Datum& datum : chart.sets[0].data) ++(std::isfinite(datum.y) ? dots : gaps);
  EXPECT_EQ(gaps, 2u);
  EXPECT_GT(dots, 100u);
  EXPECT_EQ(std::ranges::count(chart.sets[0].data, 300.0, &page::Datum::y), 3) << "no peak is lost";
  EXPECT_LE(dots, 240u);
  ASSERT_EQ(chart.table.rows.size(), 1u);
  EXPECT_EQ(chart.table.rows[0][1].text, "3000");
  EXPECT_EQ(chart.table.rows[0][5].text, "300.0") << "of all, not of those drawn";
}

std::string data_of(const std::string& html) {
  const std::string begin = "id=\"data\">";
  const std::size_t from = html.find(begin) + begin.size();
  return html.substr(from, html.find("</script>", from) - from);
}

TEST(Html, NothingInAReportIsMarkup) {
  const std::string evil = "</script><script>x</script><!-- \xe2\x80\xa8 @DATA@ @SCRIPT@ & \" '";
  Report report = sample_energy_report();
  report.plan.suite = report.records[0].id = report.records[0].workload.model = evil;
  report.records[0].verdict.flags = {FlagName(evil)};
  report.context.hosts[0].name = evil;
  const std::string html = to_html({{evil, report}});
  const std::string data = data_of(html);
  for (const char* forbidden : {"<", ">", "&", "\xe2\x80\xa8"})
    EXPECT_EQ(data.find(forbidden), std::string::npos) << forbidden;
  const json read = json::parse(data);
  EXPECT_NE(read["title"].get<std::string>().find("</script><script>x"), std::string::npos) << "as it was";
  std::size_t scripts = 0;
  for (std::size_t at = 0; (at = html.find("<script", at)) != std::string::npos; ++at) ++scripts;
  EXPECT_EQ(scripts, 3u);
  EXPECT_EQ(html.substr(0, html.find("</title>")).find("<script"), std::string::npos);
}

/// What a mail preview shows: the answer and the main table, as text whatever they hold.
TEST(Html, TheAnswerAndTheMainTableNeedNoScript) {
  const std::string evil = "</table><script>x</script><!-- \"' @DATA@ & <img src=x onerror=y>";
  Report report = sample_report();
  report.plan.suite = report.context.hosts[0].name = report.context.hosts[0].cpu = report.records[0].workload.model =
      evil;
  for (Record& record : report.records) record.id += "/" + evil;
  report.records[0].verdict.flags = {FlagName(evil)};
  for (MeterEntry& meter : report.context.meters) meter.detail = meter.domain = evil;
  const auto count = [](const std::string& text, const std::string& what) {
    std::size_t n = 0;
    for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++n;
    return n;
  };
  for (const Report& one : {sample_report(), report}) {
    const std::string html = to_html({{evil, one}});
    const std::size_t from = html.find("<div id=\"page\">"), to = html.find("<script type=\"application/json\"");
    ASSERT_LT(from, to);
    const std::string part = html.substr(from, to - from);
    EXPECT_EQ(count(part, "<tr "), one.records.size() + 1) << "a row for each point";
    EXPECT_EQ(count(part, "<table"), 1u);
    EXPECT_EQ(count(part, "<script") + count(part, "<img") + count(part, "<!--") + count(part, "style="), 0u);
    EXPECT_NE(part.find("class=\"answer\""), std::string::npos);
    EXPECT_NE(part.find("class=\"cards\""), std::string::npos);
    EXPECT_NE(part.find("41.9\u00a0samples/s"), std::string::npos);
    EXPECT_NE(
        part.find("<dd class=\"value\"><span class=\"word\">41.9</span> <span class=\"word\">samples/s</span></dd>"),
        std::string::npos);
  }
  EXPECT_EQ(page::for_text("<a href=\"x\">'&"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
}

TEST(Html, IsOneFileThatLoadsNothing) {
  const std::string html = to_html({{"A", sample_report()}});
  EXPECT_NE(html.find("default-src 'none'; script-src 'sha256-"), std::string::npos);
  EXPECT_EQ(html.find("unsafe-"), std::string::npos);
  for (const char* name :
       {"@TITLE@", "@STYLE@", "@SCRIPT@", "@DATA@", "@CHART_LIBRARY@", "@SCRIPT_HASHES@", "@STYLE_HASH@"})
    EXPECT_EQ(html.find(name), std::string::npos) << name;
  for (const char* loads : {" src=", "<link", "@import", "url("}) {
    std::string own = html;
    own.erase(own.find("<script type=\"application/json\""));  // before the data and the library
    EXPECT_EQ(own.find(loads), std::string::npos) << loads;
  }
}

TEST(Html, NumbersThatAreNoneAreNull) {
  Report report = sample_energy_report();
  report.records[0].trials[0].series[0].mean[0] = HUGE_VAL;
  report.records[0].summary.samples_per_s->value = std::nan("");
  EXPECT_TRUE(json::parse(data_of(to_html({{"A", report}}))).is_object());
}

TEST(Page, RunRulesStandWithWhatWasFound) {
  const Report report = sample_report();
  const page::Section section = page::rules_section({{"A", report}});
  ASSERT_EQ(section.blocks.size(), 1u);
  const auto& table = std::get<page::Table>(section.blocks[0]);
  ASSERT_EQ(table.rows.size(), run_rules().size());
  const auto row = [&](const std::string& id) {
    return *std::ranges::find_if(table.rows, [&](const auto& one) { return one[0].text == id; });
  };
  EXPECT_EQ(row("window")[1].text, "broken");
  EXPECT_EQ(row("window")[1].look, page::Look::bad);
  EXPECT_TRUE(row("window")[2].text.starts_with("Windows last at least 60 s")) << row("window")[2].text;
  EXPECT_NE(row("window")[3].text.find(": a window is short, the shortest window lasts "), std::string::npos);
  EXPECT_EQ(row("seeds")[1].look, page::Look::quiet);
  EXPECT_EQ(row("energy")[1].text, "not checkable");
  EXPECT_EQ(row("energy")[3].text, "No meter answered.");
}

}  // namespace
}  // namespace tw
