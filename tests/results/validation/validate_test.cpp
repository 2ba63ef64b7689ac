#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "results/analysis/convergence.hpp"
#include "results/analysis/run_rules.hpp"
#include "results/analysis/verdict.hpp"
#include "results/record/later_fields.hpp"
#include "results/record/report_io.hpp"
#include "results/record/schema_check.hpp"
#include "results/record/version.hpp"
#include "results/validation/validate.hpp"
#include "tests/results/golden.hpp"
#include "tests/results/samples.hpp"

namespace tw {
using namespace results;
namespace {

using namespace testing;

/// What is wrong, then the warnings.
std::string all(const Validation& found) {
  std::string text;
  for (const Fault& fault : found.violations) text += fault_line(fault) + "\n";
  for (const Fault& note : found.warnings) text += "warning: " + fault_line(note) + "\n";
  return text;
}

std::vector<std::string> codes_of(const Validation& found) {
  std::vector<std::string> codes;
  for (const Fault& fault : found.violations) codes.push_back(fault.code);
  return codes;
}

/// The sample's runs to a target are evaluated in other intervals than any curve of this version.
constexpr const char* band_not_checked =
    "warning: /records/0/target/reference: is 17 to 35 steps (JAX 0, float32, 8 seeds), which was not checked: this version has "
    "none for it: the reference has evaluation_interval 25, not 10\n";

TEST(Validate, GoldenReports) {
  expect_golden("good.json", to_json(sample_report()));
  expect_golden("good_energy.json", to_json(sample_energy_report()));
  expect_golden("good_target.json", to_json(sample_target_report()));
  EXPECT_EQ(all(validate_report(fixture("good.json"))), "");
  EXPECT_EQ(all(validate_report(fixture("good_energy.json"))), "");
  EXPECT_EQ(all(validate_report(fixture("good_target.json"))), band_not_checked);
}

/// Each line of broken.txt changes one thing in a good report and names what must be said about it.
TEST(Validate, EachFaultIsNamed) {
  for (const BrokenReport& fault : broken_reports()) {
    SCOPED_TRACE(fault.line);
    const std::string said = all(validate_report(fault.text));
    EXPECT_NE(said.find(fault.said), std::string::npos) << said;
  }
  EXPECT_GT(broken_reports().size(), 60u);
}

/// Of 10 trials or more older programs left out the best and the worst, and made the interval by a bootstrap.
TEST(Validate, OlderReportsAreHeldAgainstTheRuleOfTheirIntervals) {
  Report report = sample_report();
  Record& record = report.records[0];
  const std::vector<Trial> three = record.trials;
  record.trials.clear();
  for (int k = 0; k < 12; ++k) {
    Trial trial = three[static_cast<std::size_t>(k % 3)];
    const double factor = 1 + 0.003 * (k * 5 % 12);
    trial.window_s *= factor;
    for (double& step : trial.step_time_s) step *= factor;
    record.trials.push_back(trial);
  }
  const auto faults_of = [&] { return validate_report(to_json(report)).violations.size(); };
  for (const auto& [rule, statistic] : {std::pair{IntervalRule::student, Statistic::mean},
                                        {IntervalRule::olympic_bootstrap, Statistic::olympic_mean}}) {
    summarise(record, rule);
    EXPECT_EQ(record.summary.samples_per_s->statistic, statistic);
    EXPECT_EQ(interval_rule(record.summary), rule);
    const std::size_t before = faults_of();
    record.summary.samples_per_s->low = 0.99 * *record.summary.samples_per_s->low;
    EXPECT_EQ(faults_of(), before + 1) << "by its own rule the samples give another one";
  }
  summarise(record, IntervalRule::olympic_bootstrap);
  const Estimate older = *record.summary.samples_per_s;
  const std::size_t before = faults_of();
  summarise(record);
  EXPECT_EQ(faults_of(), before) << "both are good";
  record.summary.samples_per_s->low = older.low, record.summary.samples_per_s->high = older.high;
  EXPECT_EQ(faults_of(), before + 2) << "the narrower interval under the name of the wider one";
}

/// A report whose first record's step times rise by a fifth over its trials, as the program of `commit` judged it.
Report drifting(const std::string& commit) {
  Report report = sample_report();
  report.program = program_info("trainwatt-train");
  if (!commit.empty()) report.program.git_commit = commit;
  Record& record = report.records[0];
  int step = 0;
  for (Trial& trial : record.trials)
    for (double& t : trial.step_time_s) t *= 0.97 + 0.0005 * static_cast<double>(step++);  // 6 % over 120 steps
  for (Record& warmed : report.records)
    if (has_run(warmed)) add_warm_up(warmed, warmed.trials[0].first_step, 5);
  summarise(record);
  return report;
}

/// Whatever program it names: a flag that was taken out comes back, and one that came later costs an honest report
/// nothing.
TEST(Validate, LeftOutFlagsAreNotedAndCount) {
  for (const char* commit : {"", "000000000000"}) {
    Report report = drifting(commit);
    const std::vector<FlagName> whole = report.records[0].verdict.flags;
    std::vector<FlagName>& flags = report.records[0].verdict.flags;
    ASSERT_EQ(std::erase(flags, Flag::drift), 1u);
    ASSERT_EQ(std::erase(flags, Flag::no_energy_meter), 1u);
    const Validation found = validate_report(to_json(report));
    EXPECT_EQ(
        all(found),
        "warning: /records/0/verdict/flags: the samples give \"no_energy_meter\", which the report leaves out: it "
        "counts all the same\n"
        "warning: /records/0/verdict/flags: the samples give \"drift\", which the report leaves out: it counts all "
        "the same\n");
    add_left_out_flags(report.records, found);
    EXPECT_EQ(std::set(flags.begin(), flags.end()), std::set(whole.begin(), whole.end()));
    flags.push_back(Flag::busy_host);
    EXPECT_FALSE(validate_report(to_json(report)).violations.empty()) << "the samples do not give it";
  }
}

/// The plan says that steps were given, whoever takes the flag out.
TEST(Validate, GivenStepsStayGiven) {
  Report report = sample_energy_report();
  std::string& plan = report.plan.canonical_json;
  for (const auto& [old, now] : {std::pair(R"("steps":null)", R"("steps":40)"), std::pair(R"("window_s":60.0)", R"("window_s":null)")})
    plan.replace(plan.find(old), std::string_view(old).size(), now);
  const Validation found = validate_report(to_json(report));
  ASSERT_EQ(found.left_out_flags.size(), 1u) << all(found);
  EXPECT_EQ(found.left_out_flags[0].flag, Flag::steps_given);
  EXPECT_EQ(all(found),
            "warning: /records/0/verdict/flags: the plan gives \"steps_given\", which the report leaves out: it counts "
            "all the same\n");
  add_left_out_flags(report.records, found);
  const std::vector<RunRuleCheck> rules = check_run_rules(report);
  const auto window = std::ranges::find(rules, "window", [](const RunRuleCheck& check) { return check.rule->id; });
  EXPECT_EQ(window->state, RunRuleState::broken);
}

TEST(Validate, AnEstimateIsCountedInNoTotal) {
  Report report = sample_energy_report();
  report.records[0].trials[0].energy[0].method = Method::estimate;
  summarise(report);
  const std::vector<std::string> codes = codes_of(validate_report(to_json(report)));
  EXPECT_EQ(codes, (std::vector<std::string>{"energy_row", "meter_method"})) << "and its meter is none";
}

TEST(Validate, AnUnstablePointStaysSo) {
  Report report = sample_report();
  Record set = report.records[0];
  set.id += "/gpu_clock=900";
  Setting& clock = set.setting["gpu_clock_mhz"];
  clock.requested = clock.accepted = clock.observed = SetPoint(900);
  clock.devices = {{"node1", "nvml:GPU-1", SetPoint(900), SetPoint(900), ""}};
  for (Trial& trial : set.trials)
    for (double& loss : trial.loss) loss *= 1.1;
  summarise(set);
  report.records.push_back(set);
  report.program.git_commit = "000000000000";
  const Validation found = validate_report(to_json(report));
  ASSERT_EQ(found.left_out_flags.size(), 1u) << all(found);
  EXPECT_EQ(found.left_out_flags[0].flag, Flag::unstable);
  EXPECT_EQ(found.left_out_flags[0].record, report.records.size() - 1);
}

TEST(Validate, WhatThisVersionWritesIsNotMissing) {
  std::string text = to_json(sample_target_report());
  const std::size_t begin = text.find(",\n          \"cost\": "), end = text.find('}', text.find("cost_reason"));
  ASSERT_NE(begin, std::string::npos);
  text.erase(begin, end - begin);
  EXPECT_NE(all(validate_report(text)).find("/records/0/summary/to_target/cost: is null, the samples give "),
            std::string::npos);
}

// A schema whose version 1.2 brought two fields, one of them in a list.
TEST(LaterFields, AreNotedByNameInOlderReportsAlone) {
  const std::string schema = R"({"type": "object",
    "properties": {"schema_version": {"const": "1.2"}, "a": {"type": "string"},
      "late": {"type": "number", "since": "1.2"},
      "rows": {"type": "array", "items": {"$ref": "#/definitions/row"}}},
    "required": ["a", "late", "rows"], "additionalProperties": false,
    "definitions": {"row": {"type": "object",
      "properties": {"x": {"type": "number"}, "skew": {"type": "number", "since": "1.1", "needed_by": ["samples-per-joule"]}},
      "required": ["x", "skew"], "additionalProperties": false}}})";
  const std::string old = R"({"schema_version": "1.0", "a": "b", "rows": [{"x": 1, "skew": 2}, {"x": 1}]})";
  SchemaOfAge aged = schema_of_age(old, schema, "1.0", "1.2");
  EXPECT_EQ(schema_faults(old, aged.text), std::vector<std::string>());
  ASSERT_EQ(aged.missing_fields.size(), 2u);
  EXPECT_EQ(aged.missing_fields[0].pointer, "/late");
  EXPECT_EQ(aged.missing_fields[0].since, "1.2");
  EXPECT_TRUE(aged.missing_fields[0].figures.empty());
  EXPECT_EQ(aged.missing_fields[1].pointer, "/rows/1/skew");
  EXPECT_EQ(aged.missing_fields[1].figures, std::vector<std::string>{"samples-per-joule"});
  EXPECT_EQ(schema_of_age(old, schema, "1.1", "1.2").missing_fields.size(), 1u);
  EXPECT_FALSE(schema_faults(old, schema_of_age(old, schema, "1.1", "1.2").text).empty()) << "1.1 had the skew";
  EXPECT_TRUE(schema_of_age(old, schema, "1.2", "1.2").missing_fields.empty());
  EXPECT_FALSE(schema_faults(R"({"schema_version": "1.0", "rows": []})", aged.text).empty()) << "every version had it";
  const std::string newer = R"({"schema_version": "1.9", "a": "b", "late": 1, "rows": [], "more": 1})";
  EXPECT_TRUE(schema_faults(newer, schema_of_age(newer, schema, "1.9", "1.2").text).empty());
}

TEST(Validate, MissingPoints) {
  Report report = sample_report();
  report.records.resize(1);
  const std::string what = "/records: 3 of 4 points of the plan have no record (resnet-tiny/float32/acc1/np2, …)";
  EXPECT_EQ(all(validate_report(to_json(report))), what + ", though the run finished\n");
  report.context.warnings.push_back("interrupted by a signal in resnet-tiny/float32/acc1/np2");
  EXPECT_EQ(all(validate_report(to_json(report))), "warning: " + what + ": the run was interrupted\n");
  report.context.warnings.clear();
  report.context.finished_at.clear();
  EXPECT_EQ(all(validate_report(to_json(report))), "warning: " + what + ": the run has not finished\n");
  // Interrupted in its first point; but what has finished has points.
  report.records.clear();
  report.context.warnings.push_back("interrupted by a signal in gpt2-tiny/bf16/acc4/np2");
  EXPECT_EQ(validate_report(to_json(report)).violations.size(), 0u);
  report.context.warnings.clear();
  report.context.finished_at = "2026-03-01T10:12:30Z";
  EXPECT_EQ(validate_report(to_json(report)).violations.size(), 1u);
}

TEST(Validate, ARecordIsOfItsLaunchAndOfItsHosts) {
  const auto said = [](auto change) {
    Report report = sample_energy_report();
    change(report, report.records[0]);
    summarise(report.records[0]);
    Validation found = validate_report(to_json(report));
    std::erase_if(found.violations, [](const Fault& fault) {
      return fault.code.starts_with("meter_") || fault.code.starts_with("power_");
    });
    return all(found);
  };
  EXPECT_EQ(said([](Report&, Record&) {}), "");
  EXPECT_EQ(said([](Report&, Record& r) { r.launch = "another"; }), "/records/0/launch: is not that of its part\n");
  EXPECT_EQ(said([](Report&, Record& r) { r.launch.reset(); }), "/records/0/launch: is not that of its part\n");
  EXPECT_EQ(said([](Report& report, Record& r) { report.context.launch.reset(), r.launch.reset(); }), "")
      << "of a program that named none";
  EXPECT_EQ(said([](Report& report, Record& r) {  // the first part's, which had another launch
              (*report.parts)[0].points = {r.id}, (*report.parts)[1].points.clear();
            }),
            "/records/0/launch: is not that of its part\n");
  EXPECT_EQ(said([](Report&, Record& r) {
              for (Trial& trial : r.trials) trial.energy[1].host = "node2";
            }),
            "/records/0/trials/0/energy/1/host: \"node2\" is not among the hosts of its part\n"
            "/records/0/trials/1/energy/1/host: \"node2\" is not among the hosts of its part\n"
            "/records/0/trials/2/energy/1/host: \"node2\" is not among the hosts of its part\n");
  EXPECT_EQ(said([](Report&, Record& r) { r.trials[1].series[0].host = "node2"; }),
            "/records/0/trials/1/series/0/host: \"node2\" is not among the hosts of its part\n");
  EXPECT_EQ(said([](Report&, Record& r) { r.setting["cpu_frequency_mhz"].devices[0].host = "node2"; }),
            "/records/0/setting/cpu_frequency_mhz/devices/0/host: \"node2\" is not among the hosts of its part\n");
}

/// The record of the sample with the recipe of this version's task, its runs reaching the target after these steps.
Report markov_report(std::int64_t intervals) {
  Report report = sample_target_report();
  report.context.finished_at = "2026-03-01T12:00:00Z";
  report.records.resize(1);
  Record& r = report.records[0];
  r.target->evaluation_interval = 25, r.target->most_steps = 1200;
  for (Trial& trial : r.trials) {
    std::vector<Evaluation> evaluations;
    for (std::int64_t i = 1; i <= intervals; ++i)
      evaluations.push_back({25 * i, 0.5 * static_cast<double>(25 * i), r.target->floor + (i < intervals ? 0.2 : 0.09),
                             std::nullopt});
    trial.target_run->evaluations = evaluations;
    const auto steps = static_cast<std::size_t>(25 * intervals);
    trial.step_time_s.assign(steps, 0.475), trial.loss.assign(steps, 2), trial.gradient_norm.assign(steps, 1);
    trial.window_s = 0.5 * static_cast<double>(steps) + 0.01;
    for (EnergyRow& row : trial.energy) {
      row.window_s = trial.window_s;
      if (row.energy_j) *row.energy_j = 40 * trial.window_s;
    }
    trial.series = sample_power(trial);
    trial.start_s = 1000 * static_cast<double>(&trial - r.trials.data());
  }
  r.workload.hash = workload_hash(r.workload, r.target);
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{R"("evaluation_interval":10,"floor":1.2)", R"("evaluation_interval":25,"floor":1.2)"},
        {R"("most_steps":60)", R"("most_steps":1200)"}}) {
    std::string& plan = report.plan.canonical_json;
    plan.replace(plan.find(from), from.size(), to);
  }
  std::string& plan = report.plan.canonical_json;
  const std::size_t second = plan.find(R"(,{"accumulate":4,"id":"resnet)");
  plan.erase(second, plan.find("}]", plan.find(R"("task":"gratings")", second)) + 1 - second);
  find_reference(*r.target, r.workload, static_cast<int>(r.trials.size()));
  summarise(r);
  return report;
}

// Whichever program and commit a report names: the band that it brings along is this version's, or is not believed.
TEST(Validate, TheReferenceIsThatOfThisVersion) {
  for (const std::string commit : {"", "000000000000"}) {
    const auto said = [&](Report report) {
      report.program = program_info("trainwatt-train");
      if (!commit.empty()) report.program.git_commit = commit, report.program.version = "0.9.0";
      if (report.parts)
        for (RunPart& part : *report.parts) part.program = report.program;
      for (Record& record : report.records) summarise(record);
      return all(validate_report(to_json(report)));
    };
    const Report inside = markov_report(21), slow = markov_report(40);  // 525 steps; 1000
    ASSERT_TRUE(inside.records[0].target->reference) << inside.records[0].target->reference_reason;
    EXPECT_EQ(inside.records[0].verdict.status, Status::valid);
    EXPECT_EQ(slow.records[0].verdict.status, Status::invalid) << "off_reference";
    EXPECT_EQ(said(inside), "");
    EXPECT_EQ(said(slow), "") << "which the report says itself";

    Report forged = slow;  // a wider band hides it
    forged.records[0].target->reference->steps_high = 1e4;
    summarise(forged.records[0]);
    ASSERT_EQ(forged.records[0].verdict.status, Status::valid);
    EXPECT_TRUE(said(forged).starts_with("/records/0/target/reference: is ")) << said(forged);
    EXPECT_NE(said(forged).find(": the 1000 steps of these runs lie outside it\n"), std::string::npos) << said(forged);
    forged = inside;
    forged.records[0].target->reference->steps_sd += 1;
    EXPECT_NE(said(forged).find(": the 525 steps of these runs lie within it\n"), std::string::npos)
        << "harmless, but not what this version says: " << said(forged);

    Report without = slow;  // as if nobody knew a band
    without.records[0].target->reference.reset(), without.records[0].target->reference_reason = "no reference for this task";
    EXPECT_TRUE(said(without).starts_with("/records/0/target/reference: is null, that of this version is ")) << said(without);
    without = inside;
    without.records[0].target->reference.reset(), without.records[0].target->reference_reason = "no reference for this task";
    EXPECT_TRUE(said(without).starts_with("warning: /records/0/target/reference: is null, that of this version is "))
        << "a version that had no curves yet: " << said(without);

    Report unknown = sample_target_report();  // evaluated in other intervals than any curve here
    EXPECT_EQ(said(unknown), band_not_checked);
  }
}

TEST(Validate, EachRecordIsOfOnePart) {
  Report report = sample_energy_report();
  const std::string id = report.records[0].id;
  const auto said = [&] { return all(validate_report(to_json(report))); };
  std::vector<RunPart>& parts = *report.parts;
  parts[0].context->launch = report.context.launch;  // whose records are whose is another matter
  parts[0].context->meters = report.context.meters;  // the same machine
  parts[0].points = {id};
  EXPECT_EQ(said(), "/parts/1/points: has \"" + id + "\", which was measured before\n");
  parts[0].points.clear(), parts[1].points.clear();
  EXPECT_EQ(said(), "/records/0/id: \"" + id + "\" is in no part\n");
  parts[0].points = {id, "lost"};
  EXPECT_EQ(said(), "/parts: \"lost\" has no record\n");
  parts[0].points = {id};
  parts[0].context.reset();
  EXPECT_EQ(said(), "/parts/0/context: is null\n");
  parts[0].context = parts[1].context = report.context;
  EXPECT_EQ(said(), "/parts/1/context: is not null, though the report's is the last part's\n");
  parts[1].context.reset();
  parts[0].forced_over = {"commit 1, now 2"};
  EXPECT_EQ(said(), "/parts/0/forced_over: the first part comes after no other\n");
  parts[0].forced_over.clear();
  parts[0].program.git_commit = "1";
  EXPECT_EQ(said(), "") << "forced";
  parts[1].forced_over.clear();
  EXPECT_EQ(said(), "/parts/1/program: is not that of the part before, and nothing was forced\n");
  parts[0].program = report.program, parts[1].program.version = "0.2";
  parts[1].forced_over = {"version 0.1.0, now 0.2"};
  EXPECT_EQ(said(), "/parts/1/program: is not the report's\n");
  parts.resize(1);
  EXPECT_NE(said().find("/parts: "), std::string::npos) << said();
}

TEST(Validate, OneRanksStepsStayInTheWindow) {
  Report report = sample_energy_report();
  Record& r = report.records[0];
  const auto said = [&] {
    summarise(r);
    return all(validate_report(to_json(report))).find("/step_time_s: add up to more than the window") !=
           std::string::npos;
  };
  for (double& t : r.trials[0].step_time_s) t *= 1.2;
  EXPECT_FALSE(said());  // the slowest of 2 ranks may change from step to step
  r.workload.ranks = 1;
  EXPECT_TRUE(said());
}

TEST(Validate, RecordLines) {
  std::string text;
  for (const Record& r : sample_report().records) text += to_json_line(r) + "\n";
  EXPECT_EQ(all(validate_record_lines(text)), "");
  EXPECT_EQ(all(validate_record_lines(text + text.substr(0, 50))),
            "warning: /records: the last line was cut off and is left out\n");
  Record wrong = sample_record_with_energy();
  summarise(wrong);
  wrong.summary.samples_per_s->value *= 2;
  const std::string said = all(validate_record_lines(text + to_json_line(wrong) + "\n"));
  EXPECT_NE(said.find("/records/4/summary/samples_per_s/value: is "), std::string::npos) << said;
  EXPECT_NE(all(validate_record_lines(text + text)).find("/records/4/id: \"gpt2-tiny/bf16/acc4/np2\" occurs twice"),
            std::string::npos);
}

TEST(Validate, TextThatIsNoReport) {
  EXPECT_EQ(all(validate_report("")), "not JSON: the file is empty\n");
  EXPECT_EQ(all(validate_report("[]")), "not a report: the document is array\n");
  EXPECT_EQ(all(validate_report("{}")), "not a report: key \"schema_version\" is missing\n");
  EXPECT_EQ(all(validate_report("{\"schema_version\": 1}")),
            "/schema_version: is 1, not a string: must be \"1.0\"\n");
  EXPECT_EQ(all(validate_report("{\"schema_version\": 1.0}")),
            "/schema_version: is 1.0, not a string: must be \"1.0\"\n");
  EXPECT_NE(all(validate_report(fixture("good.json") + std::string(1, '\0'))).find("control character NUL"),
            std::string::npos);
  std::string torn = fixture("good.json");
  torn.resize(torn.size() / 2);
  EXPECT_NE(all(validate_report(torn)).find("cut off after " + std::to_string(torn.size())), std::string::npos);
}

TEST(Validate, ACountedRowWithJoulesHasNoExcuse) {
  Report report = sample_energy_report();
  MeterEntry& meter = report.context.meters[3];  // "contained"
  meter.counted = true, meter.reason.clear();
  report.context.idle_power.push_back({IdleTime::before, meter.host, meter.domain, meter.scope, 1.0, 0.1, 1.0, ""});
  for (Trial& trial : report.records[0].trials) {
    trial.energy[3].counted = true, trial.energy[3].reason.clear();
    trial.series = sample_power(trial);
  }
  report.records[0].trials[0].energy[3].reason = "contained";
  summarise(report.records[0]);
  EXPECT_EQ(all(validate_report(to_json(report))),
            "/records/0/trials/0/energy/3/reason: a counted row with joules has one\n");
}

TEST(Validate, AnOlderProgramsIntervalMayReachBelowNothing) {
  Report report = sample_report();
  Record& record = report.records[0];
  record.trials[1].window_s *= 3, record.trials[2].window_s *= 30;
  for (double& seconds : record.trials[1].step_time_s) seconds *= 3;
  for (double& seconds : record.trials[2].step_time_s) seconds *= 30;
  record.trials[2].start_s = *record.trials[1].start_s + record.trials[1].window_s + 1;
  report.records[1].trials[0].start_s = *record.trials[2].start_s + record.trials[2].window_s + 1;
  report.context.finished_at = "2026-03-01T11:00:00Z";
  summarise(record);
  ASSERT_EQ(record.summary.samples_per_s->low, 0);
  EXPECT_EQ(all(validate_report(to_json(report))), "");
  record.summary.samples_per_s->low = -12;
  EXPECT_EQ(all(validate_report(to_json(report))), "");
  record.summary.samples_per_s->low = 12;
  EXPECT_EQ(all(validate_report(to_json(report))), "/records/0/summary/samples_per_s/low: is 12.0, the samples give 0.0\n");
}

TEST(Validate, InvalidRecordsAreGoodReports) {
  Report report = sample_report();
  report.records[0].trials[1].loss[3] = 0.0 / 0.0;
  summarise(report.records[0]);
  ASSERT_EQ(report.records[0].verdict.status, Status::invalid);
  EXPECT_EQ(all(validate_report(to_json(report))), "");
}

}  // namespace
}  // namespace tw
